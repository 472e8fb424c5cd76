// Package figures makes the standard figures of a campaign from measured windows, layers and roofline points.
// A figure without a caption gets the one that says how to read it.
// It does not measure, and it adds no figure of its own to those of package charts.
package figures

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/roofline"
	"github.com/rooflab/rooflab/trace/rules"
)

// Shares draws the share of components in the GPU time over loads, with the lowest and highest step.
func Shares(fig charts.Figure, ws []rules.Window, components ...string) (charts.Chart, error) {
	base := "GPU time"
	if len(ws) > 0 && ws[0].CPU {
		base = "CPU time"
	}
	caption(&fig, "Share of the summed "+base+". Whiskers, often shorter than the dots, reach from the lowest to the highest step; the loads in between were not measured.")
	s := charts.Shares{Figure: fig, Base: base, XLabel: "C, streams decoding at the same time"}
	for _, w := range ws {
		s.Loads = append(s.Loads, w.Label())
	}
	for _, c := range components {
		line := charts.ShareLine{Component: c}
		for _, w := range ws {
			low, high := w.StepShares(c)
			line.Points = append(line.Points, charts.SharePoint{PartNs: w.Sum(c), WholeNs: w.SummedNs, LowPct: low, HighPct: high})
		}
		s.Lines = append(s.Lines, line)
	}
	return s.Chart()
}

// Breakdown draws a step at each load as a stack that adds up to the step: work that ran beside other work is taken off
// its component, and idle time is added.
func Breakdown(fig charts.Figure, ws []rules.Window) (charts.Chart, error) {
	caption(&fig, "Each bar is the mean profiled step; its parts add up to it exactly. The bracket spans the shortest and the longest step. Tokens/s without profiler.")
	b := charts.Breakdown{Figure: fig}
	for _, w := range ws {
		bar := charts.BreakdownBar{Label: w.Label(), Steps: w.Steps}
		if w.OutputTokS > 0 {
			bar.Note = units.Float(w.OutputTokS, 0) + " tokens/s"
		}
		bar.MinNs, bar.MaxNs = w.StepRange()
		for _, c := range w.Components {
			if ns := c.Ns - c.OverlapNs; ns > 0 {
				bar.Segments = append(bar.Segments, charts.Segment{Component: c.Name, Ns: ns})
			}
		}
		bar.Segments = append(bar.Segments, charts.Segment{Component: data.Idle, Ns: w.IdleNs})
		b.Bars = append(b.Bars, bar)
	}
	return b.Chart()
}

// Layers draws the time of each layer of a rank, by family.
func Layers(fig charts.Figure, r breakdown.Rank) (charts.Chart, error) {
	caption(&fig, fmt.Sprintf("Mean of %d steps, rank %d. Work outside of layers (embedding, head, sampling) is not in it.", r.StepCount(), r.Rank))
	l := charts.Layers{Figure: fig, Steps: r.StepCount()}
	at := map[int]int{}
	for _, c := range r.StepLayers() {
		if c.Layer < 0 {
			continue
		}
		i, ok := at[c.Layer]
		if !ok {
			i = len(l.Columns)
			at[c.Layer] = i
			l.Columns = append(l.Columns, charts.LayerColumn{Label: strconv.Itoa(c.Layer)})
		}
		l.Columns[i].Segments = append(l.Columns[i].Segments, charts.Segment{Component: c.Component, Ns: c.Ns})
	}
	return l.Chart()
}

// Roofline draws points of one component under a measured roof and, dashed, the data sheet's. Points whose label is in
// named are labelled.
func Roofline(fig charts.Figure, xlabel, component string, measured, sheet roofline.Roof, pts []roofline.Point, named ...string) (charts.Chart, error) {
	caption(&fig, "M tokens a call, shapes of one rank. Solid: ceilings measured on this GPU; dashed: "+sheet.Compute.Source+", dense.")
	r := charts.Roofline{Figure: fig, XLabel: xlabel}
	for _, c := range []roofline.Ceiling{measured.Bandwidth, measured.Compute, sheet.Bandwidth, sheet.Compute} {
		if c.Value > 0 {
			r.Ceilings = append(r.Ceilings, ceiling(c))
		}
	}
	want := map[string]bool{}
	for _, n := range named {
		want[n] = true
	}
	s := charts.RoofSeries{Component: component}
	for _, p := range pts {
		s.Points = append(s.Points, charts.RoofPoint{Label: p.Label, FLOP: p.FLOP, Bytes: p.Bytes, Ns: p.Ns, Named: want[p.Label]})
	}
	r.Series = []charts.RoofSeries{s}
	return r.Chart()
}

func ceiling(c roofline.Ceiling) charts.Ceiling {
	out := charts.Ceiling{Label: strings.TrimSuffix(c.Name, " dense"), Source: "data sheet", Measured: c.Measured}
	if c.Measured {
		out.Source = c.Source
	}
	if c.Kind == roofline.Bandwidth {
		out.BytesPerS = float64(c.Value)
	} else {
		out.FLOPPerS = float64(c.Value)
	}
	return out
}

// Timeline draws one layer in true time. Long collectives and GEMMs are named, the stretches between them get a brace.
// Kernel names are cut to 80 characters: the component says what a kernel is.
func Timeline(fig charts.Figure, slices []breakdown.Slice) (charts.Chart, error) {
	lane := "main GPU stream"
	if onCPU(slices) {
		lane = "CPU thread of the step"
		caption(&fig, "One layer of one rank in true time: operators without those inside them, and Python between them.")
	}
	caption(&fig, "One layer of one rank in true time: from the end of one MLP all-reduce to the end of the next. Gaps are gaps.")
	t := charts.Timeline{Figure: fig, Lanes: []string{lane}}
	for _, s := range slices {
		if s.Lane > 0 && len(t.Lanes) == 1 {
			t.Lanes = append(t.Lanes, "second GPU stream: "+words(s.Component))
		}
		t.Slices = append(t.Slices, charts.Slice{StartNs: s.StartNs, DurNs: s.DurNs, Lane: min(s.Lane, 1), Component: s.Component, Name: rules.Cut(s.Name, 80)})
	}
	t.Groups = groups(slices)
	return t.Chart()
}

// onCPU says whether the slices are of a rank without GPU work: only these hold time of the host.
func onCPU(slices []breakdown.Slice) bool {
	for _, s := range slices {
		if s.Component == data.Host {
			return true
		}
	}
	return false
}

// groups names slices that take a twelfth of the layer or more, and joins what lies between them.
func groups(slices []breakdown.Slice) []charts.Group {
	var end int64
	for _, s := range slices {
		end = max(end, s.StartNs+s.DurNs)
	}
	var out []charts.Group
	var run []breakdown.Slice
	flush := func() {
		if g, ok := stretch(run); ok && g.EndNs-g.StartNs > end/50 {
			out = append(out, g)
		}
		run = nil
	}
	for _, s := range slices {
		switch {
		case s.Lane > 0:
		case s.DurNs*12 >= end:
			flush()
			out = append(out, charts.Group{StartNs: s.StartNs, EndNs: s.StartNs + s.DurNs, Label: long(s), Short: data.ComponentLabel(s.Component), Component: s.Component})
		default:
			run = append(run, s)
		}
	}
	flush()
	return out
}

// stretch names a run of short kernels after the component that takes most of it.
func stretch(run []breakdown.Slice) (charts.Group, bool) {
	if len(run) < 2 {
		return charts.Group{}, false
	}
	sum := map[string]int64{}
	top := ""
	for _, s := range run {
		f := block(s.Component)
		if sum[f] += s.DurNs; top == "" || sum[f] > sum[top] {
			top = f
		}
	}
	last := run[len(run)-1]
	return charts.Group{StartNs: run[0].StartNs, EndNs: last.StartNs + last.DurNs, Label: top}, true
}

// block names the part of a layer that a component belongs to.
func block(component string) string {
	switch component {
	case "attention.core", "attention.kv_write", "attention.proj", "rope":
		return "Attention block"
	case "moe.router", "moe.routing", "moe.activation", "moe.shared_expert":
		return "Router, sort by expert"
	case "mlp.dense":
		return "Dense MLP"
	}
	return "Small kernels"
}

func long(s breakdown.Slice) string {
	switch s.Part {
	case "w13":
		return "Experts, gate and up (w13)"
	case "w2":
		return "Experts, down (w2)"
	}
	return data.ComponentLabel(s.Component)
}

func words(component string) string {
	if component == "moe.shared_expert" {
		return "shared expert"
	}
	return fmt.Sprintf("%q", component)
}

func caption(fig *charts.Figure, text string) {
	if fig.Caption == "" {
		fig.Caption = text
	}
}
