package load

import (
	"math"
	"sort"

	"github.com/rooflab/rooflab/data"
)

// measure computes the figures of finished requests.
//
//	TTFT  first chunk - sent
//	ITL   every gap between chunks
//	TPOT  (last chunk - first chunk) / (tokens - 1), for answers of more than one token
//
// Percentiles are taken over all values, with straight lines between neighbours.
// The steady ITL is the median over those gaps during which all streams were decoding.
func measure(requests []request, streams int, window *span) data.LoadResult {
	var r data.LoadResult
	if len(requests) == 0 {
		return r
	}
	var ttft, itl, tpot []int64
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, q := range requests {
		r.Requests++
		r.InputTokens += int64(q.prompt)
		r.OutputTokens += int64(q.tokens)
		if len(q.arrivals) == 0 {
			continue
		}
		first, last := q.arrivals[0], q.arrivals[len(q.arrivals)-1]
		from, to = min(from, q.sent), max(to, last)
		ttft = append(ttft, first-q.sent)
		for i := 1; i < len(q.arrivals); i++ {
			itl = append(itl, q.arrivals[i]-q.arrivals[i-1])
		}
		if q.tokens > 1 {
			tpot = append(tpot, (last-first)/int64(q.tokens-1))
		}
	}
	steady := steadyGaps(requests, streams, window)
	if to > from {
		r.WallNs = to - from
		r.OutputTokS = float64(r.OutputTokens) / (float64(r.WallNs) / 1e9)
	}
	r.SteadySamples = len(steady)
	r.SteadyITLNs = percentile(steady, 50)
	r.ITLp50Ns, r.ITLp90Ns, r.ITLp99Ns = percentile(itl, 50), percentile(itl, 90), percentile(itl, 99)
	r.TTFTp50Ns, r.TTFTp99Ns = percentile(ttft, 50), percentile(ttft, 99)
	r.TPOTp50Ns = percentile(tpot, 50)
	return r
}

// steadyGaps returns the gaps that lie inside a time when as many requests as there are streams were decoding,
// that is, were between their first and their last chunk, and inside the window if there is one.
func steadyGaps(requests []request, streams int, window *span) []int64 {
	full := fullSpans(requests, streams)
	var gaps []int64
	for _, q := range requests {
		k := 0
		for i := 1; i < len(q.arrivals); i++ {
			a, b := q.arrivals[i-1], q.arrivals[i]
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

func fullSpans(requests []request, streams int) []span {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, q := range requests {
		if n := len(q.arrivals); n > 1 {
			edges = append(edges, edge{q.arrivals[0], 1}, edge{q.arrivals[n-1], -1})
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

// percentile sorts the values and returns the p-th percentile, or 0 without values.
func percentile(values []int64, p float64) int64 {
	if len(values) == 0 {
		return 0
	}
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	at := p / 100 * float64(len(values)-1)
	i := int(at)
	if i+1 >= len(values) {
		return values[len(values)-1]
	}
	return values[i] + int64(math.Round((at-float64(i))*float64(values[i+1]-values[i])))
}
