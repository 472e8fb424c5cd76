package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// entry is one assignment of a unit file.
type entry struct{ section, key, value string }

// readUnitAware reads a file; a template's instance is read from the template (vllm@a.service from vllm@.service).
func readUnitAware(fsys fs.FS, name string) ([]byte, error) {
	raw, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		if template, _ := templateOf(name); template != "" {
			return fs.ReadFile(fsys, template)
		}
	}
	return raw, err
}

// templateOf returns the template and instance of "vllm@glm.service", or "".
func templateOf(name string) (template, instance string) {
	base, ext := path.Base(name), path.Ext(name)
	prefix, inst, ok := strings.Cut(strings.TrimSuffix(base, ext), "@")
	if !ok || inst == "" {
		return "", ""
	}
	return path.Join(path.Dir(name), prefix+"@"+ext), inst
}

// unit follows ExecStart of a unit and its drop-ins (systemd.exec(5), systemd.service(5)).
func (r *reader) unit(name string) error {
	file, instance := name, r.ctx.Instance
	if template, inst := templateOf(name); template != "" {
		file, instance = template, inst
	}
	entries, err := r.unitEntries(file, name)
	if err != nil {
		return err
	}
	sp := specifiers{name: path.Base(name), instance: instance, home: r.home()}
	env, err := r.unitEnv(entries, sp)
	if err != nil {
		return err
	}
	for _, line := range last(entries, "Service", "ExecStart") {
		argv, err := execLine(line, sp, env)
		if err != nil {
			return fmt.Errorf("ExecStart: %w", err)
		}
		if err := r.command(argv, env, path.Dir(file)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) home() string {
	if r.ctx.Home != "" {
		return r.ctx.Home
	}
	return "/home"
}

// unitEntries reads the unit, then its drop-ins in the order of their names.
func (r *reader) unitEntries(file, name string) ([]entry, error) {
	raw, err := r.readFile(file)
	if err != nil {
		return nil, err
	}
	entries := parseUnit(string(raw))
	folders := []string{file + ".d"}
	if name != file {
		folders = append(folders, name+".d")
	}
	var dropins []string
	for _, f := range folders {
		found, err := fs.Glob(r.fsys, f+"/*.conf")
		if err != nil {
			return nil, err
		}
		dropins = append(dropins, found...)
	}
	slices.SortFunc(dropins, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	for _, f := range dropins {
		raw, err := r.readFile(f)
		if err != nil {
			return nil, err
		}
		entries = append(entries, parseUnit(string(raw))...)
	}
	return entries, nil
}

// parseUnit splits a unit file. A backslash at the end joins lines with a blank; comment lines inside vanish.
func parseUnit(text string) []entry {
	var entries []entry
	section, joined, joining := "", "", false
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, ";") {
			continue
		}
		if !joining {
			joined = ""
		}
		if body, more := strings.CutSuffix(line, `\`); more {
			joined, joining = joined+body+" ", true
			continue
		}
		full := strings.TrimSpace(joined + line)
		joining = false
		switch {
		case strings.HasPrefix(full, "[") && strings.HasSuffix(full, "]"):
			section = full[1 : len(full)-1]
		case strings.Contains(full, "="):
			k, v, _ := strings.Cut(full, "=")
			entries = append(entries, entry{section, strings.TrimSpace(k), strings.TrimSpace(v)})
		}
	}
	return entries
}

// last returns the values of a key that hold: an empty one resets those before.
func last(entries []entry, section, key string) []string {
	var values []string
	for _, e := range entries {
		if e.section != section || e.key != key {
			continue
		}
		if e.value == "" {
			values = nil
			continue
		}
		values = append(values, e.value)
	}
	return values
}

// unitEnv builds the environment: Environment= adds up, files win over it, UnsetEnvironment= comes last.
func (r *reader) unitEnv(entries []entry, sp specifiers) (*environ, error) {
	env := newEnviron(true)
	if err := setItems(env, last(entries, "Service", "Environment"), sp); err != nil {
		return nil, err
	}
	for _, f := range last(entries, "Service", "EnvironmentFile") {
		name, optional := strings.CutPrefix(sp.expand(f), "-")
		raw, err := r.readFile(resolve("", name))
		if errors.Is(err, fs.ErrNotExist) && optional {
			r.note("env_file_absent", name, "optional environment file is not there")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("EnvironmentFile: %w", err)
		}
		unitEnvFile(string(raw), env)
	}
	for _, names := range last(entries, "Service", "UnsetEnvironment") {
		for _, n := range strings.Fields(names) {
			delete(env.vars, n)
		}
	}
	return env, nil
}

func setItems(env *environ, lines []string, sp specifiers) error {
	for _, line := range lines {
		items, err := unitWords(sp.expand(line))
		if err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		for _, it := range items {
			if k, v, ok := strings.Cut(it, "="); ok {
				env.set(k, v)
			}
		}
	}
	return nil
}

// unitEnvFile reads an EnvironmentFile as systemd does (parse_env_file of its env-file.c): quotes at the start of a value
// and after another quote, a backslash outside of quotes takes the next character as it is and joins lines, a quoted value
// may have several lines, comments stand at the start of a line only. What is no name, such as "export X", sets nothing.
func unitEnvFile(text string, env *environ) {
	for text != "" {
		text = strings.TrimLeft(text, " \t\r\n")
		line, rest, _ := strings.Cut(text, "\n")
		at := strings.IndexByte(line, '=')
		if line == "" || line[0] == '#' || line[0] == ';' || at < 0 {
			text = rest
			continue
		}
		name := strings.TrimSpace(line[:at])
		var value string
		if value, text = unitEnvValue(text[at+1:]); isName(name) {
			env.set(name, value)
		}
	}
}

// unitEnvValue reads a value up to the end of its line and returns what follows.
func unitEnvValue(text string) (value, rest string) {
	const blanks = " \t\r"
	var b strings.Builder
	started, kept := false, 0 // outside of quotes; blanks at the end do not count
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return b.String()[:kept], text[i+1:]
		case c == '\\':
			started = true
			if i++; i < len(text) && text[i] != '\n' {
				b.WriteByte(text[i])
			}
			kept = b.Len()
		case !started && c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return b.String() + text[i+1:], ""
			}
			b.WriteString(text[i+1 : i+1+end])
			i, kept = i+1+end, b.Len()
		case !started && c == '"':
			inner, n := unitDoubleQuoted(text[i+1:])
			b.WriteString(inner)
			i, kept = i+n, b.Len()
		case strings.IndexByte(blanks, c) >= 0:
			if started {
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
			started, kept = true, b.Len()
		}
	}
	return b.String()[:kept], ""
}

// unitDoubleQuoted reads up to the closing quote and returns how many bytes it took with it.
func unitDoubleQuoted(text string) (value string, n int) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), i + 1
		case c == '\\' && i+1 < len(text):
			if i++; strings.IndexByte("\"\\`$", text[i]) >= 0 {
				b.WriteByte(text[i])
			} else if text[i] != '\n' {
				b.WriteString(text[i-1 : i+1])
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), len(text)
}

// specifiers are the % marks of a unit that files can settle.
type specifiers struct{ name, instance, home string }

func (s specifiers) expand(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	stem := strings.TrimSuffix(s.name, path.Ext(s.name))
	prefix, _, _ := strings.Cut(stem, "@")
	known := map[byte]string{'i': s.instance, 'I': strings.ReplaceAll(s.instance, "-", "/"), 'n': s.name, 'N': stem, 'p': prefix, 'h': s.home,
		't': "/run", 'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 'E': "/etc", 'T': "/tmp", 'V': "/var/tmp", '%': "%"}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if v, ok := known[text[i]]; ok {
			b.WriteString(v)
		} else {
			b.WriteString("<runtime:%" + text[i:i+1] + ">")
		}
	}
	return b.String()
}

// execLine turns a command line of a unit into words: specifiers, quotes and escapes, then variables.
func execLine(line string, sp specifiers, env *environ) ([]string, error) {
	replace, argv0 := true, false
	for line != "" && strings.IndexByte("@-:+!|", line[0]) >= 0 {
		replace = replace && line[0] != ':'
		argv0 = argv0 || line[0] == '@'
		line = line[1:]
	}
	words, err := unitWords(sp.expand(line))
	if err != nil {
		return nil, err
	}
	if argv0 && len(words) > 1 { // the second word is what the program sees as its name
		words = append(words[:1:1], words[2:]...)
	}
	if !replace {
		return words, nil
	}
	var out []string
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "$"); ok && isName(name) { // a word of its own is split
			value, _ := env.lookup(name)
			parts, err := unitWords(value)
			if err != nil {
				return nil, fmt.Errorf("$%s: %w", name, err)
			}
			out = append(out, parts...)
			continue
		}
		out = append(out, braces(w, env))
	}
	return out, nil
}

func isName(s string) bool { return s != "" && assignment.MatchString(s+"=") }

// braces replaces ${NAME} anywhere in a word and $$ by a dollar.
func braces(w string, env *environ) string {
	var b strings.Builder
	for i := 0; i < len(w); i++ {
		switch {
		case strings.HasPrefix(w[i:], "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(w[i:], "${"):
			end := strings.IndexByte(w[i:], '}')
			if end < 0 || !isName(w[i+2:i+end]) {
				b.WriteByte(w[i])
				continue
			}
			value, _ := env.lookup(w[i+2 : i+end])
			b.WriteString(value)
			i += end
		default:
			b.WriteByte(w[i])
		}
	}
	return b.String()
}

// unitWords splits at blanks, removes quotes and undoes backslashes, inside both kinds of quotes as well.
func unitWords(line string) ([]string, error) {
	var words []string
	var b strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line):
			text, n := unescape(line[i+1:])
			b.WriteString(text)
			i += n
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quote %c is never closed in %q", quote, shorten(line))
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, nil
}

// unescape returns what the bytes after a backslash stand for and how many they are.
func unescape(s string) (string, int) {
	simple := map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\\': "\\", '"': `"`, '\'': "'", 's': " "}
	if text, ok := simple[s[0]]; ok {
		return text, 1
	}
	if s[0] == 'x' && len(s) >= 3 {
		if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return string([]byte{byte(n)}), 3
		}
	}
	if len(s) >= 3 {
		if n, err := strconv.ParseUint(s[:3], 8, 8); err == nil {
			return string([]byte{byte(n)}), 3
		}
	}
	return `\` + s[:1], 1
}

// shorten keeps error messages readable and free of whole command lines.
func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// quadlet follows Exec= of a podman .container file: Environment= there is the container's, not that of [Service].
func (r *reader) quadlet(name string) error {
	entries, err := r.unitEntries(name, name)
	if err != nil {
		return err
	}
	sp := specifiers{name: path.Base(name), instance: r.ctx.Instance, home: r.home()}
	c := container{env: newEnviron(true)}
	host, err := r.unitEnv(entries, sp)
	if err != nil {
		return err
	}
	for _, f := range last(entries, "Container", "EnvironmentFile") {
		if err := r.rawEnvFile(resolve(path.Dir(name), sp.expand(f)), c.env, host); err != nil {
			return err
		}
	}
	if err := setItems(c.env, last(entries, "Container", "Environment"), sp); err != nil {
		return err
	}
	for _, line := range last(entries, "Container", "PodmanArgs") {
		words, err := unitWords(sp.expand(line))
		if err != nil {
			return fmt.Errorf("PodmanArgs: %w", err)
		}
		for i, w := range words {
			if opt, value, ok := dockerOption(w); opt == "-e" || opt == "--env" {
				if !ok && i+1 < len(words) {
					value = words[i+1]
				}
				if k, v, ok := strings.Cut(value, "="); ok {
					c.env.set(k, v)
				} else {
					host.pass(value, c.env)
				}
			}
		}
	}
	for _, image := range last(entries, "Container", "Image") {
		c.image = sp.expand(image)
	}
	for _, line := range last(entries, "Container", "Entrypoint") {
		c.entrypoint = []string{line}
	}
	for _, line := range last(entries, "Container", "Exec") {
		if c.args, err = unitWords(sp.expand(line)); err != nil {
			return fmt.Errorf("read Exec: %w", err)
		}
	}
	return r.container(c)
}
