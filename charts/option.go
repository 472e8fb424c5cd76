package charts

import (
	"encoding/json"
	"fmt"
	"math"

	ec "github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Colour returns the CSS variable of a component's or family's colour; pages define it for light and dark.
func Colour(component string) string {
	switch f := FamilyOf(component); f {
	case data.Copies:
		return "var(--c-copy)"
	case data.Idle:
		return "var(--rule)"
	default:
		return "var(--c-" + f + ")"
	}
}

// fn stands for a function of assets/js/charts.js. Options hold names only: a string from a trace never becomes code.
func fn(name string) map[string]any { return map[string]any{"$fn": name} }

// finish turns a go-echarts chart into our option: no legend, no title, tooltips that show an item's name as text,
// and the axis settings that go-echarts has no field for.
func finish(drawn map[string]interface{}, x, y map[string]any) any {
	raw, err := json.Marshal(drawn)
	if err != nil {
		return unmarshalable{err}
	}
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		return unmarshalable{err}
	}
	for _, k := range []string{"legend", "title", "toolbox", "color"} {
		delete(o, k)
	}
	o["animation"] = false
	o["tooltip"] = map[string]any{"trigger": "item", "confine": true, "formatter": fn("name")}
	o["grid"] = map[string]any{"left": 8, "right": 16, "top": 30, "bottom": 30, "containLabel": true}
	o["textStyle"] = map[string]any{"color": "var(--ink)", "fontFamily": "inherit"}
	merge(o["xAxis"], x)
	merge(o["yAxis"], y)
	for _, a := range list(o["yAxis"]) { // a name over the axis begins at its left edge, or it would be cut
		a["nameTextStyle"].(map[string]any)["align"] = "left"
	}
	for _, s := range list(o["series"]) {
		s["animation"], s["progressive"] = false, 0
		s["emphasis"] = map[string]any{"disabled": true}
	}
	return o
}

// labelled names the lines of an option at their right ends.
func labelled(option any) any {
	o, ok := option.(map[string]any)
	if !ok {
		return option
	}
	widest := 0
	for _, s := range list(o["series"]) {
		name, _ := s["name"].(string)
		if style, _ := s["lineStyle"].(map[string]any); style["color"] == "none" { // marks without a line
			continue
		}
		widest = max(widest, len([]rune(name)))
		s["endLabel"] = map[string]any{"show": name != "", "formatter": "{a}", "color": "inherit", "fontWeight": 700, "width": 120, "overflow": "break"}
	}
	o["grid"].(map[string]any)["right"] = min(8*widest, 120) + 16
	return o
}

// unmarshalable carries an error to the one place where options are encoded.
type unmarshalable struct{ err error }

func (u unmarshalable) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("make option: %w", u.err)
}

func merge(axes any, extra map[string]any) {
	for _, a := range list(axes) {
		a["axisLine"] = map[string]any{"lineStyle": map[string]any{"color": "var(--ink)"}}
		a["splitLine"] = map[string]any{"lineStyle": map[string]any{"color": "var(--grid)"}}
		a["axisLabel"] = map[string]any{"color": "var(--muted)"}
		a["nameTextStyle"] = map[string]any{"color": "var(--muted)"}
		for k, v := range extra {
			if m, ok := v.(map[string]any); ok {
				if old, ok := a[k].(map[string]any); ok {
					for kk, vv := range m {
						old[kk] = vv
					}
					continue
				}
			}
			a[k] = v
		}
	}
}

func list(v any) []map[string]any {
	var out []map[string]any
	items, _ := v.([]any)
	for _, it := range items {
		if m, ok := it.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func category(labels []string) map[string]any {
	return map[string]any{"type": "category", "data": labels, "splitLine": map[string]any{"show": false}, "axisTick": map[string]any{"show": false}}
}

func value(name string) map[string]any {
	return map[string]any{"type": "value", "name": name, "min": 0, "axisLabel": map[string]any{"formatter": fn("count")}}
}

func logarithmic(name string, low, high float64, format string) map[string]any {
	return map[string]any{"type": "log", "name": name, "min": low, "max": high, "axisLabel": map[string]any{"formatter": fn(format)}}
}

func below(m map[string]any, gap int) map[string]any {
	m["nameLocation"], m["nameGap"] = "middle", gap
	return m
}

func fill(component string) *opts.ItemStyle { return &opts.ItemStyle{Color: Colour(component)} }

func stack(add func(name string, data []opts.BarData, options ...ec.SeriesOpts), family string, items []opts.BarData) {
	add(data.FamilyLabel(family), items, ec.WithSeriesOpts(func(s *ec.SingleSeries) {
		s.Stack, s.ItemStyle = "all", fill(family)
	}))
}

func (b Breakdown) option() any {
	bar := ec.NewBar()
	bar.XYReversal()
	var labels []string
	for _, l := range b.Bars {
		labels = append(labels, l.Label)
	}
	for _, f := range data.Families() {
		items, some := make([]opts.BarData, len(b.Bars)), false
		for i, l := range b.Bars {
			for _, t := range ByFamily(l.Segments) {
				if t.Family == f {
					some = true
					items[i] = opts.BarData{Name: l.Label + ": " + data.FamilyLabel(f) + " " + units.MsPer(t.Ns, int64(l.Steps), 2) + " ms",
						Value: float64(t.Ns) / float64(l.Steps) / 1e6}
				}
			}
		}
		if some {
			stack(func(n string, d []opts.BarData, o ...ec.SeriesOpts) { bar.AddSeries(n, d, o...) }, f, items)
		}
	}
	bar.Validate()
	y := category(labels)
	y["inverse"] = true
	return finish(bar.JSON(), below(value("ms a step"), 28), y)
}

func (l Layers) option() any {
	bar := ec.NewBar()
	var labels []string
	for _, c := range l.Columns {
		labels = append(labels, c.Label)
	}
	for _, f := range data.Families() {
		items, some := make([]opts.BarData, len(l.Columns)), false
		for i, c := range l.Columns {
			for _, t := range ByFamily(c.Segments) {
				if t.Family == f {
					some = true
					items[i] = opts.BarData{Name: "Layer " + c.Label + ": " + data.FamilyLabel(f) + " " + units.Fixed(t.Ns, 1e3*int64(l.Steps), 1) + " µs",
						Value: float64(t.Ns) / float64(l.Steps) / 1e3}
				}
			}
		}
		if some {
			stack(func(n string, d []opts.BarData, o ...ec.SeriesOpts) { bar.AddSeries(n, d, o...) }, f, items)
		}
	}
	bar.Validate()
	return finish(bar.JSON(), below(category(labels), 28), value("µs a layer"))
}

func (s Shares) option() any {
	line := ec.NewLine()
	for _, l := range s.Lines {
		var items []opts.LineData
		for i, p := range l.Points {
			items = append(items, opts.LineData{Name: s.Loads[i] + ": " + l.Name() + " " + p.Text() + " %", Value: p.Pct(), Symbol: "circle", SymbolSize: 9})
		}
		line.AddSeries(l.Name(), items, path(l.Component, 2.25, "solid"))
	}
	line.Validate()
	return labelled(finish(line.JSON(), below(category(s.Loads), 28), value("% of "+s.Base)))
}

func path(component string, width float32, dash string) ec.SeriesOpts {
	return ec.WithSeriesOpts(func(s *ec.SingleSeries) {
		s.ItemStyle = fill(component)
		s.LineStyle = &opts.LineStyle{Color: Colour(component), Width: width, Type: dash}
	})
}

// Extent returns the axes of the roofline: decades for intensity, and FLOP/s from a decade to above the highest roof.
func (r Roofline) Extent() (x0, x1, y0, y1 float64) {
	memory, compute := r.Roofs()
	x0, x1, y0, y1 = math.Inf(1), 0, math.Inf(1), 0
	for _, s := range r.Series {
		for _, p := range s.Points {
			x0, x1 = min(x0, p.Intensity()), max(x1, p.Intensity())
			y0, y1 = min(y0, p.TFLOPs()), max(y1, p.TFLOPs())
		}
	}
	if memory.BytesPerS > 0 && compute.FLOPPerS > 0 {
		x1 = max(x1, 3*compute.FLOPPerS/memory.BytesPerS)
	}
	for _, c := range r.Ceilings {
		y1 = max(y1, c.FLOPPerS/1e12)
	}
	x0 = decadeBelow(x0)
	return x0, max(decadeAbove(x1), 10*x0), decadeBelow(y0 * .8), 2 * y1
}

func decadeBelow(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v))) }
func decadeAbove(v float64) float64 { return math.Pow(10, math.Ceil(math.Log10(v))) }

func (r Roofline) option() any {
	x0, x1, y0, y1 := r.Extent()
	line := ec.NewLine()
	for _, c := range r.Ceilings {
		dash := "dashed"
		if c.Measured {
			dash = "solid"
		}
		from, to := r.Span(c, x0, x1)
		items := []opts.LineData{{Name: c.Text(), Value: []float64{from, c.TFLOPsAt(from)}, Symbol: "none"}, {Name: c.Text(), Value: []float64{to, c.TFLOPsAt(to)}, Symbol: "none"}}
		line.AddSeries(c.Text(), items, ec.WithSeriesOpts(func(s *ec.SingleSeries) {
			s.LineStyle = &opts.LineStyle{Color: "var(--ink)", Width: 2, Type: dash}
		}))
	}
	for _, s := range r.Series {
		var items []opts.LineData
		for _, p := range s.Points {
			size := 6
			if p.Named {
				size = 10
			}
			items = append(items, opts.LineData{Name: join(p.Label, units.Float(p.Intensity(), 1)+" FLOP/byte, "+units.Float(p.TFLOPs(), 1)+" TFLOP/s, "+units.Float(r.OfRoof(p), 0)+" % of roof"),
				Value: []float64{p.Intensity(), p.TFLOPs()}, Symbol: "circle", SymbolSize: size})
		}
		line.AddSeries(s.Label, items, path(s.Component, 1.25, "solid"))
	}
	line.Validate()
	return finish(line.JSON(), below(logarithmic(r.XLabel, x0, x1, "decade"), 28), logarithmic("TFLOP/s", y0, y1, "decade"))
}

// Extent returns the axes: bytes and µs, with room for the markers' names above.
func (l Latency) Extent() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), 0, math.Inf(1), 0
	see := func(bytes, ns int64) {
		x0, x1 = min(x0, float64(bytes)), max(x1, float64(bytes))
		y0, y1 = min(y0, float64(ns)/1e3), max(y1, float64(ns)/1e3)
	}
	for _, s := range l.Series {
		for _, p := range s.Points {
			see(p.Bytes, p.Ns)
		}
	}
	for _, o := range l.Observed {
		see(o.Bytes, o.Ns)
	}
	low := y0 / 1.5
	if d := decadeBelow(y0); d > y0/3 { // a decade close by is shown
		low = d * .8
	}
	return x0 / 1.45, x1 * 1.45, low, y1 * 1.4
}

func (l Latency) option() any {
	x0, x1, y0, y1 := l.Extent()
	line := ec.NewLine()
	for _, s := range l.Series {
		var items []opts.LineData
		for _, p := range s.Points {
			items = append(items, opts.LineData{Name: s.Label + ", " + units.Bytes(p.Bytes) + ": " + units.Us(p.Ns, 1) + " µs",
				Value: []float64{float64(p.Bytes), float64(p.Ns) / 1e3}, Symbol: "circle", SymbolSize: 6})
		}
		width, dash := float32(2.25), "solid"
		switch s.Style {
		case Alternative:
			dash = "dashed"
		case Reference:
			width = 1.25
		}
		line.AddSeries(s.Label, items, path(s.Component, width, dash))
	}
	if len(l.Observed) > 0 {
		var items []opts.LineData
		for _, o := range l.Observed {
			items = append(items, opts.LineData{Name: o.Label + ", " + units.Bytes(o.Bytes) + ": " + units.Us(o.Ns, 1) + " µs",
				Value: []float64{float64(o.Bytes), float64(o.Ns) / 1e3}, Symbol: "diamond", SymbolSize: 10})
		}
		line.AddSeries(l.Observed[0].Label, items, ec.WithSeriesOpts(func(s *ec.SingleSeries) {
			s.LineStyle = &opts.LineStyle{Color: "none"}
			s.ItemStyle = &opts.ItemStyle{Color: "var(--bg)", BorderColor: "var(--ink)", BorderWidth: 1.5}
		}))
	}
	line.Validate()
	return labelled(finish(line.JSON(), below(logarithmic(l.XLabel, x0, x1, "bytes"), 28), logarithmic("µs a call", y0, y1, "decade")))
}

func (t Timeline) option() any {
	c := ec.NewCustom()
	c.SetGlobalOptions(ec.WithAnimation(false))
	var items []opts.CustomData
	for _, s := range t.Slices {
		items = append(items, opts.CustomData{Name: data.ComponentLabel(s.Component) + " " + units.Us(s.DurNs, 1) + " µs: " + s.Name,
			Value: []float64{float64(s.StartNs) / 1e3, float64(s.StartNs+s.DurNs) / 1e3, float64(s.Lane)}, ItemStyle: fill(s.Component)})
	}
	c.AddSeries("", items, ec.WithSeriesOpts(func(s *ec.SingleSeries) {
		s.Encode = &opts.Encode{X: []int{0, 1}, Y: 2}
	}))
	c.Validate()
	y := category(t.Lanes)
	y["inverse"] = true
	x := below(value("µs"), 28)
	x["max"] = float64(t.EndNs()) / 1e3
	o := finish(c.JSON(), x, y)
	if m, ok := o.(map[string]any); ok {
		for _, s := range list(m["series"]) {
			s["renderItem"] = fn("slice")
		}
		m["dataZoom"] = []any{map[string]any{"type": "inside", "filterMode": "weakFilter"}}
	}
	return o
}

func (b Bars) option() any {
	bar := ec.NewBar()
	bar.XYReversal()
	var labels []string
	most := 0
	for _, r := range b.Rows {
		labels = append(labels, r.Label)
		most = max(most, len(r.Values))
	}
	for k := range most {
		items := make([]opts.BarData, len(b.Rows))
		name := ""
		for i, r := range b.Rows {
			if k >= len(r.Values) || r.Values[k].Missing != "" {
				continue
			}
			v := r.Values[k]
			name = v.Label
			items[i] = opts.BarData{Name: join(r.Label, v.Label) + ": " + b.Text(v) + " " + b.Unit, Value: v.Value, ItemStyle: fill(v.Component)}
			if v.Component == "" {
				items[i].ItemStyle = &opts.ItemStyle{Color: "var(--ink)"}
			}
		}
		bar.AddSeries(name, items)
	}
	bar.Validate()
	y := category(labels)
	y["inverse"] = true
	return finish(bar.JSON(), below(value(b.Unit), 28), y)
}
