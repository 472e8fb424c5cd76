// Package sitegen turns an archived campaign (executed notebooks, manifest, results) into a static site: a start page
// that answers, a page for each notebook, a page of provenance. The site opens from a folder on disk, loads nothing from
// a network and needs no script to be read.
// It does not run notebooks, measure, or compute figures: what a page shows, a cell showed before.
package sitegen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"unicode"

	"github.com/rooflab/rooflab/charts/svg"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/sitegen/internal/links"
	"github.com/rooflab/rooflab/sitegen/internal/theme"
)

// Options says what to build and where.
type Options struct {
	In  string // campaign folder with manifest.json and notebooks/
	Out string // folder of the site; it is made, or must be one that Build made before

	live bool // pages listen for rebuilds; only Serve sets it
}

// Result says what was written.
type Result struct {
	Pages    []string          `json:"pages"`    // the pages, start page first
	Files    int               `json:"files"`    // all files, pages included
	Warnings []diag.Diagnostic `json:"warnings"` // what was repaired or left out, and what a reader should know
}

// BrokenLinks is the error of a site in which something leads nowhere; nothing was written.
type BrokenLinks struct{ Found []diag.Diagnostic }

// Error lists every finding on a line of its own.
func (e BrokenLinks) Error() string {
	lines := make([]string, len(e.Found))
	for i, d := range e.Found {
		lines[i] = "  " + d.String()
	}
	return fmt.Sprintf("build site: %d links or rules are broken, nothing was written:\n%s", len(e.Found), strings.Join(lines, "\n"))
}

// Build writes the site of a campaign. The same input gives the same bytes.
// A link that leads nowhere stops it before anything is written. A notebook that cannot be read does not: the other
// pages are written, the start page says what is missing, and the error names the file.
func Build(ctx context.Context, o Options) (Result, error) {
	in, err := load(o.In)
	if err != nil {
		return Result{}, err
	}
	out, err := openOutput(o.Out)
	if err != nil {
		return Result{}, err
	}
	s := &site{campaign: in, files: map[string][]byte{}, live: o.live}
	s.warnings = append(s.warnings, in.warnings...)
	if err := s.pages(ctx); err != nil {
		return Result{}, err
	}
	if found := append(s.broken, links.Check(s.files)...); len(found) > 0 {
		return Result{}, BrokenLinks{found}
	}
	if err := out.write(ctx, s.files); err != nil {
		return Result{}, err
	}
	r := Result{Pages: s.order, Files: len(s.files), Warnings: s.warnings}
	var unread []error
	for _, n := range in.notebooks {
		if n.err != nil {
			unread = append(unread, n.err)
		}
	}
	if len(unread) > 0 {
		return r, fmt.Errorf("build site: %d of %d notebooks cannot be read, the other pages were written:\n%w", len(unread), len(in.notebooks), errors.Join(unread...))
	}
	return r, nil
}

// Check reads a built site and reports links that lead nowhere, ids used twice, and whatever would be loaded from outside.
func Check(dir string) ([]diag.Diagnostic, error) {
	files, err := readSite(dir)
	if err != nil {
		return nil, err
	}
	return links.Check(files), nil
}

// site is one build in progress. Everything is made in memory, checked, and written at the end.
type site struct {
	*campaign
	files    map[string][]byte // by slash-separated path
	order    []string          // pages as a reader meets them
	warnings []diag.Diagnostic
	broken   []diag.Diagnostic // references of records that lead nowhere
	live     bool

	css, js  string   // paths of the assets
	nav      []navRef // of the start page; other pages lead there
	charting []string // scripts of pages with interactive charts
}

type navRef struct {
	Text, Href string
	Current    bool
}

// pageView is what the template "page" is given; one of the last three is set.
type pageView struct {
	Title, CSP, CSS, JS string
	Narrow              bool
	Nav                 []navRef
	Scripts             []string
	Start               *startView
	Notebook            *notebookView
	Campaign            *campaignView
}

// csp allows what a page needs: its style sheet, its scripts, pictures beside it. Nothing else, nothing from outside.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"

func (s *site) pages(ctx context.Context) error {
	s.css = s.asset("site", ".css", append(append([]byte{}, theme.CSS...), svg.CSS()...))
	s.js = s.asset("site", ".js", theme.Script)
	if err := s.chartScripts(); err != nil {
		return err
	}
	start, err := s.startPage()
	if err != nil {
		return err
	}
	if err := s.write("index.html", start); err != nil {
		return err
	}
	for _, n := range s.notebooks {
		if n.err != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := s.notebookPage(n)
		if err != nil {
			return fmt.Errorf("build page of %s: %w", n.file, err)
		}
		if err := s.write(n.page, p); err != nil {
			return err
		}
		s.files[n.download] = n.raw
	}
	return s.write("campaign.html", s.campaignPage())
}

func (s *site) write(name string, p pageView) error {
	p.CSP, p.CSS, p.JS = csp, s.css, s.js
	if len(p.Scripts) > 0 { // ECharts sets styles on what it draws
		p.CSP = strings.Replace(p.CSP, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)
	}
	if s.live {
		p.CSP += "; connect-src 'self'"
		p.Scripts = append(append([]string{}, p.Scripts...), "live.js")
		s.files["live.js"] = []byte(liveScript)
	}
	t, err := theme.Templates()
	if err != nil {
		return fmt.Errorf("read templates: %w", err)
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, "page", p); err != nil {
		return fmt.Errorf("build %s: %w", name, err)
	}
	s.files[name] = []byte(strings.Map(printable, b.String()))
	s.order = append(s.order, name)
	return nil
}

// printable replaces what a page may not hold: control characters, which kernels' names and outputs can carry.
func printable(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
		return unicode.ReplacementChar
	}
	return r
}

// asset keeps a file under a name that changes with its content, so that a browser never shows an old one.
func (s *site) asset(name, ext string, content []byte) string {
	sum := sha256.Sum256(content)
	p := "assets/" + name + "." + hex.EncodeToString(sum[:6]) + ext
	s.files[p] = content
	return p
}

// navigation returns the links at the head of a page.
func (s *site) navigation(current string) []navRef {
	nav := []navRef{{"Findings", "index.html", current == "index.html"}}
	for _, n := range s.nav {
		if current != "index.html" {
			n.Href = "index.html" + n.Href
		}
		nav = append(nav, n)
	}
	at := "index.html#notebooks"
	if current == "index.html" {
		at = "#notebooks"
	}
	return append(nav, navRef{"Notebooks", at, strings.HasSuffix(current, ".html") && current != "index.html" && current != "campaign.html"},
		navRef{"Campaign", "campaign.html", current == "campaign.html"})
}

func (s *site) warn(d diag.Diagnostic) {
	if d.N == 0 {
		d.N = 1
	}
	s.warnings = append(s.warnings, d)
}

// from is where a number comes from: the text and the target of a link.
type from struct{ Text, Href string }

// place is the cell whose output is being shown, and the page it is shown on.
type place struct {
	book  *notebook
	cell  *cell
	here  bool // the page is the notebook's own, so the cell itself needs no link
	slot  string
	taken map[string]int // ids of figures on the page
}

// own links to the cell that showed a record.
func (at place) own() from {
	if at.here {
		return from{}
	}
	return from{at.book.name + " " + at.cell.label(), at.book.page + "#" + at.cell.anchor}
}

// named links to the cell that a record names, and to nothing when it names none.
func (s *site) named(r data.Ref, at place) from {
	if r == (data.Ref{}) {
		return from{}
	}
	book := at.book
	if r.Notebook != "" {
		book = s.book(r.Notebook)
	}
	dead := func(hint, format string, args ...any) from {
		s.broken = append(s.broken, diag.Diagnostic{ID: "broken_ref", Severity: diag.Warning, N: 1, Pos: diag.Pos{File: at.book.file},
			Text: "cell " + at.cell.id + ": " + fmt.Sprintf(format, args...), Hint: hint})
		return from{}
	}
	if book == nil {
		return dead("name a notebook of this campaign without .ipynb", "a record refers to notebook %q, which the campaign does not have", r.Notebook)
	}
	if book.err != nil {
		return from{book.name, "index.html#notebooks"}
	}
	if r.Cell == "" {
		return from{book.name, book.page}
	}
	for _, c := range book.cells {
		if c.id == r.Cell {
			prefix := book.page
			if at.here && book == at.book {
				prefix = ""
			}
			return from{book.name + " " + c.label(), prefix + "#" + c.anchor}
		}
	}
	return dead("give the cell this id, or correct the reference", "a record refers to cell %q of notebook %s, which has no such cell", r.Cell, book.name)
}

func (c *campaign) book(name string) *notebook {
	name = strings.TrimSuffix(path.Base(name), ".ipynb")
	for _, n := range c.notebooks {
		if n.name == name {
			return n
		}
	}
	return nil
}

func sortedNames(m map[string][]byte) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
