package assist

import (
	"go/token"
	"sort"
	"strings"

	"github.com/rooflab/rooflab/kernel/serve"
)

// opaque tells whether names mean nothing inside a token.
func opaque(l lexeme) bool {
	switch l.tok {
	case token.COMMENT, token.STRING, token.CHAR, token.INT, token.FLOAT, token.IMAG:
		return true
	}
	return false
}

// endsInside tells whether a cursor directly behind a token still belongs to it: numbers and comments that end with
// their line go on.
func endsInside(l lexeme, text string) bool {
	switch l.tok {
	case token.INT, token.FLOAT, token.IMAG:
		return true
	case token.COMMENT:
		return strings.HasPrefix(text[l.off:], "//")
	}
	return false
}

// importPath tells whether a string token is the path of an import, and what of it is before the cursor.
func importPath(text string, l lexeme, cursor int) (prefix string, start int, ok bool) {
	if l.tok != token.STRING || cursor <= l.off {
		return "", 0, false
	}
	// the piece may hold the whole rest of the cell, so only what is before counts
	pieces, _ := cut(text[:l.off] + `"`)
	if len(pieces) == 0 || !pieces[len(pieces)-1].imports {
		return "", 0, false
	}
	return text[l.off+1 : cursor], l.off + 1, true
}

// importPaths lists the packages whose path begins with a prefix.
func (a *Assist) importPaths(prefix string) []serve.Match {
	var out []serve.Match
	for _, p := range a.lib.paths() {
		if strings.HasPrefix(p, prefix) {
			out = append(out, serve.Match{Text: p, Type: "path", Signature: "package " + a.lib.name(p)})
		}
	}
	sort.SliceStable(out, func(i, j int) bool {
		return strings.Count(out[i].Text, "/") < strings.Count(out[j].Text, "/")
	})
	return out
}

// completeCommand completes a % command at the beginning of a line.
func (a *Assist) completeCommand(code string, cursor int) (out serve.Completion, ok bool) {
	start := lineStart(code, cursor)
	word := code[start:cursor]
	if !strings.HasPrefix(word, "%") || strings.ContainsAny(word, " \t") {
		return out, false
	}
	if text, _ := blank(code); text[start] == '%' { // an operator or text
		return out, false
	}
	out.Start, out.End = start, cursor
	for _, c := range a.opts.Commands {
		if strings.HasPrefix(c, word) {
			out.Matches = append(out.Matches, serve.Match{Text: c, Type: "command"})
		}
	}
	return out, true
}
