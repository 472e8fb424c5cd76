package launch

import (
	"fmt"
	"io/fs"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// call runs a simple command: builtins change the shell, other programs are looked at with the environment they get.
func (sh *shell) call(c *syntax.CallExpr) (bool, error) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			if err := sh.assign(a, false); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	words, err := sh.fields(c.Args)
	if err != nil || len(words) == 0 {
		return err == nil, err
	}
	old := map[string]expand.Variable{}
	for _, a := range c.Assigns { // NAME=VALUE before a command is for that command only
		if a.Name != nil {
			old[a.Name.Value] = sh.vars[a.Name.Value]
			if err := sh.assign(a, true); err != nil {
				return false, err
			}
		}
	}
	defer func() {
		for name, v := range old {
			if sh.vars[name] = v; !v.IsSet() && !v.Exported {
				delete(sh.vars, name)
			}
		}
	}()
	if body, ok := sh.funcs[words[0]]; ok {
		args := sh.args
		sh.args = words[1:]
		ok, err := sh.stmt(body)
		if sh.args = args; sh.leave == "return" {
			sh.leave = ""
		}
		return ok, err
	}
	if done, ok, err := sh.builtin(words); done || err != nil {
		return ok, err
	}
	return sh.program(words)
}

// program looks at a program that the shell starts. What it would answer is not known; it is taken to succeed.
func (sh *shell) program(words []string) (bool, error) {
	if isShell(path.Base(words[0])) && sh.stdin != nil && !slices.ContainsFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") || strings.Contains(w, "c") }) {
		sub := newShell(sh.r, sh.environ(), sh.dir) // bash <<EOF
		return true, sub.run(words[0], *sh.stdin)
	}
	if err := sh.r.command(words, sh.environ(), sh.dir); err != nil {
		return false, err
	}
	sh.unknown, sh.asked = true, words[0]
	if words[0] == "exec" && len(words) > 1 && sh.r.found == nil {
		sh.leave = "exit"
	}
	return true, nil
}

// builtin runs the builtins that matter; done is false for other words.
func (sh *shell) builtin(words []string) (done, ok bool, err error) {
	switch words[0] {
	case "unset":
		for _, name := range words[1:] {
			delete(sh.vars, name)
		}
	case "source", ".":
		if len(words) > 1 {
			return true, true, sh.source(words[1])
		}
	case "cd", "pushd":
		if len(words) > 1 {
			sh.dir, sh.moved = resolve(sh.dir, words[len(words)-1]), true
		}
	case "exit", "return", "break", "continue":
		sh.leave = words[0]
		return true, len(words) < 2 || words[1] == "0", nil
	case "read":
		ok, err := sh.read(words)
		return true, ok, err
	case "mapfile", "readarray":
		return true, true, sh.mapfile(words)
	case "getopts":
		ok, err := sh.getopts(words)
		return true, ok, err
	case "set":
		sh.set(words[1:])
	case "shift":
		n := 1
		if len(words) > 1 {
			n, _ = strconv.Atoi(words[1])
		}
		if n < 0 || n > len(sh.args) {
			return true, false, nil
		}
		sh.args = sh.args[n:]
	case "eval":
		return true, true, sh.run("eval", strings.Join(words[1:], " "))
	case "[", "test":
		args := words[1:]
		if words[0] == "[" && len(args) > 0 && args[len(args)-1] == "]" {
			args = args[:len(args)-1]
		}
		return true, sh.testWords(args), nil
	case "true", ":":
	case "false":
		return true, false, nil
	default:
		return false, true, nil
	}
	return true, true, nil
}

func (sh *shell) set(opts []string) {
	for i, o := range opts {
		switch {
		case o == "--":
			sh.args = opts[i+1:]
			return
		case strings.HasPrefix(o, "-") && strings.Contains(o, "a"), o == "allexport" && i > 0 && opts[i-1] == "-o":
			sh.allexport = true
		case strings.HasPrefix(o, "+") && strings.Contains(o, "a"), o == "allexport" && i > 0 && opts[i-1] == "+o":
			sh.allexport = false
		}
	}
}

// source runs a file in the same shell. Files that are not there (a virtual environment's activate) are noted.
func (sh *shell) source(name string) error {
	if sh.r.depth++; sh.r.depth > maxDepth {
		return fmt.Errorf("source %s: more than %d files source each other", name, maxDepth)
	}
	defer func() { sh.r.depth-- }()
	file := resolve(sh.dir, name)
	raw, err := sh.r.readFile(file)
	if err != nil {
		sh.r.note("sourced_file_absent", name, "sourced file is not among the files; what it sets is not known")
		return nil
	}
	return sh.run(file, string(raw))
}

// test decides [[ ... ]].
func (sh *shell) test(x syntax.TestExpr) (bool, error) {
	switch t := x.(type) {
	case *syntax.ParenTest:
		return sh.test(t.X)
	case *syntax.Word:
		s, err := sh.literal(t)
		return s != "", err
	case *syntax.UnaryTest:
		if t.Op == syntax.TsNot {
			ok, err := sh.test(t.X)
			return !ok, err
		}
		w, ok := t.X.(*syntax.Word)
		if !ok {
			return false, nil
		}
		s, err := sh.literal(w)
		return err == nil && sh.unary(t.Op.String(), s), err
	case *syntax.BinaryTest:
		return sh.binaryTest(t)
	}
	return false, nil
}

func (sh *shell) binaryTest(t *syntax.BinaryTest) (bool, error) {
	switch t.Op {
	case syntax.AndTest, syntax.OrTest:
		ok, err := sh.test(t.X)
		if err != nil || ok == (t.Op == syntax.OrTest) {
			return ok, err
		}
		return sh.test(t.Y)
	}
	xw, okX := t.X.(*syntax.Word)
	yw, okY := t.Y.(*syntax.Word)
	if !okX || !okY {
		return false, nil
	}
	x, err := sh.literal(xw)
	if err != nil {
		return false, err
	}
	switch t.Op {
	case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
		ok, err := sh.matches(x, yw)
		return ok != (t.Op == syntax.TsNoMatch), err
	}
	y, err := sh.literal(yw)
	if err != nil {
		return false, err
	}
	if t.Op == syntax.TsReMatch {
		re, err := regexp.Compile(y)
		if err != nil {
			return false, nil
		}
		found := re.FindStringSubmatch(x)
		return found != nil, sh.Set("BASH_REMATCH", expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, found...)})
	}
	return sh.compare(x, t.Op.String(), y), nil
}

// matches reports whether the pattern matches all of the text.
func (sh *shell) matches(text string, p *syntax.Word) (bool, error) {
	pat, err := expand.Pattern(sh.config(), p)
	if err != nil {
		return false, err
	}
	expr, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return text == pat, nil
	}
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString(text), nil
}

func (sh *shell) unary(op, s string) bool {
	switch op {
	case "-n":
		return s != ""
	case "-z":
		return s == ""
	case "-v":
		return sh.Get(s).IsSet()
	case "-f", "-e", "-r", "-s", "-d", "-x":
		name := path.Clean(resolve(sh.dir, s))
		if _, ok := sh.r.written[name]; ok {
			return op != "-d"
		}
		sh.unknown = true // the machine may have files that were not given
		if sh.r.fsys == nil {
			return false
		}
		st, err := fs.Stat(sh.r.fsys, name)
		return err == nil && st.IsDir() == (op == "-d" || op == "-e" && st.IsDir())
	}
	return false
}

// testWords decides [ ... ] with up to three words and a negation.
func (sh *shell) testWords(args []string) bool {
	if len(args) > 0 && args[0] == "!" {
		return !sh.testWords(args[1:])
	}
	for _, op := range []string{"-o", "-a"} {
		if i := slices.Index(args, op); len(args) > 4 && i > 0 {
			left, right := sh.testWords(args[:i]), sh.testWords(args[i+1:])
			return left && right || op == "-o" && (left || right)
		}
	}
	switch len(args) {
	case 1:
		return args[0] != ""
	case 2:
		return sh.unary(args[0], args[1])
	case 3:
		return sh.compare(args[0], args[1], args[2])
	}
	return false
}

func (sh *shell) compare(x, op, y string) bool {
	sh.unknown = sh.unknown || strings.Contains(x+y, "<runtime:")
	return compare(x, op, y)
}

// compare decides a comparison of two words, numbers with -eq and the like.
func compare(x, op, y string) bool {
	switch op {
	case "=", "==":
		return x == y
	case "!=":
		return x != y
	case "<":
		return x < y
	case ">":
		return x > y
	}
	a, okA := new(big.Int).SetString(x, 10)
	b, okB := new(big.Int).SetString(y, 10)
	if !okA || !okB {
		return false
	}
	order := a.Cmp(b)
	switch op {
	case "-eq":
		return order == 0
	case "-ne":
		return order != 0
	case "-lt":
		return order < 0
	case "-le":
		return order <= 0
	case "-gt":
		return order > 0
	case "-ge":
		return order >= 0
	}
	return false
}
