package rules

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Collectives shows, for each load with two or more traced ranks, how much of all-reduce time was waiting.
func Collectives(ws []Window) data.Table {
	t := data.Table{ID: "collectives", Title: "All-reduce: waiting and transfer",
		Columns: []data.Column{{Head: "Load"}, {Head: "ranks"}, {Head: "all-reduce", Unit: "ms a step", Numeric: true}, {Head: "waiting", Unit: "ms a step", Numeric: true}, {Head: "waiting", Unit: "% of matched", Numeric: true}, {Head: "unmatched", Unit: "n", Numeric: true}},
		Note:    "Waiting runs from a rank's arrival to the last arrival, in all-reduces that were found in every trace of the load. " + ofRank(ws) + "."}
	for _, w := range ws {
		row := data.Row{Component: "allreduce", Cells: []string{w.Label(), ranks(w), units.MsPer(w.Sum("allreduce"), int64(max(w.Steps, 1)), 2), "open", "open", "open"}}
		if len(w.WaitNs) > 0 {
			w.waiting(row.Cells[3:], 0)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// waiting fills in the waiting of the i-th rank: ms a step, percent of the matched all-reduces, and how many are not matched.
func (w Window) waiting(cells []string, i int) {
	cells[0], cells[1] = units.MsPer(w.WaitNs[i], int64(max(w.Steps, 1)), 2), w.waitPct(i)
	cells[2] = units.Count(int64(at(w.Unmatched, i)))
}

// ofRank says whose figures the windows hold: "Rank 0", or of each load in order "Ranks 0, 1 and 0".
func ofRank(ws []Window) string {
	var all []string
	same := true
	for _, w := range ws {
		all = append(all, units.Count(int64(w.Rank)))
		same = same && w.Rank == ws[0].Rank
	}
	switch {
	case len(ws) == 0:
		return "One rank"
	case same:
		return "Rank " + all[0]
	}
	return "Ranks " + list(all)
}

func ranks(w Window) string {
	if w.WorldSize == 0 {
		return units.Count(int64(w.Ranks))
	}
	return units.Count(int64(w.Ranks)) + " of " + units.Count(int64(w.WorldSize))
}

// CastShare is the share of casts, copies and fills, as one row of text a load: the question the GLM-5 campaign left behind.
func CastShare(ws []Window) data.Table {
	t := data.Table{ID: "casts", Title: "Dtype casts, copies and fills",
		Columns: []data.Column{{Head: "Load"}, {Head: "calls", Unit: "a step", Numeric: true}, {Head: "time", Unit: "ms a step", Numeric: true}, {Head: "share", Unit: "% of " + base(ws), Numeric: true}}}
	for _, w := range ws {
		n := 0
		for _, c := range w.Components {
			if c.Name == "cast_copy" || c.Name == "memory" {
				n += c.N
			}
		}
		t.Rows = append(t.Rows, data.Row{Component: "cast_copy", Cells: []string{w.Label(), units.Fixed(int64(n), int64(max(w.Steps, 1)), 0),
			units.MsPer(w.Sum("cast_copy", "memory"), int64(max(w.Steps, 1)), 2), w.Share("cast_copy", "memory")}})
	}
	return t
}

// Perturbations compares a step without and with the profiler.
func Perturbations(ws []Window) data.Table {
	t := data.Table{ID: "perturbation", Title: "What profiling itself cost",
		Columns: []data.Column{{Head: "Load"}, {Head: "without", Unit: "ms a step", Numeric: true}, {Head: "with profiler", Unit: "ms a step", Numeric: true}, {Head: "longer", Unit: "%", Numeric: true}},
		Note:    "Without: steady median inter-token latency of an unprofiled pass. With: span of the window divided by its steps."}
	again := slices.ContainsFunc(ws, func(w Window) bool { return w.AfterNs > 0 })
	if again {
		t.Columns = append(t.Columns, data.Column{Head: "without, again", Unit: "ms a step", Numeric: true}, data.Column{Head: "lasting", Unit: "%", Numeric: true})
		t.Note += " Again: the first pass repeated after the profile; lasting is what stayed."
	}
	for _, w := range ws {
		row := data.Row{Cells: []string{w.Label(), "not measured", units.MsPer(w.SpanNs, int64(max(w.Steps, 1)), 2), "open"}}
		if tenths, ok := w.Perturbation(); ok {
			row.Cells[1], row.Cells[3] = units.Ms(w.UnprofiledNs, 2), units.Fixed(tenths, 10, 1)
		}
		if again {
			row.Cells = append(row.Cells, w.afterwards()...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// afterwards are the cells of the pass after the profile: the step, and how much longer it is than before.
func (w Window) afterwards() []string {
	if w.AfterNs == 0 {
		return []string{"not measured", "open"}
	}
	if w.UnprofiledNs == 0 {
		return []string{units.Ms(w.AfterNs, 2), "open"}
	}
	return []string{units.Ms(w.AfterNs, 2), units.Percent(w.AfterNs-w.UnprofiledNs, w.UnprofiledNs, 1)}
}

// Launches shows how a step's GPU work was started, and how many calls of the known kinds it has.
func Launches(ws []Window) data.Table {
	if base(ws) == "CPU time" {
		return operatorCalls(ws)
	}
	t := data.Table{ID: "launches", Title: "Launches a step",
		Columns: []data.Column{{Head: "Load"}, {Head: "GPU events", Numeric: true}, {Head: "kernel launches", Numeric: true}, {Head: "graph launches", Numeric: true},
			{Head: "all-reduce", Numeric: true}, {Head: "all-gather", Numeric: true}, {Head: "expert GEMMs", Numeric: true}, {Head: "attention kernels", Numeric: true}},
		Note: "Launches are counted on the CPU; GPU events include the kernels that a graph launch starts."}
	for _, w := range ws {
		per := func(n int) string { return units.Fixed(int64(n), int64(max(w.Steps, 1)), 0) }
		count := map[string]int{}
		all := 0
		for _, c := range w.Components {
			count[c.Name] += c.N
			all += c.N
		}
		t.Rows = append(t.Rows, data.Row{Cells: []string{w.Label(), per(all), per(w.KernelLaunches), per(w.GraphLaunches),
			per(count["allreduce"]), per(count["allgather"]), per(count["moe.experts"]), per(count["attention.core"])}})
	}
	return t
}

// operatorCalls is Launches where the CPU computes: nothing is launched.
func operatorCalls(ws []Window) data.Table {
	t := data.Table{ID: "launches", Title: "Operator calls a step",
		Columns: []data.Column{{Head: "Load"}, {Head: "CPU operators", Numeric: true}},
		Note:    "No GPU activity, so nothing is launched. An operator that another one calls counts with that one, but for the first column."}
	shown := []string{"allreduce", "allgather", "attention.core", "moe.experts", "moe.router", "lm_head"}
	for _, c := range shown {
		t.Columns = append(t.Columns, data.Column{Head: data.ComponentLabel(c), Numeric: true})
	}
	for _, w := range ws {
		per := func(n int) string { return units.Fixed(int64(n), int64(max(w.Steps, 1)), 0) }
		row := data.Row{Cells: []string{w.Label(), per(w.Operators)}}
		for _, name := range shown {
			n := 0
			for _, c := range w.Components {
				if c.Name == name {
					n += c.N
				}
			}
			row.Cells = append(row.Cells, per(n))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Modes compares windows of one load that differ in one setting, such as eager and graphs. Their names head the columns.
func Modes(streams int, ws []Window) data.Table {
	t := data.Table{Title: fmt.Sprintf("One decode step at C = %d, %s", streams, strings.ToLower(ofRank(ws))), Columns: []data.Column{{Head: "Per step"}}}
	for _, l := range labels(ws) {
		t.Columns = append(t.Columns, data.Column{Head: l, Unit: "ms", Numeric: true})
	}
	add := func(label, component string, bold, rule bool, ns func(Window) int64) {
		row := data.Row{Component: component, Bold: bold, Rule: rule, Cells: []string{label}}
		for _, w := range ws {
			row.Cells = append(row.Cells, units.MsPer(ns(w), int64(max(w.Steps, 1)), 2))
		}
		t.Rows = append(t.Rows, row)
	}
	b := Bottlenecks(ws)
	sort.SliceStable(b.Rows, func(i, k int) bool { return b.Rows[i].Ns[0] > b.Rows[k].Ns[0] })
	for _, r := range b.Rows {
		add(r.Label, r.Components[0], false, false, func(w Window) int64 { return w.Sum(r.Components...) })
	}
	add("GPU time, summed", "", true, true, func(w Window) int64 { return w.SummedNs })
	add("Two streams at once", "", false, false, func(w Window) int64 { return -w.OverlapNs })
	add("Idle: no GPU work runs", "idle", false, false, func(w Window) int64 { return w.IdleNs })
	add("Step", "", true, false, func(w Window) int64 { return w.SpanNs })
	return t
}

// RankTable sets the ranks of each window side by side: the all-reduce of each rank, and how much of it was waiting.
func RankTable(ws []Window) data.Table {
	t := data.Table{ID: "ranks", Title: "All-reduce on each rank",
		Columns: []data.Column{{Head: "Run"}, {Head: "Rank"}, {Head: "all-reduce", Unit: "ms a step", Numeric: true}, {Head: "of it waiting", Unit: "ms a step", Numeric: true}, {Head: "waiting", Unit: "% of matched", Numeric: true}, {Head: "unmatched", Unit: "n", Numeric: true}}}
	for _, w := range ws {
		each := append([]OtherRank{{Rank: w.Rank, Ns: w.Sum("allreduce")}}, w.OtherRanks...)
		for i, r := range each {
			row := data.Row{Component: "allreduce", Cells: []string{w.Label(), units.Count(int64(r.Rank)), units.MsPer(r.Ns, int64(max(w.Steps, 1)), 2), "open", "open", "open"}}
			if i < len(w.WaitNs) {
				w.waiting(row.Cells[3:], i)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
