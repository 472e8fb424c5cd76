package launch

import (
	"path"
	"regexp"
	"strings"
)

// makefile follows the recipes of a Makefile in their order, or those of the target that the context names: make replaces
// $(X) first, $$ is a dollar, then each line goes to a shell of its own. Functions of make, and conditionals, are not followed.
func (r *reader) makefile(name, text string) error {
	m := maker{vars: map[string]string{}, caller: r.ctx.Env, exported: map[string]bool{}}
	type recipe struct{ target, line string }
	var recipes []recipe
	target := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSuffix(lines[i], "\r")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line += "\n" + strings.TrimSuffix(lines[i], "\r")
		}
		if strings.HasPrefix(line, "\t") {
			recipes = append(recipes, recipe{target, strings.ReplaceAll(line[1:], "\\\n\t", "\\\n")}) // make takes the tab of each line
			continue
		}
		line = makeContinued.ReplaceAllString(line, " ")
		line, _, _ = strings.Cut(line, "#")
		if !m.assign(strings.TrimSpace(line)) {
			if names, _, ok := strings.Cut(line, ":"); ok {
				target = strings.TrimSpace(names)
			}
		}
	}
	for _, c := range recipes {
		if r.found != nil {
			return nil
		}
		if r.ctx.Service != "" && r.ctx.Service != c.target {
			continue
		}
		env := newEnviron(false)
		env.caller = r.ctx.Env
		for name := range m.exported {
			env.set(name, m.expand(m.vars[name], 0))
		}
		m.target = c.target
		sh := newShell(r, env, path.Dir(name))
		if err := sh.run(path.Base(name), m.expand(strings.TrimLeft(c.line, "@-+ "), 0)); err != nil {
			return err
		}
	}
	return nil
}

var (
	makeContinued  = regexp.MustCompile(`[ \t]*\\\n[ \t]*`)
	makeAssignment = regexp.MustCompile(`^(export +|override +)*([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*(::?:?|\?|\+|)=[ \t]*(.*)$`)
)

// maker holds the variables of a Makefile.
type maker struct {
	vars     map[string]string // as written
	caller   map[string]string
	exported map[string]bool
	target   string
	calls    int // variables replaced so far
}

const maxExpansions = 10000 // of a whole Makefile

// assign takes a line that sets or exports variables.
func (m *maker) assign(line string) bool {
	f := makeAssignment.FindStringSubmatch(line)
	if f == nil {
		names, ok := strings.CutPrefix(line, "export ")
		for _, name := range strings.Fields(names) {
			m.exported[name] = m.exported[name] || ok
		}
		return ok
	}
	name, value := f[2], f[4]
	_, have := m.vars[name]
	_, given := m.caller[name]
	switch {
	case f[3] == "?" && (have || given):
		if !have {
			m.vars[name] = m.caller[name]
		}
	case f[3] == "+" && have:
		m.vars[name] += " " + value
	case strings.HasPrefix(f[3], ":"):
		m.vars[name] = strings.ReplaceAll(m.expand(value, 0), "$", "$$")
	default:
		m.vars[name] = value
	}
	if strings.Contains(f[1], "export") || strings.HasPrefix(line, "export ") {
		m.exported[name] = true
	}
	return true
}

// expand replaces $(X), ${X}, $@ and $$.
func (m *maker) expand(text string, depth int) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		c := text[i]
		switch {
		case c == '$':
			b.WriteByte('$')
		case c == '@':
			b.WriteString(m.target)
		case c == '(' || c == '{':
			end := matching(text[i:])
			if end < 0 {
				b.WriteString(text[i-1:])
				return b.String()
			}
			b.WriteString(m.value(text[i+1:i+end], depth))
			i += end
		default:
			b.WriteString(m.value(text[i:i+1], depth))
		}
	}
	return b.String()
}

func (m *maker) value(name string, depth int) string {
	if v, ok := m.vars[name]; ok {
		if m.calls++; depth > maxDepth || m.calls > maxExpansions {
			return "" // a variable that names itself
		}
		return m.expand(v, depth+1)
	}
	if v, ok := m.caller[name]; ok {
		return v
	}
	if fn, _, ok := strings.Cut(name, " "); ok {
		return "<runtime:" + fn + ">"
	}
	return ""
}

// matching returns where the bracket at the start is closed, -1 if it is not.
func matching(text string) int {
	open, closing, depth := text[0], byte(')'), 0
	if open == '{' {
		closing = '}'
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case open:
			depth++
		case closing:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
