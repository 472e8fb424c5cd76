package assist

import (
	"bytes"
	"go/scanner"
	"go/token"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mark is put at the cursor, so that what is written there is an identifier: "fmt." becomes "fmt.𐲀cursor", and so does
// a keyword that is only the beginning of a name.
const mark = "𐲀cursor"

// piece is a top-level declaration or statement of a cell.
type piece struct {
	off, end int    // in the text
	decl     bool   // it stands outside functions
	imports  bool   // it is an import
	closers  string // what closes the brackets that it leaves open
	depth    int    // how many these are
	needs    bool   // the header of a for, if or switch has no block
}

// lexeme is a token with its place.
type lexeme struct {
	tok      token.Token
	lit      string
	off, end int
	open     bool // a string or comment that does not end
}

// lex scans a text that may be broken.
func lex(text string) []lexeme {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var bad []int
	var s scanner.Scanner
	s.Init(file, []byte(text), func(p token.Position, msg string) {
		if strings.HasSuffix(msg, "not terminated") {
			bad = append(bad, p.Offset)
		}
	}, scanner.ScanComments)
	var out []lexeme
	for {
		pos, tok, lit := s.Scan()
		l := lexeme{tok: tok, lit: lit, off: file.Offset(pos)}
		if tok == token.EOF {
			return out
		}
		l.end = l.off + len(tok.String())
		switch {
		case tok == token.SEMICOLON && lit == "\n":
			l.end = l.off
		case tok == token.STRING && text[l.off] == '`', tok == token.COMMENT: // their carriage returns are not in lit
			l.end = l.off + rawLength(text[l.off:])
		case lit != "":
			l.end = l.off + len(lit)
		}
		l.end = min(l.end, len(text))
		l.open = len(bad) > 0 && bad[len(bad)-1] == l.off && (tok == token.STRING || tok == token.CHAR || tok == token.COMMENT)
		out = append(out, l)
	}
}

// rawLength is the length of the raw string or comment that begins text.
func rawLength(text string) int {
	end, skip := "\n", 0
	switch {
	case strings.HasPrefix(text, "`"):
		end, skip = "`", 1
	case strings.HasPrefix(text, "/*"):
		end, skip = "*/", 2
	}
	i := strings.Index(text[skip:], end)
	switch {
	case i < 0:
		return len(text)
	case end == "\n":
		return len(strings.TrimRight(text[:i], "\r"))
	}
	return skip + i + len(end)
}

// blank overwrites what is no Go, byte for byte: lines that begin with %, and a package clause. Of a command in goArgs
// the arguments stay. Foreign tells that the whole cell is in another language.
func blank(code string, goArgs ...string) (text string, foreign bool) {
	if first, _, _ := strings.Cut(code, "\n"); strings.HasPrefix(first, "%%") && len(strings.TrimSpace(first)) > 2 {
		return strings.Repeat(" ", len(code)), true
	}
	b := []byte(code)
	for from := 0; from < len(b); {
		from += blankNext(b[from:], goArgs)
	}
	return string(b), false
}

// blankNext overwrites the next command or package clause and returns where to go on.
func blankNext(b []byte, goArgs []string) int {
	begins := true // a piece
	for _, l := range lex(string(b)) {
		end := lineEnd(b, l.off)
		switch {
		case l.tok == token.COMMENT:
			continue
		case (l.tok == token.REM || l.tok == token.REM_ASSIGN) && (l.off == 0 || b[l.off-1] == '\n'):
			for _, name := range goArgs {
				if line := b[l.off:end]; bytes.HasPrefix(line, []byte(name+" ")) {
					fill(b, l.off, l.off+len(name))
					return l.off
				}
			}
			fill(b, l.off, end)
			return end
		case l.tok == token.PACKAGE && begins:
			fill(b, l.off, end)
			return end
		}
		begins = l.tok == token.SEMICOLON
	}
	return len(b)
}

func lineEnd(b []byte, off int) int {
	if i := bytes.IndexByte(b[off:], '\n'); i >= 0 {
		return off + i
	}
	return len(b)
}

func fill(b []byte, off, end int) {
	for i := off; i < end; i++ {
		b[i] = ' '
	}
}

var closing = map[token.Token]token.Token{token.LPAREN: token.RPAREN, token.LBRACK: token.RBRACK, token.LBRACE: token.RBRACE}

// cut divides a text into pieces, as package session does, but whatever its state. A closing bracket that nothing
// opened is overwritten; after a bracket that stays open, a line that begins with a declaration begins a piece.
func cut(text string) ([]piece, string) {
	b := []byte(text)
	lexemes := lex(text)
	pieces, from := cutAt(b, lexemes, false)
	if n := len(pieces); n > 0 && pieces[n-1].closers != "" {
		last, _ := cutAt(b, lexemes[from:], true)
		pieces = append(pieces[:n-1], last...)
	}
	return pieces, string(b)
}

// cutAt also returns where in lexemes the last piece begins.
func cutAt(b []byte, lexemes []lexeme, atLines bool) (pieces []piece, last int) {
	var open []bracket
	first, end := -1, 0
	flush := func(next int) {
		if first < 0 {
			return
		}
		p := describe(lexemes[first:next])
		p.off, p.end = lexemes[first].off, end
		for i := len(open) - 1; i >= 0; i-- {
			p.closers += open[i].close()
		}
		p.depth = len(open)
		if len(open) > 0 { // what follows is inside the brackets
			p.end = len(b)
			if next < len(lexemes) {
				p.end = lexemes[next].off
			}
		}
		pieces, last = append(pieces, p), first
		first, open = -1, open[:0]
	}
	for i, l := range lexemes {
		switch {
		case l.tok == token.COMMENT, l.tok == token.SEMICOLON && first < 0:
			continue
		case l.tok == token.SEMICOLON && len(open) == 0:
			if l.lit == "\n" || !headerOpen(lexemes[first:i]) {
				flush(i)
				continue
			}
		case atLines && len(open) > 0 && declares(lexemes[i:]) && (l.off == 0 || b[l.off-1] == '\n'):
			flush(i)
		}
		switch l.tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			open = append(open, bracket{l.tok, first >= 0 && launches(lexemes[first:i])})
		case token.RPAREN, token.RBRACK, token.RBRACE:
			k := len(open) - 1
			for k >= 0 && closing[open[k].tok] != l.tok {
				k--
			}
			if k < 0 {
				b[l.off] = ' '
				continue
			}
			open = open[:k]
		}
		if first < 0 {
			first = i
		}
		if l.end > l.off {
			end = l.end
		}
	}
	flush(len(lexemes))
	return pieces, last
}

// bracket is one that is open.
type bracket struct {
	tok  token.Token
	call bool // what it encloses is a function that go or defer must call
}

func (b bracket) close() string {
	if b.tok == token.LBRACE && b.call {
		return "}()"
	}
	return closing[b.tok].String()
}

// launches tells whether tokens end with the head of a function literal behind go or defer.
func launches(l []lexeme) bool {
	depth := 0
	for i := len(l) - 1; i > 0; i-- {
		switch l[i].tok {
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth++
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth--
		case token.FUNC:
			if depth == 0 {
				return l[i-1].tok == token.GO || l[i-1].tok == token.DEFER
			}
		case token.SEMICOLON:
			if depth == 0 {
				return false
			}
		}
		if depth < 0 {
			return false
		}
	}
	return false
}

// declares tells whether tokens at the beginning of a line are surely a declaration.
func declares(l []lexeme) bool {
	switch l[0].tok {
	case token.FUNC:
		return len(l) > 1 && l[1].tok == token.IDENT
	case token.TYPE, token.VAR, token.CONST, token.IMPORT:
		return true
	}
	return false
}

// describe finds out what a piece is.
func describe(l []lexeme) (p piece) {
	at := func(i int) token.Token {
		if i < len(l) {
			return l[i].tok
		}
		return token.EOF
	}
	p.needs = headerOpen(l)
	switch at(0) {
	case token.IMPORT:
		p.decl, p.imports = true, true
	case token.TYPE, token.CONST, token.VAR:
		p.decl = true
	case token.FUNC:
		if at(1) == token.IDENT {
			p.decl = true
			break
		}
		i, depth := 1, 0
		for ; i < len(l); i++ {
			if at(i) == token.LPAREN {
				depth++
			} else if at(i) == token.RPAREN {
				if depth--; depth == 0 {
					break
				}
			}
		}
		p.decl = at(1) == token.LPAREN && at(i+1) == token.IDENT && at(i+2) == token.LPAREN
	}
	return p
}

// headerOpen tells whether tokens are a for, if, switch or select whose block is not complete.
func headerOpen(l []lexeme) bool {
	for len(l) > 2 && l[0].tok == token.IDENT && l[1].tok == token.COLON {
		l = l[2:]
	}
	switch l[0].tok {
	case token.FOR, token.IF, token.SWITCH, token.SELECT:
		return l[len(l)-1].tok != token.RBRACE
	}
	return false
}

// before returns where the identifier begins that ends at off.
func before(text string, off int) int {
	for off > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:off])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		off -= n
	}
	return off
}
