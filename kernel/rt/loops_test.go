package rt

import (
	"math"
	"testing"
)

// values are the first values of i in for ; i < n; i += by, or i <= n.
func values(i, n, by int32, orEqual bool) (list []int32) {
	for ; (i < n || orEqual && i == n) && len(list) < 3000; i += by {
		list = append(list, i)
	}
	return list
}

// strided are the same with chunks; it fails when a chunk is empty or too long.
func strided(t *testing.T, i, n, by, most int32, orEqual bool) (list []int32) {
	for (i < n || orEqual && i == n) && len(list) < 3000 {
		f := Stride[int32]
		if orEqual {
			f = StrideTo[int32]
		}
		end, step := f(i, n, by, most)
		rounds := int32(0)
		for ; i != end; i += step {
			if list = append(list, i); rounds == most {
				t.Fatalf("more than %d rounds without an end", most)
			}
			rounds++
		}
		if i += by - step; rounds == 0 {
			t.Fatalf("no round from %d to %d by %d", i, n, by)
		}
	}
	return list[:min(len(list), 3000)]
}

func TestStridesVisitWhatLoopsVisit(t *testing.T) {
	ends := []int32{math.MinInt32, math.MinInt32 + 1, -1 << 30, -1001, -1, 0, 1, 2, 1024, 5000, 1 << 30, math.MaxInt32 - 1, math.MaxInt32}
	steps := append([]int32{-1 << 29, -3, -2, 3, 7, 1000, 1 << 29, 3 << 29}, ends...)
	loops := 0
	for _, i := range ends {
		for _, n := range ends {
			for _, by := range steps {
				for _, most := range []int32{1, 2, 64, 1024} {
					for _, orEqual := range []bool{false, true} {
						want, got := values(i, n, by, orEqual), strided(t, i, n, by, most, orEqual)
						if len(want) != len(got) {
							t.Fatalf("from %d to %d by %d: %d rounds, want %d", i, n, by, len(got), len(want))
						}
						for k := range want {
							if got[k] != want[k] {
								t.Fatalf("from %d to %d by %d: value %d is %d, want %d", i, n, by, k, got[k], want[k])
							}
						}
						loops++
					}
				}
			}
		}
	}
	t.Logf("%d loops", loops)
}
