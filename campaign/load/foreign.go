package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/vllm"
)

// How often a server is asked whether it works for others. A scrape of /metrics takes a server some milliseconds of the
// process that also sends the tokens.
const (
	firstLook  = 100 * time.Millisecond // then twice as long each time, up to
	seldomLook = time.Second
	windowLook = 200 * time.Millisecond // while a window is open
	settle     = 100 * time.Millisecond // before the pass, for requests that have just ended to leave the gauges
	settleLook = 10
	patience   = 2 * time.Second // with a server that does not answer to /metrics
)

// watch looks for other people's requests during a pass: more in the server than ours are in flight, or more tokens
// generated or read than are ours. On its way it keeps how full the KV cache became.
type watch struct {
	client   *vllm.Client
	flight   *flight
	perChunk float64 // tokens a chunk had in the warm-up; 0 = not known
	stop     context.CancelFunc
	poke     chan bool // look now; a window is open
	over     chan struct{}

	blind         string // why nothing can be seen
	uncounted     string // why the counters after the pass are not known
	early         int    // requests in the server before ours
	theirs, ours  int    // in flight when theirs exceeded ours most
	fullest       float64
	before, after metrics.Scrape
}

// newWatch takes the state before the pass and begins to look.
func newWatch(ctx context.Context, c *vllm.Client, f *flight, perChunk float64) *watch {
	w := &watch{client: c, flight: f, perChunk: perChunk, poke: make(chan bool, 1), over: make(chan struct{})}
	for range settleLook {
		w.before, w.early, w.blind = w.scrape(ctx)
		if w.blind != "" || w.early == 0 || ctx.Err() != nil {
			break
		}
		time.Sleep(settle)
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	go w.run(ctx)
	return w
}

// scrape returns the number of requests in the server, and why that is not known if it is not.
func (w *watch) scrape(ctx context.Context) (m metrics.Scrape, inServer int, blind string) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := w.client.Metrics(asking)
	var refused *vllm.StatusError
	var unread *metrics.LineError
	switch {
	case errors.As(err, &refused):
		return m, 0, fmt.Sprintf("the server answers %d to /metrics", refused.Status)
	case errors.As(err, &unread):
		return m, 0, "/metrics cannot be read, " + unread.Error()
	case err != nil && asking.Err() != nil && ctx.Err() == nil:
		return m, 0, fmt.Sprintf("the server did not answer to /metrics within %v", patience)
	case err != nil:
		return m, 0, "" // the pass itself will tell that the server is gone
	}
	running, waiting, known := gauges(m)
	if !known && !late(m) {
		return m, 0, "/metrics has no count of running requests that is known here"
	}
	return m, running + waiting, ""
}

// gauges returns how many requests a server runs and lets wait now.
func gauges(m metrics.Scrape) (running, waiting int, ok bool) {
	if late(m) {
		return 0, 0, false
	}
	return metrics.Traffic(m)
}

// late says that a server's gauges are no news. SGLang sets them when it admits requests, at every 40th decode step
// (--decode-log-interval) and every 30 s when it is idle (srt/managers/scheduler_metrics_mixin.py): they may count requests
// that ended long ago. Its counters are current.
func late(m metrics.Scrape) bool { return metrics.NamesOf(m).Engine == "sglang" }

// run looks until the pass is over.
func (w *watch) run(ctx context.Context) {
	defer close(w.over)
	window, wait := false, firstLook
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for w.blind == "" {
		select {
		case <-ctx.Done():
			return
		case window = <-w.poke:
		case <-timer.C:
		}
		w.compare(ctx)
		if wait = min(2*wait, seldomLook); window {
			wait = windowLook
		}
		timer.Reset(wait)
	}
}

// compare keeps the largest excess over our own requests. Requests that ended while it asked still count as ours.
func (w *watch) compare(ctx context.Context) {
	m, theirs, _ := w.scrape(ctx) // an answer that fails to come now and then says nothing
	w.fill(m)
	ours := w.flight.high()
	if theirs-ours > w.theirs-w.ours {
		w.theirs, w.ours = theirs, ours
	}
}

// fill keeps the most that the KV cache was filled.
func (w *watch) fill(m metrics.Scrape) {
	if now, said := metrics.KVUsage(m); said && now > w.fullest && now <= 1 { // NaN is not kept
		w.fullest = now
	}
}

// look makes the watch look at once. A nil watch has nothing to look at.
func (w *watch) look(window bool) {
	if w == nil {
		return
	}
	select {
	case w.poke <- window:
	default: // it is about to look
	}
}

// end stops looking and takes the state after the pass.
func (w *watch) end() {
	w.stop()
	<-w.over
	if w.blind == "" {
		w.after, _, w.uncounted = w.scrape(context.Background())
		w.fill(w.after)
	}
}

// verdict says in words what was seen of others, and what a reader must know if nothing could be.
func (w *watch) verdict(samples []Sample, outputTokens int) (foreign, note string) {
	if w.blind != "" {
		return "", w.blind + ": whether other people's requests ran at the same time is not known"
	}
	if late(w.before) {
		note = "SGLang's gauges are late: other people's requests that did not end during the pass were not seen"
	}
	if w.uncounted != "" {
		note = "after the pass " + w.uncounted + ": other people's requests were looked for in the gauges only"
	}
	var seen []string
	if w.early > 0 {
		seen = append(seen, fmt.Sprintf("%d were in the server when the load began", w.early))
	}
	if w.theirs > w.ours {
		seen = append(seen, fmt.Sprintf("%d were in the server when ours were at most %d", w.theirs, w.ours))
	}
	if made, most, ok := w.tokens(samples, outputTokens); ok && made > most {
		seen = append(seen, fmt.Sprintf("the server generated %d tokens, at most %d of them for us", made, most))
	}
	if read, most, ok := w.prompts(samples); ok && read > most {
		seen = append(seen, fmt.Sprintf("the server read %d prompt tokens, at most %d of them for us", read, most))
	}
	if len(seen) == 0 {
		return "", note
	}
	return "other people's requests ran at the same time: " + strings.Join(seen, "; "), note
}

// tokens returns how many tokens the server generated and how many of them can have been for us. ok is false when it does
// not count, or when the tokens of requests that were cut cannot be told from their chunks.
func (w *watch) tokens(samples []Sample, outputTokens int) (made, most int64, ok bool) {
	made, ok = w.counted(metrics.NamesOf(w.after).GenerationTokens)
	perChunk := max(w.perChunk, tokensPerChunk(samples))
	for _, q := range samples {
		switch {
		case q.Error != "": // the server may have gone on without us
			most += int64(max(outputTokens, q.Tokens))
		case q.Cut && perChunk == 0:
			return 0, 0, false
		case q.Cut:
			const onTheWay = 64 // tokens until the server noticed
			most += min(int64(outputTokens), int64(math.Ceil(perChunk*float64(len(q.Arrivals))))+onTheWay)
		default:
			most += int64(q.Tokens)
		}
	}
	return made, most, ok
}

// prompts returns how many prompt tokens the server read and how many of them can have been for us: all that we sent, since a
// request that failed or was cut may have been read or not.
//
// A prompt counts once and whole, whether it was computed or found in the prefix cache: on vLLM with its first token
// (v1/metrics/stats.py: is_prefilling, prefill_stats), on SGLang when its request ends. What is computed once more after a
// preemption counts nothing there. vLLM's first engine, until 0.10, did count it; its series have no label "engine", and once
// it has preempted a request nothing is said.
func (w *watch) prompts(samples []Sample) (read, most int64, ok bool) {
	names := metrics.NamesOf(w.after)
	if read, ok = w.counted(names.PromptTokens); !ok {
		return 0, 0, false
	}
	first := names.Engine == "vllm" && w.after.Find(names.PromptTokens)[0].Label("engine") == ""
	if preempted, _ := w.counted(names.Preemptions); first && preempted > 0 {
		return 0, 0, false
	}
	longest := 0 // a server that adds a token to a prompt adds it to all
	for _, q := range samples {
		longest = max(longest, q.Prompt)
	}
	return read, int64(len(samples)) * int64(longest), true
}

// counted returns what a counter rose by. ok is false when the server has no such counter or was started again.
func (w *watch) counted(name string) (rose int64, ok bool) {
	d := metrics.Compare(w.before, w.after, name)
	if w.before.Families == nil || !d.Found || d.Reset || metrics.Restarted(w.before, w.after) {
		return 0, false
	}
	return int64(d.Increase()), true
}
