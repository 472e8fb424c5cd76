package replay

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/vllm"
)

// Waits of the engine in real time.
const (
	gatherDeclared = 5 * time.Second       // for the rest of a load that says how many streams it has
	gatherQuiet    = 20 * time.Millisecond // without arrivals, for one that does not
	holdAtMost     = time.Minute           // for a profile to start
)

// engine is the model of vLLM's engine loop on a virtual clock: requests that arrive together are prefilled together,
// then all of them get a token at every step. A step takes the recorded steady median of the nearest load.
//
// Prefill delays: first tokens are spread so that the recorded median and p99 of TTFT come out; everybody decodes
// from the last first token on, as with the recorded server, whose prefill steps stall the streams that are ahead.
type engine struct {
	rec   *recording
	speed int // 0: as fast as possible, 1: as recorded
	start time.Time

	mu      sync.Mutex
	kick    chan struct{} // something changed
	clock   int64         // ns
	waiting []*request
	running []*request
	arrival time.Time // the last one, in real time
	metrics metrics.Scrape
	window  int // requests that ran when the profile was opened or when the last load was admitted: whose trace to leave
}

// request is one stream.
type request struct {
	ctx     context.Context
	prompt  int // tokens
	max     int // tokens to send
	streams int // as declared, or 0
	hold    int // tokens after which it waits for a profile, or 0
	held    time.Time

	arrived time.Time
	sent    int64 // on the virtual clock, from admission on
	nearest int   // recorded streams that stand in, or 0
	first   int64
	done    int

	wake  chan struct{} // bursts were added
	queue []burst       // guarded by engine.mu
}

// burst is n tokens, gap ns apart, the first at at.
type burst struct {
	at, gap int64
	n       int
	last    bool
}

func newEngine(rec *recording, speed int) *engine {
	return &engine{rec: rec, speed: speed, start: time.Now(), kick: make(chan struct{}, 1), metrics: rec.before}
}

// add queues a request.
func (e *engine) add(r *request) {
	r.wake = make(chan struct{}, 1)
	e.mu.Lock()
	r.arrived, r.sent = time.Now(), e.clock
	if e.speed == 1 {
		r.sent = time.Since(e.start).Nanoseconds()
	}
	e.waiting = append(e.waiting, r)
	e.arrival = r.arrived
	e.mu.Unlock()
	e.changed()
}

func (e *engine) changed() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// take returns the bursts that were queued for a request since the last call.
func (e *engine) take(r *request) []burst {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := r.queue
	r.queue = nil
	return b
}

// run is the engine loop; it ends with the context.
func (e *engine) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := e.turn(ctx)
		if pause == 0 {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-e.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn does one prefill or one stretch of decode steps and returns how long to wait for news before the next turn.
func (e *engine) turn(ctx context.Context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropGone()
	if len(e.waiting) > 0 {
		wait := e.gather()
		if wait <= 0 && len(e.running) < e.rec.maxSeqs {
			e.prefill(ctx)
			return 0
		}
		if len(e.running) == 0 {
			return wait
		}
	}
	if len(e.running) == 0 {
		return time.Hour
	}
	if wait := e.holding(); wait > 0 {
		return wait
	}
	e.decode(ctx)
	return 0
}

// dropGone forgets requests whose client hung up.
func (e *engine) dropGone() {
	keep := func(rs []*request) []*request {
		kept := rs[:0]
		for _, r := range rs {
			if r.ctx.Err() == nil {
				kept = append(kept, r)
			}
		}
		return kept
	}
	e.waiting, e.running = keep(e.waiting), keep(e.running)
}

// gather says how long to wait for more requests of the load, 0 when it is complete.
func (e *engine) gather() time.Duration {
	declared := 0
	for _, r := range e.waiting {
		declared = max(declared, r.streams)
	}
	if declared == 0 {
		return gatherQuiet - time.Since(e.arrival)
	}
	if len(e.waiting)+len(e.running) >= declared {
		return 0
	}
	return gatherDeclared - time.Since(e.waiting[0].arrived)
}

// holding says how long to wait for a profile before the next step.
func (e *engine) holding() time.Duration {
	if e.speed == 1 {
		return 0 // the clock runs
	}
	for _, r := range e.running {
		if r.hold == 0 || r.done < r.hold {
			continue
		}
		if r.held.IsZero() {
			r.held = time.Now()
		}
		if wait := holdAtMost - time.Since(r.held); wait > 0 {
			return wait
		}
	}
	return 0
}

// profileOpened lets held requests go on and starts to watch how many requests run.
func (e *engine) profileOpened() {
	e.mu.Lock()
	e.dropGone()
	if len(e.running) > 0 {
		e.window = len(e.running)
	}
	for _, r := range e.running {
		r.hold = 0
	}
	e.mu.Unlock()
	e.changed()
}

// prefill admits what waits and sends first tokens.
func (e *engine) prefill(ctx context.Context) {
	n := min(len(e.waiting), e.rec.maxSeqs-len(e.running))
	batch := e.waiting[:n:n]
	e.waiting = append([]*request(nil), e.waiting[n:]...)
	load := e.rec.nearest(n + len(e.running))
	nearest := load.Streams
	if nearest == n+len(e.running) {
		nearest = 0
	}
	now := e.clock
	if e.speed == 1 {
		now = max(now, time.Since(e.start).Nanoseconds())
	}
	prompt := 0
	for i, r := range batch {
		r.nearest = nearest
		if e.speed == 0 {
			r.sent = now
		}
		r.first = r.sent + ttft(load, i, n)
		prompt += r.prompt
	}
	e.running = append(e.running, batch...)
	e.window = len(e.running)
	e.countPrefill(prompt, n)
	for _, r := range batch {
		e.sleep(ctx, r.first)
		e.clock = max(e.clock, r.first)
		r.done = 1
		e.countFirst(r)
		r.send(burst{at: r.first, n: 1, last: r.max == 1})
	}
	e.finish()
}

// ttft spreads n first tokens so that the middle one comes at the recorded median and the 99th of 100 at the recorded p99.
func ttft(l vllm.RecordedLoad, i, n int) int64 {
	q := (float64(i) + 0.5) / float64(n)
	t := float64(l.TTFTp50Ns) + float64(l.TTFTp99Ns-l.TTFTp50Ns)*(q-0.5)/0.49
	return int64(math.Round(max(t, float64(l.SteadyITLNs))))
}

// decode sends the next tokens: one step at speed 1, else all steps up to the next change.
func (e *engine) decode(ctx context.Context) {
	steps := math.MaxInt
	for _, r := range e.running {
		steps = min(steps, r.max-r.done)
		if r.hold > r.done {
			steps = min(steps, r.hold-r.done)
		}
	}
	if e.speed == 1 {
		steps = 1
	}
	gap := e.rec.nearest(len(e.running)).SteadyITLNs
	at := e.clock + gap
	e.sleep(ctx, at)
	e.clock += gap * int64(steps)
	for _, r := range e.running {
		r.done += steps
		r.send(burst{at: at, gap: gap, n: steps, last: r.done == r.max})
	}
	e.countDecode(gap, steps)
	e.finish()
}

// finish takes completed requests out.
func (e *engine) finish() {
	kept := e.running[:0]
	for _, r := range e.running {
		if r.done < r.max {
			kept = append(kept, r)
			continue
		}
		e.countDone(r)
	}
	e.running = kept
}

// sleep waits until the virtual clock's time has come, at speed 1 only.
func (e *engine) sleep(ctx context.Context, at int64) {
	if e.speed == 0 {
		return
	}
	e.mu.Unlock()
	defer e.mu.Lock()
	timer := time.NewTimer(time.Until(e.start.Add(time.Duration(at))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// send queues tokens. The engine's lock is held.
func (r *request) send(b burst) {
	r.queue = append(r.queue, b)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
