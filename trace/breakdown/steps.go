package breakdown

import (
	"cmp"
	"slices"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// stepGroups counts steps by kind and size, the most frequent first.
func stepGroups(t *trace.Rank) []StepGroup {
	groups := []StepGroup{}
	for _, s := range t.Steps {
		at := slices.IndexFunc(groups, func(g StepGroup) bool {
			return g.Kind == s.Kind && g.ContextTokens == s.ContextTokens && g.GenerationTokens == s.GenerationTokens
		})
		if at < 0 {
			at = len(groups)
			groups = append(groups, StepGroup{Kind: s.Kind, ContextTokens: s.ContextTokens, GenerationTokens: s.GenerationTokens})
		}
		groups[at].N++
		if s.Partial {
			groups[at].Partial++
		}
	}
	slices.SortStableFunc(groups, func(a, b StepGroup) int { return cmp.Compare(b.N, a.N) })
	return groups
}

// stepTable analyses each step by itself.
func stepTable(t *trace.Rank, cls *classify.Result) []Step {
	first, _ := t.Span()
	kernels := make([][]int, len(t.Steps))
	for i, k := range t.Kernels {
		if k.Step >= 0 {
			kernels[k.Step] = append(kernels[k.Step], i)
		}
	}
	table := make([]Step, len(t.Steps))
	for i, s := range t.Steps {
		row := Step{Index: i, Kind: s.Kind, ContextTokens: s.ContextTokens, GenerationTokens: s.GenerationTokens, Events: s.Events, Partial: s.Partial, Components: []Component{}}
		if s.Events > 0 {
			comps := tally{}
			for _, byDevice := range splitDevices(t, kernels[i]) {
				d := device(t, byDevice)
				row.BusyNs += d.BusyNs
				row.SummedNs += d.SummedNs
				for _, k := range byDevice {
					p := cls.Places[k]
					p.Part = ""
					comps.add(p, t.Kernels[k].Dur)
				}
				charge(t, cls, byDevice, func(k int, ns int64) { comps.of(cls.Places[k].Component).OverlapNs += ns })
			}
			row.Components = comps.sorted()
			row.StartNs = s.Start - first
			row.SpanNs = nextStart(t.Steps, i) - s.Start
		}
		table[i] = row
	}
	return table
}

// nextStart is where the step ends: the start of the next step with GPU work, else its own end.
func nextStart(steps []trace.Step, i int) int64 {
	for _, s := range steps[i+1:] {
		if s.Events > 0 && s.Start > steps[i].Start {
			return s.Start
		}
	}
	return steps[i].End
}

func splitDevices(t *trace.Rank, kernels []int) [][]int {
	if len(t.Devices) == 1 {
		return [][]int{kernels}
	}
	out := make([][]int, len(t.Devices))
	for _, i := range kernels {
		d := t.Kernels[i].Device
		out[d] = append(out[d], i)
	}
	return out
}

// layers sums component x layer over all steps, by layer, then by ns.
func layers(t *trace.Rank, cls *classify.Result) []LayerComponent {
	type key struct {
		layer     int
		component string
	}
	at := map[key]int{}
	out := []LayerComponent{}
	for i, k := range t.Kernels {
		p := cls.Places[i]
		id := key{p.Layer, p.Component}
		n, ok := at[id]
		if !ok {
			n = len(out)
			at[id] = n
			out = append(out, LayerComponent{Layer: p.Layer, Component: p.Component})
		}
		out[n].N++
		out[n].Ns += k.Dur
	}
	slices.SortFunc(out, func(a, b LayerComponent) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Component, b.Component))
	})
	return out
}

// Slice is one GPU event of a layer's timeline. Times are ns after the end of the collective before the layer.
type Slice struct {
	StartNs   int64  `json:"start_ns"`
	DurNs     int64  `json:"dur_ns"`
	Lane      int    `json:"lane"` // 0 main stream, 1 beside it
	Component string `json:"component"`
	Part      string `json:"part,omitempty"`
	Name      string `json:"name"`
}

// Layer returns the GPU events of one layer (from 0) of one step (index into t.Steps): from the end of the MLP's all-reduce of
// the layer before (or of the embedding's) to the end of its own. It is empty when there is no such step or layer.
func Layer(t *trace.Rank, step, layer int) []Slice { return LayerOf(t, classify.Run(t), step, layer) }

// LayerOf is Layer for a rank that is classified already.
func LayerOf(t *trace.Rank, cls *classify.Result, step, layer int) []Slice {
	var out []Slice
	var before int64
	begun := false
	for i, k := range t.Kernels {
		p := cls.Places[i]
		switch {
		case int(k.Step) != step:
		case p.Layer == layer && layer >= 0:
			if !begun && before == 0 {
				before = k.Start
			}
			begun = true
			lane := 0
			if p.Side {
				lane = 1
			}
			out = append(out, Slice{k.Start - before, k.Dur, lane, p.Component, p.Part, t.Names[k.Name]})
		case !begun && k.Kind == trace.KindKernel && classify.Collective(p.Component):
			before = k.End()
		}
	}
	return out
}
