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
	known := map[StepGroup]int{}
	for _, s := range t.Steps {
		g := StepGroup{Kind: s.Kind, ContextTokens: s.ContextTokens, GenerationTokens: s.GenerationTokens}
		at, ok := known[g]
		if !ok {
			at = len(groups)
			known[g] = at
			groups = append(groups, g)
		}
		groups[at].N++
		if s.Partial {
			groups[at].Partial++
		}
	}
	slices.SortStableFunc(groups, func(a, b StepGroup) int { return cmp.Compare(b.N, a.N) })
	return groups
}

// stepTable analyses each step by itself. all are all kernels.
func stepTable(t *trace.Rank, cls *classify.Result, all []int32) []Step {
	first, _ := t.Span()
	sums := newTally(cls)
	steps := split(len(t.Steps), all, func(i int32) int { return int(t.Kernels[i].Step) })
	table := make([]Step, len(t.Steps))
	for i, s := range t.Steps {
		row := Step{Index: i, Kind: s.Kind, ContextTokens: s.ContextTokens, GenerationTokens: s.GenerationTokens, Events: s.Events, GraphEvents: s.GraphEvents,
			Launches: s.Launches, GraphLaunches: s.GraphLaunches, Partial: s.Partial, Components: []Component{}}
		if t.CPU {
			row.AnnotationNs = s.CPUDur
		}
		if s.Events > 0 {
			for _, kernels := range splitDevices(t, steps[i]) {
				union, sum := busy(t, kernels)
				row.BusyNs += union
				row.SummedNs += sum
				sums.add(t, kernels)
			}
			row.Components = sums.components(false)
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

func splitDevices(t *trace.Rank, kernels []int32) [][]int32 {
	if len(t.Devices) == 1 {
		return [][]int32{kernels}
	}
	return split(len(t.Devices), kernels, func(i int32) int { return int(t.Kernels[i].Device) })
}

// split deals kernels out to n groups, keeping their order; a group below 0 drops them.
func split(n int, kernels []int32, group func(int32) int) [][]int32 {
	sizes := make([]int, n)
	total := 0
	for _, i := range kernels {
		if g := group(i); g >= 0 {
			sizes[g]++
			total++
		}
	}
	all := make([]int32, total)
	out := make([][]int32, n)
	for g, size := range sizes {
		out[g], all = all[:0:size], all[size:]
	}
	for _, i := range kernels {
		if g := group(i); g >= 0 {
			out[g] = append(out[g], i)
		}
	}
	return out
}

// layers sums component x layer over kernels, by layer, then by ns.
func layers(t *trace.Rank, cls *classify.Result, kernels []int32) []LayerComponent {
	component := make([]uint32, len(cls.Labels)) // label -> first label of its component
	first := map[string]uint32{}
	for i, l := range cls.Labels {
		if _, ok := first[l.Component]; !ok {
			first[l.Component] = uint32(i)
		}
		component[i] = first[l.Component]
	}
	at := map[uint32]int{} // layer and component
	out := []LayerComponent{}
	for _, i := range kernels {
		k := t.Kernels[i]
		p := cls.Places[i]
		id := uint32(uint16(p.Layer))<<16 | component[p.Label]
		n, ok := at[id]
		if !ok {
			n = len(out)
			at[id] = n
			out = append(out, LayerComponent{Layer: int(p.Layer), Component: cls.Labels[p.Label].Component})
		}
		calls, _ := calls(t, cls, i)
		out[n].N += calls
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
		case k.Dur == 0 && t.CPU: // an operator that only calls others
		case int(p.Layer) == layer && layer >= 0:
			if !begun && before == 0 {
				before = k.Start
			}
			begun = true
			lane := 0
			if p.Side {
				lane = 1
			}
			l := cls.Labels[p.Label]
			if n := len(out); t.CPU && n > 0 && out[n-1].Component == l.Component && out[n-1].StartNs+out[n-1].DurNs == k.Start-before {
				out[n-1].DurNs += k.Dur // operators of one component, one after the other
				continue
			}
			out = append(out, Slice{k.Start - before, k.Dur, lane, l.Component, l.Part, t.Names[k.Name]})
		case !begun && (k.Kind == trace.KindKernel || k.Kind == trace.KindOperator) && classify.Collective(cls.Labels[p.Label].Component):
			before = k.End()
		}
	}
	return out
}
