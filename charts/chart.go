// Package charts describes the figures of a campaign: where a step's time goes, shares over loads, rooflines,
// latencies and timelines. A figure is built from plain numbers, checked, and carries its title, its data as a table,
// the numbers it was drawn from and an ECharts option for pointing and zooming.
// It does not draw (package charts/svg does), does not run JavaScript, does not measure and does not read traces.
package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Kinds of charts; each is the name of the type in this package that describes it.
const (
	KindBreakdown = "breakdown"
	KindShares    = "shares"
	KindLayers    = "layers"
	KindRoofline  = "roofline"
	KindLatency   = "latency"
	KindTimeline  = "timeline"
	KindBars      = "bars"
	KindECharts   = "echarts"
)

// Widths on a page: half of the text, or all of it.
const (
	Half = "half"
	Full = "full"
)

// Figure is what every figure has around its drawing.
type Figure struct {
	ID      string   `json:"id,omitempty"`      // stable anchor; empty = made from the title
	Title   string   `json:"title"`             // a sentence that the figure proves
	Caption string   `json:"caption,omitempty"` // what was measured, n, what whiskers mean
	Width   string   `json:"width,omitempty"`   // Half or Full; empty = what suits the kind
	Sources []string `json:"sources,omitempty"` // cells and files that the numbers come from
}

// Chart is a figure ready to be shown. A cell that ends in a Chart shows it.
type Chart struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Title   string          `json:"title"`
	Unit    string          `json:"unit"` // of the drawn values, in words: "ms a step"
	Caption string          `json:"caption,omitempty"`
	Desc    string          `json:"desc"` // every labelled value, for those who cannot see the drawing
	Width   string          `json:"width"`
	Sources []string        `json:"sources,omitempty"`
	Table   data.Table      `json:"table"`            // the data of the figure
	Option  json.RawMessage `json:"option,omitempty"` // ECharts option; {"$fn":"name"} stands for a function of assets/js/charts.js
	Spec    json.RawMessage `json:"spec,omitempty"`   // the described figure, such as a Roofline
}

// Parse reads a chart from the JSON that SimpleRender made of it.
func Parse(raw []byte) (Chart, error) {
	var c Chart
	if err := json.Unmarshal(raw, &c); err != nil {
		return Chart{}, fmt.Errorf("read chart: %w", err)
	}
	if c.Kind == "" || c.ID == "" || c.Title == "" {
		return Chart{}, errors.New("read chart: kind, id and title are needed")
	}
	return c, nil
}

// SimpleRender shows the chart in a notebook: the typed JSON and a text table.
// The kernel adds the picture (svg.Enrich), so that cells need no drawing code.
// The zero Chart stands for a figure whose phase did not run; it says so.
func (c Chart) SimpleRender() map[string]interface{} {
	if c.Kind == "" {
		return map[string]interface{}{"text/plain": "This figure was not measured: the phase that draws it did not run."}
	}
	raw, err := json.Marshal(c)
	var typed any
	if err == nil {
		err = json.Unmarshal(raw, &typed)
	}
	if err != nil {
		return map[string]interface{}{"text/plain": fmt.Sprintf("this chart cannot be shown: %v", err)}
	}
	return map[string]interface{}{data.MIMEChart: typed, "text/plain": c.Text()}
}

// Text returns the title and the data as a small aligned table, without the thin spaces that only proportional type needs.
func (c Chart) Text() string {
	t := c.Table
	t.Rows = slices.Clone(t.Rows)
	for i, r := range t.Rows {
		t.Rows[i].Cells = slices.Clone(r.Cells)
		for k, cell := range r.Cells {
			t.Rows[i].Cells[k] = strings.ReplaceAll(cell, units.ThinSpace, "")
		}
	}
	return c.Title + "\n\n" + t.Text()
}

// body is what a kind adds to a figure.
type body struct {
	kind   string
	width  string // unless the figure says otherwise
	unit   string
	desc   []string
	table  data.Table
	option any
	spec   any
}

func (f Figure) chart(b body) (Chart, error) {
	if strings.TrimSpace(f.Title) == "" {
		return Chart{}, fmt.Errorf("%s chart: a title is needed, a sentence that the figure proves", b.kind)
	}
	c := Chart{Kind: b.kind, ID: f.ID, Title: f.Title, Unit: b.unit, Caption: f.Caption, Desc: strings.Join(b.desc, "; "),
		Width: f.Width, Sources: f.Sources, Table: b.table}
	if c.ID == "" {
		c.ID = slug(f.Title)
	} else if c.ID != slug(c.ID) {
		return Chart{}, fmt.Errorf("%s chart: id %q: use lower-case letters, digits and hyphens, such as %q", b.kind, c.ID, slug(c.ID))
	}
	switch c.Width {
	case "":
		c.Width = b.width
	case Half, Full:
	default:
		return Chart{}, fmt.Errorf("%s chart %s: width %q is neither %q nor %q", b.kind, c.ID, c.Width, Half, Full)
	}
	c.Table.ID, c.Table.Title = c.ID+"-data", "Data: "+b.unit
	var err error
	if c.Option, err = json.Marshal(b.option); err == nil {
		c.Spec, err = json.Marshal(b.spec)
	}
	if err != nil {
		return Chart{}, fmt.Errorf("%s chart %s: %w", b.kind, c.ID, err)
	}
	return c, nil
}

// slug makes an anchor of a sentence: lower-case ASCII letters and digits joined by hyphens, at most 60 characters.
func slug(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(s) {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		} else {
			gap = true
		}
	}
	out := b.String()
	if len(out) > 60 {
		out = out[:60]
		if i := strings.LastIndexByte(out, '-'); i > 20 {
			out = out[:i]
		}
	}
	if out == "" {
		return "figure"
	}
	return out
}

// FamilyOf returns the family of a component, or the name itself when it is a family.
func FamilyOf(name string) string {
	if slices.Contains(data.Families(), name) {
		return name
	}
	return data.Family(name)
}

// finite refuses NaN and infinities: they cannot be drawn, and JSON cannot carry them.
func finite(where string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v; a figure needs finite numbers", where, v)
	}
	return nil
}

// positive refuses what a logarithmic axis cannot show.
func positive(where string, v float64) error {
	if err := finite(where, v); err != nil {
		return err
	}
	if v <= 0 {
		return fmt.Errorf("%s is %v; a logarithmic axis needs values above zero", where, v)
	}
	return nil
}
