package charts

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Breakdown is one stacked horizontal bar a load, in ms a step. The parts of a bar add up to its step: the caller takes
// the time of a second GPU stream that ran beside other work off its component, and adds "idle".
type Breakdown struct {
	Figure Figure         `json:"figure"`
	Bars   []BreakdownBar `json:"bars"`
}

// BreakdownBar is the step at one load. Times are totals over Steps steps.
type BreakdownBar struct {
	Label    string    `json:"label"`            // "C = 64"
	Note     string    `json:"note,omitempty"`   // after the ms a step: "710 tokens/s"
	Beside   string    `json:"beside,omitempty"` // right of a short bar: "nothing dominates"
	Steps    int       `json:"steps"`
	Segments []Segment `json:"segments"`
	MinNs    int64     `json:"min_ns,omitempty"` // shortest and longest single step, bracketed under the bar
	MaxNs    int64     `json:"max_ns,omitempty"`
}

// Segment is a part of a stack. Component is a fixed component name, or a family.
type Segment struct {
	Component string `json:"component"`
	Label     string `json:"label,omitempty"`
	Ns        int64  `json:"ns"`
}

// FamilyTime is the time of all components of a family.
type FamilyTime struct {
	Family string
	Ns     int64
}

// ByFamily sums segments by family, in the fixed order of families; families without time are left out.
func ByFamily(segments []Segment) []FamilyTime {
	sum := map[string]int64{}
	for _, s := range segments {
		sum[FamilyOf(s.Component)] += s.Ns
	}
	var out []FamilyTime
	for _, f := range data.Families() {
		if sum[f] > 0 {
			out = append(out, FamilyTime{f, sum[f]})
		}
	}
	return out
}

// TotalNs returns the sum of the parts, over all steps.
func (b BreakdownBar) TotalNs() int64 {
	var t int64
	for _, s := range b.Segments {
		t += s.Ns
	}
	return t
}

// StepMs returns the mean step as text, in ms with two decimals.
func (b BreakdownBar) StepMs() string { return units.MsPer(b.TotalNs(), int64(b.Steps), 2) }

// Chart checks the numbers and makes the figure.
func (b Breakdown) Chart() (Chart, error) {
	if len(b.Bars) == 0 {
		return Chart{}, fmt.Errorf("breakdown: no bars")
	}
	t := data.Table{Columns: []data.Column{{Head: "Family"}}}
	used := map[string]bool{}
	var desc []string
	for _, bar := range b.Bars {
		if err := bar.check(); err != nil {
			return Chart{}, fmt.Errorf("breakdown: %w", err)
		}
		t.Columns = append(t.Columns, data.Column{Head: bar.Label, Unit: "ms a step", Numeric: true})
		d := bar.Label + ": " + bar.StepMs() + " ms a step"
		for _, f := range ByFamily(bar.Segments) {
			used[f.Family] = true
			d += ", " + data.FamilyLabel(f.Family) + " " + units.MsPer(f.Ns, int64(bar.Steps), 2)
		}
		desc = append(desc, d)
	}
	for _, f := range data.Families() {
		if used[f] {
			t.Rows = append(t.Rows, b.row(f))
		}
	}
	t.Rows = append(t.Rows, b.sumRow("Step", BreakdownBar.StepMs))
	t.Rows = append(t.Rows, b.rangeRows()...)
	return b.Figure.chart(body{kind: KindBreakdown, width: Full, unit: "ms a step", desc: desc, table: t, option: b.option(), spec: b})
}

func (b BreakdownBar) check() error {
	if b.Label == "" || len(b.Segments) == 0 || b.Steps <= 0 {
		return fmt.Errorf("bar %q: label, steps and segments are needed", b.Label)
	}
	for _, s := range b.Segments {
		if s.Ns < 0 {
			return fmt.Errorf("bar %q: %s is %d ns; a stack has no negative parts", b.Label, s.Component, s.Ns)
		}
	}
	if b.MinNs < 0 || b.MaxNs < b.MinNs {
		return fmt.Errorf("bar %q: shortest step %d ns, longest %d ns", b.Label, b.MinNs, b.MaxNs)
	}
	if b.TotalNs() == 0 {
		return fmt.Errorf("bar %q: all parts are zero", b.Label)
	}
	return nil
}

func (b Breakdown) row(family string) data.Row {
	row := data.Row{Cells: []string{data.FamilyLabel(family)}, Component: family}
	for _, bar := range b.Bars {
		var ns int64
		for _, f := range ByFamily(bar.Segments) {
			if f.Family == family {
				ns = f.Ns
			}
		}
		row.Cells = append(row.Cells, units.MsPer(ns, int64(bar.Steps), 2))
	}
	return row
}

func (b Breakdown) sumRow(head string, cell func(BreakdownBar) string) data.Row {
	row := data.Row{Cells: []string{head}, Bold: true, Rule: true}
	for _, bar := range b.Bars {
		row.Cells = append(row.Cells, cell(bar))
	}
	return row
}

func (b Breakdown) rangeRows() []data.Row {
	low, high := data.Row{Cells: []string{"Shortest step"}}, data.Row{Cells: []string{"Longest step"}}
	known := false
	for _, bar := range b.Bars {
		if bar.MaxNs == 0 {
			low.Cells, high.Cells = append(low.Cells, "not measured"), append(high.Cells, "not measured")
			continue
		}
		known = true
		low.Cells, high.Cells = append(low.Cells, units.Ms(bar.MinNs, 2)), append(high.Cells, units.Ms(bar.MaxNs, 2))
	}
	if !known {
		return nil
	}
	return []data.Row{low, high}
}
