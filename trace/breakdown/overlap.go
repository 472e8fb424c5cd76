package breakdown

import (
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// charge finds the time during which several of the kernels (indices by start, one device) run and gives it to those that ran
// beside the others: at each moment one event keeps its time, the one of the main stream that began first, and every other one
// is charged. All charges together are the summed time minus the union.
func charge(t *trace.Rank, cls *classify.Result, kernels []int, take func(kernel int, ns int64)) {
	var active []int
	var now int64
	advance := func(until int64) {
		for len(active) > 0 {
			stop := until
			for _, i := range active {
				stop = min(stop, t.Kernels[i].End())
			}
			if len(active) > 1 && stop > now {
				keep := keeper(t, cls, active)
				for _, i := range active {
					if i != keep {
						take(i, stop-now)
					}
				}
			}
			now = max(now, stop)
			left := active[:0]
			for _, i := range active {
				if t.Kernels[i].End() > now {
					left = append(left, i)
				}
			}
			active = left
			if stop == until {
				return
			}
		}
	}
	const never = int64(1<<63 - 1)
	for _, i := range kernels {
		k := t.Kernels[i]
		if k.Dur <= 0 {
			continue
		}
		advance(k.Start)
		now = k.Start
		active = append(active, i)
	}
	advance(never)
}

// keeper picks the event whose time counts: main stream before side stream, then the one that began first.
func keeper(t *trace.Rank, cls *classify.Result, active []int) int {
	best := active[0]
	for _, i := range active[1:] {
		a, b := cls.Places[i].Side, cls.Places[best].Side
		if a != b {
			if b {
				best = i
			}
			continue
		}
		if t.Kernels[i].Start < t.Kernels[best].Start {
			best = i
		}
	}
	return best
}
