package sitegen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"regexp"

	"github.com/rooflab/rooflab/assets"
	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/charts/svg"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
)

// A figure is drawn once for each width at which it is shown; the style sheet picks one. The sets are named by place.
var widths = map[string][]int{
	"hero": {340, 400, 456},
	"half": {340, 540},
	"full": {340, 660, 1120},
	"cell": {340, 660},
}

type figureView struct {
	ID, Title, Caption, Class, Tag, Set string
	Drawings                            []drawing
	Option                              template.JS // ECharts option of the interactive view, safe inside <script>
	Data                                *tableView
	From                                from
	Sources                             []from // cells and files that the numbers come from; a file has no link

	chart charts.Chart
	at    place
}

type drawing struct {
	Width int
	SVG   template.HTML
}

// figure lays out a chart as it is shown below a cell, or in the text of the start page.
func (s *site) figure(c charts.Chart, at place) (*figureView, error) {
	f := &figureView{ID: at.unique("fig-" + c.ID), Title: c.Title, Caption: c.Caption, Tag: "p", From: at.own(), chart: c, at: at}
	if !at.here {
		f.Tag = "h3"
	}
	table := c.Table
	table.ID = c.ID
	f.Data = s.table(table, place{book: at.book, cell: at.cell, here: true, taken: at.taken})
	for _, src := range c.Sources {
		f.Sources = append(f.Sources, s.source(src, at))
	}
	set := "cell"
	switch {
	case c.Width == charts.Half:
		set, f.Class = "half", "half"
	case !at.here:
		set, f.Class = "full", "aside"
	}
	if len(c.Option) > 0 && len(s.charting) > 0 {
		option, err := inert(c.Option)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", c.ID, err)
		}
		f.Option = option
	}
	return f, s.draw(f, set)
}

var cellSource = regexp.MustCompile(`^([\w.-]+?)(?:\.ipynb)?#(?:cell-)?([\w-]+)$`)

// source links a source that is written as notebook#cell; any other is a name.
func (s *site) source(src string, at place) from {
	if m := cellSource.FindStringSubmatch(src); m != nil && s.book(m[1]) != nil {
		return s.named(data.Ref{Notebook: m[1], Cell: m[2]}, at)
	}
	return from{Text: src}
}

// draw draws the figure at the widths of a set.
func (s *site) draw(f *figureView, set string) error {
	f.Set, f.Drawings = set, nil
	for _, w := range widths[set] {
		id := fmt.Sprintf("%s-%d", f.ID, w)
		text, err := svg.Render(f.chart, svg.Options{Width: w, ID: id})
		if err != nil {
			return fmt.Errorf("draw chart %s: %w", f.chart.ID, err)
		}
		f.Drawings = append(f.Drawings, drawing{w, template.HTML(text)}) //nolint:gosec // drawn by charts/svg, which escapes every text
	}
	return nil
}

// inert re-writes JSON so that nothing in it can end the <script> element that holds it.
func inert(raw json.RawMessage) (template.JS, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", fmt.Errorf("read option: %w", err)
	}
	var out bytes.Buffer
	json.HTMLEscape(&out, b.Bytes())
	return template.JS(out.String()), nil //nolint:gosec // JSON with <, > and & escaped, in a block that is not run
}

// chartScripts keeps ECharts and the script that opens the interactive view, in one folder named by their content.
// Built without ECharts, pages keep their drawings and lose nothing else.
func (s *site) chartScripts() error {
	lib, err := assets.ECharts()
	if errors.Is(err, assets.ErrNoECharts) {
		s.warn(diag.Diagnostic{ID: "no_echarts", Severity: diag.Info, Text: "figures have no interactive view: " + err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	own := assets.ChartsJS()
	probe := s.asset("charts", "", append(append([]byte{}, lib...), own...))
	delete(s.files, probe)
	s.files[probe+"/echarts.min.js"] = lib
	s.files[probe+"/charts.js"] = own
	for _, name := range []string{"echarts.LICENSE", "echarts.NOTICE"} {
		text, err := fs.ReadFile(assets.FS(), name)
		if err != nil {
			return fmt.Errorf("read licence of ECharts: %w", err)
		}
		s.files[probe+"/"+name] = text
	}
	s.charting = []string{probe + "/charts.js"}
	return nil
}
