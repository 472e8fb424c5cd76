package breakdown

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
)

// Host says what the CPU did while the GPU had nothing to run, and how long launches took to arrive. It is of the whole window,
// over the devices.
type Host struct {
	LaunchGap Spread      `json:"launch_gap"` // from the begin of a launch call to the begin of its first kernel
	Idle      []IdleCause `json:"idle"`       // by ns, largest first; together they are IdleNs
}

// Spread is the distribution of a time.
type Spread struct {
	N     int   `json:"n"`
	P50Ns int64 `json:"p50_ns"` // lower median
	MaxNs int64 `json:"max_ns"`
}

func spread(ns []int64) Spread {
	s := Spread{N: len(ns), P50Ns: lowerMedian(ns)}
	if s.N > 0 {
		s.MaxNs = ns[s.N-1] // sorted by lowerMedian
	}
	return s
}

// IdleCause is idle time of the GPU with one cause. An idle gap ends with a GPU event; its time until the launch call of that event
// returns is the host's, and belongs to the innermost operator, annotation or runtime call that ran on the launching thread at each
// moment. What is left was launched and had not begun.
type IdleCause struct {
	Kind  string `json:"kind"`  // one of the kinds below
	Cause string `json:"cause"` // for OnHost, the name of the operator or call; else words
	N     int    `json:"n"`     // gaps in which it has a part
	Ns    int64  `json:"ns"`
}

// Kinds of an IdleCause.
const (
	OnHost    = "host"    // an operator or call ran on the thread that launched what came next
	NoCall    = "no_call" // nothing that the profiler records ran there: Python code, or waiting for other threads
	Queued    = "queued"  // launched and not begun: the queue, another stream, or the way to the GPU
	InGraph   = "graph"   // between two kernels of one graph launch: the host has no part in it
	NotInFile = "unknown" // the launch of what came next is not in the file
)

// causeWords are the texts of the kinds that have no name of their own.
var causeWords = map[string]string{
	NoCall: "no operator or call (Python, or waiting)", Queued: "launched, not begun", InGraph: "between kernels of a graph", NotInFile: "launch not in the file",
}

// host analyses what the CPU did; nil when that was not read. devices are the kernels of each device, by start.
func host(t *trace.Rank, devices [][]int32) *Host {
	if t.Host == nil {
		return nil
	}
	h := &hostSums{t: t, at: map[causeKey]int{}}
	for _, kernels := range devices {
		h.sweeps = map[int32]*sweep{}
		h.device(kernels)
	}
	out := &Host{LaunchGap: spread(h.gaps), Idle: h.causes}
	for i := range out.Idle {
		if c := &out.Idle[i]; c.Kind != OnHost {
			c.Cause = causeWords[c.Kind]
		}
	}
	slices.SortFunc(out.Idle, func(a, b IdleCause) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cause, b.Cause))
	})
	return out
}

type causeKey struct {
	kind string
	name int32 // into Host.Names
}

// hostSums adds up idle time by cause.
type hostSums struct {
	t      *trace.Rank
	sweeps map[int32]*sweep // by thread
	at     map[causeKey]int // cause -> place in causes
	causes []IdleCause
	seen   []int // by cause, the number of the last gap it had a part in
	gap    int   // number of the present gap
	gaps   []int64
}

// device walks over the kernels of one device.
func (h *hostSums) device(kernels []int32) {
	covered, last := int64(math.MinInt64), int32(-1) // the event that ended last
	for _, i := range kernels {
		k := h.t.Kernels[i]
		if last >= 0 && k.Start > covered {
			h.gap++
			h.idle(covered, k.Start, i, last)
		}
		if l := h.t.Host.Launch[i]; l.Thread >= 0 && !h.sameGraph(i, last) {
			h.gaps = append(h.gaps, k.Start-l.Start)
		}
		if end := k.End(); end > covered {
			covered, last = end, i
		}
	}
}

// sameGraph says whether two events are of one graph launch.
func (h *hostSums) sameGraph(i, j int32) bool {
	return j >= 0 && h.t.Kernels[i].Graph() && h.t.Kernels[i].Correlation == h.t.Kernels[j].Correlation
}

// idle divides the gap before kernel i; before is the event that ended last.
func (h *hostSums) idle(from, to int64, i, before int32) {
	l := h.t.Host.Launch[i]
	switch {
	case h.sameGraph(i, before):
		h.add(causeKey{kind: InGraph}, to-from)
		return
	case l.Thread < 0:
		h.add(causeKey{kind: NotInFile}, to-from)
		return
	}
	s := h.sweeps[l.Thread]
	if s == nil {
		s = &sweep{calls: h.t.Host.OnThread(l.Thread)}
		h.sweeps[l.Thread] = s
	}
	until := max(from, min(to, l.End()))
	s.over(from, until, func(call *trace.Call, ns int64) {
		if call == nil {
			h.add(causeKey{kind: NoCall}, ns)
		} else {
			h.add(causeKey{OnHost, call.Name}, ns)
		}
	})
	if to > until {
		h.add(causeKey{kind: Queued}, to-until)
	}
}

func (h *hostSums) add(key causeKey, ns int64) {
	n, ok := h.at[key]
	if !ok {
		n = len(h.causes)
		h.at[key] = n
		c := IdleCause{Kind: key.kind}
		if key.kind == OnHost {
			c.Cause = h.t.Host.Names[key.name]
		}
		h.causes, h.seen = append(h.causes, c), append(h.seen, 0)
	}
	h.causes[n].Ns += ns
	if h.seen[n] != h.gap {
		h.seen[n] = h.gap
		h.causes[n].N++
	}
}

// sweep moves over the calls of one thread, forwards only.
type sweep struct {
	calls []trace.Call // by start, outer before inner
	next  int
	open  []*trace.Call // that have begun and not ended, the innermost last
}

// over tells take which call was innermost from one time to another, piece by piece; nil is none.
func (s *sweep) over(from, to int64, take func(call *trace.Call, ns int64)) {
	for at := from; at < to; {
		for s.next < len(s.calls) && s.calls[s.next].Start <= at {
			if c := &s.calls[s.next]; c.End() > at {
				s.open = append(s.open, c)
			}
			s.next++
		}
		for len(s.open) > 0 && s.open[len(s.open)-1].End() <= at {
			s.open = s.open[:len(s.open)-1]
		}
		until := to
		if s.next < len(s.calls) {
			until = min(until, s.calls[s.next].Start)
		}
		var inner *trace.Call
		if n := len(s.open); n > 0 {
			inner = s.open[n-1]
			until = min(until, inner.End())
		}
		take(inner, until-at)
		at = until
	}
}

// HostTable shows the idle time of the GPU by what the host did meanwhile, and below it what the host launched in a step.
func (r Report) HostTable(top int) data.Table {
	v := view{id: "host", title: "GPU idle time by what the host did", heads: []string{"Host"}, count: "Gaps", times: []timeColumn{{"GPU idle", true}}, share: true,
		whole: func(rank Rank) int64 { return rank.IdleNs }}
	t := r.build(v, top, func(rank Rank) []line {
		var lines []line
		if rank.Host != nil {
			for _, c := range rank.Host.Idle {
				lines = append(lines, line{heads: []string{c.Cause}, n: int64(c.N), ns: []int64{c.Ns}})
			}
		}
		return lines
	})
	fit(&t, r.rankColumns())
	t.Note = r.hostNotes() + t.Note
	return t
}

// hostNotes says for each rank what was launched.
func (r Report) hostNotes() string {
	text := ""
	for i, rank := range r.Ranks {
		if rank.Host == nil {
			continue
		}
		name := "Launches a step"
		if len(r.Ranks) > 1 {
			name += ", " + r.label(i)
		}
		kernels, graphs, hidden := rank.launchesAStep()
		text += fmt.Sprintf("%s: %s and %s (medians).", name, plural(int(kernels), "kernel"), plural(int(graphs), "graph"))
		if hidden > 0 {
			text += fmt.Sprintf(" Graphs launched %s of a step: these have no launch of their own.", plural(int(hidden), "GPU event"))
		}
		if g := rank.Host.LaunchGap; g.N > 0 {
			text += fmt.Sprintf(" From launch to begin: median %s µs, longest %s µs.", units.Us(g.P50Ns, 1), units.Us(g.MaxNs, 1))
		}
		text += "\n"
	}
	return text
}

// launchesAStep are the medians over the counted steps (means where steps have no marks): kernels launched one by one, graphs launched, events that graphs launched.
func (r Rank) launchesAStep() (kernels, graphs, hidden int64) {
	var all [3][]int64
	for _, s := range r.StepTable {
		if r.Counted(s) {
			for i, n := range []int{s.Launches, s.GraphLaunches, s.GraphEvents} {
				all[i] = append(all[i], int64(n))
			}
		}
	}
	kernels, graphs, hidden = lowerMedian(all[0]), lowerMedian(all[1]), lowerMedian(all[2])
	if n := int64(len(r.StepTable)); r.StepsBy == trace.ByRepetition && n > 0 { // no mark says to which step a launch belongs
		kernels, graphs = int64(r.Launches.Kernels)/n, int64(r.Launches.Graphs)/n
	}
	return kernels, graphs, hidden
}
