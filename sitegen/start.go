package sitegen

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbformat"
	"github.com/rooflab/rooflab/sitegen/internal/markdown"
	"github.com/rooflab/rooflab/sitegen/internal/mime"
	"github.com/rooflab/rooflab/sitegen/internal/theme"
)

// siteTag marks the cells of the findings notebook that make the start page.
const siteTag = "site"

// sideColumns is the widest table that fits beside the bottleneck table.
const sideColumns = 5

type startView struct {
	Eyebrow   []string
	Heading   string // when there is no verdict
	Verdict   *verdictView
	Figure    *figureView
	Problems  []problem
	Sections  []*sectionView
	Notebooks []bookView
	NotRun    []string // phases of a campaign that has others: "2 (micro)"
	Method    *sectionView
}

type sectionView struct {
	ID      string
	Heading template.HTML
	Items   []*item

	nav     string // short name in the navigation
	claimed bool   // a record has given the section its id
}

type bookView struct{ Name, Href, Title, State string }

// A record that opens a section has a fixed id and a short name, the same in every campaign.
var sectionOf = map[string]struct{ id, nav string }{
	data.MIMEBottlenecks: {"bottlenecks", "Bottlenecks"},
	data.MIMEFindings:    {"hypotheses", "Hypotheses"},
	data.MIMETiers:       {"todo", "What to do"},
	data.MIMEFacts:       {"method", "Method"},
}

// startPage assembles the findings from the notebook that shows a verdict.
func (s *site) startPage() (pageView, error) {
	v := &startView{Heading: s.heading(), Notebooks: s.books(), NotRun: s.notRun()}
	for _, n := range s.notebooks {
		v.Problems = append(v.Problems, n.problems("index.html")...)
	}
	title := v.Heading + " · rooflab"
	if n := s.findingsNotebook(); n != nil {
		b := &startBuilder{site: s, view: v, book: n, taken: map[string]int{}, ids: map[string]bool{},
			md: markdown.NewPage("main", "notebooks", "bottlenecks", "hypotheses", "todo", "method", "hatch", "dots")}
		if err := b.build(); err != nil {
			return pageView{}, fmt.Errorf("build start page: %w", err)
		}
		if v.Verdict != nil {
			v.Eyebrow = strings.Split(v.Verdict.Campaign, " · ")
			title = v.Verdict.Heading + " · " + s.manifest.ID + " · rooflab"
		}
	}
	if v.Verdict == nil {
		v.Eyebrow = []string{"Campaign " + s.manifest.ID}
	}
	for _, sec := range v.Sections {
		if sec.nav != "" {
			s.nav = append(s.nav, navRef{Text: sec.nav, Href: "#" + sec.ID})
		}
	}
	if v.Method != nil {
		s.nav = append(s.nav, navRef{Text: v.Method.nav, Href: "#" + v.Method.ID})
	}
	p := pageView{Title: title, Nav: s.navigation("index.html"), Start: v}
	if v.interactive() {
		p.Scripts = s.charting
	}
	return p, nil
}

func (v *startView) interactive() bool {
	if v.Figure != nil && v.Figure.Option != "" {
		return true
	}
	for _, sec := range v.Sections {
		for _, it := range sec.Items {
			if it.Figure != nil && it.Figure.Option != "" {
				return true
			}
			for _, f := range it.Pair {
				if f.Option != "" {
					return true
				}
			}
		}
	}
	return false
}

func (s *site) heading() string {
	if s.manifest.Title != "" {
		return s.manifest.Title
	}
	return "Campaign " + s.manifest.ID
}

// books lists the notebooks with what a reader should know of each.
func (s *site) books() []bookView {
	var list []bookView
	for _, n := range s.notebooks {
		if n.err != nil {
			list = append(list, bookView{Name: n.name, Title: "cannot be read"})
			continue
		}
		b := bookView{Name: n.name, Href: n.page, Title: n.title()}
		unrun, all := n.unrun()
		switch {
		case n.failed() != nil:
			b.State = "stopped with an error"
		case unrun == all:
			b.State = "not run"
		case unrun > 0:
			b.State = fmt.Sprintf("%d of %d cells not run", unrun, all)
		default:
			b.State = plural(all, "cell")
		}
		list = append(list, b)
	}
	return list
}

// notRun names the phases whose notebook is not there or did not run, when another phase's did.
func (s *site) notRun() []string {
	var missing []string
	known := false
	for _, p := range notebooks.Phases() {
		ran := slices.ContainsFunc(s.notebooks, func(n *notebook) bool {
			if n.name != p.Notebook || n.err != nil {
				return n.name == p.Notebook
			}
			unrun, all := n.unrun()
			return unrun < all
		})
		if known = known || ran; !ran {
			_, name, _ := strings.Cut(p.Notebook, "-")
			missing = append(missing, fmt.Sprintf("%d (%s)", p.Number, name))
		}
	}
	if !known {
		return nil
	}
	return missing
}

// findingsNotebook is the last notebook that shows a verdict, nil when none does.
func (s *site) findingsNotebook() *notebook {
	for _, n := range slices.Backward(s.notebooks) {
		for _, c := range n.cells {
			if c.shows(data.MIMEVerdict) {
				return n
			}
		}
	}
	return nil
}

func (c *cell) shows(typ string) bool {
	for _, o := range c.Outputs {
		for _, t := range o.Data.Types() {
			if mime.Base(t) == typ {
				return true
			}
		}
	}
	return false
}

// startBuilder puts the records of the findings notebook in their places.
type startBuilder struct {
	*site
	view  *startView
	book  *notebook
	md    *markdown.Page
	taken map[string]int
	ids   map[string]bool
}

func (b *startBuilder) build() error {
	cells := slices.Clone(b.book.cells)
	slices.SortStableFunc(cells, func(x, y *cell) int { return verdictFirst(x) - verdictFirst(y) })
	for _, c := range cells {
		if !c.HasTag(siteTag) && !c.shows(data.MIMEVerdict) {
			continue
		}
		at := place{book: b.book, cell: c, taken: b.taken}
		switch c.Type {
		case nbformat.Markdown:
			secs, err := b.sections(c.Source, c, at, b.md)
			if err != nil {
				return fmt.Errorf("cell %s: %w", c.id, err)
			}
			for _, sec := range secs {
				b.text(sec)
			}
		case nbformat.Code:
			for i, o := range nbformat.JoinStreams(c.Outputs) {
				at.slot = "o" + strconv.Itoa(i+1)
				if o.Type != nbformat.DisplayData && o.Type != nbformat.ExecuteResult {
					continue
				}
				if v, ok := b.bundle(o, c, at, b.md, "Output of cell "+c.place()); ok {
					if err := b.add(v); err != nil {
						return fmt.Errorf("cell %s: %w", c.id, err)
					}
				}
			}
		}
	}
	b.finish()
	return nil
}

// verdictFirst orders cells: the verdict opens the page wherever its cell stands.
func verdictFirst(c *cell) int {
	if c.shows(data.MIMEVerdict) {
		return 0
	}
	return 1
}

// text adds a part of a Markdown cell: its heading opens a section, its words follow or read a pair of charts together.
func (b *startBuilder) text(sec markdown.Section) {
	if sec.Level > 0 {
		b.view.Sections = append(b.view.Sections, &sectionView{ID: sec.ID, Heading: template.HTML(sec.HTML)}) //nolint:gosec // rendered in safe mode
	}
	if sec.Body == "" {
		return
	}
	body := template.HTML(sec.Body) //nolint:gosec // rendered in safe mode
	now := b.section()
	if last := now.last(); sec.Level == 0 && last != nil && len(last.Pair) > 1 && last.Read == "" {
		last.Read = body
		return
	}
	now.Items = append(now.Items, &item{Prose: body})
}

// section returns the section that is being filled.
func (b *startBuilder) section() *sectionView {
	if len(b.view.Sections) == 0 {
		b.view.Sections = append(b.view.Sections, &sectionView{})
	}
	return b.view.Sections[len(b.view.Sections)-1]
}

func (v *sectionView) last() *item {
	if len(v.Items) == 0 {
		return nil
	}
	return v.Items[len(v.Items)-1]
}

func (v *sectionView) onlyProse() bool {
	return !slices.ContainsFunc(v.Items, func(it *item) bool { return it.Prose == "" })
}

func (b *startBuilder) add(o outputView) error {
	it := o.Item
	if it == nil {
		b.section().Items = append(b.section().Items, &item{Output: &o})
		return nil
	}
	if it.Verdict != nil {
		if b.view.Verdict == nil {
			b.view.Verdict = it.Verdict
		}
		return nil
	}
	if it.Figure != nil {
		return b.figure(it)
	}
	if it.Table != nil && len(it.Table.Columns) == 0 { // of what was not measured
		return nil
	}
	now := b.section()
	if last := now.last(); it.Table != nil && last != nil && last.Bottlenecks != nil && last.Side == nil && len(it.Table.Columns) <= sideColumns {
		last.Side = it.Table
		return nil
	}
	if known, ok := sectionOf[it.kind]; ok {
		now = b.open(it, known.id, known.nav)
	}
	now.Items = append(now.Items, it)
	return nil
}

// open returns the section for a record with a heading of its own: the one that a Markdown heading has just opened, or a new one.
func (b *startBuilder) open(it *item, id, nav string) *sectionView {
	now := b.section()
	fresh := now.Heading != "" && !now.claimed && now.onlyProse()
	if !fresh && it.Heading == "" && now.Heading != "" {
		return now
	}
	if !fresh {
		now = &sectionView{Heading: theme.Text(it.Heading)}
		if len(b.view.Sections) == 1 && len(b.view.Sections[0].Items) == 0 && b.view.Sections[0].Heading == "" {
			b.view.Sections = nil
		}
		b.view.Sections = append(b.view.Sections, now)
	}
	now.claimed = true
	if !b.ids[id] {
		b.ids[id] = true
		now.ID, now.nav = id, nav
	} else if now.ID == "" {
		now.ID = b.md.IDs().New(it.Heading)
	}
	return now
}

// figure places a chart: the first one beside the verdict, halves in pairs, the others alone.
func (b *startBuilder) figure(it *item) error {
	f := it.Figure
	if b.view.Verdict != nil && b.view.Figure == nil {
		f.Tag, f.Class = "h2", ""
		b.view.Figure = f
		return b.draw(f, "hero")
	}
	now := b.section()
	if now.Heading == "" {
		f.Tag = "h2"
	}
	if it.width != charts.Half {
		now.Items = append(now.Items, it)
		return nil
	}
	if last := now.last(); last != nil && len(last.Pair) == 1 {
		last.Pair = append(last.Pair, f)
		return nil
	}
	now.Items = append(now.Items, &item{Pair: []*figureView{f}})
	return nil
}

// finish moves the method to the foot of the page and drops what stayed empty.
func (b *startBuilder) finish() {
	v := b.view
	v.Sections = slices.DeleteFunc(v.Sections, func(s *sectionView) bool { return s.Heading == "" && len(s.Items) == 0 })
	if n := len(v.Sections); n > 0 && v.Sections[n-1].ID == "method" {
		v.Method, v.Sections = v.Sections[n-1], v.Sections[:n-1]
	}
}
