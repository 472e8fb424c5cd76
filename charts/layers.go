package charts

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Layers is one narrow stacked column a layer of the model, in µs a layer and step.
type Layers struct {
	Figure  Figure        `json:"figure"`
	Steps   int           `json:"steps"` // times are totals over these steps
	Columns []LayerColumn `json:"columns"`
}

// LayerColumn is the time of one layer.
type LayerColumn struct {
	Label    string    `json:"label"` // the layer's number
	Segments []Segment `json:"segments"`
}

// TotalNs returns the sum of the parts, over all steps.
func (c LayerColumn) TotalNs() int64 { return BreakdownBar{Segments: c.Segments}.TotalNs() }

// Chart checks the numbers and makes the figure.
func (l Layers) Chart() (Chart, error) {
	if len(l.Columns) == 0 || l.Steps <= 0 {
		return Chart{}, fmt.Errorf("layers: columns and the number of steps are needed")
	}
	used, sum := map[string]bool{}, map[string]int64{}
	low, high := l.Columns[0], l.Columns[0]
	for _, c := range l.Columns {
		for _, s := range c.Segments {
			if s.Ns < 0 {
				return Chart{}, fmt.Errorf("layers: %s of layer %s is %d ns", s.Component, c.Label, s.Ns)
			}
		}
		for _, f := range ByFamily(c.Segments) {
			used[f.Family] = true
			sum[f.Family] += f.Ns
		}
		if c.TotalNs() < low.TotalNs() {
			low = c
		}
		if c.TotalNs() > high.TotalNs() {
			high = c
		}
	}
	if high.TotalNs() == 0 {
		return Chart{}, fmt.Errorf("layers: all parts are zero")
	}
	us := func(ns int64) string { return units.Fixed(ns, 1e3*int64(l.Steps), 1) }
	t := data.Table{Columns: []data.Column{{Head: "Layer"}}}
	var fams []string
	for _, f := range data.Families() {
		if used[f] {
			fams = append(fams, f)
			t.Columns = append(t.Columns, data.Column{Head: data.FamilyLabel(f), Unit: "µs", Numeric: true})
		}
	}
	t.Columns = append(t.Columns, data.Column{Head: "Layer, sum", Unit: "µs", Numeric: true})
	for _, c := range l.Columns {
		row := data.Row{Cells: []string{c.Label}}
		got := map[string]int64{}
		for _, f := range ByFamily(c.Segments) {
			got[f.Family] = f.Ns
		}
		for _, f := range fams {
			row.Cells = append(row.Cells, us(got[f]))
		}
		t.Rows = append(t.Rows, data.Row{Cells: append(row.Cells, us(c.TotalNs()))})
	}
	desc := []string{fmt.Sprintf("%d layers, from %s µs (layer %s) to %s µs (layer %s)", len(l.Columns), us(low.TotalNs()), low.Label, us(high.TotalNs()), high.Label)}
	for _, f := range fams {
		desc = append(desc, data.FamilyLabel(f)+" "+units.Fixed(sum[f], 1e3*int64(l.Steps*len(l.Columns)), 1)+" µs a layer on average")
	}
	return l.Figure.chart(body{kind: KindLayers, width: Full, unit: "µs a layer", desc: desc, table: t, option: l.option(), spec: l})
}
