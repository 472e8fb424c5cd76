package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/rooflab/rooflab/internal/secrets"
)

// compose follows the services of a compose file; all servers count unless the context names a service.
func (r *reader) compose(name string, d node) error {
	dir := path.Dir(name)
	dot := newEnviron(false) // what compose knows: its caller's environment and .env
	dot.caller = r.ctx.Env
	if raw, err := r.readFile(path.Join(dir, ".env")); err == nil {
		dotEnv(string(raw), dot, dot)
	}
	for name, value := range r.ctx.Env { // wins over .env
		dot.set(name, value)
	}
	override := r.composeOverride(name)
	for _, s := range d.get("services").pairs() {
		if r.ctx.Service != "" && r.ctx.Service != s.key {
			continue
		}
		err := r.service(s.key, func() error {
			layers, err := r.layers(d, s.value, dir, 0)
			if err != nil {
				return err
			}
			if more := override.get("services", s.key); more.isMap() {
				layers = append(layers, layer{more, dir})
			}
			return r.composed(layers, &interpolator{env: dot}, dot)
		})
		if err != nil {
			return fmt.Errorf("service %s: %w", s.key, err)
		}
	}
	return nil
}

// composeOverride returns compose.override.yaml and the like, which compose reads beside its file by itself.
func (r *reader) composeOverride(name string) node {
	ext := path.Ext(name)
	switch strings.TrimSuffix(path.Base(name), ext) {
	case "compose", "docker-compose":
	default:
		return node{}
	}
	raw, err := r.readFile(strings.TrimSuffix(name, ext) + ".override" + ext)
	if err != nil {
		return node{}
	}
	docs, err := yamlDocs(raw)
	if err != nil || len(docs) == 0 {
		r.note("override_unreadable", name, "the override file beside it cannot be read")
		return node{}
	}
	return docs[0]
}

// layer is a service as one file has it; relative names in it are those of the file's folder.
type layer struct {
	node
	dir string
}

// layers returns what a service extends, then the service.
func (r *reader) layers(file, service node, dir string, depth int) ([]layer, error) {
	extends := service.get("extends")
	base := extends.text()
	if extends.isMap() {
		base = extends.get("service").text()
	}
	if base == "" {
		return []layer{{service, dir}}, nil
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d services extend each other", maxDepth)
	}
	from := dir
	if name := extends.get("file").text(); name != "" {
		raw, err := r.readFile(resolve(dir, name))
		if err != nil {
			return nil, fmt.Errorf("extends: %w", err)
		}
		docs, err := yamlDocs(raw)
		if err != nil || len(docs) == 0 {
			return nil, fmt.Errorf("extends %s: %w", name, err)
		}
		file, from = docs[0], path.Dir(resolve(dir, name))
	}
	below, err := r.layers(file, file.get("services", base), from, depth+1)
	return append(below, layer{service, dir}), err
}

// composed follows a service: the last layer's image, entrypoint and command hold, env files and variables add up.
func (r *reader) composed(layers []layer, in *interpolator, dot *environ) error {
	c := container{env: newEnviron(true)}
	own := newEnviron(true)
	for _, l := range layers {
		if image := in.text(l.get("image")); image != "" {
			c.image = image
		}
		if entry := l.get("entrypoint"); entry.n != nil && !entry.isNull() {
			c.entrypoint = in.words(entry)
			c.noEntry = len(c.entrypoint) == 0 || len(c.entrypoint) == 1 && c.entrypoint[0] == ""
			if c.noEntry {
				c.entrypoint = nil
			}
			c.args = nil // that of the image goes with its entry point
		}
		if command := l.get("command"); command.n != nil && !command.isNull() {
			c.args = in.words(command)
		}
		in.environment(l.get("environment"), own, dot)
	}
	for _, l := range layers {
		if err := r.envFiles(l, in, c.env, own, dot); err != nil {
			return err
		}
	}
	for name, v := range own.vars { // environment: wins over env_file:
		c.env.vars[name] = v
	}
	if in.err != nil {
		return in.err
	}
	return r.container(c)
}

// envFiles reads the env_file: of a layer. Their ${NAME} is that of compose's caller, then of environment:, then of the file.
func (r *reader) envFiles(l layer, in *interpolator, env, own, dot *environ) error {
	files := l.get("env_file").items()
	if one := l.get("env_file"); one.text() != "" || one.isMap() {
		files = []node{one}
	}
	for _, f := range files {
		file, optional := in.text(f), false
		if f.isMap() {
			required, given := f.get("required").isBool()
			file, optional = in.text(f.get("path")), given && !required
		}
		raw, err := r.readFile(resolve(l.dir, file))
		if optional && errors.Is(err, fs.ErrNotExist) {
			r.note("env_file_absent", file, "optional environment file is not there")
			continue
		}
		if err != nil {
			return fmt.Errorf("env_file: %w", err)
		}
		if f.get("format").text() == "raw" {
			if err := r.rawEnvFile(resolve(l.dir, file), env, dot); err != nil {
				return err
			}
			continue
		}
		lookup := dot.clone()
		for name, v := range own.vars {
			if _, ok := lookup.lookup(name); !ok {
				lookup.vars[name] = v
			}
		}
		dotEnv(string(raw), env, lookup)
	}
	return nil
}

// dotEnv reads an env file as compose does: quotes are removed, variables replaced, a bare name is passed through.
func dotEnv(text string, env, lookup *environ) {
	in := interpolator{env: lookup.clone()}
	for _, line := range dotEnvLines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		k, v, ok := strings.Cut(line, "=")
		if line == "" || line[0] == '#' {
			continue
		}
		if !ok {
			if value, known := lookup.lookup(line); known {
				env.set(line, value)
			}
			continue
		}
		v = strings.TrimSpace(v)
		single := strings.HasPrefix(v, "'")
		if single || strings.HasPrefix(v, `"`) {
			v = v[:quoteEnd(v)]
		} else {
			v, _, _ = strings.Cut(v, " #")
			v = strings.TrimSpace(v)
		}
		if v = unquoteValue(v); !single {
			v = in.replace(v)
		}
		k = strings.TrimSpace(k)
		env.set(k, v)
		if _, ok := lookup.lookup(k); !ok {
			in.env.set(k, v)
		}
	}
}

// dotEnvLines splits at the ends of lines that stand in no quotes of a value.
func dotEnvLines(text string) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if n := len(lines); n > 0 {
			_, v, _ := strings.Cut(lines[n-1], "=")
			if v = strings.TrimSpace(v); v != "" && (v[0] == '"' || v[0] == '\'') && !strings.HasPrefix(strings.TrimSpace(lines[n-1]), "#") && (len(v) == 1 || quoteEnd(v) == len(v) && v[len(v)-1] != v[0]) {
				lines[n-1] += "\n" + line
				continue
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// quoteEnd returns the length of the quoted text at the start of v; what follows is a comment.
func quoteEnd(v string) int {
	for i := 1; i < len(v); i++ {
		switch {
		case v[i] == '\\' && v[0] == '"':
			i++
		case v[i] == v[0]:
			return i + 1
		}
	}
	return len(v)
}

// unquoteValue removes the quotes around a value and the backslashes inside double quotes.
func unquoteValue(v string) string {
	if len(v) < 2 || v[0] != v[len(v)-1] || v[0] != '"' && v[0] != '\'' {
		return v
	}
	inner := v[1 : len(v)-1]
	if v[0] == '\'' {
		return inner
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`", `\n`, "\n", `\r`, "\r", `\t`, "\t").Replace(inner)
}

// interpolator replaces ${VAR} in compose files and keeps the first error (${VAR:?message}).
type interpolator struct {
	env *environ
	err error
}

func (in *interpolator) text(d node) string { return in.replace(d.text()) }

// words returns a command: a list as it is, a string split as a shell line.
func (in *interpolator) words(d node) []string {
	var out []string
	for _, it := range d.items() {
		out = append(out, in.text(it))
	}
	if d.isList() || d.text() == "" {
		return out
	}
	words, err := composeWords(in.text(d))
	if err != nil && in.err == nil {
		in.err = err
	}
	return words
}

func (in *interpolator) environment(d node, env, outer *environ) {
	for _, p := range d.pairs() {
		if p.value.isNull() {
			outer.pass(p.key, env)
			continue
		}
		env.set(p.key, in.text(p.value))
	}
	for _, it := range d.items() {
		if k, v, ok := strings.Cut(it.text(), "="); ok {
			env.set(k, in.replace(v))
		} else {
			outer.pass(it.text(), env)
		}
	}
}

// replace does $VAR, ${VAR}, ${VAR:-x}, ${VAR-x}, ${VAR:+x}, ${VAR+x}, ${VAR:?x}, ${VAR?x} and $$.
func (in *interpolator) replace(s string) string { return in.replaceAt(s, 0) }

func (in *interpolator) replaceAt(s string, depth int) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) || depth > maxDepth {
			b.WriteByte(s[i])
			continue
		}
		rest := s[i+1:]
		switch {
		case rest[0] == '$':
			b.WriteByte('$')
			i++
		case rest[0] == '{':
			end := closing(rest)
			if end < 0 {
				b.WriteByte('$')
				continue
			}
			b.WriteString(in.braced(rest[1:end], depth))
			i += end + 1
		default:
			n := nameLen(rest)
			if n == 0 {
				b.WriteByte('$')
				continue
			}
			value, _ := in.env.lookup(rest[:n])
			b.WriteString(value)
			i += n
		}
	}
	return b.String()
}

func nameLen(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

// closing returns the place of the brace that closes the one at the start.
func closing(s string) int {
	level := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			level++
		case '}':
			if level--; level == 0 {
				return i
			}
		}
	}
	return -1
}

func (in *interpolator) braced(body string, depth int) string {
	n := nameLen(body)
	name, op := body[:n], body[n:]
	value, set := in.env.lookup(name)
	if strings.HasPrefix(op, ":") { // with a colon, empty counts as unset
		set = set && value != ""
		op = op[1:]
	}
	if op == "" {
		return value
	}
	arg := op[1:]
	switch op[0] {
	case '-':
		if !set {
			return in.replaceAt(arg, depth+1)
		}
	case '+':
		if set {
			return in.replaceAt(arg, depth+1)
		}
		return ""
	case '?':
		if !set && in.err == nil {
			in.err = fmt.Errorf("variable %s is needed: %s", name, arg)
		}
	}
	return value
}

// shellWords splits as Python's shlex does: blanks, both quotes, backslashes; nothing is replaced.
func shellWords(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'' && c != '\'':
			b.WriteByte(c)
		case c == '\\' && i+1 < len(s) && (quote == 0 || s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && strings.IndexByte(" \t\n\r", c) >= 0:
			if inWord {
				words, inWord = append(words, b.String()), false
				b.Reset()
			}
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quote %c is never closed in %q", quote, shorten(secrets.Clean(s)))
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, nil
}

// composeWords splits as compose does: like shellWords, but a backslash takes any character in double quotes as well, \n and
// \t are a line break and a tab, and the line ends at ; & | < > outside of quotes.
func composeWords(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	inWord, quote := false, byte(0)
	end := func() {
		if inWord {
			words, inWord = append(words, b.String()), false
			b.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			b.WriteString(map[byte]string{'n': "\n", 't': "\t"}[s[i]])
			if s[i] != 'n' && s[i] != 't' {
				b.WriteByte(s[i])
			}
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && strings.IndexByte(" \t\n\r", c) >= 0:
			end()
		case quote == 0 && strings.IndexByte(";&|<>", c) >= 0:
			end()
			return words, nil
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quote %c is never closed in %q", quote, shorten(secrets.Clean(s)))
	}
	end()
	return words, nil
}
