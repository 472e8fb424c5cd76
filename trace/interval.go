package trace

import (
	"cmp"
	"slices"
)

// Interval is the half-open time [Start, End) in ns.
type Interval struct{ Start, End int64 }

// Union returns the sorted, disjoint intervals that cover what ivs cover. Intervals that touch become one; empty ones vanish.
// ivs is left as it is.
func Union(ivs []Interval) []Interval {
	sorted := slices.Clone(ivs)
	if !slices.IsSortedFunc(sorted, byStart) {
		slices.SortFunc(sorted, byStart)
	}
	out := sorted[:0]
	for _, iv := range sorted {
		switch n := len(out); {
		case iv.End <= iv.Start:
		case n > 0 && iv.Start <= out[n-1].End:
			out[n-1].End = max(out[n-1].End, iv.End)
		default:
			out = append(out, iv)
		}
	}
	return out
}

func byStart(a, b Interval) int { return cmp.Compare(a.Start, b.Start) }

// Total is the summed length of ivs in ns; of a Union it is the time covered.
func Total(ivs []Interval) int64 {
	var t int64
	for _, iv := range ivs {
		t += iv.End - iv.Start
	}
	return t
}

// Intersect returns what lies in both a and b. Both must be results of Union.
func Intersect(a, b []Interval) []Interval {
	var out []Interval
	for i, j := 0, 0; i < len(a) && j < len(b); {
		lo, hi := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End)
		if lo < hi {
			out = append(out, Interval{lo, hi})
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return out
}

// Subtract returns what lies in a and not in b. Both must be results of Union.
func Subtract(a, b []Interval) []Interval {
	var out []Interval
	j := 0
	for _, iv := range a {
		cur := iv.Start
		for j < len(b) && b[j].End <= iv.Start {
			j++
		}
		for k := j; k < len(b) && b[k].Start < iv.End; k++ {
			if b[k].Start > cur {
				out = append(out, Interval{cur, b[k].Start})
			}
			cur = max(cur, b[k].End)
		}
		if cur < iv.End {
			out = append(out, Interval{cur, iv.End})
		}
	}
	return out
}
