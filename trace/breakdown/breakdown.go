// Package breakdown says where the GPU time of a rank goes: per component, step, layer and kernel, and what all-reduce time is
// waiting. Every figure is an integer of ns and they add up, per device: the components make SummedNs, SummedNs - OverlapNs is
// BusyNs, BusyNs + IdleNs is SpanNs. It does not read files, judge figures or draw; formatting happens in its tables only.
package breakdown

import (
	"cmp"
	"math"
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
	Step       *int              `json:"step,omitempty"` // the figures are of this step only
	Steps      []StepGroup       `json:"steps"`
	StepsBy    string            `json:"steps_by,omitempty"`    // "annotation", or "repetition" of the kernels where there is none
	StepP50Ns  int64             `json:"step_p50_ns,omitempty"` // median of the counted steps, from start to the start of the next one
	ITLNs      int64             `json:"itl_ns,omitempty"`      // median time between tokens without profiler, when it is known
	SpanNs     int64             `json:"span_ns"`               // first start to last end of GPU events
	BusyNs     int64             `json:"busy_ns"`               // union of all GPU events
	SummedNs   int64             `json:"summed_ns"`             // sum of all durations
	OverlapNs  int64             `json:"overlap_ns"`            // summed - busy: time during which several events ran, counted more than once
	IdleNs     int64             `json:"idle_ns"`               // span - busy
	Components []Component       `json:"components"`            // by ns, largest first
	Devices    []Device          `json:"devices"`
	StepTable  []Step            `json:"step_table"`
	LayerCount int               `json:"layer_count"`
	Layers     []LayerComponent  `json:"layers"`
	Kernels    []KernelRow       `json:"kernels"`               // by ns, largest first
	Streams    []Stream          `json:"streams"`               // by ns, largest first
	Launches   Launches          `json:"launches,omitzero"`     // of the whole file; absent when there are none or Step is set
	Whole      *Whole            `json:"whole_steps,omitempty"` // of the counted steps alone; absent when the window holds nothing else
	Host       *Host             `json:"host,omitempty"`        // absent unless the reader was asked for it
	Events     int               `json:"events"`                // events of any kind in the file
	GPUEvents  int               `json:"gpu_events"`
	CPU        bool              `json:"cpu_operators,omitempty"` // the file has no GPU work: all figures are of CPU operators, see trace.Rank.OnCPU
	Operators  int               `json:"operators,omitempty"`     // calls of CPU operators, when CPU is set
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
	IdleNs           int64          `json:"idle_ns"`                 // of the span, when the GPU ran nothing, of this step or another; over the devices
	AnnotationNs     int64          `json:"annotation_ns,omitempty"` // of CPU operators: the time of the step's annotation
	Events           int            `json:"events"`
	GraphEvents      int            `json:"graph_events"`    // of Events, those that a graph launched
	Launches         int            `json:"kernel_launches"` // kernels that the CPU launched one by one
	GraphLaunches    int            `json:"graph_launches"`
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

// Of analyses one classified rank.
func Of(t *trace.Rank, cls *classify.Result) Rank {
	r := Rank{Rank: t.Rank, WorldSize: t.WorldSize, File: t.File, Device: t.Device, Events: t.Events, GPUEvents: len(t.Kernels),
		LayerCount: cls.Layers, Launches: Launches{t.KernelLaunches, t.GraphLaunches}, Health: append([]diag.Diagnostic{}, t.Health...), Steps: stepGroups(t), StepsBy: t.StepsBy}
	sums := newTally(cls)
	all := indices(len(t.Kernels))
	devices := splitDevices(t, all)
	for d, kernels := range devices {
		dev := device(t, kernels)
		dev.ID = t.Devices[d]
		r.Devices = append(r.Devices, dev)
		r.SpanNs += dev.SpanNs
		r.BusyNs += dev.BusyNs
		r.SummedNs += dev.SummedNs
		sums.add(t, kernels)
	}
	r.OverlapNs, r.IdleNs = r.SummedNs-r.BusyNs, r.SpanNs-r.BusyNs
	r.Components = sums.components(true)
	r.StepTable = stepTable(t, cls, all)
	first, _ := t.Span()
	idle(t, first, r.StepTable, devices)
	r.Streams = streams(t)
	r.Layers = layers(t, cls, all)
	r.Kernels = kernelRows(t, cls, all)
	r.StepP50Ns = r.medianStep()
	if t.CPU {
		r.CPU, r.Operators, r.GPUEvents = true, events(t, all), 0
	}
	r.whole(t, cls)
	r.Host = host(t, devices)
	return r
}

// indices counts from 0 to n-1.
func indices(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// device sums the events of one device.
func device(t *trace.Rank, kernels []int32) Device {
	var d Device
	if len(kernels) == 0 {
		return d
	}
	streams := make([]bool, len(t.Streams))
	end := t.Kernels[kernels[0]].End()
	for _, i := range kernels {
		k := t.Kernels[i]
		end = max(end, k.End())
		if !streams[k.Stream] {
			streams[k.Stream] = true
			d.Streams++
		}
	}
	d.SpanNs = end - t.Kernels[kernels[0]].Start // kernels are sorted by start
	d.BusyNs, d.SummedNs = busy(t, kernels)
	d.OverlapNs, d.IdleNs = d.SummedNs-d.BusyNs, d.SpanNs-d.BusyNs
	return d
}

// busy gives the union and the sum of the times of kernels, which are sorted by start.
func busy(t *trace.Rank, kernels []int32) (union, sum int64) {
	covered := int64(math.MinInt64) // everything before it is counted
	for _, i := range kernels {
		k := t.Kernels[i]
		sum += k.Dur
		if end := k.End(); end > covered {
			union += end - max(k.Start, covered)
			covered = end
		}
	}
	return union, sum
}

// kernelRows sums kernels by name, component and part.
func kernelRows(t *trace.Rank, cls *classify.Result, kernels []int32) []KernelRow {
	at := map[uint64]int{} // name and label
	var rows []KernelRow
	pieces, rowOf := map[int64]int64{}, map[int64]int{} // of CPU operators: id -> time, row
	for _, i := range kernels {
		k := t.Kernels[i]
		p := cls.Places[i]
		id := uint64(k.Name)<<16 | uint64(p.Label)
		n, ok := at[id]
		if !ok {
			n = len(rows)
			at[id] = n
			l := cls.Labels[p.Label]
			rows = append(rows, KernelRow{Name: t.Names[k.Name], Component: l.Component, Part: l.Part, MinNs: math.MaxInt64})
		}
		row := &rows[n]
		row.Ns += k.Dur
		if k.Continues() {
			pieces[k.Correlation] += k.Dur
			continue
		}
		row.N++
		if k.Kind == trace.KindOperator {
			pieces[k.Correlation], rowOf[k.Correlation] = k.Dur, n
			continue
		}
		row.MinNs, row.MaxNs = min(row.MinNs, k.Dur), max(row.MaxNs, k.Dur)
	}
	for id, n := range rowOf {
		rows[n].MinNs, rows[n].MaxNs = min(rows[n].MinNs, pieces[id]), max(rows[n].MaxNs, pieces[id])
	}
	slices.SortFunc(rows, func(a, b KernelRow) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Component, b.Component), cmp.Compare(a.Part, b.Part))
	})
	return rows
}
