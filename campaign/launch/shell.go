package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
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
		if opt, ok := strings.CutPrefix(line, "#SBATCH --export="); ok {
			slurmExport(strings.TrimSpace(opt), env)
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
	return err
}

// parseShell parses bash. The parser joins a comment that ends in a backslash with the next line, which bash does not:
// such a backslash is blanked and the text parsed again.
func parseShell(name, text string) (*syntax.File, error) {
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
	text := func(s string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: s} }
	switch {
	case name == "@" || name == "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: sh.args}
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
	case "HOME":
		return text("<runtime:HOME>")
	case "BASH_SOURCE":
		return text(sh.name)
	}
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
	return &expand.Config{Env: sh, CmdSubst: sh.substitute}
}

// substitute answers $(...) where the files can: dirname, basename, echo, cat, pwd. Else a mark is left.
func (sh *shell) substitute(w io.Writer, cs *syntax.CmdSubst) error {
	for _, st := range cs.Stmts {
		if text, ok := sh.static(st); ok {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	name := sh.assigning
	if name == "" {
		name = "command"
		if len(cs.Stmts) > 0 {
			if call, ok := cs.Stmts[0].Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() != "" {
				name = call.Args[0].Lit()
			}
		}
	}
	_, err := io.WriteString(w, "<runtime:"+name+">")
	return err
}

func (sh *shell) static(st *syntax.Stmt) (string, bool) {
	if and, ok := st.Cmd.(*syntax.BinaryCmd); ok && and.Op == syntax.AndStmt { // cd DIR && pwd
		if cd, ok := sh.words(and.X); ok && len(cd) == 2 && cd[0] == "cd" {
			if pwd, ok := sh.words(and.Y); ok && len(pwd) > 0 && pwd[0] == "pwd" {
				return cd[1], true
			}
		}
		return "", false
	}
	words, ok := sh.words(st)
	if !ok || len(words) == 0 {
		return "", false
	}
	arg := words[len(words)-1]
	switch {
	case words[0] == "dirname" && len(words) > 1:
		return path.Dir(arg), true
	case words[0] == "basename" && len(words) > 1:
		return path.Base(arg), true
	case words[0] == "echo":
		return strings.Join(words[1:], " "), true
	case (words[0] == "realpath" || words[0] == "readlink") && len(words) > 1:
		return arg, true
	case words[0] == "cat" && len(words) == 2:
		raw, err := sh.r.readFile(resolve(sh.dir, arg))
		return string(raw), err == nil
	}
	return "", false
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

// fields expands words as bash does. Sequences such as {1..9} are left alone: they can be endless.
func (sh *shell) fields(args []*syntax.Word) ([]string, error) {
	var out []string
	for _, w := range args {
		if lit := w.Lit(); strings.Contains(lit, "{") && strings.Contains(lit, "..") {
			out = append(out, lit)
			continue
		}
		words, err := expand.Fields(sh.config(), w)
		if err != nil {
			return nil, err
		}
		out = append(out, words...)
	}
	return out, nil
}

func (sh *shell) literal(w *syntax.Word) (string, error) { return expand.Literal(sh.config(), w) }

// stmts runs statements until the server is found. The result is whether the last one succeeded.
func (sh *shell) stmts(list []*syntax.Stmt) (bool, error) {
	ok := true
	for _, st := range list {
		if sh.r.found != nil {
			return true, nil
		}
		var err error
		if ok, err = sh.stmt(st); err != nil {
			return false, err
		}
	}
	return ok, nil
}

func (sh *shell) stmt(st *syntax.Stmt) (bool, error) {
	if sh.r.calls++; sh.r.calls > maxCalls {
		return false, fmt.Errorf("the script runs more than %d statements", maxCalls)
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
	case *syntax.WhileClause: // one round: restart loops start the same server again
		return sh.stmts(c.Do)
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

func (sh *shell) binary(c *syntax.BinaryCmd) (bool, error) {
	ok, err := sh.stmt(c.X)
	if err != nil || sh.r.found != nil {
		return ok, err
	}
	if c.Op == syntax.AndStmt && !ok || c.Op == syntax.OrStmt && ok {
		return ok, nil
	}
	return sh.stmt(c.Y)
}

func (sh *shell) ifClause(c *syntax.IfClause) (bool, error) {
	if c == nil {
		return true, nil
	}
	ok := true
	if len(c.Cond) > 0 { // an else has none
		var err error
		if ok, err = sh.stmts(c.Cond); err != nil {
			return false, err
		}
	}
	if ok {
		return sh.stmts(c.Then)
	}
	return sh.ifClause(c.Else)
}

func (sh *shell) forClause(c *syntax.ForClause) (bool, error) {
	it, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		return sh.stmts(c.Do)
	}
	items, err := sh.fields(it.Items)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if err := sh.Set(it.Name.Value, expand.Variable{Set: true, Kind: expand.String, Str: item}); err != nil {
			return false, err
		}
		if _, err := sh.stmts(c.Do); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (sh *shell) caseClause(c *syntax.CaseClause) (bool, error) {
	value, err := sh.literal(c.Word)
	if err != nil {
		return false, err
	}
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			if ok, err := sh.matches(value, p); err != nil || ok {
				if err != nil {
					return false, err
				}
				return sh.stmts(item.Stmts)
			}
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
			list = append(slices.Clone(v.List), list...)
		}
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

func (sh *shell) declare(c *syntax.DeclClause) error {
	exported := c.Variant.Value == "export"
	unexport := false
	for _, a := range c.Args {
		if a.Name == nil {
			lit := ""
			if a.Value != nil {
				lit = a.Value.Lit()
			}
			exported = exported || strings.HasPrefix(lit, "-") && strings.Contains(lit, "x")
			unexport = unexport || c.Variant.Value == "export" && lit == "-n"
			continue
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
