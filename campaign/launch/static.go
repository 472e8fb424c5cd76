package launch

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// substitute answers $(...) where the files can: dirname, basename, echo, cat, pwd and the like. Else a mark is left.
func (sh *shell) substitute(w io.Writer, cs *syntax.CmdSubst) error {
	text, ok := sh.staticList(cs.Stmts)
	if !ok {
		text = "<runtime:" + sh.mark(cs.Stmts) + ">"
		sh.unknown = true
	}
	_, err := io.WriteString(w, text)
	return err
}

// mark names what only the run knows: the variable that it is for, else the command.
func (sh *shell) mark(list []*syntax.Stmt) string {
	if sh.assigning != "" {
		return sh.assigning
	}
	if len(list) > 0 {
		if call, ok := list[0].Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() != "" {
			return call.Args[0].Lit()
		}
	}
	return "command"
}

// procSubst puts what <(...) prints into a file of the reader, if it is known.
func (sh *shell) procSubst(ps *syntax.ProcSubst) (string, error) {
	name := "/dev/fd/" + fmt.Sprint(len(sh.r.written)+3)
	if text, ok := sh.staticList(ps.Stmts); ok && ps.Op == syntax.CmdIn {
		sh.r.write(name, text, false)
	}
	return name, nil
}

// staticList answers what statements print: one, or cd DIR and pwd.
func (sh *shell) staticList(list []*syntax.Stmt) (string, bool) {
	switch len(list) {
	case 1:
		return sh.static(list[0])
	case 2:
		return sh.pwd(list[0], list[1])
	}
	return "", false
}

func (sh *shell) pwd(first, second *syntax.Stmt) (string, bool) {
	cd, ok := sh.words(first)
	pwd, both := sh.words(second)
	if ok && both && len(cd) > 1 && cd[0] == "cd" && len(pwd) > 0 && pwd[0] == "pwd" {
		return cd[len(cd)-1], true
	}
	return "", false
}

func (sh *shell) static(st *syntax.Stmt) (string, bool) {
	if and, ok := st.Cmd.(*syntax.BinaryCmd); ok {
		switch and.Op {
		case syntax.AndStmt:
			return sh.pwd(and.X, and.Y)
		case syntax.Pipe:
			text, ok := sh.static(and.X)
			if !ok {
				return "", false
			}
			words, ok := sh.words(and.Y)
			if !ok || len(words) == 0 {
				return "", false
			}
			return filter(words, text)
		}
		return "", false
	}
	input, hasInput := sh.input(st)
	if st.Cmd == nil { // $(< FILE)
		return input, hasInput
	}
	words, ok := sh.words(st)
	if !ok || len(words) == 0 {
		return "", false
	}
	arg := words[len(words)-1]
	switch words[0] {
	case "dirname":
		return path.Dir(arg), len(words) > 1
	case "basename":
		return strings.TrimSuffix(path.Base(words[min(1, len(words)-1)]), suffix(words)), len(words) > 1
	case "echo":
		return strings.Join(words[1:], " "), true
	case "printf":
		return sh.printf(words[1:])
	case "realpath", "readlink":
		return arg, len(words) > 1
	case "pwd":
		return "/" + strings.TrimPrefix(sh.dir, "."), sh.moved
	case "seq":
		return seq(words[1:])
	}
	file := ""
	if len(words) > 1 && !hasInput && (words[0] == "cat" || words[0] == "grep" || words[0] == "head" || words[0] == "sed") {
		if words[0] != "cat" && len(words) < 3 {
			return "", false
		}
		file = arg
		raw, err := sh.r.readFile(resolve(sh.dir, file))
		if err != nil {
			return "", false
		}
		input, hasInput, words = string(raw), true, words[:len(words)-1]
	}
	if !hasInput {
		return "", false
	}
	return filter(words, input)
}

func suffix(words []string) string {
	if len(words) == 3 {
		return words[2]
	}
	return ""
}

func (sh *shell) printf(words []string) (string, bool) {
	if len(words) == 0 || strings.HasPrefix(words[0], "-v") {
		return "", false
	}
	var out strings.Builder
	args := words[1:]
	for {
		text, used, err := expand.Format(sh.config(), words[0], args)
		if err != nil {
			return "", false
		}
		out.WriteString(text)
		if args = args[min(used, len(args)):]; used == 0 || len(args) == 0 {
			return out.String(), true
		}
	}
}

// filter answers what a simple program makes of its input: cat, xargs, grep, head -1, tr -d.
func filter(words []string, text string) (string, bool) {
	switch {
	case words[0] == "cat" && (len(words) == 1 || words[1] == "-"):
		return text, true
	case words[0] == "xargs" && (len(words) == 1 || words[1] == "-0" || len(words) == 3 && words[1] == "-d"):
		items, err := shellWords(text)
		return strings.Join(items, " "), err == nil
	case words[0] == "head" && (arg(words) == "-1" || arg(words) == "-n1" || len(words) == 3 && words[1] == "-n" && words[2] == "1"):
		first, _, _ := strings.Cut(text, "\n")
		return first, true
	case words[0] == "tr" && len(words) == 3 && words[1] == "-d" && len(strings.Trim(words[2], `\rn"'`)) == 0:
		return strings.NewReplacer(dropped(words[2])...).Replace(text), true
	case words[0] == "grep" && len(words) >= 2:
		return grep(words[1:], text)
	}
	return "", false
}

func arg(words []string) string { return words[len(words)-1] }

func dropped(set string) []string {
	var pairs []string
	for set != "" {
		n := 1
		if set[0] == '\\' && len(set) > 1 {
			n = 2
		}
		c, err := strconv.Unquote(`"` + set[:n] + `"`)
		if err != nil {
			c = set[:n]
		}
		pairs, set = append(pairs, c, ""), set[n:]
	}
	return pairs
}

func grep(words []string, text string) (string, bool) {
	invert := false
	for len(words) > 1 {
		switch opts := words[0]; {
		case !strings.HasPrefix(opts, "-") || strings.Trim(opts[1:], "vEe") != "":
			return "", false
		default:
			invert = invert || strings.Contains(opts, "v")
		}
		words = words[1:]
	}
	re, err := regexp.Compile(strings.ReplaceAll(words[0], `\|`, "|"))
	if err != nil {
		return "", false
	}
	var kept []string
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if re.MatchString(line) != invert {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n"), true
}

// seq answers seq(1): [-s SEPARATOR] [FIRST] LAST.
func seq(words []string) (string, bool) {
	sep := "\n"
	if len(words) > 0 && strings.HasPrefix(words[0], "-s") {
		if sep = words[0][2:]; sep == "" && len(words) > 1 {
			sep, words = words[1], words[1:]
		}
		words = words[1:]
	}
	first, last := 1, 0
	var err error
	switch len(words) {
	case 2:
		if first, err = strconv.Atoi(words[0]); err != nil {
			return "", false
		}
		words = words[1:]
		fallthrough
	case 1:
		if last, err = strconv.Atoi(words[0]); err != nil || last-first > maxRounds {
			return "", false
		}
	default:
		return "", false
	}
	var items []string
	for i := first; i <= last; i++ {
		items = append(items, strconv.Itoa(i))
	}
	return strings.Join(items, sep), true
}
