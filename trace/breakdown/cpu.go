package breakdown

import (
	"strings"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// words are what tables call the work of a rank: GPU events, or the operators of a CPU where there are none.
type words struct {
	time, event, kernel       string // "GPU time", "GPU event", "Kernel"
	summed, busy, idle, whole string // the sums below a table
}

var (
	gpuWords = words{"GPU time", "GPU event", "Kernel",
		"GPU time, summed", "GPU busy (% of the span)", "GPU idle (% of the span)", "Span of the GPU work"}
	cpuWords = words{"CPU time", "operator", "Operator",
		"CPU time, summed", "In steps (% of the span)", "Between steps, no operator runs", "Span, start of a step to the next"}
)

// words are those of the first rank: files of GPUs and of CPUs are not mixed in one run.
func (r Report) words() words {
	if len(r.Ranks) > 0 && r.Ranks[0].CPU {
		return cpuWords
	}
	return gpuWords
}

// cpuNote says how the figures of CPU operators are to be read.
const cpuNote = "CPU operators: the file has no GPU activity. An operator's time is without that of operators inside it; \"host\" is Python and other host work, " +
	"during which a step ran no operator. Operators between two annotations belong to the step before."

// annotations is the mean time of the annotations of the counted steps, by rank: "11.784 / 11.802 ms".
func (r Report) annotations() string {
	var means []string
	for _, rank := range r.Ranks {
		var ns int64
		for _, s := range rank.StepTable {
			if rank.Counted(s) {
				ns += s.AnnotationNs
			}
		}
		means = append(means, units.MsPer(ns, int64(max(rank.StepCount(), 1)), 3))
	}
	return strings.Join(means, " / ") + " ms"
}

// isCall says whether an event is counted by itself: each on a GPU, the begins of operators on a CPU.
func isCall(k trace.Kernel) bool { return !k.Continues() && k.Kind != trace.KindHost }

// events counts those of some events that are counted by themselves.
func events(t *trace.Rank, kernels []int32) int {
	n := 0
	for _, i := range kernels {
		if isCall(t.Kernels[i]) {
			n++
		}
	}
	return n
}

// calls says how many calls of its component, and of its part, an event is: none for a piece of an operator that is counted already.
func calls(t *trace.Rank, cls *classify.Result, i int32) (ofComponent, ofPart int) {
	inner := cls.Places[i].Inner
	switch {
	case t.Kernels[i].Continues() || inner == classify.SamePart:
		return 0, 0
	case inner == classify.OtherPart:
		return 0, 1
	}
	return 1, 1
}

// joins says whether an event goes on with the call of its component before it.
func joins(t *trace.Rank, cls *classify.Result, i int) bool {
	n, _ := calls(t, cls, int32(i))
	return n == 0
}
