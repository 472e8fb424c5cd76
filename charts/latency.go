package charts

import (
	"fmt"
	"slices"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Latency is time a call over message size, both axes logarithmic: one line a setting.
type Latency struct {
	Figure   Figure          `json:"figure"`
	XLabel   string          `json:"xlabel"` // "message size (tokens × 7168 × 2 bytes)"
	Series   []LatencySeries `json:"series"`
	Markers  []SizeMarker    `json:"markers,omitempty"`  // sizes that occur in the server
	Observed []Observed      `json:"observed,omitempty"` // the same call, measured another way: open diamonds
}

// Styles of a line.
const (
	Served      = ""            // solid: what the server uses
	Alternative = "alternative" // dashed
	Reference   = "reference"   // thin: another path or machine
)

// LatencySeries is one setting.
type LatencySeries struct {
	Label     string         `json:"label"` // "LL + Ring, as served"
	Component string         `json:"component"`
	Style     string         `json:"style,omitempty"` // Served, Alternative or Reference
	Points    []LatencyPoint `json:"points"`
}

// LatencyPoint is the mean time of a call with that many bytes.
type LatencyPoint struct {
	Bytes int64 `json:"bytes"`
	Ns    int64 `json:"ns"`
}

// SizeMarker names a message size: "C = 64".
type SizeMarker struct {
	Label string `json:"label"`
	Bytes int64  `json:"bytes"`
}

// Observed is a value from another source, such as inside the served step.
type Observed struct {
	Label string `json:"label"` // "in the server"; printed after the value where Named
	Bytes int64  `json:"bytes"`
	Ns    int64  `json:"ns"`
	Named bool   `json:"named,omitempty"`
}

// Chart checks the numbers and makes the figure.
func (l Latency) Chart() (Chart, error) {
	if len(l.Series) == 0 {
		return Chart{}, fmt.Errorf("latency: no series")
	}
	for _, s := range l.Series {
		if len(s.Points) == 0 {
			return Chart{}, fmt.Errorf("latency: %s has no points", s.Label)
		}
		if !slices.Contains([]string{Served, Alternative, Reference}, s.Style) {
			return Chart{}, fmt.Errorf("latency: %s: unknown style %q", s.Label, s.Style)
		}
		for i, p := range s.Points {
			if p.Bytes <= 0 || p.Ns <= 0 {
				return Chart{}, fmt.Errorf("latency: %s: %d ns at %d bytes; a logarithmic axis needs values above zero", s.Label, p.Ns, p.Bytes)
			}
			if i > 0 && p.Bytes <= s.Points[i-1].Bytes {
				return Chart{}, fmt.Errorf("latency: %s: sizes must grow, %d follows %d bytes", s.Label, p.Bytes, s.Points[i-1].Bytes)
			}
		}
	}
	for _, m := range l.Markers {
		if m.Bytes <= 0 {
			return Chart{}, fmt.Errorf("latency: marker %s at %d bytes", m.Label, m.Bytes)
		}
	}
	for _, o := range l.Observed {
		if o.Bytes <= 0 || o.Ns <= 0 {
			return Chart{}, fmt.Errorf("latency: %s: %d ns at %d bytes", o.Label, o.Ns, o.Bytes)
		}
	}
	return l.Figure.chart(body{kind: KindLatency, width: Half, unit: "µs a call", desc: l.desc(), table: l.table(), option: l.option(), spec: l})
}

// At returns the measured time at a size; ok is false where that size was not measured.
func (s LatencySeries) At(bytes int64) (ns int64, ok bool) {
	for _, p := range s.Points {
		if p.Bytes == bytes {
			return p.Ns, true
		}
	}
	return 0, false
}

func (l Latency) desc() []string {
	var desc []string
	for _, m := range l.Markers {
		d := m.Label + " (" + units.Bytes(m.Bytes) + "):"
		for _, s := range l.Series {
			if ns, ok := s.At(m.Bytes); ok {
				d += " " + s.Label + " " + units.Us(ns, 1) + " µs,"
			}
		}
		for _, o := range l.Observed {
			if o.Bytes == m.Bytes {
				d += " " + o.Label + " " + units.Us(o.Ns, 1) + " µs,"
			}
		}
		desc = append(desc, d[:len(d)-1])
	}
	if len(desc) == 0 {
		for _, s := range l.Series {
			a, b := s.Points[0], s.Points[len(s.Points)-1]
			desc = append(desc, s.Label+": "+units.Us(a.Ns, 1)+" µs at "+units.Bytes(a.Bytes)+" to "+units.Us(b.Ns, 1)+" µs at "+units.Bytes(b.Bytes))
		}
	}
	return desc
}

func (l Latency) table() data.Table {
	t := data.Table{Columns: []data.Column{{Head: "Size", Numeric: true}}}
	var sizes []int64
	for _, s := range l.Series {
		t.Columns = append(t.Columns, data.Column{Head: s.Label, Unit: "µs", Numeric: true})
		for _, p := range s.Points {
			sizes = append(sizes, p.Bytes)
		}
	}
	other := ""
	for _, o := range l.Observed {
		sizes = append(sizes, o.Bytes)
		other = o.Label
	}
	if other != "" {
		t.Columns = append(t.Columns, data.Column{Head: other, Unit: "µs", Numeric: true})
	}
	slices.Sort(sizes)
	for _, size := range slices.Compact(sizes) {
		row := data.Row{Cells: []string{units.Bytes(size)}}
		for _, s := range l.Series {
			if ns, ok := s.At(size); ok {
				row.Cells = append(row.Cells, units.Us(ns, 1))
			} else {
				row.Cells = append(row.Cells, "not measured")
			}
		}
		for _, o := range l.Observed {
			if o.Bytes == size {
				row.Cells = append(row.Cells, units.Us(o.Ns, 1))
				break
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
