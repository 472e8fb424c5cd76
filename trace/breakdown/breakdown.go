// Package breakdown says where the GPU time of a rank goes: per component, step, layer and kernel, and what all-reduce time is
// waiting. Every figure is an integer of ns and they add up, per device: the components make SummedNs, SummedNs - OverlapNs is
// BusyNs, BusyNs + IdleNs is SpanNs. It does not read files, judge figures or draw; formatting happens in its tables only.
package breakdown

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Report is the analysis of one or several files. Its JSON form is the contract of "rooflab analyze --json".
type Report struct {
	Schema      int           `json:"schema"`
	Ranks       []Rank        `json:"ranks"`
	Collectives *Collectives  `json:"collectives,omitempty"`      // of the first load that has several ranks
	More        []Collectives `json:"more_collectives,omitempty"` // of further loads that have several ranks
}

// Rank is the analysis of one file. With several devices the sums run over the devices.
type Rank struct {
	Rank       int               `json:"rank"`
	WorldSize  int               `json:"world_size,omitempty"`
	File       string            `json:"file"`
	Device     string            `json:"device"`
	Steps      []StepGroup       `json:"steps"`
	SpanNs     int64             `json:"span_ns"`    // first start to last end of GPU events
	BusyNs     int64             `json:"busy_ns"`    // union of all GPU events
	SummedNs   int64             `json:"summed_ns"`  // sum of all durations
	OverlapNs  int64             `json:"overlap_ns"` // summed - busy: time during which several events ran, counted more than once
	IdleNs     int64             `json:"idle_ns"`    // span - busy
	Components []Component       `json:"components"` // by ns, largest first
	Devices    []Device          `json:"devices"`
	StepTable  []Step            `json:"step_table"`
	LayerCount int               `json:"layer_count"`
	Layers     []LayerComponent  `json:"layers"`
	Kernels    []KernelRow       `json:"kernels"` // by ns, largest first
	Launches   Launches          `json:"launches"`
	Events     int               `json:"events"` // events of any kind in the file
	GPUEvents  int               `json:"gpu_events"`
	Health     []diag.Diagnostic `json:"health"`
}

// StepGroup counts the steps of one kind and size.
type StepGroup struct {
	Kind             trace.StepKind `json:"kind"`
	ContextTokens    int            `json:"context_tokens"`
	GenerationTokens int            `json:"generation_tokens"`
	N                int            `json:"n"`
	Partial          int            `json:"partial,omitempty"` // of N, steps that the window cut
}

// Component is the time of one component. Stacked bars draw Ns - OverlapNs, so that they end at the busy time.
type Component struct {
	Name      string `json:"name"`
	N         int    `json:"n"`
	Ns        int64  `json:"ns"`
	OverlapNs int64  `json:"overlap_ns"`
	Parts     []Part `json:"parts,omitempty"` // events without a part are in no part
}

// Part is a named part of a component, such as w13 of moe.experts.
type Part struct {
	Name string `json:"name"`
	N    int    `json:"n"`
	Ns   int64  `json:"ns"`
}

// Device is one GPU of the file.
type Device struct {
	ID        string `json:"id"`
	SpanNs    int64  `json:"span_ns"`
	BusyNs    int64  `json:"busy_ns"`
	SummedNs  int64  `json:"summed_ns"`
	OverlapNs int64  `json:"overlap_ns"`
	IdleNs    int64  `json:"idle_ns"`
	Streams   int    `json:"streams"`
}

// Step is one engine step. A step that follows another begins when its first GPU event begins.
type Step struct {
	Index            int            `json:"index"`
	Kind             trace.StepKind `json:"kind"`
	ContextTokens    int            `json:"context_tokens"`
	GenerationTokens int            `json:"generation_tokens"`
	StartNs          int64          `json:"start_ns"` // after the first GPU event of the file
	SpanNs           int64          `json:"span_ns"`  // to the start of the next step; of the last step, to its own end
	BusyNs           int64          `json:"busy_ns"`
	SummedNs         int64          `json:"summed_ns"`
	Events           int            `json:"events"`
	Partial          bool           `json:"partial,omitempty"`
	Components       []Component    `json:"components"` // without parts
}

// LayerComponent is one component in one layer, summed over all steps. Layer -1 is everything outside the layers.
type LayerComponent struct {
	Layer     int    `json:"layer"`
	Component string `json:"component"`
	N         int    `json:"n"`
	Ns        int64  `json:"ns"`
}

// KernelRow is one kernel name in one component.
type KernelRow struct {
	Name      string `json:"name"`
	Component string `json:"component"`
	Part      string `json:"part,omitempty"`
	N         int    `json:"n"`
	Ns        int64  `json:"ns"`
	MinNs     int64  `json:"min_ns"`
	MaxNs     int64  `json:"max_ns"`
}

// Launches counts what the CPU launched.
type Launches struct {
	Kernels int `json:"kernels"`
	Graphs  int `json:"graphs"`
}

// Share is part/whole, 0 when there is no whole.
func Share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Component returns the component with this name; a zero one when it did not run.
func (r Rank) Component(name string) Component {
	for _, c := range r.Components {
		if c.Name == name {
			return c
		}
	}
	return Component{Name: name}
}

// Part returns the part with this name; a zero one when it did not run.
func (c Component) Part(name string) Part {
	for _, p := range c.Parts {
		if p.Name == name {
			return p
		}
	}
	return Part{Name: name}
}

// StepCount is the number that "a step" divides by: whole decode steps; in a window without any, all steps but idle ones.
func (r Rank) StepCount() int {
	decode, all := 0, 0
	for _, g := range r.Steps {
		if g.Kind == trace.Decode {
			decode += g.N - g.Partial
		}
		if g.Kind != trace.Idle {
			all += g.N
		}
	}
	if decode > 0 {
		return decode
	}
	return all
}

// OtherSteps names the steps that lie in the window but are not in StepCount: "1 prefill step", "2 partial decode steps".
func (r Rank) OtherSteps() []string {
	n := map[string]int{}
	all := 0
	for _, g := range r.Steps {
		switch g.Kind {
		case trace.Idle:
			continue
		case trace.Decode:
			n["partial decode"] += g.Partial
		default:
			n[string(g.Kind)] += g.N
		}
		all += g.N
	}
	if all == r.StepCount() {
		return nil
	}
	var out []string
	for _, kind := range []string{string(trace.Prefill), string(trace.Mixed), "partial decode"} {
		switch {
		case n[kind] == 1:
			out = append(out, "1 "+kind+" step")
		case n[kind] > 1:
			out = append(out, fmt.Sprintf("%d %s steps", n[kind], kind))
		}
	}
	return out
}

// Of analyses one classified rank.
func Of(t *trace.Rank, cls *classify.Result) Rank {
	r := Rank{Rank: t.Rank, WorldSize: t.WorldSize, File: t.File, Device: t.Device, Events: t.Events, GPUEvents: len(t.Kernels),
		LayerCount: cls.Layers, Launches: Launches{t.KernelLaunches, t.GraphLaunches}, Health: t.Health, Steps: stepGroups(t)}
	if r.Health == nil {
		r.Health = []diag.Diagnostic{}
	}
	comps := tally{}
	perDevice := make([][]int, len(t.Devices))
	for i, k := range t.Kernels {
		comps.add(cls.Places[i], k.Dur)
		perDevice[k.Device] = append(perDevice[k.Device], i)
	}
	for d, kernels := range perDevice {
		dev := device(t, kernels)
		dev.ID = t.Devices[d]
		r.Devices = append(r.Devices, dev)
		r.SpanNs += dev.SpanNs
		r.BusyNs += dev.BusyNs
		r.SummedNs += dev.SummedNs
		charge(t, cls, kernels, func(i int, ns int64) { comps.of(cls.Places[i].Component).OverlapNs += ns })
	}
	r.OverlapNs, r.IdleNs = r.SummedNs-r.BusyNs, r.SpanNs-r.BusyNs
	r.Components = comps.sorted()
	r.StepTable = stepTable(t, cls)
	r.Layers = layers(t, cls)
	r.Kernels = kernelRows(t, cls)
	return r
}

// device sums the events of one device.
func device(t *trace.Rank, kernels []int) Device {
	ivs := make([]trace.Interval, len(kernels))
	streams := map[int32]bool{}
	var d Device
	for n, i := range kernels {
		k := t.Kernels[i]
		ivs[n] = trace.Interval{Start: k.Start, End: k.End()}
		d.SummedNs += k.Dur
		streams[k.Stream] = true
	}
	d.Streams = len(streams)
	d.BusyNs = trace.Total(trace.Union(ivs))
	if len(ivs) > 0 {
		end := ivs[0].End
		for _, iv := range ivs {
			end = max(end, iv.End)
		}
		d.SpanNs = end - ivs[0].Start // kernels are sorted by start
	}
	d.OverlapNs, d.IdleNs = d.SummedNs-d.BusyNs, d.SpanNs-d.BusyNs
	return d
}

// tally collects components by name.
type tally map[string]*Component

func (t tally) of(name string) *Component {
	c := t[name]
	if c == nil {
		c = &Component{Name: name}
		t[name] = c
	}
	return c
}

func (t tally) add(p classify.Place, ns int64) {
	c := t.of(p.Component)
	c.N++
	c.Ns += ns
	if p.Part == "" {
		return
	}
	for i := range c.Parts {
		if c.Parts[i].Name == p.Part {
			c.Parts[i].N++
			c.Parts[i].Ns += ns
			return
		}
	}
	c.Parts = append(c.Parts, Part{p.Part, 1, ns})
}

// sorted returns the components by ns, largest first; equal ones by name. Parts likewise.
func (t tally) sorted() []Component {
	out := make([]Component, 0, len(t))
	for _, c := range t {
		slices.SortFunc(c.Parts, func(a, b Part) int { return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name)) })
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Component) int { return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name)) })
	return out
}

// kernelRows sums by name, component and part.
func kernelRows(t *trace.Rank, cls *classify.Result) []KernelRow {
	type key struct {
		name            int32
		component, part string
	}
	at := map[key]int{}
	var rows []KernelRow
	for i, k := range t.Kernels {
		p := cls.Places[i]
		id := key{k.Name, p.Component, p.Part}
		n, ok := at[id]
		if !ok {
			n = len(rows)
			at[id] = n
			rows = append(rows, KernelRow{Name: t.Names[k.Name], Component: p.Component, Part: p.Part, MinNs: k.Dur})
		}
		row := &rows[n]
		row.N++
		row.Ns += k.Dur
		row.MinNs, row.MaxNs = min(row.MinNs, k.Dur), max(row.MaxNs, k.Dur)
	}
	slices.SortFunc(rows, func(a, b KernelRow) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Component, b.Component), cmp.Compare(a.Part, b.Part))
	})
	return rows
}
