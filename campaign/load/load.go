// Package load makes load on a server and measures what a client sees, as `vllm bench serve` defines it: TTFT, ITL, TPOT,
// E2EL and throughput, and beside that the gap between tokens while all streams decode; goodput comes from the kept times of
// a pass. A closed loop keeps a fixed number of streams in flight; an open loop sends requests at a rate, whatever the server
// does. It also notices other people's requests on the same server. It does not open profiles, choose loads, or keep results.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// Limits that protect the server and this machine.
const (
	MaxStreams  = 1024
	MaxDuration = time.Hour
	MaxTokens   = 32 << 20 // prompts and answers of all requests together
)

// Options describe one pass.
type Options struct {
	Client       *vllm.Client
	Replay       *vllm.Replay // what the server says about itself when it is a replay
	Model        string
	Streams      int // kept in flight; of an open loop: the most in flight, 0 = MaxStreams
	InputTokens  int // of every prompt, exactly
	OutputTokens int // of every answer, exactly
	Requests     int // in all; 0 is one a stream
	Warmup       int // requests that are sent before and count nowhere
	Vocabulary   int // token ids are below it; 0: below 512, which every tokeniser has
	Hold         int // a replay waits after so many tokens for a profile to start; 0: it does not wait
	MaxDuration  time.Duration

	Rate       float64 // of an open loop, in requests/s; 0: a closed loop
	Burstiness float64 // of an open loop: 1 (or 0) is a Poisson process, less is burstier, more is steadier, +Inf is a metronome
	Seed       uint64  // of the open loop's schedule: the same seed, the same schedule
}

// Result is a finished pass.
type Result struct {
	data.LoadResult
	TTFT Latency `json:"ttft"` // first token - sent
	TPOT Latency `json:"tpot"` // of answers of more than one token: (last token - first token) / (tokens - 1)
	ITL  Latency `json:"itl"`  // every gap between chunks
	E2EL Latency `json:"e2el"` // last token - sent

	RequestsPerS   float64  `json:"requests_per_s"`
	TotalTokS      float64  `json:"total_tok_s"`               // prompts and answers
	MaxInFlight    int      `json:"max_in_flight"`             // requests at one time
	PeakConcurrent int      `json:"peak_concurrent"`           // requests that were in flight in the same second, as vllm bench serve counts
	PeakOutputTokS float64  `json:"peak_output_tok_s"`         // chunks in the busiest second
	Open           *Open    `json:"open,omitempty"`            // how the schedule was kept, of an open loop
	Nearest        int      `json:"nearest_streams,omitempty"` // the recorded number of streams that a replay used instead; 0 = none
	Foreign        string   `json:"foreign_traffic,omitempty"` // that other people's requests ran at the same time, in words; "" = none was seen
	Notes          []string `json:"notes,omitempty"`           // what a reader of the figures must know
	Errors         []string `json:"errors,omitempty"`          // why requests failed: the reasons with their counts, the most frequent first
	Samples        []Sample `json:"-"`                         // every request, in the order of sending; see WriteSamples
}

func (o *Options) check() error {
	open := o.Rate != 0
	if open && o.Streams == 0 {
		o.Streams = MaxStreams
	}
	if o.Requests == 0 && !open {
		o.Requests = o.Streams
	}
	if o.Burstiness == 0 {
		o.Burstiness = 1
	}
	switch {
	case o.Streams < 1 || o.Streams > MaxStreams:
		return fmt.Errorf("%d streams: give 1 to %d", o.Streams, MaxStreams)
	case o.InputTokens < 1 || o.OutputTokens < 1:
		return fmt.Errorf("%d input and %d output tokens: give at least 1 each", o.InputTokens, o.OutputTokens)
	case o.MaxDuration < 0 || o.MaxDuration > MaxDuration:
		return fmt.Errorf("duration %v: give at most %v", o.MaxDuration, MaxDuration)
	case !open && o.Requests < o.Streams:
		return fmt.Errorf("%d requests cannot keep %d streams busy", o.Requests, o.Streams)
	case open && o.Requests < 1:
		return fmt.Errorf("%d requests: an open loop needs to know how many to send", o.Requests)
	case o.Warmup < 0:
		return fmt.Errorf("%d requests to warm up: give 0 or more", o.Warmup)
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 0):
		return fmt.Errorf("rate %v: give requests a second", o.Rate)
	case !(o.Burstiness > 0):
		return fmt.Errorf("burstiness %v: give a number above 0; 1 is a Poisson process", o.Burstiness)
	case open && o.Replay != nil:
		return errors.New("a replay has its recorded loads only: give no rate")
	case o.Requests > MaxTokens/(o.InputTokens+o.OutputTokens):
		return fmt.Errorf("%d requests of %d+%d tokens: one pass has at most %d tokens", o.Requests, o.InputTokens, o.OutputTokens, MaxTokens)
	}
	if o.MaxDuration == 0 {
		o.MaxDuration = 30 * time.Minute
	}
	if o.Vocabulary == 0 {
		o.Vocabulary = 512
	}
	return nil
}

// Pass is a load that runs in the background.
type Pass struct {
	opts   Options
	base   time.Time // the zero of all times
	seed   uint64    // of the prompts
	cancel context.CancelFunc
	next   atomic.Int64
	slots  []slot
	flight flight
	watch  *watch // nil: nobody else can be on the server
	done   chan struct{}

	mu      sync.Mutex
	samples []Sample
	failed  map[string]int
	waited  int   // requests of an open loop that found all places taken
	cut     bool  // Stop was called: streams that end by it are no failures
	window  *span // the steady ITL is taken inside it only; nil: over the whole pass
	wall    int64 // ns, when the pass is over
}

// Run makes the load and waits for its end. A pass in which every request failed is an error.
func Run(ctx context.Context, o Options) (Result, error) {
	p, err := Start(ctx, o)
	if err != nil {
		return Result{}, err
	}
	return p.Wait()
}

// Start sends the requests that warm up, waits for them, and begins the load.
func Start(ctx context.Context, o Options) (*Pass, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	perChunk, err := warmUp(ctx, o)
	if err != nil {
		return nil, err
	}
	p := &Pass{opts: o, seed: rand.Uint64(), slots: make([]slot, o.Streams), done: make(chan struct{}), failed: map[string]int{}}
	if o.Replay == nil {
		p.watch = newWatch(ctx, o.Client, &p.flight, perChunk)
	}
	ctx, p.cancel = context.WithTimeoutCause(ctx, o.MaxDuration, errTooLong)
	p.base = time.Now()
	var running sync.WaitGroup
	if o.Rate > 0 {
		running.Go(func() { p.open(ctx) })
	} else {
		for i := range p.slots {
			running.Go(func() { p.stream(ctx, &p.slots[i]) })
		}
	}
	go func() {
		running.Wait()
		p.wall = time.Since(p.base).Nanoseconds()
		if p.watch != nil {
			p.watch.end()
		}
		p.cancel()
		close(p.done)
	}()
	return p, nil
}

// warmUp returns how many tokens a chunk had at most, 0 if it sent nothing.
func warmUp(ctx context.Context, o Options) (float64, error) {
	if o.Warmup == 0 {
		return 0, nil
	}
	o.Requests, o.Streams, o.Rate, o.Warmup = o.Warmup, min(o.Streams, o.Warmup), 0, 0
	r, err := Run(ctx, o)
	if err != nil {
		return 0, fmt.Errorf("warm up: %w", err)
	}
	return tokensPerChunk(r.Samples), nil
}

// stream sends one request after the other until all are sent.
func (p *Pass) stream(ctx context.Context, at *slot) {
	defer at.over.Store(true)
	for ctx.Err() == nil {
		i := int(p.next.Add(1)) - 1
		if i >= p.opts.Requests {
			return
		}
		p.one(ctx, at, Sample{Request: i})
	}
}

// Wait returns the result when all requests have ended.
func (p *Pass) Wait() (Result, error) {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.result()
	if r.Requests > 0 {
		return r, nil
	}
	if len(r.Errors) == 0 {
		return r, errors.New("load: stopped before the first request")
	}
	return r, fmt.Errorf("load: all %d requests failed: %s", r.Failed, r.Errors[0])
}

// Stop ends the pass; requests that are cut by it are not counted as failed.
func (p *Pass) Stop() {
	p.mu.Lock()
	p.cut = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
}

// OpenWindow and CloseWindow bound the time from which the steady ITL is taken, such as that of an open profile.
func (p *Pass) OpenWindow() {
	p.mu.Lock()
	p.window = &span{p.now(), math.MaxInt64}
	p.mu.Unlock()
	p.watch.look(true)
}

// CloseWindow ends the time that OpenWindow began.
func (p *Pass) CloseWindow() {
	p.mu.Lock()
	if p.window != nil {
		p.window.to = p.now()
	}
	p.mu.Unlock()
	p.watch.look(false)
}

func (p *Pass) now() int64 { return time.Since(p.base).Nanoseconds() }
