package markdown

import (
	"html"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/rooflab/rooflab/sitegen/internal/mime"
)

// callout is a block quote that began with [!NOTE] or a sister of it.
type callout struct {
	ast.BaseBlock
	word string
}

var kindCallout = ast.NewNodeKind("Callout")

func (c *callout) Kind() ast.NodeKind            { return kindCallout }
func (c *callout) Dump(source []byte, level int) { ast.DumpHelper(c, source, level, nil, nil) }

var calloutWords = map[string]string{"[!NOTE]": "Note", "[!TIP]": "Tip", "[!IMPORTANT]": "Important", "[!WARNING]": "Warning", "[!CAUTION]": "Caution"}

type callouts struct{}

// Transform turns block quotes whose first line is a marker into callouts.
func (callouts) Transform(doc *ast.Document, r text.Reader, _ parser.Context) {
	var quotes []*ast.Blockquote
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if q, ok := n.(*ast.Blockquote); ok && entering {
			quotes = append(quotes, q)
		}
		return ast.WalkContinue, nil
	})
	for _, q := range quotes {
		p, ok := q.FirstChild().(*ast.Paragraph)
		if !ok || p.Lines().Len() == 0 {
			continue
		}
		first := p.Lines().At(0)
		word, ok := calloutWords[strings.ToUpper(strings.TrimSpace(string(first.Value(r.Source()))))]
		if !ok {
			continue
		}
		for c := p.FirstChild(); c != nil; {
			next := c.NextSibling()
			t, isText := c.(*ast.Text)
			if !isText || t.Segment.Start >= first.Stop {
				break
			}
			p.RemoveChild(p, c)
			c = next
		}
		box := &callout{word: word}
		for c := q.FirstChild(); c != nil; {
			next := c.NextSibling()
			if c != ast.Node(p) || p.ChildCount() > 0 {
				box.AppendChild(box, c)
			}
			c = next
		}
		q.Parent().ReplaceChild(q.Parent(), q, box)
	}
}

// math is TeX between dollars, shown as it was written: readable without any library.
type math struct {
	ast.BaseInline
	tex string
}

var kindMath = ast.NewNodeKind("Math")

func (m *math) Kind() ast.NodeKind            { return kindMath }
func (m *math) Dump(source []byte, level int) { ast.DumpHelper(m, source, level, nil, nil) }

type mathParser struct{}

func (mathParser) Trigger() []byte { return []byte{'$'} }

// Parse accepts $...$ without space inside the dollars and without a digit behind them, so that "$5 and $7" stays money,
// and $$...$$ over the lines of a paragraph.
func (mathParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	if len(line) > 1 && line[1] == '$' {
		return display(block)
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '$':
			in := line[1:i]
			digit := i+1 < len(line) && line[i+1] >= '0' && line[i+1] <= '9'
			if len(in) == 0 || in[0] == ' ' || in[len(in)-1] == ' ' || digit {
				return nil
			}
			m := &math{tex: string(line[:i+1])}
			block.Advance(i + 1)
			return m
		}
	}
	return nil
}

func display(block text.Reader) ast.Node {
	row, pos := block.Position()
	var tex strings.Builder
	for n := 0; ; n++ {
		line, _ := block.PeekLine()
		if line == nil {
			block.SetPosition(row, pos)
			return nil
		}
		from := 0
		if n == 0 {
			from = 2
		}
		if i := strings.Index(string(line[from:]), "$$"); i >= 0 {
			tex.Write(line[:from+i+2])
			block.Advance(from + i + 2)
			return &math{tex: tex.String()}
		}
		tex.Write(line)
		block.AdvanceLine()
	}
}

var lineBreak = regexp.MustCompile(`(?i)^<br\s*/?>$`)

// nodes renders what goldmark does not know, and code with the classes of Highlight.
type nodes struct{}

func (nodes) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(kindCallout, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(`<div class="callout"><p class="callout-h">` + n.(*callout).word + "</p>\n")
		} else {
			_, _ = w.WriteString("</div>\n")
		}
		return ast.WalkContinue, nil
	})
	reg.Register(kindMath, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(`<code class="math">` + html.EscapeString(n.(*math).tex) + `</code>`)
		}
		return ast.WalkContinue, nil
	})
	code := func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var src strings.Builder
		for i := 0; i < n.Lines().Len(); i++ {
			at := n.Lines().At(i)
			src.Write(at.Value(source))
		}
		lang := ""
		if f, ok := n.(*ast.FencedCodeBlock); ok {
			lang = string(f.Language(source))
		}
		_, _ = w.WriteString(`<pre class="src" tabindex="0"><code>`)
		for _, l := range Highlight(lang, src.String()) {
			_, _ = w.WriteString(`<span class="l">` + l + `</span>`)
		}
		_, _ = w.WriteString("</code></pre>\n")
		return ast.WalkSkipChildren, nil
	}
	// HTML in Markdown keeps what the sanitiser keeps; single tags inside a line are dropped and their text stays.
	reg.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			b := n.(*ast.HTMLBlock)
			raw := string(b.Lines().Value(source))
			if b.HasClosure() {
				raw += string(b.ClosureLine.Value(source))
			}
			_, _ = w.WriteString(mime.Foreign(raw) + "\n")
		}
		return ast.WalkSkipChildren, nil
	})
	reg.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && lineBreak.Match(n.(*ast.RawHTML).Segments.Value(source)) {
			_, _ = w.WriteString("<br>")
		}
		return ast.WalkSkipChildren, nil
	})
	reg.Register(ast.KindFencedCodeBlock, code)
	reg.Register(ast.KindCodeBlock, code)
}
