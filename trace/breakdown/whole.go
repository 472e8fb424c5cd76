package breakdown

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Whole are the figures of the counted steps alone: what "a step" is made of in a window that holds other work too. BusyNs is the
// union of their GPU events, IdleNs the time from the start of each to the start of the next step in which the GPU ran nothing of
// any step, SpanNs the sum of both.
type Whole struct {
	Steps      int              `json:"steps"`
	SpanNs     int64            `json:"span_ns"`
	BusyNs     int64            `json:"busy_ns"`
	SummedNs   int64            `json:"summed_ns"`
	OverlapNs  int64            `json:"overlap_ns"`
	IdleNs     int64            `json:"idle_ns"`
	GPUEvents  int              `json:"gpu_events"`
	Operators  int              `json:"operators,omitempty"` // as in Rank
	Components []Component      `json:"components"`
	Layers     []LayerComponent `json:"layers"`
	Kernels    []KernelRow      `json:"kernels"`
}

// countedKind says which steps a window is measured by: whole decode steps; in a window without any, all whole steps but idle
// ones; when the window cut all of them, these.
func countedKind(groups []StepGroup) func(kind trace.StepKind, partial bool) bool {
	decode, whole := 0, 0
	for _, g := range groups {
		if g.Kind == trace.Decode {
			decode += g.N - g.Partial
		}
		if g.Kind != trace.Idle {
			whole += g.N - g.Partial
		}
	}
	return func(kind trace.StepKind, partial bool) bool {
		switch {
		case decode > 0:
			return kind == trace.Decode && !partial
		case whole > 0:
			return kind != trace.Idle && !partial
		}
		return kind != trace.Idle
	}
}

// Counted says whether a step is one of those that StepCount counts.
func (r Rank) Counted(s Step) bool { return countedKind(r.Steps)(s.Kind, s.Partial) }

// StepCount is the number that "a step" divides by: the whole decode steps; in a window without any, all whole steps but idle ones.
func (r Rank) StepCount() int {
	counted := countedKind(r.Steps)
	n := 0
	for _, g := range r.Steps {
		if counted(g.Kind, false) {
			n += g.N - g.Partial
		}
		if counted(g.Kind, true) {
			n += g.Partial
		}
	}
	return n
}

// OtherSteps names the steps that lie in the window but are not in StepCount: "1 prefill step", "2 partial decode steps".
// Idle steps are not named: they do nothing.
func (r Rank) OtherSteps() []string {
	counted := countedKind(r.Steps)
	n := map[string]int{}
	for _, g := range r.Steps {
		if g.Kind != trace.Idle && !counted(g.Kind, false) {
			n[word(g.Kind)] += g.N - g.Partial
		}
		if g.Kind != trace.Idle && !counted(g.Kind, true) {
			n["partial "+word(g.Kind)] += g.Partial
		}
	}
	var out []string
	for _, kind := range []trace.StepKind{trace.Prefill, trace.Mixed, trace.Decode, trace.Unmarked} {
		for _, word := range []string{word(kind), "partial " + word(kind)} {
			if n[word] > 0 {
				out = append(out, strings.TrimSpace(plural(n[word], word+" step")))
			}
		}
	}
	return out
}

// word is the kind of a step before "step": nothing for steps whose kind is not marked.
func word(kind trace.StepKind) string {
	if kind == trace.Unmarked {
		return "unmarked"
	}
	return string(kind)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return units.Count(int64(n)) + " " + what + "s"
}

// whole fills Whole when GPU events lie outside the counted steps, and says so.
func (r *Rank) whole(t *trace.Rank, cls *classify.Result) {
	counted := countedKind(r.Steps)
	isCounted := func(k trace.Kernel) bool {
		return k.Step >= 0 && counted(t.Steps[k.Step].Kind, t.Steps[k.Step].Partial)
	}
	n, outside := 0, 0
	for _, k := range t.Kernels {
		switch {
		case isCounted(k):
			n++
		case k.Step < 0 && isCall(k):
			outside++
		}
	}
	if n == 0 || n == len(t.Kernels) {
		return
	}
	in := make([]int32, 0, n)
	for i, k := range t.Kernels {
		if isCounted(k) {
			in = append(in, int32(i))
		}
	}
	w := &Whole{Steps: r.StepCount(), GPUEvents: len(in)}
	if t.CPU {
		w.GPUEvents, w.Operators = 0, events(t, in)
	}
	sums := newTally(cls)
	for _, kernels := range splitDevices(t, in) {
		union, sum := busy(t, kernels)
		w.BusyNs += union
		w.SummedNs += sum
		sums.add(t, kernels)
	}
	for _, s := range r.StepTable {
		if counted(s.Kind, s.Partial) {
			w.IdleNs += s.IdleNs
		}
	}
	w.SpanNs, w.OverlapNs = w.BusyNs+w.IdleNs, w.SummedNs-w.BusyNs
	w.Components, w.Layers, w.Kernels = sums.components(true), layers(t, cls, in), kernelRows(t, cls, in)
	r.Whole = w
	others := r.OtherSteps()
	if outside > 0 {
		others = append(others, plural(outside, Report{Ranks: []Rank{*r}}.words().event)+" of no step")
	}
	if len(others) == 0 { // idle steps alone
		return
	}
	r.Health = slices.Insert(r.Health, 0, diag.Diagnostic{ID: "other_work_in_window", Severity: diag.Warning, N: 1,
		Text: fmt.Sprintf("the window also holds %s: times and shares of a step are of its %s alone", strings.Join(others, ", "), r.countedWords()),
		Hint: "profile a window in which all requests decode"})
}

// StepLayers are the layers of the counted steps, StepCount of them: divided by it, they are those of a mean step.
func (r Rank) StepLayers() []LayerComponent { return r.counted().Layers }

// countedWords names the counted steps: "14 whole decode steps".
func (r Rank) countedWords() string {
	kind := word(r.countedGroup().Kind)
	return plural(r.StepCount(), "whole "+kind+" step")
}

// counted is the rank with the figures of its counted steps in the place of those of the whole window.
func (r Rank) counted() Rank {
	if w := r.Whole; w != nil {
		r.SpanNs, r.BusyNs, r.SummedNs, r.OverlapNs, r.IdleNs = w.SpanNs, w.BusyNs, w.SummedNs, w.OverlapNs, w.IdleNs
		r.GPUEvents, r.Operators, r.Components, r.Layers, r.Kernels = w.GPUEvents, w.Operators, w.Components, w.Layers, w.Kernels
	}
	return r
}

// counted is the report with the figures of the counted steps.
func (r Report) counted() Report {
	ranks := make([]Rank, len(r.Ranks))
	for i, rank := range r.Ranks {
		ranks[i] = rank.counted()
	}
	r.Ranks = ranks
	return r
}

// medianStep is the lower median of the spans of the counted steps; 0 without any.
func (r Rank) medianStep() int64 {
	counted := countedKind(r.Steps)
	var spans []int64
	for _, s := range r.StepTable {
		if counted(s.Kind, s.Partial) && s.Events > 0 {
			spans = append(spans, s.SpanNs)
		}
	}
	return lowerMedian(spans)
}

// lowerMedian sorts ns and returns its lower median; 0 when it is empty.
func lowerMedian(ns []int64) int64 {
	if len(ns) == 0 {
		return 0
	}
	slices.Sort(ns)
	return ns[(len(ns)-1)/2]
}

// SetITL notes the median time between tokens that was measured without profiler, in ns, and says so when the profiler changed the
// step by more than 5 %. A window without decode steps is not judged.
func (r *Rank) SetITL(ns int64) {
	r.ITLNs = ns
	if ns <= 0 || r.StepP50Ns == 0 || r.countedGroup().Kind != trace.Decode {
		return
	}
	if off := r.StepP50Ns - ns; 20*max(off, -off) > ns {
		r.Health = slices.Insert(r.Health, 0, diag.Diagnostic{ID: "profiler_changed_step", Severity: diag.Warning, N: 1,
			Text: fmt.Sprintf("the profiler changed the step: %s ms with it, %s ms without (%s %%)", units.Ms(r.StepP50Ns, 2), units.Ms(ns, 2), signed(units.Percent(off, ns, 0))),
			Hint: "shares of GPU time hold, idle time and the length of a step do not; profile without stacks and shapes"})
	}
}
