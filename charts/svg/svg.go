// Package svg draws charts as static SVG, the same bytes each time. The typed figures are drawn here, with labels at
// the marks; a figure that is an ECharts option is drawn by ECharts in a JavaScript engine.
// It does not read traces, write pages or load anything from a network.
package svg

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
)

// Options of one drawing.
type Options struct {
	Width   int    // pixels; text is never scaled, so draw once for each width that is shown
	ID      string // prefix of the ids inside; empty = the chart's id and the width
	Literal bool   // fixed colours on white with a margin, for pictures outside our pages; else classes of CSS
}

// MinWidth is the narrowest drawing.
const MinWidth = 300

// Render draws the chart. The SVG has no script, no style element and no reference to anything outside.
func Render(c charts.Chart, opt Options) ([]byte, error) {
	if opt.Width < MinWidth || opt.Width > 4000 {
		return nil, fmt.Errorf("draw %s: width %d px is not between %d and 4000", c.ID, opt.Width, MinWidth)
	}
	cv := &canvas{w: float64(opt.Width), id: opt.ID, literal: opt.Literal, used: map[string]bool{}, styles: map[string]string{}}
	if cv.id == "" {
		cv.id = fmt.Sprintf("%s-%d", c.ID, opt.Width)
	}
	if !validID(cv.id) {
		return nil, fmt.Errorf("draw %q: an id has letters, digits and hyphens only", cv.id)
	}
	if opt.Literal {
		cv.w -= 2 * margin
	}
	h, err := draw(cv, c)
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", c.ID, err)
	}
	return cv.document(c, h), nil
}

func validID(id string) bool {
	for _, r := range id {
		if r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return id != ""
}

// figure is a described chart that this package draws itself.
type figure interface {
	Chart() (charts.Chart, error)
}

// read decodes a spec and checks it again, because a notebook may have been edited.
func read[T figure](c charts.Chart) (T, error) {
	var spec T
	if err := json.Unmarshal(c.Spec, &spec); err != nil {
		return spec, fmt.Errorf("read its numbers: %w", err)
	}
	_, err := spec.Chart()
	return spec, err
}

func draw(cv *canvas, c charts.Chart) (float64, error) {
	switch c.Kind {
	case charts.KindBreakdown:
		return drawn(cv, c, breakdown)
	case charts.KindShares:
		return drawn(cv, c, shares)
	case charts.KindLayers:
		return drawn(cv, c, layers)
	case charts.KindRoofline:
		return drawn(cv, c, roofline)
	case charts.KindLatency:
		return drawn(cv, c, latency)
	case charts.KindTimeline:
		return drawn(cv, c, timeline)
	case charts.KindBars:
		return drawn(cv, c, bars)
	case charts.KindECharts:
		return byECharts(cv, c)
	}
	return 0, fmt.Errorf("unknown kind of chart %q", c.Kind)
}

func drawn[T figure](cv *canvas, c charts.Chart, f func(*canvas, T) float64) (float64, error) {
	spec, err := read[T](c)
	if err != nil {
		return 0, err
	}
	return f(cv, spec), nil
}

// named returns the class for a text in the colour of its component: network and experts only, ink otherwise.
func named(component string) string {
	switch f := charts.FamilyOf(component); f {
	case data.Network, data.Experts:
		return "tb c-" + f
	}
	return "tb"
}

// ticks returns round values from 0 to at least top, three to five of them.
func ticks(top float64) []float64 {
	if top <= 0 {
		return []float64{0, 1}
	}
	mag := math.Pow(10, math.Floor(math.Log10(top)))
	for _, step := range []float64{.1, .2, .25, .5, 1, 2, 2.5, 5} {
		if n := math.Ceil(top/(step*mag) - 1e-9); n <= 4 {
			var out []float64
			for i := 0.0; i <= n; i++ {
				out = append(out, i*step*mag)
			}
			return out
		}
	}
	return []float64{0, top}
}

// logScale maps a..b to p..q.
func logScale(a, b, p, q float64) func(float64) float64 {
	la, lb := math.Log10(a), math.Log10(b)
	return func(v float64) float64 { return p + (q-p)*(math.Log10(v)-la)/(lb-la) }
}

// decades returns the powers of ten in a..b.
func decades(a, b float64) []float64 {
	var out []float64
	for e := math.Ceil(math.Log10(a) - 1e-9); e <= math.Log10(b)+1e-9; e++ {
		out = append(out, math.Pow(10, e))
	}
	return out
}
