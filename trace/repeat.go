package trace

import (
	"fmt"
	"slices"

	"github.com/rooflab/rooflab/internal/diag"
)

// How alike the repetitions must be.
const (
	leastCycles = 2  // whole cycles that must be seen
	leastEvents = 10 // of a cycle
	slackShare  = 50 // a cycle has the same number of events as the others, give or take one in 50
	slackEvents = 1  // or one
)

// repeatedSteps finds the steps of a trace without step annotations, where the sequence of kernels of the busiest device repeats.
//
// A kernel that runs once in each step (of the embedding, the logits, the sampling) cuts the sequence into cycles that are alike.
// One that runs once in each layer does not: the cycle in which one step ends and the next begins has more events. So the kernel
// that runs most often while all its cycles are alike marks the steps; of equally frequent ones, the one with the longest pauses
// before it. What follows the last mark must be part of a cycle, else it is one pass over layers, not a loop over steps.
// Events of other devices and streams belong to the cycle in whose time they begin.
func (b *Builder) repeatedSteps() {
	r := &b.Rank
	marks := cycles(r)
	if len(marks) == 0 {
		return
	}
	r.cutAt(marks)
	r.StepsBy = ByRepetition
	b.Note(diag.Diagnostic{ID: "steps_by_repetition", Severity: diag.Info, N: len(marks),
		Text: fmt.Sprintf("no step annotations: steps were found where the sequence of kernels repeats, each from %s on; what they computed is not known",
			shorten(r.Names[r.Kernels[marks[1]].Name]))})
}

// shorten keeps the begin of a kernel name.
func shorten(name string) string {
	const most = 48
	if r := []rune(name); len(r) > most {
		return string(r[:most]) + "…"
	}
	return name
}

// cycles returns the kernels (indices) at which the cycles of the busiest device begin; the first and the last one may be cut short.
func cycles(r *Rank) []int32 {
	seq := busiestDevice(r)
	at := make([][]int32, len(r.Names)) // name -> its places in seq
	for i, k := range seq {
		if n := r.Kernels[k]; n.Kind == KindKernel {
			at[n.Name] = append(at[n.Name], int32(i))
		}
	}
	sums := make([]uint64, len(seq)+1) // of the names up to here, whatever their order: streams may overtake each other
	for i, k := range seq {
		sums[i+1] = sums[i] + mix(uint64(r.Kernels[k].Name))
	}
	var best []int32
	var bestPause int64
	for _, places := range at {
		if len(places) <= leastCycles || len(places) < len(best) || !alike(places, sums) {
			continue
		}
		if last := places[len(places)-1]; !r.within(seq[last:], seq[places[0]:places[1]]) {
			continue
		}
		if pause := pauses(r, seq, places); len(places) > len(best) || pause > bestPause {
			best, bestPause = places, pause
		}
	}
	if best == nil {
		return nil
	}
	var marks []int32
	if first := best[0]; first > 0 && r.within(seq[:first], seq[first:best[1]]) {
		marks = append(marks, seq[0])
	}
	for _, p := range best {
		marks = append(marks, seq[p])
	}
	return marks
}

// busiestDevice returns the events of the device that has most of them, by start.
func busiestDevice(r *Rank) []int32 {
	n := make([]int, len(r.Devices))
	most := 0
	for _, k := range r.Kernels {
		if n[k.Device]++; n[k.Device] > n[most] {
			most = int(k.Device)
		}
	}
	var seq []int32
	for i, k := range r.Kernels {
		if int(k.Device) == most {
			seq = append(seq, int32(i))
		}
	}
	return seq
}

// mix spreads the bits of a number, so that sums of mixed numbers tell sets of numbers apart (SplitMix64, Steele and others 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// alike says whether the cycles that begin at places have about the same number of events, and half of them the very same kernels.
func alike(places []int32, sums []uint64) bool {
	size := make([]int32, len(places)-1)
	same := map[uint64]int{}
	most := 0
	for i := range size {
		size[i] = places[i+1] - places[i]
		set := sums[places[i+1]] - sums[places[i]]
		same[set]++
		most = max(most, same[set])
	}
	slices.Sort(size)
	middle := size[len(size)/2]
	slack := max(middle/slackShare, slackEvents)
	return middle >= leastEvents && size[0] >= middle-slack && size[len(size)-1] <= middle+slack && 2*most >= len(size)
}

// within says whether the kernels of part, one in twenty apart, are among those of whole.
func (r *Rank) within(part, whole []int32) bool {
	if len(part) > 2*len(whole) {
		return false
	}
	n := map[int32]int{}
	for _, i := range whole {
		n[r.Kernels[i].Name]++
	}
	missing := 0
	for _, i := range part {
		if n[r.Kernels[i].Name]--; n[r.Kernels[i].Name] < 0 {
			missing++
		}
	}
	return missing*20 <= len(part)
}

// pauses is the time in which the device ran nothing before the places.
func pauses(r *Rank, seq, places []int32) (ns int64) {
	for _, p := range places[1:] {
		ns += max(0, r.Kernels[seq[p]].Start-r.Kernels[seq[p-1]].End())
	}
	return ns
}

// cutAt makes a step of each cycle.
func (r *Rank) cutAt(marks []int32) {
	r.Steps = make([]Step, len(marks))
	for i := range r.Steps {
		r.Steps[i].Kind = Unmarked
	}
	step := int32(-1)
	for i := range r.Kernels {
		for int(step)+1 < len(marks) && r.Kernels[i].Start >= r.Kernels[marks[step+1]].Start {
			step++
		}
		r.Kernels[i].Step = step
	}
}
