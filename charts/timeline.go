package charts

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// MaxSlices is the number of rectangles that a timeline may have; more cannot be told apart.
const MaxSlices = 1000

// Timeline is a stretch of true time, such as one decode layer: what ran on each GPU stream, with gaps left empty.
type Timeline struct {
	Figure Figure   `json:"figure"`
	Lanes  []string `json:"lanes"` // one a GPU stream: "main GPU stream", "second GPU stream: shared expert"
	Slices []Slice  `json:"slices"`
	Groups []Group  `json:"groups,omitempty"` // named stretches with their durations
}

// Slice is one GPU kernel. StartNs counts from the left edge of the figure.
type Slice struct {
	StartNs   int64  `json:"start_ns"`
	DurNs     int64  `json:"dur_ns"`
	Lane      int    `json:"lane,omitempty"`
	Component string `json:"component"`
	Name      string `json:"name,omitempty"` // the GPU kernel's name
}

// Group names a stretch of one lane. One that covers a single slice is written into it where it fits; any other gets a brace.
type Group struct {
	StartNs   int64  `json:"start_ns"`
	EndNs     int64  `json:"end_ns"`
	Lane      int    `json:"lane,omitempty"`
	Label     string `json:"label"`           // "Experts, gate and up (w13)"
	Short     string `json:"short,omitempty"` // "Experts w13", where there is less room
	Note      string `json:"note,omitempty"`  // a second line: "projections 33, kernels 30 µs"
	Component string `json:"component,omitempty"`
}

// EndNs returns where the last slice ends.
func (t Timeline) EndNs() int64 {
	var end int64
	for _, s := range t.Slices {
		end = max(end, s.StartNs+s.DurNs)
	}
	return end
}

// Chart checks the numbers and makes the figure.
func (t Timeline) Chart() (Chart, error) {
	if len(t.Slices) == 0 || len(t.Lanes) == 0 {
		return Chart{}, fmt.Errorf("timeline: slices and names of the lanes are needed")
	}
	if len(t.Slices) > MaxSlices {
		return Chart{}, fmt.Errorf("timeline: %d slices; show a shorter stretch, at most %d can be told apart", len(t.Slices), MaxSlices)
	}
	tab := data.Table{Columns: []data.Column{{Head: "Component"}, {Head: "GPU stream", Numeric: true}, {Head: "Start", Unit: "µs", Numeric: true},
		{Head: "Time", Unit: "µs", Numeric: true}, {Head: "Kernel"}}}
	for i, s := range t.Slices {
		if s.StartNs < 0 || s.DurNs < 0 || s.Lane < 0 || s.Lane >= len(t.Lanes) {
			return Chart{}, fmt.Errorf("timeline: slice %d (%s): start %d ns, %d ns long, lane %d of %d", i, s.Component, s.StartNs, s.DurNs, s.Lane, len(t.Lanes))
		}
		tab.Rows = append(tab.Rows, data.Row{Component: s.Component, Cells: []string{data.ComponentLabel(s.Component),
			fmt.Sprint(s.Lane + 1), units.Us(s.StartNs, 1), units.Us(s.DurNs, 1), s.Name}})
	}
	if t.EndNs() == 0 {
		return Chart{}, fmt.Errorf("timeline: all slices are empty")
	}
	desc := []string{units.Us(t.EndNs(), 0) + " µs in all"}
	for _, g := range t.Groups {
		if g.StartNs < 0 || g.EndNs <= g.StartNs || g.Lane < 0 || g.Lane >= len(t.Lanes) || g.Label == "" {
			return Chart{}, fmt.Errorf("timeline: group %q from %d to %d ns in lane %d of %d", g.Label, g.StartNs, g.EndNs, g.Lane, len(t.Lanes))
		}
		d := g.Label + " " + units.Us(g.EndNs-g.StartNs, 0) + " µs"
		if g.Note != "" {
			d += " (" + g.Note + ")"
		}
		desc = append(desc, d)
	}
	return t.Figure.chart(body{kind: KindTimeline, width: Full, unit: "µs", desc: desc, table: tab, option: t.option(), spec: t})
}
