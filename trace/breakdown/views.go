package breakdown

import (
	"fmt"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace"
)

// Views are the names that Report.View knows.
func Views() []string { return []string{"component", "part", "layer", "kernel", "step", "stream"} }

// View returns the table with this name. top is the number of rows that are shown, the largest ones; what is left is one row,
// "others", so that the sums stay. 0 shows all rows. wide keeps long kernel names whole; else a table fits 100 columns.
func (r Report) View(name string, top int, wide bool) (data.Table, error) {
	switch name {
	case "component":
		return r.table(false, top), nil
	case "part":
		return r.table(true, top), nil
	case "layer":
		return r.LayerTable(top), nil
	case "kernel":
		return r.KernelTable(top, wide), nil
	case "step":
		return r.StepTable(top), nil
	case "stream":
		return r.StreamTable(top), nil
	}
	return data.Table{}, fmt.Errorf("show a trace by %q: no such view; there are %s", name, strings.Join(Views(), ", "))
}

// KernelTable shows the time of each kernel name in each component, largest first.
func (r Report) KernelTable(top int, wide bool) data.Table {
	v := view{id: "kernels", title: "GPU time by kernel", heads: []string{"Kernel", "Component"}, count: "Calls",
		times: []timeColumn{{"Time", true}}, share: true, each: true, perStep: true}
	t := r.build(v, top, func(rank Rank) []line {
		var lines []line
		for _, k := range rank.Kernels {
			name := k.Component
			if k.Part != "" {
				name += "/" + k.Part
			}
			lines = append(lines, line{heads: []string{k.Name, name}, component: k.Component, n: int64(k.N), ns: []int64{k.Ns}})
		}
		return lines
	})
	if !wide {
		fit(&t, r.rankColumns())
	}
	return t
}

// StepTable shows each step: its span to the start of the next one, the time in which the GPU ran something of it, the sum of its
// events, and the time of its span in which the GPU ran nothing.
func (r Report) StepTable(top int) data.Table {
	v := view{id: "steps", title: "GPU time by step", heads: []string{"Step", "Kind"}, count: "Events", last: "Note",
		times: []timeColumn{{"Summed", true}, {"Busy", true}, {"Span", true}, {"Idle", true}}}
	return r.build(v, top, func(rank Rank) []line {
		var lines []line
		outside := line{heads: []string{"none", "in no step"}, n: int64(rank.GPUEvents), ns: []int64{rank.SummedNs, none, none, none}}
		for _, s := range rank.StepTable {
			l := line{heads: []string{fmt.Sprint(s.Index), stepWords(s.Kind, s.ContextTokens, s.GenerationTokens)}, n: int64(s.Events),
				ns: []int64{s.SummedNs, s.BusyNs, s.SpanNs, s.IdleNs}}
			if s.Partial {
				l.last = "partial"
			}
			outside.n -= l.n
			outside.ns[0] -= s.SummedNs
			lines = append(lines, l)
		}
		if outside.n > 0 {
			lines = append(lines, outside)
		}
		return lines
	})
}

// StreamTable shows each GPU stream: its events, their sum, and the time in which it ran something.
func (r Report) StreamTable(top int) data.Table {
	v := view{id: "streams", title: "GPU time by stream", heads: []string{"Device", "Stream"}, count: "Events", share: true,
		times: []timeColumn{{"Summed", true}, {"Busy", false}}}
	return r.build(v, top, func(rank Rank) []line {
		var lines []line
		for _, s := range rank.Streams {
			lines = append(lines, line{heads: []string{s.Device, s.ID}, n: int64(s.Events), ns: []int64{s.SummedNs, s.BusyNs}})
		}
		return lines
	})
}

// Only is the report on one rank, in each load; its share of the collectives stays. It has no Ranks when there is none.
func (r Report) Only(rank int) Report {
	out := Report{Schema: r.Schema}
	place := map[int]int{} // in r.Ranks -> in out.Ranks
	for i, k := range r.Ranks {
		if k.Rank == rank {
			place[i] = len(out.Ranks)
			out.Ranks = append(out.Ranks, k)
		}
	}
	for _, c := range append(r.first(), r.More...) {
		for i, at := range c.Ranks {
			to, ok := place[at]
			if !ok {
				continue
			}
			one := c
			one.Ranks, one.Unmatched, one.WaitNs, one.TailNs = []int{to}, c.Unmatched[i:i+1], c.WaitNs[i:i+1], c.TailNs[i:i+1]
			if out.Collectives == nil {
				out.Collectives = &one
			} else {
				out.More = append(out.More, one)
			}
		}
	}
	return out
}

// stepWords says what a step computed: "decode, 64 tokens".
func stepWords(kind trace.StepKind, context, generation int) string {
	switch kind {
	case trace.Decode:
		return "decode, " + tokens(generation)
	case trace.Prefill:
		return "prefill, " + tokens(context)
	case trace.Mixed:
		return fmt.Sprintf("mixed, %d + %d tokens", context, generation)
	}
	return "idle"
}
