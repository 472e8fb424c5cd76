package charts

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Roofline compares work with what the GPU allows: FLOP/s over FLOP a byte, both axes logarithmic.
type Roofline struct {
	Figure   Figure       `json:"figure"`
	XLabel   string       `json:"xlabel"` // "FLOP per byte of expert weights read"
	Ceilings []Ceiling    `json:"ceilings"`
	Series   []RoofSeries `json:"series"`
}

// Ceiling is a limit: of memory (BytesPerS, a diagonal) or of arithmetic (FLOPPerS, level). One of the two is set.
type Ceiling struct {
	Label     string  `json:"label"` // "memory, read", "bf16"
	BytesPerS float64 `json:"bytes_per_s,omitempty"`
	FLOPPerS  float64 `json:"flop_per_s,omitempty"`
	Source    string  `json:"source"`             // "measured on this GPU", "data sheet, dense"
	Measured  bool    `json:"measured,omitempty"` // drawn solid and used for "% of roof"; else dashed
}

// RoofSeries is a path of measured points, such as one kernel over M.
type RoofSeries struct {
	Component string      `json:"component"`
	Label     string      `json:"label,omitempty"` // named on the path; not needed for a single series
	Points    []RoofPoint `json:"points"`
}

// RoofPoint is one measured size: FLOP and bytes of a call, and its mean time.
type RoofPoint struct {
	Label string `json:"label"` // "M = 64"
	FLOP  int64  `json:"flop"`
	Bytes int64  `json:"bytes"`
	Ns    int64  `json:"ns"`
	Named bool   `json:"named,omitempty"` // labelled in the drawing; at most 8
}

// Intensity returns FLOP a byte.
func (p RoofPoint) Intensity() float64 { return float64(p.FLOP) / float64(p.Bytes) }

// TFLOPs returns the rate in TFLOP/s.
func (p RoofPoint) TFLOPs() float64 { return float64(p.FLOP) / float64(p.Ns) / 1e3 }

// Text returns the ceiling's name with its value and, for one that was not measured, its source.
func (c Ceiling) Text() string {
	s := c.Label + " "
	if c.BytesPerS > 0 {
		s += units.Count(int64(c.BytesPerS/1e9+.5)) + units.HardSpace + "GB/s"
	} else {
		s += units.Count(int64(c.FLOPPerS/1e12+.5)) + units.HardSpace + "TFLOP/s"
	}
	if !c.Measured {
		s += ", " + c.Source
	}
	return s
}

// TFLOPsAt returns the ceiling's height at an intensity.
func (c Ceiling) TFLOPsAt(intensity float64) float64 {
	if c.BytesPerS > 0 {
		return c.BytesPerS / 1e12 * intensity
	}
	return c.FLOPPerS / 1e12
}

// Roof returns the lowest ceiling at an intensity, in TFLOP/s: of the measured ones where there are any of that kind.
func (r Roofline) Roof(intensity float64) float64 {
	mem, peak := r.Roofs()
	roof := mem.TFLOPsAt(intensity)
	if peak.FLOPPerS > 0 && (mem.BytesPerS == 0 || peak.TFLOPsAt(intensity) < roof) {
		roof = peak.TFLOPsAt(intensity)
	}
	return roof
}

// Roofs returns the memory ceiling and the compute ceiling that make the roof.
func (r Roofline) Roofs() (memory, compute Ceiling) {
	for _, c := range r.Ceilings {
		best := &compute
		if c.BytesPerS > 0 {
			best = &memory
		}
		unset := best.BytesPerS == 0 && best.FLOPPerS == 0
		better := c.Measured && !best.Measured ||
			c.Measured == best.Measured && c.BytesPerS+c.FLOPPerS > best.BytesPerS+best.FLOPPerS
		if unset || better {
			*best = c
		}
	}
	return memory, compute
}

// Span returns the intensities between which a ceiling limits: from the left edge to its ridge, or from its ridge to the
// right edge. Measured ceilings meet measured ones, data-sheet ceilings those of the data sheet.
func (r Roofline) Span(c Ceiling, x0, x1 float64) (from, to float64) {
	var other Ceiling
	for _, o := range r.Ceilings {
		if (o.BytesPerS > 0) == (c.BytesPerS > 0) {
			continue
		}
		if other.Label == "" || o.Measured == c.Measured && other.Measured != c.Measured {
			other = o
		}
	}
	switch {
	case c.BytesPerS > 0 && other.FLOPPerS > 0:
		return x0, min(x1, other.FLOPPerS/c.BytesPerS)
	case c.FLOPPerS > 0 && other.BytesPerS > 0:
		return max(x0, c.FLOPPerS/other.BytesPerS), x1
	}
	return x0, x1
}

// OfRoof returns what the point reaches of its roof, in percent.
func (r Roofline) OfRoof(p RoofPoint) float64 { return 100 * p.TFLOPs() / r.Roof(p.Intensity()) }

// Chart checks the numbers and makes the figure.
func (r Roofline) Chart() (Chart, error) {
	if err := r.check(); err != nil {
		return Chart{}, fmt.Errorf("roofline: %w", err)
	}
	t := data.Table{Columns: []data.Column{{Head: "Point"}, {Head: "Time", Unit: "µs", Numeric: true}, {Head: "Intensity", Unit: "FLOP/byte", Numeric: true},
		{Head: "Rate", Unit: "TFLOP/s", Numeric: true}, {Head: "Traffic", Unit: "GB/s", Numeric: true}, {Head: "Of the roof", Unit: "%", Numeric: true}}}
	var desc []string
	for _, c := range r.Ceilings {
		d := "ceiling " + c.Text()
		if c.Measured {
			d += ", measured"
		}
		desc = append(desc, d)
	}
	for _, s := range r.Series {
		for _, p := range s.Points {
			name := p.Label
			if s.Label != "" && len(r.Series) > 1 {
				name = s.Label + ", " + p.Label
			}
			ai, rate, pct := units.Float(p.Intensity(), 1), units.Float(p.TFLOPs(), 1), units.Float(r.OfRoof(p), 0)
			t.Rows = append(t.Rows, data.Row{Component: s.Component, Cells: []string{name, units.Us(p.Ns, 1), ai, rate,
				units.Count((p.Bytes + p.Ns/2) / p.Ns), pct}})
			desc = append(desc, name+": "+ai+" FLOP/byte, "+rate+" TFLOP/s, "+pct+" % of the roof")
		}
	}
	for _, c := range r.Ceilings {
		t.Note += "Ceiling " + c.Text()
		if c.Measured {
			t.Note += ", " + c.Source
		}
		t.Note += ". "
	}
	return r.Figure.chart(body{kind: KindRoofline, width: Half, unit: "TFLOP/s", desc: desc, table: t, option: r.option(), spec: r})
}

func (r Roofline) check() error {
	if len(r.Ceilings) == 0 || len(r.Series) == 0 {
		return fmt.Errorf("ceilings and measured points are needed")
	}
	for _, c := range r.Ceilings {
		if (c.BytesPerS == 0) == (c.FLOPPerS == 0) {
			return fmt.Errorf("ceiling %q: set bytes a second or FLOP a second, not both", c.Label)
		}
		if err := positive("ceiling "+c.Label, c.BytesPerS+c.FLOPPerS); err != nil {
			return err
		}
		if c.Source == "" {
			return fmt.Errorf("ceiling %q has no source", c.Label)
		}
	}
	named := 0
	for _, s := range r.Series {
		if len(s.Points) == 0 {
			return fmt.Errorf("series %q has no points", s.Label)
		}
		for _, p := range s.Points {
			if p.FLOP <= 0 || p.Bytes <= 0 || p.Ns <= 0 {
				return fmt.Errorf("point %q: %d FLOP, %d bytes, %d ns; all must be above zero", p.Label, p.FLOP, p.Bytes, p.Ns)
			}
			if p.Named {
				named++
			}
		}
	}
	if named > 8 {
		return fmt.Errorf("%d named points; at most 8 can be read", named)
	}
	return nil
}
