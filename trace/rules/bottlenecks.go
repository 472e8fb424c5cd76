package rules

import (
	"sort"

	"github.com/rooflab/rooflab/data"
)

// groups are the rows of the bottleneck table: components that a reader takes together.
var groups = []data.BottleneckRow{
	{Label: "All-reduce", Components: []string{"allreduce"}},
	{Label: "Expert GEMMs", Components: []string{"moe.experts"}},
	{Label: "Attention kernels, cache write", Components: []string{"attention.core", "attention.kv_write"}},
	{Label: "Attention projections", Components: []string{"attention.proj"}},
	{Label: "Expert routing, activation, combine", Components: []string{"moe.routing", "moe.activation"}},
	{Label: "All-gather of logits", Components: []string{"allgather"}},
	{Label: "Reduce-scatter", Components: []string{"reduce_scatter"}},
	{Label: "All-to-all", Components: []string{"all_to_all"}},
	{Label: "Point to point", Components: []string{"p2p"}},
	{Label: "Shared expert", Components: []string{"moe.shared_expert"}},
	{Label: "Norms, rope, sampling, elementwise", Components: []string{"norm", "rope", "embedding", "sampling", "elementwise"}},
	{Label: "Casts and copies", Components: []string{"cast_copy", "memory"}},
	{Label: "Router GEMM", Components: []string{"moe.router"}},
	{Label: "Dense MLP, lm_head", Components: []string{"mlp.dense", "lm_head"}},
	{Label: "Python and other host work", Components: []string{"host"}},
	{Label: "Not recognised", Components: []string{"unknown"}},
}

// Bottlenecks makes the table component x load. Rows are sorted by their time at the last load; a row that is zero
// everywhere is left out, except what was not recognised. The rows of a load sum to its summed time.
func Bottlenecks(ws []Window) data.Bottlenecks {
	b := data.Bottlenecks{
		Heading: "Where the milliseconds of one decode step go",
		Note:    ofRank(ws) + ". Shares are of the summed GPU time: every kernel and copy, also those that ran beside others." + alsoHolds(ws),
	}
	if base(ws) == "CPU time" {
		b.CPU = true
		b.Heading = "Where the milliseconds of one decode step go: CPU operators"
		b.Note = ofRank(ws) + ". These traces have no GPU activity. Shares are of the CPU time of the steps: each operator without those inside it, and what runs between them."
	}
	for _, w := range ws {
		low, high := w.StepRange()
		b.Loads = append(b.Loads, data.Load{Label: w.Label(), Streams: w.Streams, Steps: w.Steps,
			SummedNs: w.SummedNs, OverlapNs: w.OverlapNs, IdleNs: w.IdleNs, SpanNs: w.SpanNs,
			UnprofiledNs: w.UnprofiledNs, MinStepNs: low, MaxStepNs: high, OutputTokS: w.OutputTokS, Source: w.Ref})
	}
	for _, g := range withOthers(ws) {
		row := data.BottleneckRow{Label: g.Label, Components: g.Components}
		zero := true
		for _, w := range ws {
			ns := w.Sum(g.Components...)
			row.Ns = append(row.Ns, ns)
			zero = zero && ns == 0
		}
		if !zero || g.Components[0] == "unknown" {
			b.Rows = append(b.Rows, row)
		}
	}
	last := len(ws) - 1
	sort.SliceStable(b.Rows, func(i, k int) bool {
		ui, uk := b.Rows[i].Components[0] == "unknown", b.Rows[k].Components[0] == "unknown"
		if ui != uk {
			return uk
		}
		return last >= 0 && b.Rows[i].Ns[last] > b.Rows[k].Ns[last]
	})
	return b
}

// withOthers adds a row for each component that no group names, so that no time is lost.
func withOthers(ws []Window) []data.BottleneckRow {
	named := map[string]bool{}
	for _, g := range groups {
		for _, c := range g.Components {
			named[c] = true
		}
	}
	out := append([]data.BottleneckRow{}, groups...)
	for _, w := range ws {
		for _, c := range w.Components {
			if !named[c.Name] {
				named[c.Name] = true
				out = append(out, data.BottleneckRow{Label: data.ComponentLabel(c.Name), Components: []string{c.Name}})
			}
		}
	}
	return out
}
