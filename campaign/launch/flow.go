package launch

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

const maxRounds = 256 // of a loop that no file ends

// condition runs statements whose result decides something. known is false if a program, a file that is not among the files,
// or a variable that nobody set takes part.
func (sh *shell) condition(run func() (bool, error)) (ok, known bool, err error) {
	before := sh.unknown
	sh.unknown, sh.asked = false, ""
	ok, err = run()
	known = !sh.unknown
	sh.unknown = before || !known
	return ok, known, err
}

func (sh *shell) binary(c *syntax.BinaryCmd) (bool, error) {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		return sh.pipe(c)
	}
	ok, known, err := sh.condition(func() (bool, error) { return sh.stmt(c.X) })
	if err != nil || sh.r.found != nil || sh.leave != "" {
		return ok, err
	}
	if c.Op == syntax.AndStmt && !ok || c.Op == syntax.OrStmt && ok {
		return ok, nil
	}
	if !known && leaves(c.Y) {
		return true, nil
	}
	return sh.stmt(c.Y)
}

// pipe runs both sides; the second reads what the first prints, if that is known.
func (sh *shell) pipe(c *syntax.BinaryCmd) (bool, error) {
	text, known := sh.static(c.X)
	if !known {
		if ok, err := sh.stmt(c.X); err != nil || sh.r.found != nil {
			return ok, err
		}
	}
	old := sh.stdin
	defer func() { sh.stdin = old }()
	if sh.stdin = nil; known {
		sh.stdin = &text
	}
	return sh.stmt(c.Y)
}

func (sh *shell) ifClause(c *syntax.IfClause) (bool, error) {
	if c == nil {
		return true, nil
	}
	ok, known := true, true
	if len(c.Cond) > 0 { // an else has none
		var err error
		if ok, known, err = sh.condition(func() (bool, error) { return sh.stmts(c.Cond) }); err != nil {
			return false, err
		}
	}
	if !known && sh.asked != "" {
		sh.r.note("condition_assumed", "", "what %s answers is not known: it is taken to succeed", sh.asked)
	}
	if ok && !known && leaves(c.Then...) { // a guard: whoever asks how the server starts has passed it
		ok = false
	}
	if ok {
		return sh.stmts(c.Then)
	}
	return sh.ifClause(c.Else)
}

// leaves reports whether statements end the script or the loop.
func leaves(list ...*syntax.Stmt) bool {
	for _, st := range list {
		switch c := st.Cmd.(type) {
		case *syntax.CallExpr:
			if len(c.Args) > 0 {
				switch c.Args[0].Lit() {
				case "exit", "return", "break", "continue":
					return true
				}
			}
		case *syntax.Block:
			if leaves(c.Stmts...) {
				return true
			}
		}
	}
	return false
}

// while runs a loop as long as its condition is known to hold, else once: restart loops start the same server again.
func (sh *shell) while(c *syntax.WhileClause) (bool, error) {
	for range maxRounds {
		ok, known, err := sh.condition(func() (bool, error) { return sh.stmts(c.Cond) })
		if err != nil || known && ok == c.Until {
			return true, err
		}
		if _, err := sh.stmts(c.Do); err != nil || sh.leftLoop() || !known {
			return true, err
		}
	}
	return true, nil
}

// leftLoop reports whether the loop is over, and forgets a break or continue.
func (sh *shell) leftLoop() bool {
	switch sh.leave {
	case "break":
		sh.leave = ""
		return true
	case "continue":
		sh.leave = ""
	}
	return sh.leave != "" || sh.r.found != nil
}

func (sh *shell) forClause(c *syntax.ForClause) (bool, error) {
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		items := sh.args
		if loop.InPos.IsValid() {
			var err error
			if items, err = sh.fields(loop.Items); err != nil {
				return false, err
			}
		}
		for _, item := range items {
			if err := sh.Set(loop.Name.Value, expand.Variable{Set: true, Kind: expand.String, Str: item}); err != nil {
				return false, err
			}
			if _, err := sh.stmts(c.Do); err != nil || sh.leftLoop() {
				return true, err
			}
		}
	case *syntax.CStyleLoop:
		return sh.countingLoop(loop, c.Do)
	}
	return true, nil
}

func (sh *shell) countingLoop(loop *syntax.CStyleLoop, body []*syntax.Stmt) (bool, error) {
	number := func(x syntax.ArithmExpr, empty int) (int, error) {
		if x == nil {
			return empty, nil
		}
		return expand.Arithm(sh.config(), x)
	}
	if _, err := number(loop.Init, 0); err != nil {
		return false, err
	}
	for range maxRounds {
		if n, err := number(loop.Cond, 1); err != nil || n == 0 {
			return true, err
		}
		if _, err := sh.stmts(body); err != nil || sh.leftLoop() {
			return true, err
		}
		if _, err := number(loop.Post, 0); err != nil {
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
	through := false // ;& goes on with the next item, whatever its patterns
	for _, item := range c.Items {
		hit := through
		for _, p := range item.Patterns {
			if hit {
				break
			}
			if hit, err = sh.matches(value, p); err != nil {
				return false, err
			}
		}
		if !hit {
			continue
		}
		ok, err := sh.stmts(item.Stmts)
		if err != nil || sh.r.found != nil || sh.leave != "" || item.Op == syntax.Break {
			return ok, err
		}
		through = item.Op == syntax.Fallthrough
	}
	return true, nil
}

// input returns what a statement reads: a here-document, <<< TEXT, or < FILE.
func (sh *shell) input(st *syntax.Stmt) (text string, ok bool) {
	for _, rd := range st.Redirs {
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			text, ok = sh.hereDocument(rd)
		case syntax.WordHdoc:
			t, err := sh.literal(rd.Word)
			text, ok = t+"\n", err == nil
		case syntax.RdrIn:
			if name, err := sh.literal(rd.Word); err == nil {
				raw, err := sh.r.readFile(resolve(sh.dir, name))
				text, ok = string(raw), err == nil
			}
		}
	}
	return text, ok
}

// hereDocument returns its text: as it stands if its end word is quoted, else with its variables replaced.
func (sh *shell) hereDocument(rd *syntax.Redirect) (string, bool) {
	if rd.Hdoc == nil {
		return "", true
	}
	quoted := rd.Word.Lit() == "" || strings.Contains(rd.Word.Lit(), `\`)
	text := ""
	if quoted {
		for _, part := range rd.Hdoc.Parts {
			if lit, ok := part.(*syntax.Lit); ok {
				text += lit.Value
			}
		}
	} else {
		var err error
		if text, err = expand.Document(sh.config(), rd.Hdoc); err != nil {
			return "", false
		}
	}
	text = showMarks.Replace(text)
	if rd.Op == syntax.DashHdoc {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = strings.TrimLeft(lines[i], "\t")
		}
		text = strings.Join(lines, "\n")
	}
	return text, true
}

// output keeps what `cat > FILE`, `echo > FILE` and `tee FILE` write, for commands that read the file later.
func (sh *shell) output(st *syntax.Stmt) bool {
	words, ok := sh.words(st)
	if !ok || len(words) == 0 {
		return false
	}
	if words[0] == "sudo" {
		words = words[1:]
	}
	if len(words) > 1 && words[0] == "tee" {
		text, known := sh.input(st)
		if known {
			sh.r.write(resolve(sh.dir, words[len(words)-1]), text, words[1] == "-a")
		}
		return known
	}
	for _, rd := range st.Redirs {
		if rd.Op != syntax.RdrOut && rd.Op != syntax.AppOut && rd.Op != syntax.RdrClob || rd.N != nil && rd.N.Value != "1" {
			continue
		}
		name, err := sh.literal(rd.Word)
		if err != nil || strings.HasPrefix(name, "/dev/") {
			continue
		}
		if text, ok := sh.static(st); ok {
			if words[0] == "echo" {
				text += "\n"
			}
			sh.r.write(resolve(sh.dir, name), text, rd.Op == syntax.AppOut)
			return true
		}
	}
	return false
}

// read sets variables from the next line of the input.
func (sh *shell) read(words []string) (bool, error) {
	raw, array, whole := false, "", false
	i := 1
	for ; i < len(words) && strings.HasPrefix(words[i], "-"); i++ {
		raw = raw || strings.Contains(words[i], "r")
		switch {
		case strings.HasSuffix(words[i], "a") && i+1 < len(words):
			i++
			array = words[i]
		case strings.HasSuffix(words[i], "d") && i+1 < len(words):
			i++
			whole = words[i] == ""
		case strings.IndexByte("ptnNiu", words[i][len(words[i])-1]) >= 0:
			i++
		}
	}
	names := words[min(i, len(words)):]
	if len(names) == 0 && array == "" {
		names = []string{"REPLY"}
	}
	if sh.stdin == nil {
		sh.unknown = true
		for _, name := range names {
			if err := sh.Set(name, textVariable("<runtime:"+name+">")); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	line, rest, ended := strings.Cut(*sh.stdin, "\n")
	if whole {
		line, rest, ended = *sh.stdin, "", false
	}
	some := *sh.stdin != ""
	*sh.stdin = rest
	if array != "" {
		return some && ended, sh.Set(array, expand.Variable{Set: true, Kind: expand.Indexed, List: expand.ReadFields(sh.config(), line, -1, raw)})
	}
	fields := expand.ReadFields(sh.config(), line, len(names), raw)
	for i, name := range names {
		value := ""
		if i < len(fields) {
			value = fields[i]
		}
		if err := sh.Set(name, textVariable(value)); err != nil {
			return false, err
		}
	}
	return ended || some && !whole, nil
}

// mapfile reads the lines of the input into an array.
func (sh *shell) mapfile(words []string) error {
	name := words[len(words)-1]
	if strings.HasPrefix(name, "-") || len(words) == 1 {
		name = "MAPFILE"
	}
	list := []string{"<runtime:" + name + ">"}
	if sh.stdin != nil {
		list = strings.Split(strings.TrimSuffix(*sh.stdin, "\n"), "\n")
		if *sh.stdin == "" {
			list = nil
		}
	}
	return sh.Set(name, expand.Variable{Set: true, Kind: expand.Indexed, List: list})
}

// getopts takes the next option of the arguments.
func (sh *shell) getopts(words []string) (bool, error) {
	if len(words) < 3 {
		return false, nil
	}
	at := 1
	if v := sh.vars["OPTIND"]; v.Set {
		if _, err := fmt.Sscan(v.Str, &at); err != nil {
			return false, nil
		}
	}
	if at <= len(sh.args) && sh.args[at-1] == "--" {
		return false, sh.Set("OPTIND", textVariable(fmt.Sprint(at+1)))
	}
	if at > len(sh.args) || len(sh.args[at-1]) < 2 || sh.args[at-1][0] != '-' {
		return false, sh.Set("OPTIND", textVariable(fmt.Sprint(at)))
	}
	letter, value := sh.args[at-1][1:2], sh.args[at-1][2:]
	at++
	if !strings.Contains(words[1], letter) {
		letter = "?"
	}
	if strings.Contains(words[1], letter+":") && value == "" && at <= len(sh.args) {
		value = sh.args[at-1]
		at++
	}
	for name, text := range map[string]string{"OPTIND": fmt.Sprint(at), "OPTARG": value, words[2]: letter} {
		if err := sh.Set(name, textVariable(text)); err != nil {
			return false, err
		}
	}
	return true, nil
}

func textVariable(s string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: s}
}
