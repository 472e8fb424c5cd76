// Package markdown turns the Markdown of notebook cells into HTML that is safe to publish, with ids that are unique on a page.
// HTML inside is cleaned by package mime. It does not know notebooks or pages; links and images are resolved by the caller.
package markdown

import (
	"bytes"
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Page gives out the ids of one page: all cells of a page share it.
type Page struct {
	ids   *IDs
	cells int
}

// NewPage starts a page. Ids in reserved are taken already.
func NewPage(reserved ...string) *Page {
	ids := &IDs{taken: map[string]bool{}}
	for _, r := range reserved {
		ids.taken[r] = true
	}
	return &Page{ids: ids}
}

// IDs returns the id table of the page, for headings that do not come from Markdown.
func (p *Page) IDs() *IDs { return p.ids }

// Resolve maps the destination of a link or an image to what the page may show; false takes the link away and keeps its text.
type Resolve func(dest string) (string, bool)

// Heading is a heading with its id; Level is 0 when a section has none.
type Heading struct {
	Level    int
	ID, Text string // plain text
	HTML     string // the same with its inline markup
}

// Section is a heading of level 1 or 2 and what follows it, up to the next one.
type Section struct {
	Heading
	Body string
}

// Render converts one cell. Headings of level 1 and 2 divide it into sections; deeper ones stay in the body.
func (p *Page) Render(src string, link, image Resolve) ([]Section, error) {
	p.cells++
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify, extension.DefinitionList,
			extension.NewFootnote(extension.WithFootnoteIDPrefix("c"+strconv.Itoa(p.cells)+"-"))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(),
			parser.WithInlineParsers(util.Prioritized(mathParser{}, 90)),
			parser.WithASTTransformers(util.Prioritized(callouts{}, 100))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 100))),
	)
	source := []byte(src)
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(p.ids))))
	if err := resolve(doc, source, link, image); err != nil {
		return nil, err
	}
	var sections []Section
	var body []ast.Node
	flush := func() error {
		if len(sections) == 0 {
			if len(body) == 0 {
				return nil
			}
			sections = append(sections, Section{})
		}
		s, err := render(md.Renderer(), source, body)
		sections[len(sections)-1].Body = s
		body = nil
		return err
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok || h.Level > 2 {
			body = append(body, n)
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
		head := Heading{Level: h.Level, Text: plain(h, source)}
		if id, ok := h.AttributeString("id"); ok {
			head.ID = string(id.([]byte))
		}
		var inner []ast.Node
		for c := h.FirstChild(); c != nil; c = c.NextSibling() {
			inner = append(inner, c)
		}
		var err error
		if head.HTML, err = render(md.Renderer(), source, inner); err != nil {
			return nil, err
		}
		sections = append(sections, Section{Heading: head})
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return sections, nil
}

func render(r renderer.Renderer, source []byte, nodes []ast.Node) (string, error) {
	var b bytes.Buffer
	for _, n := range nodes {
		if err := r.Render(&b, source, n); err != nil {
			return "", fmt.Errorf("render markdown: %w", err)
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// resolve rewrites every link and image, and turns what the caller refuses into its text.
func resolve(doc ast.Node, source []byte, link, image Resolve) error {
	type change struct {
		old  ast.Node
		text string
	}
	var refused []change
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			if to, ok := link(string(n.Destination)); ok {
				n.Destination = []byte(to)
			} else {
				refused = append(refused, change{n, plain(n, source)})
			}
		case *ast.Image:
			if to, ok := image(string(n.Destination)); ok {
				n.Destination = []byte(to)
			} else {
				refused = append(refused, change{n, strings.TrimSpace("[image: " + plain(n, source) + "]")})
			}
		}
		return ast.WalkContinue, nil
	})
	for _, c := range refused {
		if parent := c.old.Parent(); parent != nil {
			parent.ReplaceChild(parent, c.old, ast.NewString([]byte(html.EscapeString(c.text))))
		}
	}
	return err
}

func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(source))
			if c.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		case *math:
			b.WriteString(c.tex)
		}
		return ast.WalkContinue, nil
	})
	return html.UnescapeString(b.String())
}

// IDs makes ids for headings: letters and digits of any script in lower case, joined by hyphens, numbered when taken.
type IDs struct{ taken map[string]bool }

// Generate implements parser.IDs.
func (ids *IDs) Generate(value []byte, _ ast.NodeKind) []byte { return []byte(ids.New(string(value))) }

// Put implements parser.IDs.
func (ids *IDs) Put(value []byte) { ids.taken[string(value)] = true }

// New returns an id for a heading and takes it.
func (ids *IDs) New(heading string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(heading) {
		if r == 'µ' || r == 'μ' {
			r = 'u'
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte('-')
			gap = false
		}
		b.WriteRune(r)
	}
	base := b.String()
	if base == "" {
		base = "section"
	}
	id := base
	for n := 1; ids.taken[id]; n++ {
		id = base + "-" + strconv.Itoa(n)
	}
	ids.taken[id] = true
	return id
}
