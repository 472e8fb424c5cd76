package trace

import (
	"math/rand/v2"
	"slices"
	"testing"
)

const line = 64 // the property tests live on the ns 0..63

// random makes up to 8 intervals; some are empty or reversed, as damaged files have them.
func random(r *rand.Rand) []Interval {
	ivs := make([]Interval, r.IntN(8))
	for i := range ivs {
		ivs[i].Start = r.Int64N(line)
		ivs[i].End = min(ivs[i].Start+r.Int64N(20)-2, line)
	}
	return ivs
}

// points says for each ns whether ivs cover it: the definition that the algebra must agree with.
func points(ivs []Interval) (p [line]bool) {
	for _, iv := range ivs {
		for t := iv.Start; t < iv.End; t++ {
			p[t] = true
		}
	}
	return p
}

func TestIntervalAlgebraAgreesWithPointSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		a, b := random(r), random(r)
		before := slices.Clone(a)
		ua, ub := Union(a), Union(b)
		if !slices.Equal(a, before) {
			t.Fatal("Union changed its argument")
		}
		pa, pb := points(a), points(b)
		var both, onlyA [line]bool
		var covered int64
		for i := range line {
			both[i], onlyA[i] = pa[i] && pb[i], pa[i] && !pb[i]
			if pa[i] {
				covered++
			}
		}
		if points(ua) != pa || Total(ua) != covered {
			t.Fatalf("Union(%v) = %v", a, ua)
		}
		if points(Intersect(ua, ub)) != both {
			t.Fatalf("Intersect(%v, %v) = %v", ua, ub, Intersect(ua, ub))
		}
		if points(Subtract(ua, ub)) != onlyA {
			t.Fatalf("Subtract(%v, %v) = %v", ua, ub, Subtract(ua, ub))
		}
		for _, ivs := range [][]Interval{ua, Intersect(ua, ub), Subtract(ua, ub)} {
			for i, iv := range ivs {
				if iv.End <= iv.Start || i > 0 && iv.Start < ivs[i-1].End {
					t.Fatalf("not sorted and disjoint: %v", ivs)
				}
			}
		}
		if Total(Intersect(ua, ub))+Total(Subtract(ua, ub)) != Total(ua) {
			t.Fatal("intersection and difference do not add up")
		}
	}
}
