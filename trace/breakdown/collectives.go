package breakdown

import (
	"fmt"
	"slices"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Collectives splits the all-reduce time of several ranks. One all-reduce lasts on each rank from its own arrival to its own end:
// it waits until the last rank has arrived, transfers until the first rank is done, and has a tail until it is done itself.
// WaitNs[i] + TransferNs + TailNs[i] is the time of the matched all-reduces on Ranks[i].
type Collectives struct {
	Component  string  `json:"component"` // "allreduce"
	Ranks      []int   `json:"ranks"`     // indices into Report.Ranks
	Matched    int     `json:"matched"`   // all-reduces found on every rank
	Unmatched  []int   `json:"unmatched"` // per rank, all-reduces that have no partner in the other windows
	WaitNs     []int64 `json:"wait_ns"`
	TransferNs int64   `json:"transfer_ns"`
	TailNs     []int64 `json:"tail_ns"`
}

// Match compares the all-reduces of ranks of one run, one trace and its classification each. Windows of the ranks may begin and
// end at different all-reduces: the order is kept and the shift is found by which of them overlap in time.
func Match(ranks []*trace.Rank, cls []*classify.Result) (*Collectives, error) {
	if len(ranks) < 2 {
		return nil, fmt.Errorf("match collectives: %d ranks given, at least 2 are needed", len(ranks))
	}
	ivs := make([][]trace.Interval, len(ranks))
	for r, t := range ranks {
		for i, k := range t.Kernels {
			if cls[r].Label(i).Component == classify.AllReduce {
				start := k.Start + t.BaseNs - ranks[0].BaseNs
				ivs[r] = append(ivs[r], trace.Interval{Start: start, End: start + k.Dur})
			}
		}
	}
	shift := make([]int, len(ranks))
	for r := 1; r < len(ranks); r++ {
		shift[r] = bestShift(ivs[0], ivs[r])
	}
	c := &Collectives{Component: classify.AllReduce, Unmatched: make([]int, len(ranks)), WaitNs: make([]int64, len(ranks)), TailNs: make([]int64, len(ranks))}
	same := make([]trace.Interval, len(ranks))
	for i := range ivs[0] {
		if gather(same, ivs, shift, i) {
			c.add(same)
		}
	}
	for r := range ranks {
		c.Ranks = append(c.Ranks, r)
		c.Unmatched[r] = len(ivs[r]) - c.Matched
	}
	return c, nil
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

// add takes one all-reduce as it was seen on every rank. Intervals that share no moment are no partners.
func (c *Collectives) add(same []trace.Interval) {
	last, first := same[0].Start, same[0].End
	for _, iv := range same[1:] {
		last, first = max(last, iv.Start), min(first, iv.End)
	}
	if first <= last {
		return
	}
	c.Matched++
	c.TransferNs += first - last
	for r, iv := range same {
		c.WaitNs[r] += last - iv.Start
		c.TailNs[r] += iv.End - first
	}
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
