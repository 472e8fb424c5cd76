package session

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"sort"
	"strings"
)

// CellError is a fault in the text of a cell. Line and Col count from 1, Col in bytes.
type CellError struct {
	Cell, Line, Col int
	Msg             string // without a position
}

func (e *CellError) Error() string {
	return fmt.Sprintf("cell[%d]:%d:%d: %s", e.Cell, e.Line, e.Col, e.Msg)
}

// ErrorList is all that is wrong with a cell: one to ten faults, ordered by position.
type ErrorList []*CellError

const maxErrors = 10

func (l ErrorList) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find the first fault.
func (l ErrorList) Unwrap() []error {
	out := make([]error, len(l))
	for i, e := range l {
		out[i] = e
	}
	return out
}

// sorted orders faults, drops what is said twice about one place, and keeps the first ten.
func (l ErrorList) sorted() ErrorList {
	sort.SliceStable(l, func(i, j int) bool {
		a, b := l[i], l[j]
		if a.Cell != b.Cell {
			return a.Cell < b.Cell
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Col < b.Col
	})
	var out ErrorList
	for _, e := range l {
		if len(out) == 0 || *out[len(out)-1] != *e {
			out = append(out, e)
		}
	}
	return out[:min(len(out), maxErrors)]
}

// at is the position of a byte of the chunk in its cell. What lies outside the chunk gets its nearest byte.
func (k *chunk) at(off int) (line, col int) {
	off = max(0, min(off, len(k.text)))
	head := k.text[:off]
	line = k.line + strings.Count(head, "\n")
	if i := strings.LastIndexByte(head, '\n'); i >= 0 {
		return line, off - i
	}
	return line, k.col + off
}

func (k *chunk) fault(off int, msg string) *CellError {
	line, col := k.at(off)
	return &CellError{k.cell, line, col, msg}
}

// parse parses a chunk by itself, so that a fault in one does not show as a fault in the next. The file has one
// declaration; statements stand in a function. Shift is where the chunk begins in the parsed text.
func (k *chunk) parse(fset *token.FileSet, mode parser.Mode) (f *ast.File, shift int, err error) {
	head, tail := "package p;", "\n"
	if k.kind == kStmt {
		head, tail = "package p; func _() {", "\n}"
	}
	f, err = parser.ParseFile(fset, "", head+k.text+tail, mode|parser.SkipObjectResolution)
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		if err == nil && len(f.Decls) != 1 {
			err = ErrorList{k.fault(0, "brackets do not match")}
		}
		return f, len(head), err
	}
	var faults ErrorList
	for _, e := range list {
		msg := e.Msg
		off := e.Pos.Offset - len(head)
		if off > len(k.text) { // the fault is that the text ends here, or one that was found before
			if len(faults) > 0 {
				break
			}
			off = len(k.text)
			if i := strings.Index(msg, ", found "); i >= 0 {
				msg = msg[:i] + ", found the end of the cell"
			}
		}
		faults = append(faults, k.fault(off, msg))
	}
	return f, len(head), faults.sorted()
}

// decl parses a declaration chunk.
func (k *chunk) decl() (ast.Decl, error) {
	f, _, err := k.parse(token.NewFileSet(), 0)
	if err != nil {
		return nil, err
	}
	return f.Decls[0], nil
}

// syntax parses all chunks, one by one, and returns what is wrong with them.
func syntax(chunks []*chunk) error {
	var all ErrorList
	for _, k := range chunks {
		_, _, err := k.parse(token.NewFileSet(), 0)
		var l ErrorList
		if errors.As(err, &l) {
			all = append(all, l...)
		} else if err != nil {
			return err
		}
	}
	if len(all) > 0 {
		return all.sorted()
	}
	return nil
}

var (
	compilerLine  = regexp.MustCompile(`^cell\[(\d+)\]:(\d+)(?::(\d+))?: (.*)$`)
	emittedPrefix = regexp.MustCompile(`(?:nb/c\d+|` + own + `(?:c\d+|main|rt))\.`)
)

// Refused words what the compiler or the linker says of a unit's source: with the names that the user wrote, and as an
// ErrorList where it has positions. An error of another kind is returned as it is.
func Refused(err error) error {
	var faults ErrorList
	if err == nil || errors.As(err, &faults) {
		return err
	}
	for _, l := range strings.Split(err.Error(), "\n") {
		m := compilerLine.FindStringSubmatch(l)
		switch {
		case m != nil:
			e := &CellError{Msg: original(m[4]), Col: 1}
			fmt.Sscan(m[1], &e.Cell)
			fmt.Sscan(m[2], &e.Line)
			fmt.Sscan(m[3], &e.Col)
			faults = append(faults, e)
		case len(faults) > 0 && strings.HasPrefix(l, "\t"): // goes on about the one before
			faults[len(faults)-1].Msg += "\n" + original(l)
		}
	}
	if len(faults) == 0 {
		return err
	}
	return faults.sorted()
}

// original gives a text of the emitted world the names of the checked one.
func original(s string) string {
	return strings.ReplaceAll(emittedPrefix.ReplaceAllString(s, ""), Prefix, "")
}
