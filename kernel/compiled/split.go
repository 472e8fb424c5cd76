package compiled

import (
	"errors"
	"go/parser"
	"strings"

	"github.com/rooflab/rooflab/kernel/serve"
)

// parts are a cell's commands and its code. The code has the cell's lines, those of commands empty, so that
// positions stay right.
type parts struct {
	above, below []string
	code         string
}

// split finds the lines that begin with %, outside raw strings and comments: Go code has no such lines.
func split(cell string) (parts, error) {
	var p parts
	var in lexer
	lines := strings.Split(cell, "\n")
	begun := false // there was code
	for i, line := range lines {
		if in == outside && (strings.HasPrefix(line, "%") || strings.HasPrefix(line, "$")) {
			if strings.HasPrefix(line, "$") {
				return p, &serve.CellError{Name: "CommandError", Value: firstWord(line) + ": " + noShell}
			}
			if begun {
				p.below = append(p.below, line)
			} else {
				p.above = append(p.above, line)
			}
			lines[i] = ""
			continue
		}
		in = in.after(line)
		if in == outside && strings.TrimSpace(line) == "" {
			continue
		}
		begun = true
		if len(p.below) > 0 {
			return p, &serve.CellError{Name: "CommandError", Value: firstWord(p.below[0]) + " stands between lines of code: put it above or below them"}
		}
	}
	p.code = strings.Join(lines, "\n")
	return p, nil
}

func firstWord(line string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return word
}

// lexer is what the end of a line is inside of.
type lexer int

const (
	outside lexer = iota
	inRaw         // a raw string
	inComment
)

// after is what the end of the line is inside of when its beginning is inside of l.
func (l lexer) after(line string) lexer {
	for line != "" {
		switch l {
		case inRaw:
			_, rest, closed := strings.Cut(line, "`")
			if !closed {
				return l
			}
			l, line = outside, rest
		case inComment:
			_, rest, closed := strings.Cut(line, "*/")
			if !closed {
				return l
			}
			l, line = outside, rest
		default:
			i := strings.IndexAny(line, "`\"'/")
			if i < 0 {
				return l
			}
			c, rest := line[i], line[i+1:]
			line = rest
			switch {
			case c == '`':
				l = inRaw
			case c == '/' && strings.HasPrefix(rest, "/"):
				return l
			case c == '/' && strings.HasPrefix(rest, "*"):
				l, line = inComment, rest[1:]
			case c == '"' || c == '\'':
				line = afterQuote(rest, c)
			}
		}
	}
	return l
}

// afterQuote is what follows the end of an interpreted string or rune.
func afterQuote(s string, quote byte) string {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return s[i+1:]
		}
	}
	return ""
}

// hints are for what is no Go but usual in other notebooks.
var hints = []struct{ in, text string }{
	{"illegal character U+003F '?'", "? asks nothing here: put the cursor on a name and press Shift-Tab"},
	{": expected 1 expression", "a cell shows one expression, or all results of one call: write fmt.Println(a, b) for several"},
	{"too many return values\n\thave (error)\n\twant ()", "return at the top of a cell ends it and takes no value: write the error as the last line, or panic(err)"},
}

// hint says more about code that looks like the shell commands of other kernels.
func hint(err error, code string) error {
	var cell *serve.CellError
	if !errors.As(err, &cell) || cell.Name != "CompileError" {
		return err
	}
	for line := range strings.Lines(code) {
		if rest, ok := strings.CutPrefix(line, "!"); ok {
			if _, wrong := parser.ParseExpr(rest); wrong != nil || strings.Contains(cell.Value, "undefined: "+firstWord(rest)) {
				cell.Traceback = append(cell.Traceback, "! starts no program here: "+noShell)
				break
			}
		}
	}
	for _, h := range hints {
		if strings.Contains(cell.Value, h.in) {
			cell.Traceback = append(cell.Traceback, h.text)
		}
	}
	return err
}
