package load

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Latency sums up the values of one kind. A percentile lies on the straight line between its neighbours, as numpy's does;
// StdNs is that of the values themselves, not of a population behind them. N tells which percentiles can be trusted.
type Latency struct {
	N        int   `json:"n"`
	MeanNs   int64 `json:"mean_ns"`
	StdNs    int64 `json:"std_ns"`
	MedianNs int64 `json:"median_ns"`
	P90Ns    int64 `json:"p90_ns"`
	P95Ns    int64 `json:"p95_ns"`
	P99Ns    int64 `json:"p99_ns"`
}

// result computes the figures of a pass that is over. The lock is held.
func (p *Pass) result() Result {
	sort.Slice(p.samples, func(i, j int) bool { return p.samples[i].Request < p.samples[j].Request })
	wall := p.wall
	if p.opts.Replay != nil {
		wall = 0 // its clock is another one
	}
	streams := p.opts.Streams
	if p.opts.Rate > 0 {
		streams = 0
	}
	r := measure(p.samples, streams, wall, p.window)
	r.MaxInFlight, r.Samples, r.Errors = int(p.flight.most.Load()), p.samples, reasons(p.failed)
	if p.opts.Rate > 0 {
		r.Open, r.Notes = p.kept()
	}
	if p.watch != nil {
		var note string
		if r.Foreign, note = p.watch.verdict(p.samples, p.opts.OutputTokens); note != "" {
			r.Notes = append(r.Notes, note)
		}
		if note := bunched(p.samples); note != "" {
			r.Notes = append(r.Notes, note)
		}
		r.KVCachePeak = p.watch.fullest
	}
	if p.opts.Replay != nil && r.Requests > 0 {
		recorded(&r, *p.opts.Replay, p.opts)
	}
	return r
}

// measure computes the figures of requests. Those that failed count as failed only, those that were cut count with what
// they have. wall is the duration of the pass; 0: from the first request to the last chunk. streams is how many are to
// decode for a gap to be steady; 0: none is.
func measure(samples []Sample, streams int, wall int64, window *span) Result {
	var r Result
	var ttft, itl, tpot, e2el []int64
	var good []Sample // that did not fail
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, q := range samples {
		if q.Error != "" {
			r.Failed++
			continue
		}
		good = append(good, q)
		r.Requests++
		r.InputTokens += int64(q.Prompt)
		r.OutputTokens += int64(q.Tokens)
		r.Nearest = max(r.Nearest, q.nearest)
		if len(q.Arrivals) == 0 {
			continue
		}
		from, to = min(from, q.Sent), max(to, q.last())
		ttft = append(ttft, q.ttft())
		for i := 1; i < len(q.Arrivals); i++ {
			itl = append(itl, q.Arrivals[i]-q.Arrivals[i-1])
		}
		if q.Tokens > 1 {
			tpot = append(tpot, q.tpot())
		}
		if !q.Cut {
			e2el = append(e2el, q.e2el())
		}
	}
	steady := steadyGaps(good, streams, window)
	r.SteadySamples, r.SteadyITLNs = len(steady), summarise(steady).MedianNs
	r.TTFT, r.ITL, r.TPOT, r.E2EL = summarise(ttft), summarise(itl), summarise(tpot), summarise(e2el)
	r.ITLp50Ns, r.ITLp90Ns, r.ITLp99Ns = r.ITL.MedianNs, r.ITL.P90Ns, r.ITL.P99Ns
	r.TTFTp50Ns, r.TTFTp99Ns, r.TPOTp50Ns = r.TTFT.MedianNs, r.TTFT.P99Ns, r.TPOT.MedianNs
	r.PeakConcurrent, r.PeakOutputTokS = busiest(good, from)
	if r.WallNs = wall; wall == 0 && to > from {
		r.WallNs = to - from
	}
	if s := float64(r.WallNs) / 1e9; s > 0 {
		r.OutputTokS, r.TotalTokS = float64(r.OutputTokens)/s, float64(r.InputTokens+r.OutputTokens)/s
		r.RequestsPerS = float64(r.Requests) / s
	}
	return r
}

// What tells that chunks were not read one by one. A step of a server takes some tenths of a millisecond at the very least, and
// its chunks come one a step, also those of several tokens: so with speculative decoding as well.
const (
	oneRead    = 100 * time.Microsecond // a gap below is that between chunks of one read, or of reads in a row
	manyGaps   = 0.1                    // the share of such gaps from which on they are no accident
	enoughGaps = 20                     // for a share to mean anything
)

// bunched says in words that chunks came together with the ones before, "" when they did not.
func bunched(samples []Sample) string {
	gaps, together := 0, 0
	for _, q := range samples {
		for i := 1; i < len(q.Arrivals); i++ {
			gaps++
			if q.Arrivals[i]-q.Arrivals[i-1] < oneRead.Nanoseconds() {
				together++
			}
		}
	}
	if gaps < enoughGaps || float64(together) < manyGaps*float64(gaps) {
		return ""
	}
	return fmt.Sprintf("%s %% of the chunks came less than %s ms after the one before: this machine was short of CPU time, or something held chunks back. Trust TPOT, not ITL",
		units.Percent(int64(together), int64(gaps), 0), units.Ms(oneRead.Nanoseconds(), 1))
}

// busiest returns the most requests in flight and the most chunks in one second, counted from the first request.
func busiest(samples []Sample, from int64) (requests int, chunks float64) {
	second := func(at int64) int64 { return (at - from) / 1e9 }
	inFlight, arrived := map[int64]int{}, map[int64]int{}
	for _, q := range samples {
		if len(q.Arrivals) == 0 {
			continue
		}
		for _, at := range q.Arrivals {
			arrived[second(at)]++
		}
		for s := second(q.Sent); s <= second(q.last()); s++ {
			inFlight[s]++
		}
	}
	for _, n := range inFlight {
		requests = max(requests, n)
	}
	for _, n := range arrived {
		chunks = max(chunks, float64(n))
	}
	return requests, chunks
}

// steadyGaps returns the gaps that lie inside a time when as many requests as there are streams were decoding,
// that is, were between their first and their last chunk, and inside the window if there is one.
func steadyGaps(samples []Sample, streams int, window *span) []int64 {
	if streams == 0 {
		return nil
	}
	full := fullSpans(samples, streams)
	var gaps []int64
	for _, q := range samples {
		k := 0
		for i := 1; i < len(q.Arrivals); i++ {
			a, b := q.Arrivals[i-1], q.Arrivals[i]
			for k < len(full) && full[k].to < b {
				k++
			}
			if k < len(full) && full[k].from <= a && (window == nil || window.from <= a && b <= window.to) {
				gaps = append(gaps, b-a)
			}
		}
	}
	return gaps
}

type span struct{ from, to int64 }

func fullSpans(samples []Sample, streams int) []span {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, q := range samples {
		if n := len(q.Arrivals); n > 1 {
			edges = append(edges, edge{q.Arrivals[0], 1}, edge{q.last(), -1})
		}
	}
	sort.Slice(edges, func(i, j int) bool {
		if edges[i].at != edges[j].at {
			return edges[i].at < edges[j].at
		}
		return edges[i].step > edges[j].step // beginnings first
	})
	var spans []span
	active := 0
	for _, e := range edges {
		was := active
		active += e.step
		if was < streams && active >= streams {
			spans = append(spans, span{from: e.at})
		}
		if was >= streams && active < streams {
			spans[len(spans)-1].to = e.at
		}
	}
	return spans
}

// summarise sorts the values.
func summarise(values []int64) Latency {
	n := len(values)
	if n == 0 {
		return Latency{}
	}
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += float64(v)
	}
	mean := sum / float64(n)
	for _, v := range values {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	std := math.Sqrt(squares / float64(n))
	return Latency{n, round(mean), round(std), percentile(values, 50), percentile(values, 90), percentile(values, 95), percentile(values, 99)}
}

func round(ns float64) int64 { return int64(math.Round(ns)) }

// percentile returns the p-th percentile of sorted values.
func percentile(sorted []int64, p float64) int64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + round((at-float64(i))*float64(sorted[i+1]-sorted[i]))
}

// recorded puts the recorded figures in place of the replay's: a replay sends the steady median only, so its
// percentiles are no measurement. Wall time and throughput hold for the recorded lengths; for others they are left out.
func recorded(r *Result, about vllm.Replay, o Options) {
	l, ok := about.Load(o.Streams)
	if !ok {
		return
	}
	figures := data.LoadResult{Requests: r.Requests, Failed: r.Failed, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		SteadyITLNs: r.SteadyITLNs, Recorded: true,
		ITLp50Ns: l.ITLp50Ns, ITLp90Ns: l.ITLp90Ns, ITLp99Ns: l.ITLp99Ns, TTFTp50Ns: l.TTFTp50Ns, TTFTp99Ns: l.TTFTp99Ns}
	if l.InputTokens == o.InputTokens && l.OutputTokens == o.OutputTokens && o.Requests == o.Streams {
		figures.WallNs, figures.OutputTokS = l.WallNs, l.OutputTokS
	}
	*r = Result{LoadResult: figures, MaxInFlight: r.MaxInFlight, Nearest: r.Nearest, Notes: r.Notes, Errors: r.Errors, Samples: r.Samples}
}
