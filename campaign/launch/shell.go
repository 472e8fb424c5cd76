package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// shell walks a script as bash would run it, without running anything: assignments, exports, sourced files, conditions
// that the files can decide, and the words of the command that starts the server.
type shell struct {
	r         *reader
	vars      map[string]expand.Variable
	outer     *environ
	dir       string // of the script, where relative names are looked up
	name      string // $0
	args      []string
	allexport bool
	assigning string // variable whose value is being expanded: names what only the run knows
	funcs     map[string]*syntax.Stmt
	stdin     *string // what is read, nil if it is not known
	moved     bool    // cd was called: dir is where it works
	leave     string  // "exit", "return", "break" or "continue" while it is on its way out
	asked     string  // the program that a condition ran, "" without
	unknown   bool    // what was decided last depends on something that no file says
}

const (
	maxCalls = 10000   // statements, against scripts that call themselves
	maxValue = 1 << 14 // bytes of a variable, against values that double in a loop
)

func newShell(r *reader, env *environ, dir string) *shell {
	sh := &shell{r: r, vars: map[string]expand.Variable{}, outer: env, dir: dir, name: "bash", funcs: map[string]*syntax.Stmt{}}
	for name := range env.vars {
		value, _ := env.lookup(name)
		sh.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
	}
	return sh
}

// script reads a script whose text is at hand.
func (r *reader) script(name, text string, args []string) error {
	env := newEnviron(false)
	env.caller = r.ctx.Env
	for _, line := range strings.Split(text, "\n") { // Slurm's own comments; "##SBATCH" is none
		if opt, ok := strings.CutPrefix(strings.Replace(line, "--export ", "--export=", 1), "#SBATCH --export="); ok {
			env = slurmExport(strings.TrimSpace(opt), env)
		}
	}
	sh := newShell(r, env, path.Dir(name))
	sh.name, sh.args = "./"+path.Base(name), args
	return sh.run(path.Base(name), text)
}

func (r *reader) scriptFile(name string, args []string, env *environ) error {
	raw, err := r.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		r.note("script_absent", name, "the script is not among the files; what it starts is not known")
		return nil
	}
	if err != nil {
		return err
	}
	sh := newShell(r, env, path.Dir(name))
	sh.name, sh.args = "./"+path.Base(name), args
	return sh.run(name, string(raw))
}

func (sh *shell) run(name, text string) error {
	file, err := parseShell(name, text)
	if err != nil {
		return fmt.Errorf("parse shell: %w", err)
	}
	_, err = sh.stmts(file.Stmts)
	if sh.leave == "return" { // of a sourced file
		sh.leave = ""
	}
	return err
}

// Marks of what only the run knows are hidden in the text of a shell inside a shell: < and > are redirections there.
const hiddenOpen, hiddenClose = "\uE000", "\uE001"

var (
	runtimeMark = regexp.MustCompile(`<runtime:([^<>\s]*)>`)
	showMarks   = strings.NewReplacer(hiddenOpen, "<runtime:", hiddenClose, ">")
)

// parseShell parses bash. The parser joins a comment that ends in a backslash with the next line, which bash does not:
// such a backslash is blanked and the text parsed again.
func parseShell(name, text string) (*syntax.File, error) {
	text = runtimeMark.ReplaceAllString(text, hiddenOpen+"$1"+hiddenClose)
	for {
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), name)
		if err != nil {
			return nil, err
		}
		at := -1
		syntax.Walk(file, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.Comment); ok && at < 0 {
				if i := strings.Index(c.Text, "\\\n"); i >= 0 {
					at = int(c.Hash.Offset()) + 1 + i
				}
			}
			return at < 0
		})
		if at < 0 || at >= len(text) || text[at] != '\\' {
			return file, nil
		}
		text = text[:at] + " " + text[at+1:]
	}
}

// Get, Set and Each make the shell the environment of its expansions.
func (sh *shell) Get(name string) expand.Variable {
	text := textVariable
	switch {
	case name == "@" || name == "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, sh.args...)} // nil would be one empty word
	case name == "#":
		return text(fmt.Sprint(len(sh.args)))
	case name == "0":
		return text(sh.name)
	case name == "?":
		return text("0")
	case name == "$" || name == "PPID" || name == "!":
		return text("<runtime:pid>")
	case len(name) == 1 && name[0] >= '1' && name[0] <= '9':
		if i := int(name[0] - '1'); i < len(sh.args) {
			return text(sh.args[i])
		}
		sh.unknown = true
		return expand.Variable{}
	case strings.HasPrefix(name, "HOME "): // ~user: left as it is
		return text("~" + strings.TrimPrefix(name, "HOME "))
	}
	if v, ok := sh.vars[name]; ok {
		return v
	}
	if v, ok := sh.outer.caller[name]; ok {
		return text(v)
	}
	switch name {
	case "PWD":
		if sh.moved {
			return text("/" + sh.dir)
		}
		fallthrough
	case "HOME":
		return text("<runtime:" + name + ">")
	case "BASH_SOURCE":
		return text(sh.name)
	case "IFS":
		return text(" \t\n")
	}
	sh.unknown = true
	return expand.Variable{}
}

// Set is called by expansions such as ${X:=1}.
func (sh *shell) Set(name string, v expand.Variable) error {
	if len(v.Str) > maxValue {
		return fmt.Errorf("variable %s grows beyond %d bytes", name, maxValue)
	}
	v.Exported = v.Exported || sh.allexport || sh.vars[name].Exported
	sh.vars[name] = v
	return nil
}

// Each is asked for by the interface; the expansions used here look names up one by one.
func (sh *shell) Each(func(string, expand.Variable) bool) {}

func (sh *shell) config() *expand.Config {
	return &expand.Config{Env: sh, CmdSubst: sh.substitute, ProcSubst: sh.procSubst}
}

// words expands a simple command without assignments.
func (sh *shell) words(st *syntax.Stmt) ([]string, bool) {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil, false
	}
	words, err := sh.fields(call.Args)
	return words, err == nil
}

// longSequence is a {FIRST..LAST} that can be endless.
var longSequence = regexp.MustCompile(`\{[^{}]*[0-9]{4,}[^{}]*\.\.|\.\.[^{}]*[0-9]{4,}`)

// fields expands words as bash does; long sequences are left alone.
func (sh *shell) fields(args []*syntax.Word) ([]string, error) {
	var out []string
	for _, w := range args {
		if lit := w.Lit(); longSequence.MatchString(lit) || strings.Count(lit, "..") > 1 {
			out = append(out, lit)
			continue
		}
		words, err := expand.Fields(sh.config(), w)
		for tries := 0; tries < maxDepth && sh.mustBeSet(err); tries++ {
			words, err = expand.Fields(sh.config(), w)
		}
		if err != nil {
			return nil, err
		}
		for _, word := range words {
			out = append(out, showMarks.Replace(word))
		}
	}
	return out, nil
}

func (sh *shell) literal(w *syntax.Word) (string, error) {
	text, err := expand.Literal(sh.config(), w)
	for tries := 0; tries < maxDepth && sh.mustBeSet(err); tries++ {
		text, err = expand.Literal(sh.config(), w)
	}
	return showMarks.Replace(text), err
}

// mustBeSet takes ${NAME:?} at its word: the script goes on only if the caller sets NAME, so it is known at run time.
func (sh *shell) mustBeSet(err error) bool {
	var unset expand.UnsetParameterError
	if !errors.As(err, &unset) || unset.Node == nil || unset.Node.Param == nil {
		return false
	}
	name := unset.Node.Param.Value
	mark := textVariable("<runtime:" + name + ">")
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < maxDepth {
		for len(sh.args) < n {
			sh.args = append(slices.Clip(sh.args), "<runtime:"+strconv.Itoa(len(sh.args)+1)+">")
		}
		return true
	}
	return isName(name) && sh.Set(name, mark) == nil
}

// stmts runs statements until the server is found. The result is whether the last one succeeded.
func (sh *shell) stmts(list []*syntax.Stmt) (bool, error) {
	ok := true
	for _, st := range list {
		if sh.r.found != nil {
			return true, nil
		}
		var err error
		if ok, err = sh.stmt(st); err != nil || sh.leave != "" {
			return ok, err
		}
	}
	return ok, nil
}

func (sh *shell) stmt(st *syntax.Stmt) (bool, error) {
	if sh.r.calls++; sh.r.calls > maxCalls {
		return false, fmt.Errorf("the script runs more than %d statements", maxCalls)
	}
	if sh.output(st) {
		return true, nil
	}
	if text, ok := sh.input(st); ok {
		old := sh.stdin
		defer func() { sh.stdin = old }()
		sh.stdin = &text
	}
	ok, err := sh.cmd(st.Cmd)
	return ok != st.Negated, err
}

func (sh *shell) cmd(cmd syntax.Command) (bool, error) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return sh.call(c)
	case *syntax.DeclClause:
		return true, sh.declare(c)
	case *syntax.IfClause:
		return sh.ifClause(c)
	case *syntax.BinaryCmd:
		return sh.binary(c)
	case *syntax.Block:
		return sh.stmts(c.Stmts)
	case *syntax.Subshell:
		sub := *sh
		sub.vars = make(map[string]expand.Variable, len(sh.vars))
		for k, v := range sh.vars {
			sub.vars[k] = v
		}
		return sub.stmts(c.Stmts)
	case *syntax.WhileClause:
		return sh.while(c)
	case *syntax.ArithmCmd:
		n, err := expand.Arithm(sh.config(), c.X)
		return n != 0, err
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			if _, err := expand.Arithm(sh.config(), x); err != nil {
				return false, err
			}
		}
	case *syntax.ForClause:
		return sh.forClause(c)
	case *syntax.CaseClause:
		return sh.caseClause(c)
	case *syntax.FuncDecl:
		if c.Name != nil {
			sh.funcs[c.Name.Value] = c.Body
		}
	case *syntax.TestClause:
		return sh.test(c.X)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return sh.stmt(c.Stmt)
		}
	}
	return true, nil
}

// assign sets a variable or appends to it; arrays keep their elements.
func (sh *shell) assign(a *syntax.Assign, exported bool) error {
	if a.Name == nil {
		return nil
	}
	name := a.Name.Value
	sh.assigning = name
	defer func() { sh.assigning = "" }()
	v := sh.vars[name]
	v.Exported = v.Exported || exported || sh.allexport
	switch {
	case a.Naked:
	case a.Array != nil && v.Kind == expand.Associative:
		return sh.assignMap(name, v, a)
	case a.Index != nil:
		return sh.assignElement(name, v, a)
	case a.Array != nil:
		var words []*syntax.Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, e.Value)
			}
		}
		list, err := sh.fields(words)
		if err != nil {
			return err
		}
		if a.Append {
			old := slices.Clone(v.List)
			if v.Kind == expand.String && v.Set {
				old = []string{v.Str}
			}
			list = append(old, list...)
		}
		list = append([]string{}, list...) // nil would be one empty word
		v.Set, v.Kind, v.List = true, expand.Indexed, list
	default:
		text, err := sh.literal(a.Value)
		if err != nil {
			return err
		}
		if a.Append {
			text = v.Str + text
		}
		v.Set, v.Kind, v.Str = true, expand.String, text
	}
	if len(v.Str) > maxValue || len(v.List) > maxValue {
		return fmt.Errorf("variable %s grows beyond %d bytes", name, maxValue)
	}
	sh.vars[name] = v
	return nil
}

// assignMap sets keys of an associative array.
func (sh *shell) assignMap(name string, v expand.Variable, a *syntax.Assign) error {
	m := map[string]string{}
	if a.Append {
		maps.Copy(m, v.Map)
	}
	for _, e := range a.Array.Elems {
		key, ok := e.Index.(*syntax.Word)
		if !ok || e.Value == nil {
			continue
		}
		k, err := sh.literal(key)
		if err != nil {
			return err
		}
		if m[k], err = sh.literal(e.Value); err != nil {
			return err
		}
	}
	v.Set, v.Map = true, m
	sh.vars[name] = v
	return nil
}

// assignElement sets NAME[KEY]=VALUE.
func (sh *shell) assignElement(name string, v expand.Variable, a *syntax.Assign) error {
	value, err := sh.literal(a.Value)
	if err != nil {
		return err
	}
	if v.Kind == expand.Associative {
		key, ok := a.Index.(*syntax.Word)
		if !ok {
			return nil
		}
		k, err := sh.literal(key)
		if err != nil {
			return err
		}
		m := maps.Clone(v.Map)
		if m == nil {
			m = map[string]string{}
		}
		if a.Append {
			value = m[k] + value
		}
		m[k] = value
		v.Set, v.Map = true, m
		sh.vars[name] = v
		return nil
	}
	i, err := expand.Arithm(sh.config(), a.Index)
	if err != nil || i < 0 || i > maxRounds {
		return err
	}
	list := slices.Clone(v.List)
	for len(list) <= i {
		list = append(list, "")
	}
	if a.Append {
		value = list[i] + value
	}
	list[i] = value
	v.Set, v.Kind, v.List = true, expand.Indexed, list
	sh.vars[name] = v
	return nil
}

func (sh *shell) declare(c *syntax.DeclClause) error {
	exported := c.Variant.Value == "export"
	unexport, associative := false, false
	for _, a := range c.Args {
		if a.Name == nil {
			lit := ""
			if a.Value != nil {
				lit = a.Value.Lit()
			}
			exported = exported || strings.HasPrefix(lit, "-") && strings.Contains(lit, "x")
			associative = associative || strings.HasPrefix(lit, "-") && strings.Contains(lit, "A")
			unexport = unexport || c.Variant.Value == "export" && lit == "-n"
			if a.Value != nil && !strings.HasPrefix(lit, "-") {
				if err := sh.declareWords(a.Value, exported && !unexport); err != nil {
					return err
				}
			}
			continue
		}
		if v := sh.vars[a.Name.Value]; associative && v.Kind != expand.Associative {
			sh.vars[a.Name.Value] = expand.Variable{Kind: expand.Associative, Exported: v.Exported}
		}
		if err := sh.assign(a, exported && !unexport); err != nil {
			return err
		}
		if unexport {
			v := sh.vars[a.Name.Value]
			v.Exported = false
			sh.vars[a.Name.Value] = v
		}
	}
	return nil
}

// declareWords follows export "$NAME=VALUE" and export $(cat FILE).
func (sh *shell) declareWords(w *syntax.Word, exported bool) error {
	words, err := sh.fields([]*syntax.Word{w})
	if err != nil {
		return err
	}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if strings.HasPrefix(word, "<runtime:") {
			sh.r.note("exports_unknown", "", "variables are exported that only a running shell knows")
		}
		if !isName(name) {
			continue
		}
		v := sh.vars[name]
		if v.Exported = v.Exported || exported; ok {
			v.Set, v.Kind, v.Str = true, expand.String, value
		}
		sh.vars[name] = v
	}
	return nil
}

// environ returns the environment of a command that the shell starts now.
func (sh *shell) environ() *environ {
	env := newEnviron(sh.outer.closed)
	env.caller = sh.outer.caller
	for name, v := range sh.vars {
		if v.Exported && v.Set && v.Kind == expand.String {
			if old, ok := sh.outer.vars[name]; ok && old.Unknown && v.Str == "<runtime:"+name+">" {
				env.vars[name] = old
				continue
			}
			env.set(name, v.Str)
		}
	}
	return env
}
