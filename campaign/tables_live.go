package campaign

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// LiveTable shows what happened on a live server in each round: what its own counters did, what the profiler did to the time
// between tokens, how long everything stood still for it, and what was noted. A recording has nothing of this: then the
// table has a note and no columns.
func LiveTable(rounds []data.Round) data.Table {
	rounds = slices.DeleteFunc(slices.Clone(rounds), func(r data.Round) bool { return !measuredLive(r) })
	if len(rounds) == 0 {
		return data.Table{ID: "live", Note: "What happened on the server meanwhile was not recorded."}
	}
	t := data.Table{ID: "live", Title: liveTitle(rounds), Columns: []data.Column{{Head: "On the server"}}}
	for _, r := range rounds {
		t.Columns = append(t.Columns, data.Column{Head: fmt.Sprintf("C = %d", r.Streams), Numeric: true})
		if len(r.Notes) > 0 {
			t.Note += fmt.Sprintf("Noted at C = %d: %s.\n", r.Streams, strings.TrimRight(strings.Join(r.Notes, "; "), "."))
		}
	}
	t.Note += "Counters are the server's own, over the pass without profiler. Time between tokens is the steady median that clients saw."
	row := func(label string, value func(data.Round) string) *data.Row {
		made := data.Row{Cells: []string{label}}
		for _, r := range rounds {
			made.Cells = append(made.Cells, cmp.Or(value(r), "not measured"))
		}
		if !slices.ContainsFunc(rounds, func(r data.Round) bool { return value(r) != "" }) {
			return &made // what no round has does not appear
		}
		t.Rows = append(t.Rows, made)
		return &t.Rows[len(t.Rows)-1]
	}
	row("Tokens generated", counted(generated...))
	row("Prompt tokens", counted(prompted...))
	row("of them in the prefix cache, %", func(r data.Round) string {
		hits, of := rise(r, prefixHits...), max(rise(r, prefixQueries...), rise(r, prompted...))
		if hits < 0 || of <= 0 {
			return ""
		}
		return units.Percent(hits, of, 1)
	})
	row("KV cache in use, at most, %", func(r data.Round) string {
		if r.Unprofiled.KVCachePeak <= 0 {
			return ""
		}
		return units.Float(100*r.Unprofiled.KVCachePeak, 1)
	})
	row("Requests preempted", counted(preempted...)).Bold = sum(rounds, preempted...) > 0
	row("Time between tokens, ms", func(r data.Round) string { return steadyMs(r.Unprofiled) }).Rule = true
	row("while profiled, ms", func(r data.Round) string { return steadyMs(r.Profiled) })
	row("afterwards, ms", func(r data.Round) string { return steadyMs(r.After) })
	row("Stood still for the profiler, s", func(r data.Round) string { // while it started, and while it wrote the traces
		if r.StartNs+r.StopNs == 0 {
			return ""
		}
		return units.Fixed(r.StartNs+r.StopNs, 1e9, 2)
	})
	return t
}

func measuredLive(r data.Round) bool {
	return r.Unprofiled != nil && !r.Unprofiled.Recorded && (len(r.Metrics) > 0 || r.After != nil)
}

// liveTitle says in one sentence what the table holds at worst.
func liveTitle(rounds []data.Round) string {
	title := "preemptions were not counted"
	switch n := sum(rounds, preempted...); {
	case n == 0:
		title = "no request was preempted"
	case n > 0:
		title = units.Count(n) + " requests were preempted for lack of KV cache"
	}
	still := int64(0)
	for _, r := range rounds {
		still = max(still, r.StartNs+r.StopNs)
	}
	if still > 0 {
		title += "; to start and stop the profiler it stood still for up to " + units.Fixed(still, 1e9, 1) + " s"
	}
	return "The live server meanwhile: " + title
}

// What vLLM and SGLang call their counters, without the prefix of the engine; vLLM had a gpu_ in the names before 0.12.
var (
	generated     = []string{"generation_tokens_total"}
	prompted      = []string{"prompt_tokens_total"}
	preempted     = []string{"num_preemptions_total", "num_retracted_requests_total"}
	prefixHits    = []string{"prefix_cache_hits_total", "gpu_prefix_cache_hits_total", "cached_tokens_total"}
	prefixQueries = []string{"prefix_cache_queries_total", "gpu_prefix_cache_queries_total"}
)

// rise is how much a counter rose, -1 when the server does not have it.
func rise(r data.Round, names ...string) int64 {
	for _, d := range r.Metrics {
		if _, name, _ := strings.Cut(d.Name, ":"); slices.Contains(names, name) {
			return int64(d.After - d.Before)
		}
	}
	return -1
}

// sum adds a counter over the rounds that have it, -1 when none has.
func sum(rounds []data.Round, names ...string) int64 {
	all := int64(-1)
	for _, r := range rounds {
		if n := rise(r, names...); n >= 0 {
			all = max(all, 0) + n
		}
	}
	return all
}

func counted(names ...string) func(data.Round) string {
	return func(r data.Round) string {
		n := rise(r, names...)
		if n < 0 {
			return ""
		}
		return units.Count(n)
	}
}

func steadyNs(l *data.LoadResult) int64 {
	if l == nil {
		return 0
	}
	return l.SteadyITLNs
}

func steadyMs(l *data.LoadResult) string {
	if steadyNs(l) <= 0 {
		return ""
	}
	return units.Ms(l.SteadyITLNs, 2)
}
