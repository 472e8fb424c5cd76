package sitegen

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/rooflab/rooflab/notebooks/nbformat"
	"github.com/rooflab/rooflab/sitegen/internal/markdown"
	"github.com/rooflab/rooflab/sitegen/internal/mime"
	"github.com/rooflab/rooflab/sitegen/internal/theme"
)

type notebookView struct {
	Eyebrow       []string
	Heading       template.HTML
	Contents      []navRef
	HasCode       bool
	Download      string
	Problems      []problem
	Cells         []cellView
	Before, After navRef
}

type cellView struct {
	ID, Place, Number, Param string
	Prose                    template.HTML
	Raw                      *outputView
	Lines                    []sourceLine
	Bad                      bool // a line is marked
	Outputs                  []outputView
}

type sourceLine struct {
	HTML template.HTML
	Bad  bool
}

// problem is a line about what is not complete, with the place where it shows.
type problem struct{ Name, Href, Text string }

// title is the first heading of level 1, taken from the notebook's text; else the notebook's name.
func (n *notebook) title() string {
	for _, c := range n.cells {
		if c.Type != nbformat.Markdown {
			continue
		}
		for _, line := range strings.Split(c.Source, "\n") {
			if h, ok := strings.CutPrefix(line, "# "); ok {
				return plainText(strings.Trim(h, " #"))
			}
		}
		break
	}
	return n.name
}

var plainText = strings.NewReplacer("`", "", "**", "", "\\", "").Replace

func (s *site) notebookPage(n *notebook) (pageView, error) {
	reserved := []string{"main", "code", "hatch", "dots"}
	for _, c := range n.cells {
		reserved = append(reserved, c.anchor)
	}
	md := markdown.NewPage(reserved...)
	v := &notebookView{Download: n.download, Heading: theme.Text(n.title()), Problems: n.problems("")}
	taken, titled := map[string]int{}, false
	code, failed := 0, 0
	for _, c := range n.cells {
		at := place{book: n, cell: c, here: true, taken: taken}
		view := cellView{ID: c.anchor, Place: c.place()}
		switch c.Type {
		case nbformat.Markdown:
			secs, err := s.sections(c.Source, c, at, md)
			if err != nil {
				return pageView{}, fmt.Errorf("cell %s: %w", c.id, err)
			}
			if !titled && len(secs) > 0 && secs[0].Level == 1 { // it is the page's h1
				v.Heading = template.HTML(secs[0].HTML) //nolint:gosec // rendered in safe mode
				secs[0].Heading = markdown.Heading{}
			}
			titled = true
			for _, h := range headings(secs) {
				v.Contents = append(v.Contents, navRef{Text: h.Text, Href: "#" + h.ID})
			}
			if view.Prose = joined(secs); view.Prose == "" {
				view.Prose = " " // the anchor stays
			}
		case nbformat.Code:
			code++
			if c.hasError() {
				failed++
			}
			v.HasCode = v.HasCode || strings.TrimSpace(c.Source) != ""
			s.codeCell(&view, c, at, md, n.nb.Language())
		default:
			view.Raw = s.raw(c, at)
		}
		v.Cells = append(v.Cells, view)
	}
	v.Eyebrow = []string{"Notebook " + n.name, "campaign " + s.manifest.ID}
	if lang := n.nb.Language(); lang != "" {
		v.Eyebrow = append(v.Eyebrow, strings.ToUpper(lang[:1])+lang[1:])
	}
	counts := plural(code, "cell")
	if failed > 0 {
		counts += ", " + plural(failed, "error") + " kept"
	}
	v.Eyebrow = append(v.Eyebrow, counts)
	v.Before, v.After = s.neighbours(n)
	return pageView{Title: n.title() + " · " + n.name + " · " + s.manifest.ID + " · rooflab", Narrow: true, Nav: s.navigation(n.page), Notebook: v, Scripts: s.scriptsFor(v.Cells)}, nil
}

func (s *site) codeCell(view *cellView, c *cell, at place, md *markdown.Page, lang string) {
	view.Number = " "
	if c.ExecutionCount != nil {
		view.Number = c.place()
	}
	if c.HasTag("injected-parameters") {
		view.Param = "Parameters given to this run"
	}
	view.Outputs = s.outputs(c, at, md)
	bad := 0
	for _, o := range view.Outputs {
		if o.Error != nil && o.Error.line > 0 {
			bad = o.Error.line
		}
	}
	view.Bad = bad > 0
	for i, l := range markdown.Highlight(lang, c.Source) {
		view.Lines = append(view.Lines, sourceLine{template.HTML(l), i+1 == bad}) //nolint:gosec // escaped by Highlight
	}
}

// raw shows a raw cell: HTML through the sanitiser, untyped text as it is, other formats by name only.
func (s *site) raw(c *cell, at place) *outputView {
	format := ""
	if !c.Metadata.Get("raw_mimetype", &format) {
		c.Metadata.Get("format", &format)
	}
	label := "Text " + c.place()
	switch mime.Base(format) {
	case "text/html":
		if safe := mime.Foreign(c.Source); safe != "" {
			return &outputView{Foreign: template.HTML(safe), Label: label} //nolint:gosec // an allowlist of elements, balanced
		}
	case "":
		if c.Type != nbformat.Raw {
			return &outputView{LeftOut: fmt.Sprintf("A cell of type %q is not shown: this program does not know it. It is in the notebook file.", c.Type)}
		}
		if l := s.terminal(c.Source, label, at); l != nil {
			return &outputView{Terminal: l}
		}
		return &outputView{LeftOut: "An empty raw cell."}
	}
	return &outputView{LeftOut: fmt.Sprintf("A raw cell for %s is not shown on an HTML page. It is in the notebook file.", format)}
}

// problems lists what a reader must know before trusting the page. From another page, links start with its name.
func (n *notebook) problems(from string) []problem {
	if n.err != nil {
		return []problem{{n.name, "", n.name + " cannot be read and has no page: " + strings.TrimPrefix(n.err.Error(), n.file+":")}}
	}
	var list []problem
	name := ""
	if from != "" {
		name = n.name
	}
	page := ""
	if from != "" {
		page = n.page
	}
	unrun, all := n.unrun()
	failed := n.failed()
	switch {
	case failed != nil:
		text := "the notebook did not finish: it stopped with an error in cell " + failed.place()
		if unrun > 0 {
			text += "; " + plural(unrun, "cell") + " of " + fmt.Sprint(all) + " did not run"
		}
		list = append(list, problem{name, page + "#" + failed.anchor, text + "."})
	case unrun == all && all > 0:
		list = append(list, problem{name, page, "the notebook was not run."})
	case unrun > 0:
		list = append(list, problem{name, page, fmt.Sprintf("the notebook did not finish: %s of %d did not run.", plural(unrun, "cell"), all)})
	}
	for _, d := range n.lost {
		list = append(list, problem{name, page, d.Text + "."})
	}
	for i := range list {
		if name == "" && !strings.HasPrefix(list[i].Href, "#") {
			list[i].Href = ""
		} else if name == "" {
			list[i].Name = "First error"
		}
	}
	return list
}

// neighbours are the notebooks before and after, in the order of their names; the ends lead to the start page.
func (s *site) neighbours(n *notebook) (before, after navRef) {
	before, after = navRef{Text: "Findings", Href: "index.html"}, navRef{Text: "Campaign", Href: "campaign.html"}
	seen := false
	for _, b := range s.notebooks {
		switch {
		case b == n:
			seen = true
		case b.err != nil:
		case !seen:
			before = navRef{Text: b.name, Href: b.page}
		default:
			return before, navRef{Text: b.name, Href: b.page}
		}
	}
	return before, after
}

func (s *site) scriptsFor(cells []cellView) []string {
	for _, c := range cells {
		for _, o := range c.Outputs {
			if o.Item != nil && o.Item.Figure != nil && o.Item.Figure.Option != "" {
				return s.charting
			}
		}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n) + " " + what + "s"
}
