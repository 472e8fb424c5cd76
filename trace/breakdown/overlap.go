package breakdown

import (
	"math"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// charge finds the time during which several of the kernels (indices by start, one device) run and gives it to those that ran
// beside the others: at each moment one event keeps its time, the one of the main stream that began first, and every other one
// is charged. All charges together are the summed time minus the union.
func charge(t *trace.Rank, cls *classify.Result, kernels []int32, take func(kernel int32, ns int64)) {
	main := pieces{t: t, cls: cls, kernels: kernels}
	for main.next() {
		main.charge(main.stop-main.start, take)
	}
	side := pieces{t: t, cls: cls, kernels: kernels, side: true}
	if !side.next() {
		return
	}
	main.at = 0
	more := main.next()
	for ok := true; ok; ok = side.next() {
		kept := side.stop - side.start
		for more && main.start < side.stop {
			kept -= max(0, min(main.stop, side.stop)-max(main.start, side.start))
			if main.stop > side.stop {
				break
			}
			more = main.next()
		}
		side.charge(kept, take)
	}
}

// pieces walks over the kernels of the main stream, or of the side streams, and gives the piece of each during which none of them
// that began before runs: from start to stop, which are the same when there is none.
type pieces struct {
	t       *trace.Rank
	cls     *classify.Result
	kernels []int32
	side    bool

	at, kernel  int32 // place in kernels of the next one; the present one
	start, stop int64
	covered     int64 // last end of those before
}

func (p *pieces) next() bool {
	if p.at == 0 {
		p.covered = math.MinInt64
	}
	for int(p.at) < len(p.kernels) {
		p.kernel = p.kernels[p.at]
		p.at++
		if p.cls.Places[p.kernel].Side != p.side {
			continue
		}
		k := &p.t.Kernels[p.kernel]
		p.start = max(k.Start, p.covered)
		p.stop = max(p.start, k.End())
		p.covered = p.stop
		return true
	}
	return false
}

// charge takes what the present kernel does not keep.
func (p *pieces) charge(kept int64, take func(kernel int32, ns int64)) {
	if ns := p.t.Kernels[p.kernel].Dur - kept; ns > 0 {
		take(p.kernel, ns)
	}
}
