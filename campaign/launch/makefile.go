package launch

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// makefile follows the recipes of a Makefile in their order, or those of the target that the context names: make replaces
// $(X) first, $$ is a dollar, then each line goes to a shell of its own. Functions of make are not followed.
func (r *reader) makefile(name, text string) error {
	m := &maker{r: r, dir: path.Dir(name), vars: map[string]string{}, caller: r.ctx.Env, exported: map[string]bool{}, own: map[string][]string{}}
	m.read(text, 0)
	for _, c := range m.recipes {
		if r.ctx.Service != "" && r.ctx.Service != c.target {
			continue
		}
		if err := r.service(c.target, func() error { return m.run(c, name) }); err != nil {
			return err
		}
	}
	return nil
}

// recipe is a line of a target.
type recipe struct{ target, line string }

// read takes the lines of a Makefile or of one that it includes.
func (m *maker) read(text string, depth int) {
	target := ""
	var open []branch // conditionals
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSuffix(lines[i], "\r")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line += "\n" + strings.TrimSuffix(lines[i], "\r")
		}
		if m.conditional(strings.TrimSpace(line), &open) || slices.ContainsFunc(open, func(b branch) bool { return b != active }) {
			continue
		}
		if strings.HasPrefix(line, "\t") && target != "" {
			m.recipes = append(m.recipes, recipe{target, strings.ReplaceAll(line[1:], "\\\n\t", "\\\n")}) // make takes the tab of each line
			continue
		}
		line = strings.TrimSpace(makeComment.ReplaceAllString(makeContinued.ReplaceAllString(line, " "), "$1"))
		files, included := strings.CutPrefix(strings.TrimLeft(line, "-s"), "include ")
		switch {
		case included && depth < maxDepth:
			for _, f := range strings.Fields(m.expand(files, 0)) {
				if raw, err := m.r.readFile(resolve(m.dir, f)); err == nil {
					m.read(string(raw), depth+1)
				}
			}
		case m.assign(line):
		default:
			if names, rest, ok := strings.Cut(line, ":"); ok {
				target = strings.TrimSpace(m.expand(names, 0))
				if rest = strings.TrimSpace(rest); makeAssignment.MatchString(rest) { // of the target only
					m.own[target] = append(m.own[target], rest)
				}
			}
		}
	}
}

// branch is where a conditional stands.
type branch int

const (
	waiting branch = iota // no condition held so far
	active
	done // one held already
)

// conditional follows ifeq, ifneq, ifdef, ifndef, else and endif.
func (m *maker) conditional(line string, open *[]branch) bool {
	word, rest, _ := strings.Cut(line, " ")
	if n := len(*open); word == "else" && n > 0 {
		state := &(*open)[n-1]
		holds, isCondition := m.holds(strings.TrimSpace(rest))
		switch {
		case *state != waiting:
			*state = done
		case holds || !isCondition:
			*state = active
		}
		return true
	} else if word == "endif" && n > 0 {
		*open = (*open)[:n-1]
		return true
	}
	holds, isCondition := m.holds(line)
	if holds {
		*open = append(*open, active)
	} else if isCondition {
		*open = append(*open, waiting)
	}
	return isCondition
}

// holds decides a condition of make; ok is false for other lines.
func (m *maker) holds(line string) (holds, ok bool) {
	f := makeCondition.FindStringSubmatch(line)
	switch {
	case f == nil:
		return false, false
	case f[2] == "def":
		name := strings.TrimSpace(m.expand(f[3], 0))
		holds = m.vars[name] != "" || m.caller[name] != ""
	default:
		a, b := m.compared(strings.TrimSpace(f[3]))
		holds = a == b
	}
	return holds != (f[1] == "n"), true
}

// compared returns both sides of (a,b), "a" "b" or 'a' 'b'.
func (m *maker) compared(text string) (a, b string) {
	if inner, ok := strings.CutPrefix(text, "("); ok {
		inner = strings.TrimSuffix(inner, ")")
		depth := 0
		for i := 0; i < len(inner); i++ {
			switch inner[i] {
			case '(':
				depth++
			case ')':
				depth--
			case ',':
				if depth == 0 {
					return strings.TrimSpace(m.expand(inner[:i], 0)), strings.TrimSpace(m.expand(inner[i+1:], 0))
				}
			}
		}
		return m.expand(inner, 0), ""
	}
	words, err := shellWords(text)
	if err != nil || len(words) != 2 {
		return text, ""
	}
	return m.expand(words[0], 0), m.expand(words[1], 0)
}

// run gives a line of a recipe to a shell.
func (m *maker) run(c recipe, name string) error {
	one := *m
	one.vars, one.exported, one.target = maps.Clone(m.vars), maps.Clone(m.exported), c.target
	for _, line := range m.own[c.target] {
		one.assign(line)
	}
	env := newEnviron(false)
	env.caller = m.caller
	for name := range one.vars {
		if one.exported[name] || one.exportAll {
			env.set(name, one.expand(one.vars[name], 0))
		}
	}
	sh := newShell(m.r, env, m.dir)
	return sh.run(path.Base(name), one.expand(strings.TrimLeft(c.line, "@-+ "), 0))
}

var (
	makeCondition  = regexp.MustCompile(`^if(n?)(eq|def)\b[ \t]*(.*)$`)
	makeComment    = regexp.MustCompile(`(^|[^\\])#.*$`)
	makeContinued  = regexp.MustCompile(`[ \t]*\\\n[ \t]*`)
	makeAssignment = regexp.MustCompile(`^(export +|override +)*([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*(::?:?|\?|\+|)=[ \t]*(.*)$`)
)

// maker holds the variables of a Makefile.
type maker struct {
	r         *reader
	dir       string
	recipes   []recipe
	vars      map[string]string   // as written
	own       map[string][]string // assignments of a target
	caller    map[string]string
	exported  map[string]bool
	exportAll bool
	target    string
	calls     int // variables replaced so far
}

const maxExpansions = 10000 // of a whole Makefile

// assign takes a line that sets or exports variables.
func (m *maker) assign(line string) bool {
	f := makeAssignment.FindStringSubmatch(line)
	if f == nil {
		if line == "export" {
			m.exportAll = true
			return true
		}
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
