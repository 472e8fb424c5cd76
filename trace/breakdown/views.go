package breakdown

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace"
)

// Views are the names that Report.View knows.
func Views() []string {
	return []string{"component", "part", "layer", "kernel", "step", "stream", "host"}
}

// View returns the table with this name. top is the number of rows that are shown, the largest ones; what is left is one row,
// "others", so that the sums stay. 0 shows all rows. wide keeps long kernel names whole; else a table fits 100 columns.
func (r Report) View(name string, top int, wide bool) (data.Table, error) {
	var t data.Table
	switch name {
	case "component":
		t = r.table(false, top)
	case "part":
		t = r.table(true, top)
	case "layer":
		t = r.LayerTable(top)
	case "kernel":
		t = r.KernelTable(top, wide)
	case "step":
		t = r.StepTable(top)
	case "stream":
		t = r.StreamTable(top)
	case "host":
		if r.words() == cpuWords { // nothing but the host
			t = r.KernelTable(top, wide)
			break
		}
		if !slices.ContainsFunc(r.Ranks, func(k Rank) bool { return k.Host != nil }) {
			return t, errors.New("show a trace by \"host\": what the CPU did was not read; set Host in analyze.Options")
		}
		t = r.HostTable(top)
	default:
		return t, fmt.Errorf("show a trace by %q: no such view; there are %s", name, strings.Join(Views(), ", "))
	}
	t.Note += r.stragglerNotes()
	return t, nil
}

// KernelTable shows the time of each kernel name in each component, largest first.
func (r Report) KernelTable(top int, wide bool) data.Table {
	v := view{id: "kernels", title: r.words().time + " by " + strings.ToLower(r.words().kernel), heads: []string{r.words().kernel, "Component"}, count: "Calls",
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
	v := view{id: "steps", title: r.words().time + " by step", heads: []string{"Step", "Kind"}, count: "Events", last: "Note",
		times: []timeColumn{{"Summed", true}, {"Busy", true}, {"Span", true}, {"Idle", true}}}
	return r.build(v, top, func(rank Rank) []line {
		var lines []line
		outside := line{heads: []string{"none", "in no step"}, n: int64(rank.GPUEvents + rank.Operators), ns: []int64{rank.SummedNs, none, none, none}}
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
	v := view{id: "streams", title: r.words().time + " by stream", heads: []string{"Device", "Stream"}, count: "Events", share: true,
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
			one := c.of(i)
			one.Ranks = []int{to}
			for n, other := range c.Others {
				one.Others[n] = other.of(i)
				one.Others[n].Ranks = []int{to}
			}
			if out.Collectives == nil {
				out.Collectives = &one
			} else {
				out.More = append(out.More, one)
			}
		}
	}
	return out
}

// of is the share of one rank (an index into the lists).
func (c Collectives) of(i int) Collectives {
	c.Unmatched, c.WaitNs, c.TailNs, c.Last, c.CausedNs = of(c.Unmatched, i), of(c.WaitNs, i), of(c.TailNs, i), of(c.Last, i), of(c.CausedNs, i)
	c.Skew.Steps = slices.Clone(c.Skew.Steps)
	for n, s := range c.Skew.Steps {
		c.Skew.Steps[n].WaitNs = of(s.WaitNs, i)
	}
	c.Others = slices.Clone(c.Others)
	return c
}

// of is the part of a list by rank that belongs to one of them.
func of[T any](list []T, rank int) []T {
	if rank >= len(list) {
		return nil
	}
	return list[rank : rank+1]
}

// stepWords says what a step computed: "decode, 64 tokens". Tokens that the annotation does not say are left out.
func stepWords(kind trace.StepKind, context, generation int) string {
	switch {
	case kind == trace.Decode && generation > 0:
		return "decode, " + tokens(generation)
	case kind == trace.Prefill && context > 0:
		return "prefill, " + tokens(context)
	case kind == trace.Mixed && context > 0:
		return fmt.Sprintf("mixed, %d + %d tokens", context, generation)
	case kind == trace.Unmarked:
		return "unmarked steps"
	}
	return string(kind)
}
