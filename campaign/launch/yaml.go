package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// yaml tells a compose file from a Kubernetes manifest.
func (r *reader) yaml(name string, raw []byte) (Server, error) {
	docs, err := yamlDocs(raw)
	if err != nil {
		return Server{}, fmt.Errorf("read %s: %w", name, err)
	}
	for _, d := range docs {
		switch {
		case d.get("services").isMap():
			return r.finish(name, "compose file", r.compose(name, d))
		case d.get("kind").text() != "":
			return r.finish(name, "kubernetes manifest", r.kubernetes(docs))
		}
	}
	return Server{}, fmt.Errorf("read %s: neither a compose file (services:) nor a Kubernetes manifest (kind:)", name)
}

// node is a YAML value; aliases are followed and merge keys applied where a key is looked up.
type node struct{ n *yaml.Node }

func yamlDocs(raw []byte) ([]node, error) {
	var list []yaml.Node
	if err := yaml.Load(raw, &list, yaml.WithAllDocuments()); err != nil {
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	var docs []node
	for i := range list {
		d := node{&list[i]}
		if list[i].Kind == yaml.DocumentNode && len(list[i].Content) > 0 {
			d = node{list[i].Content[0]}
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func (d node) deref() *yaml.Node {
	n := d.n
	for i := 0; n != nil && n.Kind == yaml.AliasNode && i < maxDepth; i++ {
		n = n.Alias
	}
	return n
}

func (d node) isMap() bool  { n := d.deref(); return n != nil && n.Kind == yaml.MappingNode }
func (d node) isList() bool { n := d.deref(); return n != nil && n.Kind == yaml.SequenceNode }
func (d node) isNull() bool {
	n := d.deref()
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// text returns a scalar as the file spells it.
func (d node) text() string {
	if n := d.deref(); n != nil && n.Kind == yaml.ScalarNode && !d.isNull() {
		return n.Value
	}
	return ""
}

// isBool reports a boolean and its value.
func (d node) isBool() (value, ok bool) {
	n := d.deref()
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		return false, false
	}
	return strings.EqualFold(n.Value, "true"), true
}

func (d node) items() []node {
	var list []node
	if n := d.deref(); n != nil && n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			list = append(list, node{c})
		}
	}
	return list
}

// pair is a key of a mapping with its value.
type pair struct {
	key   string
	value node
}

// pairs returns the keys in the order of the file. Keys of the mapping itself win over merged ones (<<).
func (d node) pairs() []pair { return d.merged(0) }

func (d node) merged(depth int) []pair {
	n := d.deref()
	if n == nil || n.Kind != yaml.MappingNode || depth > maxDepth {
		return nil
	}
	var own, merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, node{n.Content[i+1]}
		if key != "<<" {
			own = append(own, pair{key, value})
			continue
		}
		sources := value.items()
		if value.isMap() {
			sources = []node{value}
		}
		for _, s := range sources {
			merged = append(merged, s.merged(depth+1)...)
		}
	}
	for _, m := range merged {
		if !slices.ContainsFunc(own, func(p pair) bool { return p.key == m.key }) {
			own = append(own, m)
		}
	}
	return own
}

func (d node) get(keys ...string) node {
	for _, k := range keys {
		next := node{}
		for _, p := range d.pairs() {
			if p.key == k {
				next = p.value
				break
			}
		}
		d = next
	}
	return d
}

// json writes the value as Python's json.dumps does, keys in the order of the file.
func (d node) json() string { return d.jsonAt(0) }

func (d node) jsonAt(depth int) string {
	switch {
	case depth > 4*maxDepth:
		return "null"
	case d.isMap():
		var parts []string
		for _, p := range d.pairs() {
			parts = append(parts, quoteJSON(p.key)+": "+p.value.jsonAt(depth+1))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case d.isList():
		var parts []string
		for _, it := range d.items() {
			parts = append(parts, it.jsonAt(depth+1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case d.isNull():
		return "null"
	}
	if v, ok := d.isBool(); ok {
		return fmt.Sprint(v)
	}
	if tag := d.deref().ShortTag(); (tag == "!!int" || tag == "!!float") && json.Valid([]byte(d.text())) {
		return d.text()
	}
	return quoteJSON(d.text())
}

func quoteJSON(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(raw)
}

// compose follows the services of a compose file; the first server counts unless the context names a service.
func (r *reader) compose(name string, d node) error {
	dir := path.Dir(name)
	dot := newEnviron(false) // what compose knows: its caller's environment and .env
	dot.caller = r.ctx.Env
	if raw, err := r.readFile(path.Join(dir, ".env")); err == nil {
		dotEnv(string(raw), dot, dot)
	}
	in := interpolator{env: dot}
	for _, s := range d.get("services").pairs() {
		if r.ctx.Service != "" && r.ctx.Service != s.key {
			continue
		}
		if r.found != nil {
			break
		}
		c := container{env: newEnviron(true), image: in.text(s.value.get("image"))}
		files := s.value.get("env_file").items()
		if one := s.value.get("env_file"); one.text() != "" {
			files = []node{one}
		}
		for _, f := range files {
			file, optional := in.text(f), false
			if f.isMap() {
				required, given := f.get("required").isBool()
				file, optional = in.text(f.get("path")), given && !required
			}
			raw, err := r.readFile(resolve(dir, file))
			if optional && errors.Is(err, fs.ErrNotExist) {
				r.note("env_file_absent", file, "optional environment file is not there")
				continue
			}
			if err != nil {
				return fmt.Errorf("service %s: env_file: %w", s.key, err)
			}
			dotEnv(string(raw), c.env, dot)
		}
		in.environment(s.value.get("environment"), c.env, dot)
		c.entrypoint = in.words(s.value.get("entrypoint"))
		c.args = in.words(s.value.get("command"))
		if in.err != nil {
			return fmt.Errorf("service %s: %w", s.key, in.err)
		}
		if err := r.container(c); err != nil {
			return fmt.Errorf("service %s: %w", s.key, err)
		}
	}
	return nil
}

// dotEnv reads an env file as compose does: quotes are removed, variables replaced.
func dotEnv(text string, env, lookup *environ) {
	in := interpolator{env: lookup}
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		k, v, ok := strings.Cut(line, "=")
		if !ok || line[0] == '#' {
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
		env.set(strings.TrimSpace(k), v)
	}
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
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(inner)
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
	words, err := shellWords(in.text(d))
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
		return nil, fmt.Errorf("quote %c is never closed in %q", quote, shorten(s))
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, nil
}
