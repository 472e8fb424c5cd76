package markdown

import (
	"html"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// Highlight returns the lines of a source text as HTML with the classes kw, st, nu, co, fu and ty. A language that is not
// known is escaped and left plain.
func Highlight(lang, src string) []string {
	src = strings.TrimRight(strings.ReplaceAll(src, "\r\n", "\n"), "\n")
	if src == "" {
		return nil
	}
	var lexer chroma.Lexer
	if lang != "" {
		lexer = lexers.Get(lang)
	}
	if lexer == nil {
		return strings.Split(html.EscapeString(src), "\n")
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, src)
	if err != nil {
		return strings.Split(html.EscapeString(src), "\n")
	}
	var lines []string
	for _, line := range chroma.SplitTokensIntoLines(tokens.Tokens()) {
		var b strings.Builder
		for _, t := range line {
			text := html.EscapeString(strings.TrimSuffix(t.Value, "\n"))
			if class := class(t.Type); class != "" && strings.TrimSpace(text) != "" {
				text = `<span class="` + class + `">` + text + `</span>`
			}
			b.WriteString(text)
		}
		lines = append(lines, b.String())
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" { // lexers add a line end
		lines = lines[:len(lines)-1]
	}
	return lines
}

func class(t chroma.TokenType) string {
	switch {
	case t == chroma.KeywordType:
		return "ty"
	case t.InCategory(chroma.Keyword):
		return "kw"
	case t.InSubCategory(chroma.LiteralString):
		return "st"
	case t.InSubCategory(chroma.LiteralNumber):
		return "nu"
	case t.InCategory(chroma.Comment):
		return "co"
	case t == chroma.NameFunction || t == chroma.NameBuiltin:
		return "fu"
	}
	return ""
}
