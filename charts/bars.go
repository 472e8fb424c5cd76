package charts

import (
	"fmt"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Bars is a group of horizontal bars a row, from zero: launches a step, eager against graphs, and the like.
type Bars struct {
	Figure   Figure   `json:"figure"`
	Unit     string   `json:"unit"` // "launches a step"
	Decimals int      `json:"decimals,omitempty"`
	Rows     []BarRow `json:"rows"`
}

// BarRow is one thing that is compared.
type BarRow struct {
	Label  string     `json:"label"`
	Values []BarValue `json:"values"`
}

// BarValue is one bar.
type BarValue struct {
	Label     string  `json:"label,omitempty"` // "eager"; not needed when a row has one bar
	Value     float64 `json:"value"`
	Component string  `json:"component,omitempty"` // gives the colour; empty = ink
	Missing   string  `json:"missing,omitempty"`   // said in place of the bar: "not measured"
}

// Text returns the value as it is printed.
func (b Bars) Text(v BarValue) string {
	if v.Missing != "" {
		return v.Missing
	}
	if b.Decimals == 0 && v.Value == float64(int64(v.Value)) {
		return units.Count(int64(v.Value))
	}
	return units.Float(v.Value, b.Decimals)
}

// Chart checks the numbers and makes the figure.
func (b Bars) Chart() (Chart, error) {
	if len(b.Rows) == 0 || b.Unit == "" {
		return Chart{}, fmt.Errorf("bars: rows and a unit are needed")
	}
	t := data.Table{Columns: []data.Column{{Head: "What"}, {Head: ""}, {Head: "Value", Unit: b.Unit, Numeric: true}}}
	var desc []string
	for _, r := range b.Rows {
		if len(r.Values) == 0 {
			return Chart{}, fmt.Errorf("bars: row %q has no values", r.Label)
		}
		for _, v := range r.Values {
			if err := finite(r.Label+" "+v.Label, v.Value); err != nil {
				return Chart{}, fmt.Errorf("bars: %w", err)
			}
			if v.Value < 0 {
				return Chart{}, fmt.Errorf("bars: %s %s is %v; bars start at zero", r.Label, v.Label, v.Value)
			}
			t.Rows = append(t.Rows, data.Row{Cells: []string{r.Label, v.Label, b.Text(v)}, Component: v.Component})
			desc = append(desc, join(r.Label, v.Label)+" "+b.Text(v))
		}
	}
	return b.Figure.chart(body{kind: KindBars, width: Half, unit: b.Unit, desc: desc, table: t, option: b.option(), spec: b})
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}
