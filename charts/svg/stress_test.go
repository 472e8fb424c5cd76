package svg_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/charts/svg"
)

// unusual returns figures of shapes that the reference page does not have.
func unusual(t *testing.T) []charts.Chart {
	t.Helper()
	f := func(id string) charts.Figure { return charts.Figure{ID: id, Title: "An unusual " + id} }
	five := []string{"C = 1", "C = 16", "C = 64", "C = 128", "C = 256"}
	line := func(component string, pct ...int64) charts.ShareLine {
		l := charts.ShareLine{Component: component}
		for _, p := range pct {
			l.Points = append(l.Points, charts.SharePoint{PartNs: p, WholeNs: 1000})
		}
		return l
	}
	roof := charts.Roofline{Figure: f("roof-two-kernels"), XLabel: "FLOP per byte", Ceilings: []charts.Ceiling{
		{Label: "memory, read", BytesPerS: 4.26e12, Source: "measured", Measured: true}, {Label: "bf16", FLOPPerS: 753e12, Source: "measured", Measured: true}}}
	for k, s := range []string{"moe.experts", "attention.proj"} {
		r := charts.RoofSeries{Component: s, Label: []string{"Marlin MoE", "attention projections"}[k]}
		for i, m := range []int64{1, 8, 64, 512, 4096} {
			r.Points = append(r.Points, charts.RoofPoint{Label: fmt.Sprintf("M = %d", m), FLOP: m * 2e9, Bytes: 1e9, Ns: 400_000 + m*int64(3000+3000*k), Named: i%2 == 0 && k == 0 || i == 4})
		}
		roof.Series = append(roof.Series, r)
	}
	none := charts.Timeline{Figure: f("timeline-three-lanes"), Lanes: []string{"main", "second stream", "third stream with a long name that says much"}}
	for i := range 60 {
		none.Slices = append(none.Slices, charts.Slice{StartNs: int64(i) * 5000, DurNs: 4200, Lane: i % 3, Component: []string{"allreduce", "norm", "lm_head", "cast_copy", "what is this"}[i%5]})
	}
	many := charts.Bars{Figure: f("bars-with-families"), Unit: "µs a call, median of 400", Decimals: 1}
	for i, c := range []string{"allreduce", "moe.experts", "attention.core", "lm_head", "norm", "memory", "unknown", "idle"} {
		many.Rows = append(many.Rows, charts.BarRow{Label: c, Values: []charts.BarValue{{Value: float64(i*i) * 17.3, Component: c}}})
	}
	var out []charts.Chart
	for _, m := range []interface{ Chart() (charts.Chart, error) }{
		charts.Shares{Figure: f("shares-four-lines"), Base: "GPU time", Loads: five, Lines: []charts.ShareLine{
			line("allreduce", 193, 250, 350, 460, 563), line("moe.experts", 155, 400, 455, 350, 275), line("attention.core", 100, 90, 80, 70, 64), line("norm", 60, 55, 50, 45, 41)}},
		charts.Shares{Figure: f("shares-of-one-load"), Base: "GPU time", XLabel: "C", Loads: []string{"C = 64"}, Lines: []charts.ShareLine{line("allreduce", 350), line("moe.experts", 455)}},
		charts.Shares{Figure: f("shares-of-zero"), Base: "GPU time", Loads: []string{"C = 1", "C = 64"}, Lines: []charts.ShareLine{line("cast_copy", 0, 0)}},
		charts.Breakdown{Figure: f("bars-short-last"), Bars: []charts.BreakdownBar{
			{Label: "eager", Steps: 1, Note: "a long note about what differs here, which needs a second line on a phone", Segments: []charts.Segment{{Component: "allreduce", Ns: 9e6}, {Component: "moe.experts", Ns: 8e6}, {Component: "idle", Ns: 40e6}}},
			{Label: "graphs", Steps: 1, Segments: []charts.Segment{{Component: "allreduce", Ns: 3e6}, {Component: "moe.experts", Ns: 2e6}, {Component: "norm", Ns: 1e6}, {Component: "memory", Ns: 1e5}, {Component: "idle", Ns: 2e6}}, MinNs: 7e6, MaxNs: 9e6}}},
		roof, none, many,
		charts.Latency{Figure: f("latency-one-line"), XLabel: "message size", Series: []charts.LatencySeries{{Label: "p2p", Component: "p2p", Points: []charts.LatencyPoint{{Bytes: 512, Ns: 900}, {Bytes: 1 << 30, Ns: 9e7}}}}},
	} {
		c, err := m.Chart()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func TestUnusualShapesAreDrawn(t *testing.T) {
	for _, c := range unusual(t) {
		for _, w := range widths {
			pic := render(t, c, svg.Options{Width: w, Literal: true})
			checkInert(t, c.ID, pic)
			if bytes.Contains(pic, []byte("NaN")) || bytes.Contains(pic, []byte("Inf")) {
				t.Errorf("%s at %d px: a coordinate is no number", c.ID, w)
			}
			if *look != "" {
				if err := os.WriteFile(filepath.Join(*look, fmt.Sprintf("u-%s-%d.svg", c.ID, w)), pic, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
