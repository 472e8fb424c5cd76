package breakdown

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Collectives splits the time that several ranks spend in all-reduces, or in another collective. One all-reduce lasts on each rank from its own arrival to its own end:
// it waits until the last rank has arrived, transfers until the first rank is done, and has a tail until it is done itself.
// WaitNs[i] + TransferNs + TailNs[i] is the time of the matched all-reduces on Ranks[i].
type Collectives struct {
	Component  string     `json:"component"` // "allreduce"; another collective in runs without any
	Ranks      []int      `json:"ranks"`     // indices into Report.Ranks
	Matched    int        `json:"matched"`   // all-reduces found on every rank
	Unmatched  []int      `json:"unmatched"` // per rank, all-reduces that have no partner in the other windows
	WaitNs     []int64    `json:"wait_ns"`
	TransferNs int64      `json:"transfer_ns"`
	TailNs     []int64    `json:"tail_ns"`
	Last       []int      `json:"arrived_last"`   // per rank, matched all-reduces at which it was the last to arrive
	CausedNs   []int64    `json:"caused_wait_ns"` // per rank, what all others together waited for it there
	Straggler  *Straggler `json:"straggler,omitempty"`
	Skew       Skew       `json:"skew"`

	Others []Collectives `json:"others,omitempty"` // the other collectives that every rank has
}

// Match compares the all-reduces of ranks of one run, one trace and its classification each, and their other collectives apart.
// Windows of the ranks may begin and end at different ones: the order is kept and the shift is found by which of them overlap in
// time. Without all-reduces the collective that the first rank spends most time in comes first.
func Match(ranks []*trace.Rank, cls []*classify.Result) (*Collectives, error) {
	if len(ranks) < 2 {
		return nil, fmt.Errorf("match collectives: %d ranks given, at least 2 are needed", len(ranks))
	}
	ns := map[string]int64{} // collective -> time on the first rank
	for i, k := range ranks[0].Kernels {
		if component := cls[0].Label(i).Component; classify.Collective(component) {
			ns[component] += k.Dur
		}
	}
	order := slices.SortedFunc(maps.Keys(ns), func(a, b string) int { return cmp.Or(cmp.Compare(ns[b], ns[a]), cmp.Compare(a, b)) })
	first := classify.AllReduce
	if len(order) > 0 && ns[first] == 0 {
		first = order[0]
	}
	c := matchOf(first, ranks, cls)
	for _, component := range order {
		if component == first {
			continue
		}
		if other := matchOf(component, ranks, cls); other.Matched > 0 {
			c.Others = append(c.Others, *other)
		}
	}
	return c, nil
}

// matchOf compares one kind of collectives.
func matchOf(component string, ranks []*trace.Rank, cls []*classify.Result) *Collectives {
	n := len(ranks)
	m := &matching{ranks: ranks, cls: cls, ivs: make([][]trace.Interval, n), kernels: make([][]int32, n), shift: make([]int, n)}
	for r, t := range ranks {
		for i, k := range t.Kernels {
			if cls[r].Label(i).Component == component {
				start := k.Start + t.BaseNs - ranks[0].BaseNs
				if joins(t, cls[r], i) { // a piece of a CPU operator, or what handed it to another thread
					if n := len(m.ivs[r]); n > 0 && start <= m.ivs[r][n-1].End {
						m.ivs[r][n-1].End = max(m.ivs[r][n-1].End, start+k.Dur)
					}
					continue
				}
				m.ivs[r] = append(m.ivs[r], trace.Interval{Start: start, End: start + k.Dur})
				m.kernels[r] = append(m.kernels[r], int32(i))
			}
		}
		if r > 0 {
			m.shift[r] = bestShift(m.ivs[0], m.ivs[r])
		}
	}
	c := &Collectives{Component: component, Unmatched: make([]int, n), WaitNs: make([]int64, n), TailNs: make([]int64, n), Last: make([]int, n), CausedNs: make([]int64, n)}
	same := make([]trace.Interval, n)
	for i := range m.ivs[0] {
		if gather(same, m.ivs, m.shift, i) && c.add(same) {
			m.matched = append(m.matched, i)
		}
	}
	for r := range ranks {
		c.Ranks = append(c.Ranks, r)
		c.Unmatched[r] = len(m.ivs[r]) - c.Matched
	}
	m.skew(c)
	m.straggler(c)
	return c
}

// matching are the all-reduces of ranks, on the clock of the first one.
type matching struct {
	ranks   []*trace.Rank
	cls     []*classify.Result
	ivs     [][]trace.Interval // by rank
	kernels [][]int32          // by rank, the kernel of each interval
	shift   []int              // by rank, the place of its partner minus the place in ivs[0]
	matched []int              // places in ivs[0] of those that every rank has
}

// gather collects the i-th all-reduce of rank 0 and its partners; false when a rank has none.
func gather(same []trace.Interval, ivs [][]trace.Interval, shift []int, i int) bool {
	for r := range ivs {
		at := i + shift[r]
		if at < 0 || at >= len(ivs[r]) {
			return false
		}
		same[r] = ivs[r][at]
	}
	return true
}

// add takes one all-reduce as it was seen on every rank. Intervals that share no moment are no partners: then it returns false.
func (c *Collectives) add(same []trace.Interval) bool {
	late, first := lastOf(same), same[0].End
	last := same[late].Start
	for _, iv := range same[1:] {
		first = min(first, iv.End)
	}
	if first <= last {
		return false
	}
	c.Matched++
	c.TransferNs += first - last
	for r, iv := range same {
		c.WaitNs[r] += last - iv.Start
		c.TailNs[r] += iv.End - first
		c.CausedNs[late] += last - iv.Start
	}
	c.Last[late]++
	return true
}

// lastOf is the rank that arrives last; of several the first.
func lastOf(same []trace.Interval) int {
	late := 0
	for r, iv := range same {
		if iv.Start > same[late].Start {
			late = r
		}
	}
	return late
}

// bestShift returns the shift under which most intervals of a overlap b's at the same place; of equal ones the smallest.
func bestShift(a, b []trace.Interval) int {
	votes := map[int]int{}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if min(a[i].End, b[j].End) > max(a[i].Start, b[j].Start) {
			votes[j-i]++
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	shifts := make([]int, 0, len(votes))
	for s := range votes {
		shifts = append(shifts, s)
	}
	slices.Sort(shifts)
	best, most := 0, 0
	for _, s := range shifts {
		if votes[s] > most || votes[s] == most && abs(s) < abs(best) {
			best, most = s, votes[s]
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }
