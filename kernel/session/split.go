package session

import (
	"go/scanner"
	"go/token"
	"go/types"
	"strings"
)

// kind is what a chunk is.
type kind int

const (
	kStmt kind = iota
	kImport
	kFunc
	kMethod
	kType
	kConst
	kVar
)

// chunk is one top-level declaration or statement.
type chunk struct {
	kind      kind
	text      string
	cell      int               // the cell it was written in
	line, col int               // position of its first byte there
	quiet     bool              // a ';' follows: do not display
	defines   []string          // names that it declares at top level; not methods
	name      string            // of a function or method
	recv      string            // receiver base type of a method
	adopted   bool              // taken over from an earlier cell
	pragma    string            // //go: directives before a declaration
	pragmaAt  int               // the line where they begin
	doc       string            // comments directly before an import
	docLine   int               // where they begin
	embeds    map[string]string // variables that embed files -> their directives
	migrate   types.Object      // an earlier variable that gets the new version of its type

	off, end int // where it lies in the checked text
}

// split cuts a cell into chunks. Go's automatic semicolons do most of the work: a chunk ends at a semicolon
// outside all brackets, except that the semicolons in the header of for, if, switch do not count.
func split(n int, src string) (chunks []*chunk, isMain bool, err error) {
	fset := token.NewFileSet()
	file := fset.AddFile("cell", -1, len(src))
	var sc scanner.Scanner
	var faults ErrorList
	sc.Init(file, []byte(src), func(p token.Position, msg string) {
		p = file.PositionFor(file.Pos(p.Offset), false)
		faults = append(faults, &CellError{n, p.Line, p.Column, msg})
	}, scanner.ScanComments)

	var before lead
	var toks []token.Token
	var lits []string
	start, depth := -1, 0
	var lastEnd int
	flush := func(quiet bool) {
		if start < 0 {
			return
		}
		p := file.PositionFor(file.Pos(start), false)
		c := &chunk{text: src[start:lastEnd], cell: n, line: p.Line, col: p.Column, quiet: quiet, pragma: before.pragma, pragmaAt: before.pragmaLine}
		if before.end == p.Line-1 {
			c.doc, c.docLine = before.text, before.line
		}
		before = lead{}
		classify(c, toks, lits)
		start, depth, toks, lits = -1, 0, toks[:0], lits[:0]
		if c.kind == kStmt && strings.HasPrefix(c.text, "package ") && len(chunks) == 0 {
			isMain = strings.TrimSpace(c.text) == "package main"
			return
		}
		chunks = append(chunks, c)
	}
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			flush(false)
			break
		}
		if tok == token.COMMENT {
			at := file.PositionFor(pos, false)
			if at.Column == 1 && strings.HasPrefix(lit, "//go:linkname ") {
				faults = append(faults, &CellError{n, at.Line, 1, "//go:linkname cannot be used in a cell"})
			}
			if start < 0 {
				before.add(at, lit)
			}
			continue
		}
		if tok == token.SEMICOLON && start < 0 {
			continue
		}
		if tok == token.SEMICOLON && depth <= 0 {
			if lit == ";" && headerOpen(toks) {
				toks, lits = append(toks, tok), append(lits, lit)
				continue
			}
			flush(lit == ";")
			continue
		}
		off := file.Offset(pos)
		if start < 0 {
			start = off
		}
		switch tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			if depth--; depth < 0 { // what follows is noise
				at := file.PositionFor(pos, false)
				return nil, false, append(faults, &CellError{n, at.Line, at.Column, "unexpected " + tok.String()}).sorted()
			}
		case token.IDENT:
			if strings.HasPrefix(lit, Prefix) {
				at := file.PositionFor(pos, false)
				faults = append(faults, &CellError{n, at.Line, at.Column, "names that begin with " + Prefix + " are the kernel's own"})
			}
		}
		toks, lits = append(toks, tok), append(lits, lit)
		if !(tok == token.SEMICOLON && lit == "\n") { // not an automatic one
			if lit == "" {
				lit = tok.String()
			}
			lastEnd = min(off+len(lit), len(src))
			if tok == token.STRING { // raw strings lose carriage returns in lit
				if e := strings.IndexByte(src[off+1:], src[off]); src[off] == '`' && e >= 0 {
					lastEnd = off + e + 2
				}
			}
		}
	}
	if len(faults) > 0 {
		return nil, false, faults.sorted()
	}
	return chunks, isMain, nil
}

// lead is the comments before a chunk.
type lead struct {
	text       string // the last group, without a blank line in it
	line, end  int    // its first and last line
	pragma     string
	pragmaLine int
}

func (l *lead) add(at token.Position, text string) {
	if l.text == "" || at.Line != l.end+1 {
		l.text, l.line = "", at.Line
	}
	l.text += text + "\n"
	l.end = at.Line + strings.Count(text, "\n")
	if at.Column == 1 && strings.HasPrefix(text, "//go:") {
		if l.pragma == "" {
			l.pragmaLine = at.Line
		}
		l.pragma += strings.TrimSpace(text) + "\n"
	}
}

// headerOpen reports whether the tokens so far are a for, if, switch or select whose block is not complete.
func headerOpen(toks []token.Token) bool {
	i := 0
	for i+1 < len(toks) && toks[i] == token.IDENT && toks[i+1] == token.COLON {
		i += 2
	}
	if i >= len(toks) {
		return false
	}
	switch toks[i] {
	case token.FOR, token.IF, token.SWITCH, token.SELECT:
		return toks[len(toks)-1] != token.RBRACE
	}
	return false
}

func classify(c *chunk, toks []token.Token, lits []string) {
	at := func(i int) token.Token {
		if i < len(toks) {
			return toks[i]
		}
		return token.EOF
	}
	switch at(0) {
	case token.IMPORT:
		c.kind = kImport
	case token.TYPE:
		c.kind = kType
	case token.CONST:
		c.kind = kConst
	case token.VAR:
		c.kind = kVar
	case token.FUNC:
		if at(1) == token.IDENT {
			c.kind, c.name = kFunc, lits[1]
		} else if at(1) == token.LPAREN {
			d, j := 0, 1
			for ; j < len(toks); j++ {
				if toks[j] == token.LPAREN {
					d++
				} else if toks[j] == token.RPAREN {
					if d--; d == 0 {
						break
					}
				}
			}
			if at(j+1) == token.IDENT && at(j+2) == token.LPAREN {
				c.kind, c.name = kMethod, lits[j+1]
			}
		}
	case token.IDENT: // a, b := ...
		for i := 0; at(i) == token.IDENT; i += 2 {
			c.defines = append(c.defines, lits[i])
			if at(i+1) == token.DEFINE {
				return
			}
			if at(i+1) != token.COMMA {
				break
			}
		}
		c.defines = nil
	}
}
