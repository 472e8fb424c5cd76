package breakdown

import (
	"math/rand/v2"
	"testing"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// TestChargesAreThoseOfEachMoment compares with a walk over every ns: of the events that run, the one of the main stream that
// began first keeps its time.
func TestChargesAreThoseOfEachMoment(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for range 300 {
		r := &trace.Rank{Devices: []string{"0"}}
		cls := &classify.Result{}
		at := int64(0)
		for range 1 + rng.IntN(12) {
			at += rng.Int64N(6)
			r.Kernels = append(r.Kernels, trace.Kernel{Start: at, Dur: rng.Int64N(15)})
			cls.Places = append(cls.Places, classify.Place{Side: rng.IntN(3) == 0})
		}
		want := make([]int64, len(r.Kernels))
		for now := range int64(100) {
			keep := -1
			for i, k := range r.Kernels {
				if k.Start <= now && now < k.End() {
					want[i]++
					if keep < 0 || cls.Places[keep].Side && !cls.Places[i].Side {
						keep = i
					}
				}
			}
			if keep >= 0 {
				want[keep]--
			}
		}
		got := make([]int64, len(r.Kernels))
		charge(r, cls, indices(len(r.Kernels)), func(i int32, ns int64) { got[i] += ns })
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("event %d is charged %d, want %d\n%+v\n%+v", i, got[i], want[i], r.Kernels, cls.Places)
			}
		}
	}
}
