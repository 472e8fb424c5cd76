package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
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

// fileOf returns the file of a unit, that of its template when it is an instance of one, and the instance.
func (r *reader) fileOf(name string) (file, instance string) {
	if template, inst := templateOf(name); template != "" {
		return template, inst
	}
	return name, r.ctx.Instance
}

// unit follows ExecStart of a unit and its drop-ins (systemd.exec(5), systemd.service(5)).
func (r *reader) unit(name string) error {
	file, instance := r.fileOf(name)
	entries, err := r.unitEntries(file, name)
	if err != nil {
		return err
	}
	sp := unitSpecifiers(name, instance, r.home())
	env, err := r.unitEnv(entries, sp)
	if err != nil {
		return err
	}
	dir := path.Dir(file)
	for _, d := range last(entries, "Service", "WorkingDirectory") {
		if d = strings.TrimPrefix(sp.expand(d), "-"); strings.HasPrefix(d, "~") {
			d = r.home() + d[1:]
		}
		dir = resolve("", d)
	}
	commands := 0
	for _, line := range last(entries, "Service", "ExecStart") {
		argvs, err := execLine(line, sp, env)
		if err != nil {
			return fmt.Errorf("ExecStart: %w", err)
		}
		for _, argv := range argvs {
			commands++
			if err := r.command(argv, env, dir); err != nil {
				return err
			}
		}
	}
	if commands > 1 && r.found != nil && !oneshot(entries) {
		r.found.Refused = fmt.Sprintf("systemd does not load the unit: it has %d ExecStart= commands, and only Type=oneshot may have several; a drop-in that replaces the command begins with an empty ExecStart=", commands)
	}
	return nil
}

func oneshot(entries []entry) bool {
	kinds := last(entries, "Service", "Type")
	return len(kinds) > 0 && kinds[len(kinds)-1] == "oneshot"
}

// unitSpecifiers are those of a unit; a template that is read with its instance has the instance in its name.
func unitSpecifiers(name, instance, home string) specifiers {
	base := path.Base(name)
	if ext := path.Ext(base); strings.HasSuffix(base, "@"+ext) && instance != "" {
		base = strings.TrimSuffix(base, ext) + instance + ext
	}
	return specifiers{name: base, instance: instance, home: home}
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
	folders := []string{path.Join(path.Dir(file), strings.TrimPrefix(path.Ext(file), ".")+".d"), file + ".d"} // the first is for all units
	if name != file {
		folders = append(folders, name+".d")
	}
	byName := map[string]string{}
	for _, f := range folders { // of two files with one name, that of the more special folder holds
		found, err := fs.Glob(r.fsys, f+"/*.conf")
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			byName[path.Base(f)] = f
		}
	}
	dropins := slices.Collect(maps.Values(byName))
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
		if slashes := len(line) - len(strings.TrimRight(line, `\`)); slashes%2 == 1 { // a pair is a backslash
			joined, joining = joined+line[:len(line)-1]+" ", true
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
	for _, names := range last(entries, "Service", "PassEnvironment") { // of systemd itself; Environment= wins
		for _, n := range strings.Fields(names) {
			if _, set := env.vars[n]; !set {
				(&environ{caller: r.ctx.Env}).pass(n, env)
			}
		}
	}
	for _, f := range last(entries, "Service", "EnvironmentFile") {
		name, optional := strings.CutPrefix(sp.expand(f), "-")
		files := []string{resolve("", name)}
		if strings.ContainsAny(name, "*?[") {
			found, err := fs.Glob(r.fsys, files[0])
			if err != nil {
				return nil, fmt.Errorf("EnvironmentFile: %w", err)
			}
			if len(found) > 0 {
				files = found
			}
		}
		for _, file := range files {
			raw, err := r.readFile(file)
			if errors.Is(err, fs.ErrNotExist) && optional {
				r.note("env_file_absent", name, "optional environment file is not there")
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("EnvironmentFile: %w", err)
			}
			unitEnvFile(string(raw), env)
		}
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
		items, err := unitWords(line)
		if err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		for _, it := range items {
			if k, v, ok := strings.Cut(sp.expand(it), "="); ok && isName(k) {
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
