package charts

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Shares is one line a component over loads, in percent of a named base: which of them is larger where.
type Shares struct {
	Figure Figure      `json:"figure"`
	Base   string      `json:"base"`             // what 100 % is: "GPU time"
	XLabel string      `json:"xlabel,omitempty"` // "C, streams decoding at the same time"
	Loads  []string    `json:"loads"`            // "C = 1", ...
	Lines  []ShareLine `json:"lines"`
}

// ShareLine is the share of one component at each load.
type ShareLine struct {
	Component string       `json:"component"`
	Label     string       `json:"label,omitempty"` // empty = the component's words
	Points    []SharePoint `json:"points"`          // one a load
}

// SharePoint is Part of Whole, in ns. LowPct and HighPct are the shares of the lowest and the highest single step;
// both zero means that they are not known.
type SharePoint struct {
	PartNs  int64   `json:"part_ns"`
	WholeNs int64   `json:"whole_ns"`
	LowPct  float64 `json:"low_pct,omitempty"`
	HighPct float64 `json:"high_pct,omitempty"`
}

// Pct returns the share in percent.
func (p SharePoint) Pct() float64 { return 100 * float64(p.PartNs) / float64(p.WholeNs) }

// Text returns the share in percent with one decimal, rounded once from ns.
func (p SharePoint) Text() string { return units.Percent(p.PartNs, p.WholeNs, 1) }

// Name returns the label of the line.
func (l ShareLine) Name() string {
	if l.Label != "" {
		return l.Label
	}
	return data.ComponentLabel(l.Component)
}

// Chart checks the numbers and makes the figure.
func (s Shares) Chart() (Chart, error) {
	if len(s.Loads) == 0 || len(s.Lines) == 0 || s.Base == "" {
		return Chart{}, fmt.Errorf("shares: a load, a line and the base of the percentages are needed")
	}
	t := data.Table{Columns: []data.Column{{Head: "Component"}, {Head: "Load"}, {Head: "Share", Unit: "%", Numeric: true},
		{Head: "Lowest step", Unit: "%", Numeric: true}, {Head: "Highest step", Unit: "%", Numeric: true}}}
	desc := make([]string, len(s.Loads))
	for i, l := range s.Loads {
		desc[i] = l + ":"
	}
	for _, l := range s.Lines {
		if len(l.Points) != len(s.Loads) {
			return Chart{}, fmt.Errorf("shares: %s has %d points for %d loads", l.Name(), len(l.Points), len(s.Loads))
		}
		for i, p := range l.Points {
			where := l.Name() + " at " + s.Loads[i]
			if err := p.check(where); err != nil {
				return Chart{}, fmt.Errorf("shares: %w", err)
			}
			low, high := "not measured", "not measured"
			if p.HighPct > 0 {
				low, high = units.Float(p.LowPct, 1), units.Float(p.HighPct, 1)
			}
			t.Rows = append(t.Rows, data.Row{Cells: []string{l.Name(), s.Loads[i], p.Text(), low, high}, Component: l.Component})
			desc[i] += " " + l.Name() + " " + p.Text() + " % of " + s.Base + ","
		}
	}
	for i, d := range desc {
		desc[i] = d[:len(d)-1]
	}
	return s.Figure.chart(body{kind: KindShares, width: Half, unit: "% of " + s.Base, desc: desc, table: t, option: s.option(), spec: s})
}

func (p SharePoint) check(where string) error {
	if p.WholeNs <= 0 || p.PartNs < 0 || p.PartNs > p.WholeNs {
		return fmt.Errorf("%s: %d of %d ns is no share", where, p.PartNs, p.WholeNs)
	}
	if err := finite(where, p.LowPct); err != nil {
		return err
	}
	if err := finite(where, p.HighPct); err != nil {
		return err
	}
	if p.LowPct > p.HighPct || p.LowPct < 0 || p.HighPct > 100 {
		return fmt.Errorf("%s: lowest step %v %%, highest %v %%", where, p.LowPct, p.HighPct)
	}
	return nil
}
