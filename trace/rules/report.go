package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// NewWindow takes what the rules need from the analysis of one load. The report's first rank answers for the load;
// further ranks give waiting and agreement.
func NewWindow(streams int, report *breakdown.Report, ref data.Ref) (Window, error) {
	if report == nil || len(report.Ranks) == 0 {
		return Window{}, errors.New("a window needs the analysis of at least one rank")
	}
	r := report.Ranks[0]
	if r.StepCount() == 0 {
		return Window{}, fmt.Errorf("%s holds no step with tokens, so nothing can be said a step: profile again while all streams decode", r.File)
	}
	w := Window{Streams: streams, Rank: r.Rank, Ranks: len(report.Ranks), WorldSize: r.WorldSize, Steps: r.StepCount(),
		SpanNs: r.SpanNs, BusyNs: r.BusyNs, SummedNs: r.SummedNs, OverlapNs: r.OverlapNs, IdleNs: r.IdleNs,
		CPU: r.CPU, Operators: r.Operators, Components: components(r.Components), KernelLaunches: r.Launches.Kernels, GraphLaunches: r.Launches.Graphs, OtherSteps: r.OtherSteps(), Ref: ref}
	if whole := r.Whole; r.CPU && whole != nil { // the idle step at the end of every round, and others, are no part of a step
		w.SpanNs, w.BusyNs, w.SummedNs, w.OverlapNs, w.IdleNs = whole.SpanNs, whole.BusyNs, whole.SummedNs, whole.OverlapNs, whole.IdleNs
		w.Operators, w.Components, w.OtherSteps = whole.Operators, components(whole.Components), nil
		r.Kernels = whole.Kernels
	}
	decode := slices.ContainsFunc(r.StepTable, func(s breakdown.Step) bool { return s.Kind == trace.Decode && !s.Partial })
	for _, s := range r.StepTable {
		if s.Kind == trace.Idle || s.Partial || s.Kind != trace.Decode && decode { // says nothing about the steps that are counted
			continue
		}
		w.PerStep = append(w.PerStep, StepCost{SpanNs: s.SpanNs, SummedNs: s.SummedNs, Components: components(s.Components)})
	}
	for _, k := range r.Kernels {
		w.Kernels = append(w.Kernels, Kernel{Name: Cut(k.Name, 120), Component: k.Component, N: k.N, Ns: k.Ns})
	}
	if c := report.Collectives; c != nil && c.Matched > 0 && len(c.Ranks) == len(report.Ranks) {
		w.WaitNs, w.TransferNs, w.TailNs, w.Unmatched = c.WaitNs, c.TransferNs, c.TailNs, c.Unmatched
	}
	for _, o := range report.Ranks[1:] {
		c := o.Component("allreduce")
		w.OtherRanks = append(w.OtherRanks, OtherRank{Rank: o.Rank, Name: c.Name, N: c.N, Ns: c.Ns})
	}
	return w, nil
}

func components(list []breakdown.Component) []Component {
	var out []Component
	for _, c := range list {
		out = append(out, Component{Name: c.Name, N: c.N, Ns: c.Ns, OverlapNs: c.OverlapNs})
	}
	return out
}

// Cut shortens a kernel's name, which may carry hundreds of characters of template arguments, to at most n characters.
func Cut(name string, n int) string {
	r := []rune(name)
	if len(r) <= n {
		return name
	}
	return string(r[:max(n-1, 0)]) + "…"
}
