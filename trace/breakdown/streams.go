package breakdown

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Stream is one GPU stream of one device.
type Stream struct {
	Device   string `json:"device"`
	ID       string `json:"id"`
	Events   int    `json:"events"`
	SummedNs int64  `json:"summed_ns"`
	BusyNs   int64  `json:"busy_ns"` // union of its events
}

// streams sums by device and stream, by time, largest first.
func streams(t *trace.Rank) []Stream {
	type key struct {
		device int16
		stream int32
	}
	at := map[key]int{}
	out := []Stream{}
	var covered []int64 // everything before it is counted, by stream
	last, n := key{-1, -1}, 0
	for _, k := range t.Kernels {
		if id := (key{k.Device, k.Stream}); id != last {
			var ok bool
			if n, ok = at[id]; !ok {
				n = len(out)
				at[id] = n
				out = append(out, Stream{Device: t.Devices[k.Device], ID: t.Streams[k.Stream]})
				covered = append(covered, math.MinInt64)
			}
			last = id
		}
		s := &out[n]
		s.Events++
		s.SummedNs += k.Dur
		if end := k.End(); end > covered[n] {
			s.BusyNs += end - max(k.Start, covered[n])
			covered[n] = end
		}
	}
	slices.SortFunc(out, func(a, b Stream) int {
		return cmp.Or(cmp.Compare(b.SummedNs, a.SummedNs), cmp.Compare(a.Device, b.Device), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// idle adds to each step the time of its span in which a device ran nothing, of any step, over the devices.
func idle(t *trace.Rank, first int64, table []Step, devices [][]int32) {
	order := make([]int, 0, len(table)) // steps with a span, by start
	for i, s := range table {
		if s.SpanNs > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(table[a].StartNs, table[b].StartNs) })
	for _, kernels := range devices {
		at := 0
		gap := func(from, to int64) {
			for at < len(order) && table[order[at]].StartNs+table[order[at]].SpanNs <= from {
				at++
			}
			for _, i := range order[at:] {
				s := &table[i]
				if s.StartNs >= to {
					break
				}
				s.IdleNs += max(0, min(to, s.StartNs+s.SpanNs)-max(from, s.StartNs))
			}
		}
		covered := int64(math.MinInt64)
		for _, i := range kernels {
			k := t.Kernels[i]
			if start := k.Start - first; start > covered {
				gap(covered, start)
			}
			covered = max(covered, k.End()-first)
		}
		gap(covered, math.MaxInt64)
	}
}

// OneStep is the part of a rank that belongs to one step (index into t.Steps), with its classification. Times stay on the clock of
// the file. What the CPU launched is not known by step: the counts of launches are 0.
func OneStep(t *trace.Rank, cls *classify.Result, step int) (*trace.Rank, *classify.Result, error) {
	if step < 0 || step >= len(t.Steps) {
		return nil, nil, fmt.Errorf("take step %d of %s: it has %s", step, t.File, stepRange(len(t.Steps)))
	}
	if t.Steps[step].Events == 0 {
		return nil, nil, fmt.Errorf("take step %d of %s: it has no GPU work; choose another of its steps (0 to %d)", step, t.File, len(t.Steps)-1)
	}
	one, places := *t, *cls
	one.Steps = []trace.Step{t.Steps[step]}
	one.KernelLaunches, one.GraphLaunches = 0, 0
	one.Kernels, places.Places = nil, nil
	if t.Host != nil {
		h := *t.Host
		h.Launch = nil
		one.Host = &h
	}
	for i, k := range t.Kernels {
		if int(k.Step) == step {
			k.Step = 0
			one.Kernels = append(one.Kernels, k)
			places.Places = append(places.Places, cls.Places[i])
			if t.Host != nil {
				one.Host.Launch = append(one.Host.Launch, t.Host.Launch[i])
			}
		}
	}
	return &one, &places, nil
}

func stepRange(n int) string {
	switch n {
	case 0:
		return "no step annotations"
	case 1:
		return "one step, 0"
	}
	return fmt.Sprintf("%d steps, 0 to %d", n, n-1)
}
