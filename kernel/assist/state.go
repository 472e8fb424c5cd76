package assist

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// State tells whether a cell can be run: "complete", "incomplete" with the indent of the next line, "invalid", or
// "unknown" for what is no text.
func (a *Assist) State(code string) (state, indent string) {
	if !utf8.ValidString(code) {
		return "unknown", ""
	}
	text, foreign := blank(code)
	if foreign {
		return "complete", ""
	}
	lexemes := lex(text)
	for _, l := range lexemes {
		if l.open && (l.tok == token.COMMENT || text[l.off] == '`') {
			return "incomplete", "" // what follows is text
		}
	}
	pieces, mended := cut(text)
	if mended != text { // a bracket that nothing opened
		return "invalid", ""
	}
	for i, p := range pieces {
		switch parseState(strings.TrimSpace(text[p.off:p.end]), p.decl) {
		case "incomplete":
			if i == len(pieces)-1 {
				return "incomplete", strings.Repeat("\t", p.depth)
			}
			return "invalid", ""
		case "invalid":
			return "invalid", ""
		}
	}
	return "complete", ""
}

// parseState judges one piece. A statement is parsed twice: with the end of its function, to see whether it is whole,
// and without, to see whether the parser stops before the end of the text.
func parseState(text string, decl bool) string {
	head, tail := "package p;", "\n"
	if !decl {
		head, tail = "package p;func _(){", "\n}"
	}
	if firstError(head+text+tail) < 0 {
		return "complete"
	}
	if firstError(head+text) < len(head)+len(text) {
		return "invalid"
	}
	return "incomplete"
}

// firstError is the offset of the first syntax error, or -1.
func firstError(src string) int {
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if list, ok := err.(scanner.ErrorList); ok && len(list) > 0 {
		return list[0].Pos.Offset
	}
	return -1
}
