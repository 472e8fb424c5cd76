// Package firstscreen makes one chart of each kind from the measured numbers behind the reference page, for tests.
// It is not used outside tests.
package firstscreen

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

type numbers struct {
	Loads map[string]struct {
		Steps      int
		SpanNs     int64 `json:"span_ns"`
		BusyNs     int64 `json:"busy_ns"`
		SumNs      int64 `json:"sum_ns"`
		Components map[string]struct{ N, Ns int64 }
		AllReduce  spread                     `json:"allreduce_pct"`
		Experts    spread                     `json:"experts_pct"`
		StepMs     struct{ Min, Max float64 } `json:"step_ms"`
	}
	Load map[string]struct {
		OutputTokS float64 `json:"output_tok_s"`
	}
	AllReduce map[string][]struct {
		Bytes, Tokens int64
		Us            float64 `json:"us_graph"`
	}
	Marlin []struct {
		M           int64
		Flop, Bytes float64
		Us          float64
		Routing     string
	}
	Ceilings struct {
		Read float64 `json:"read_gb_s"`
		Peak float64 `json:"bf16_tflops"`
	}
	Layer []struct {
		C, K string
		D, T int64
		Lane int
	}
}

type spread struct{ Min, Max float64 }

var loads = []string{"1", "64", "256"}

// Charts returns the charts in a fixed order.
func Charts(t testing.TB) []charts.Chart {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(sharedtest.Dir(t), "visual", "first-screen.data.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d numbers
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	type maker interface{ Chart() (charts.Chart, error) }
	var out []charts.Chart
	for _, m := range []maker{d.shares(), d.breakdown(), d.latency(), d.roofline(), d.timeline(), d.layers(), d.bars()} {
		c, err := m.Chart()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func ns(us float64) int64 { return int64(math.Round(us * 1e3)) }

func (d numbers) shares() charts.Shares {
	s := charts.Shares{Base: "GPU time", XLabel: "C, streams decoding at the same time", Figure: charts.Figure{ID: "fig-reversal",
		Title: "Which of the two is larger changes between 64 and 256 streams", Caption: "Share of the summed kernel time. Whiskers reach from the lowest to the highest step."}}
	ar, ex := charts.ShareLine{Component: "allreduce", Label: "all-reduce"}, charts.ShareLine{Component: "moe.experts", Label: "expert GEMMs"}
	for _, c := range loads {
		l := d.Loads[c]
		s.Loads = append(s.Loads, "C = "+c)
		ar.Points = append(ar.Points, charts.SharePoint{PartNs: l.Components["allreduce"].Ns, WholeNs: l.SumNs, LowPct: l.AllReduce.Min, HighPct: l.AllReduce.Max})
		ex.Points = append(ex.Points, charts.SharePoint{PartNs: l.Components["moe.experts"].Ns, WholeNs: l.SumNs, LowPct: l.Experts.Min, HighPct: l.Experts.Max})
	}
	s.Lines = []charts.ShareLine{ar, ex}
	return s
}

func (d numbers) breakdown() charts.Breakdown {
	b := charts.Breakdown{Figure: charts.Figure{ID: "fig-step", Title: "From 64 to 256 streams the step grows by 62.9 ms, and 71 % of that is all-reduce",
		Caption: "Each bar is the mean profiled step. The bracket under a bar spans the shortest and the longest step."}}
	for _, c := range loads {
		l := d.Loads[c]
		bar := charts.BreakdownBar{Label: "C = " + c, Note: fmt.Sprintf("%.0f tokens/s", d.Load[c].OutputTokS), Steps: l.Steps,
			MinNs: ns(l.StepMs.Min * 1e3), MaxNs: ns(l.StepMs.Max * 1e3)}
		if c == "1" {
			bar.Beside = "nothing dominates"
		}
		var names []string
		for k := range l.Components {
			names = append(names, k)
		}
		slices.Sort(names)
		over := l.SumNs - l.BusyNs
		for _, k := range names {
			t := l.Components[k].Ns
			if k == "moe.shared_expert" {
				t -= over // the second stream runs the shared expert beside other work
			}
			bar.Segments = append(bar.Segments, charts.Segment{Component: k, Ns: t})
		}
		bar.Segments = append(bar.Segments, charts.Segment{Component: data.Idle, Ns: l.SpanNs - l.BusyNs})
		b.Bars = append(b.Bars, bar)
	}
	return b
}

func (d numbers) latency() charts.Latency {
	l := charts.Latency{XLabel: "message size (tokens × 7168 × 2 bytes)", Figure: charts.Figure{ID: "fig-allreduce",
		Title: "LL over Ring costs nothing extra at C = 1 and 2.6 times NCCL’s own choice at C = 256", Caption: "Two GPUs, bf16, graph-captured, mean of 400 calls. Diamonds: the same call inside the served step."}}
	for _, s := range []struct{ key, label, style string }{{"ll_ring", "LL + Ring, as served", charts.Served}, {"auto", "NCCL’s choice", charts.Alternative}, {"nvlink", "NVLink", charts.Reference}} {
		series := charts.LatencySeries{Label: s.label, Component: "allreduce", Style: s.style}
		for _, p := range d.AllReduce[s.key] {
			series.Points = append(series.Points, charts.LatencyPoint{Bytes: p.Bytes, Ns: ns(p.Us)})
		}
		l.Series = append(l.Series, series)
	}
	for i, c := range loads {
		bytes := []int64{1, 64, 256}[i] * 7168 * 2
		ar := d.Loads[c].Components["allreduce"]
		l.Markers = append(l.Markers, charts.SizeMarker{Label: "C = " + c, Bytes: bytes})
		l.Observed = append(l.Observed, charts.Observed{Label: "in the server", Bytes: bytes, Ns: ar.Ns / ar.N, Named: c == "256"})
	}
	return l
}

func (d numbers) roofline() charts.Roofline {
	r := charts.Roofline{XLabel: "FLOP per byte of expert weights read", Figure: charts.Figure{ID: "fig-roofline",
		Title: "The expert GEMMs are limited by memory at every decode size, and reach 62 % of their roof at best", Caption: "M tokens a call, uniform routing. Both ceilings were measured on the same GPU."},
		Ceilings: []charts.Ceiling{
			{Label: "memory, read", BytesPerS: d.Ceilings.Read * 1e9, Source: "measured on this GPU", Measured: true},
			{Label: "bf16", FLOPPerS: d.Ceilings.Peak * 1e12, Source: "measured on this GPU", Measured: true},
			{Label: "memory", BytesPerS: 4.8e12, Source: "data sheet"},
			{Label: "bf16", FLOPPerS: 989e12, Source: "data sheet, dense"},
		}}
	s := charts.RoofSeries{Component: "moe.experts", Label: "Marlin MoE"}
	for _, p := range d.Marlin {
		if p.Routing == "uniform" {
			s.Points = append(s.Points, charts.RoofPoint{Label: fmt.Sprintf("M = %d", p.M), FLOP: int64(p.Flop), Bytes: int64(p.Bytes), Ns: ns(p.Us),
				Named: slices.Contains([]int64{1, 64, 256, 1024}, p.M)})
		}
	}
	r.Series = []charts.RoofSeries{s}
	return r
}

func (d numbers) timeline() charts.Timeline {
	t := charts.Timeline{Lanes: []string{"main GPU stream", "second GPU stream: shared expert"}, Figure: charts.Figure{ID: "fig-layer",
		Title: "One layer: two all-reduces and two expert GEMMs take 80 % of its 724 µs, one after the other", Caption: "Layer 31 of 61, step 6 of 10, C = 64, rank 0."}}
	var ars, exps []charts.Slice
	for _, k := range d.Layer {
		s := charts.Slice{StartNs: k.T, DurNs: k.D, Lane: k.Lane, Component: k.C, Name: k.K}
		t.Slices = append(t.Slices, s)
		switch k.C {
		case "allreduce":
			ars = append(ars, s)
		case "moe.experts":
			exps = append(exps, s)
		}
	}
	between := func(a, b int64, label, short, note string) charts.Group {
		g := charts.Group{StartNs: math.MaxInt64, Label: label, Short: short, Note: note}
		for _, s := range t.Slices {
			if s.Lane == 0 && s.StartNs > a && s.StartNs < b {
				g.StartNs, g.EndNs = min(g.StartNs, s.StartNs), max(g.EndNs, s.StartNs+s.DurNs)
			}
		}
		return g
	}
	over := func(s charts.Slice, label, short string) charts.Group {
		return charts.Group{StartNs: s.StartNs, EndNs: s.StartNs + s.DurNs, Label: label, Short: short, Component: s.Component}
	}
	t.Groups = []charts.Group{
		between(-1, ars[0].StartNs, "Attention block", "Attention", "projections 33, kernels 30 µs"),
		over(ars[0], "All-reduce", ""),
		between(ars[0].StartNs, exps[0].StartNs, "Router, sort by expert", "Router, sort", "the shared expert runs beside it"),
		over(exps[0], "Experts, gate and up (w13)", "Experts w13"),
		over(exps[1], "Experts, down (w2)", "Experts w2"),
		between(exps[1].StartNs, ars[1].StartNs, "Combine", "", "sum over top-8"),
		over(ars[1], "All-reduce", ""),
	}
	return t
}

// layers spreads the measured step over 61 layers as the model has them: the first has no experts.
func (d numbers) layers() charts.Layers {
	l := charts.Layers{Steps: 10, Figure: charts.Figure{ID: "fig-layers", Title: "The 60 MoE layers cost the same; the dense first layer costs half as much",
		Caption: "Shape of a test: totals of the step divided over the layers."}}
	c := d.Loads["64"].Components
	for i := range 61 {
		col := charts.LayerColumn{Label: fmt.Sprint(i)}
		for _, k := range []string{"allreduce", "attention.core", "attention.kv_write", "attention.proj", "norm", "rope", "cast_copy"} {
			col.Segments = append(col.Segments, charts.Segment{Component: k, Ns: c[k].Ns / 61})
		}
		if i == 0 {
			col.Segments = append(col.Segments, charts.Segment{Component: "mlp.dense", Ns: c["mlp.dense"].Ns})
		} else {
			for _, k := range []string{"moe.experts", "moe.routing", "moe.activation", "moe.shared_expert", "moe.router"} {
				col.Segments = append(col.Segments, charts.Segment{Component: k, Ns: c[k].Ns/60 + int64((i*7919)%17)*8000})
			}
		}
		l.Columns = append(l.Columns, col)
	}
	return l
}

func (d numbers) bars() charts.Bars {
	return charts.Bars{Unit: "launches a step", Figure: charts.Figure{ID: "fig-launches", Title: "Graphs replace 2218 launches a step by 62"},
		Rows: []charts.BarRow{
			{Label: "C = 1", Values: []charts.BarValue{{Label: "eager", Value: 2097}, {Label: "graphs", Value: 62}}},
			{Label: "C = 64", Values: []charts.BarValue{{Label: "eager", Value: 2218}, {Label: "graphs", Value: 62}}},
			{Label: "C = 256", Values: []charts.BarValue{{Label: "eager", Value: 2155}, {Label: "graphs", Missing: "not measured"}}},
		}}
}
