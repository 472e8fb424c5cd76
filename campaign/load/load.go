// Package load keeps a fixed number of streams decoding on a server and measures what a client sees:
// TTFT, ITL and TPOT as `vllm bench serve` defines them, and the gap between tokens while all streams decode.
// It does not open profiles, choose loads, or keep results.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
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
)

// Options describe one pass.
type Options struct {
	Client       *vllm.Client
	Replay       *vllm.Replay // what the server says about itself when it is a replay
	Model        string
	Streams      int // kept in flight
	InputTokens  int // of every prompt, exactly
	OutputTokens int // of every answer, exactly
	Requests     int // in all; 0 is one a stream
	Vocabulary   int // token ids are below it; 0: below 512, which every tokeniser has
	Hold         int // a replay waits after so many tokens for a profile to start; 0: it does not wait
	MaxDuration  time.Duration
}

// Result is a finished pass.
type Result struct {
	data.LoadResult
	Nearest int      // the recorded number of streams that a replay used instead; 0 = none
	Errors  []string // why requests failed: the reasons with their counts, the most frequent first
}

func (o *Options) check() error {
	switch {
	case o.Streams < 1 || o.Streams > MaxStreams:
		return fmt.Errorf("%d streams: give 1 to %d", o.Streams, MaxStreams)
	case o.InputTokens < 1 || o.OutputTokens < 1:
		return fmt.Errorf("%d input and %d output tokens: give at least 1 each", o.InputTokens, o.OutputTokens)
	case o.MaxDuration < 0 || o.MaxDuration > MaxDuration:
		return fmt.Errorf("duration %v: give at most %v", o.MaxDuration, MaxDuration)
	}
	if o.Requests == 0 {
		o.Requests = o.Streams
	}
	if o.Requests < o.Streams {
		return fmt.Errorf("%d requests cannot keep %d streams busy", o.Requests, o.Streams)
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
	base   time.Time
	seed   uint64 // of the prompts
	cancel context.CancelFunc
	next   atomic.Int64
	done   chan struct{}

	mu       sync.Mutex
	news     chan struct{} // closed and replaced when a token arrives
	decoding map[int]int   // request -> chunks so far, of those in flight
	requests []request
	failed   map[string]int
	cut      bool  // Stop was called: streams that end by it are no failures
	window   *span // the steady ITL is taken inside it only; nil: over the whole pass
}

// request is one finished request. Times are in ns on the clock of the pass.
type request struct {
	sent     int64
	arrivals []int64 // of chunks
	tokens   int
	prompt   int
	nearest  int
}

// Run makes the load and waits for its end. A pass in which every request failed is an error.
func Run(ctx context.Context, o Options) (Result, error) {
	p, err := Start(ctx, o)
	if err != nil {
		return Result{}, err
	}
	return p.Wait()
}

// Start begins the load.
func Start(ctx context.Context, o Options) (*Pass, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	p := &Pass{opts: o, base: time.Now(), seed: rand.Uint64(), done: make(chan struct{}), news: make(chan struct{}), decoding: map[int]int{}, failed: map[string]int{}}
	ctx, p.cancel = context.WithTimeout(ctx, o.MaxDuration)
	var streams sync.WaitGroup
	for range o.Streams {
		streams.Add(1)
		go func() {
			defer streams.Done()
			p.stream(ctx)
		}()
	}
	go func() {
		streams.Wait()
		p.cancel()
		close(p.done)
	}()
	return p, nil
}

// stream sends one request after the other until all are sent.
func (p *Pass) stream(ctx context.Context) {
	for ctx.Err() == nil {
		i := int(p.next.Add(1)) - 1
		if i >= p.opts.Requests {
			return
		}
		p.one(ctx, i)
	}
}

func (p *Pass) one(ctx context.Context, i int) {
	o := p.opts
	r := request{arrivals: make([]int64, 0, o.OutputTokens)}
	ask := vllm.Completion{Model: o.Model, Prompt: prompt(p.seed, i, o.InputTokens, o.Vocabulary), MaxTokens: o.OutputTokens}
	if o.Replay != nil {
		ask.Streams, ask.Hold = o.Streams, o.Hold
	}
	s, err := o.Client.Stream(ctx, ask, p.base, func(c vllm.Chunk) {
		r.arrivals = append(r.arrivals, c.At)
		if n := len(r.arrivals); n <= 2 || o.Hold > 0 || o.Replay == nil { // a replay's bursts need no news a token
			p.arrived(i, n)
		}
	})
	r.sent, r.tokens, r.prompt, r.nearest = s.Sent, s.Chunks, o.InputTokens, s.Nearest
	if s.Counted { // a chunk may hold more than one token
		r.tokens, r.prompt = s.Usage.CompletionTokens, s.Usage.PromptTokens
	}
	p.mu.Lock()
	cut := p.cut && errors.Is(err, context.Canceled)
	p.mu.Unlock()
	if cut {
		err = nil
	} else if err == nil && r.tokens != o.OutputTokens {
		err = fmt.Errorf("the answer has %d tokens instead of %d; does the server's --max-model-len allow %d?", r.tokens, o.OutputTokens, o.InputTokens+o.OutputTokens)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.decoding, i)
	if err != nil {
		p.failed[p.reason(err)]++
	} else {
		p.requests = append(p.requests, r)
	}
	p.tell()
}

// reason is an error without the server's address: reasons are kept with the figures, and addresses change.
func (p *Pass) reason(err error) string {
	_, host, _ := strings.Cut(p.opts.Client.Target(), "://")
	return strings.NewReplacer(" at "+host, "", " from "+host, "", host, "the server").Replace(err.Error())
}

func (p *Pass) arrived(i, chunks int) {
	p.mu.Lock()
	p.decoding[i] = chunks
	p.tell()
	p.mu.Unlock()
}

// tell wakes those who wait for progress. The lock is held.
func (p *Pass) tell() {
	close(p.news)
	p.news = make(chan struct{})
}

// prompt makes token ids that differ from request to request and, by the seed, from pass to pass:
// servers keep the keys and values of a prompt they saw, and would skip its prefill the second time.
func prompt(seed uint64, i, n, vocabulary int) []int {
	const first = 3 // below are special tokens in most vocabularies
	rng := rand.New(rand.NewPCG(seed, uint64(i)))
	ids := make([]int, n)
	for j := range ids {
		ids[j] = first + rng.IntN(max(vocabulary-first, 1))
	}
	return ids
}

// Wait returns the result when all requests have ended.
func (p *Pass) Wait() (Result, error) {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Result{LoadResult: measure(p.requests, p.opts.Streams, p.window), Errors: reasons(p.failed)}
	for _, n := range p.failed {
		r.Failed += n
	}
	for _, q := range p.requests {
		r.Nearest = max(r.Nearest, q.nearest)
	}
	if len(p.requests) == 0 {
		if len(r.Errors) == 0 {
			return r, errors.New("load: stopped before the first request")
		}
		return r, fmt.Errorf("load: all %d requests failed: %s", r.Failed, r.Errors[0])
	}
	if p.opts.Replay != nil {
		recorded(&r.LoadResult, *p.opts.Replay, p.opts)
	}
	return r, nil
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
	defer p.mu.Unlock()
	now := time.Since(p.base).Nanoseconds()
	p.window = &span{now, math.MaxInt64}
}

// CloseWindow ends the time that OpenWindow began.
func (p *Pass) CloseWindow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.window != nil {
		p.window.to = time.Since(p.base).Nanoseconds()
	}
}

func reasons(failed map[string]int) []string {
	var words []string
	for w := range failed {
		words = append(words, w)
	}
	sort.Slice(words, func(i, j int) bool {
		if failed[words[i]] != failed[words[j]] {
			return failed[words[i]] > failed[words[j]]
		}
		return words[i] < words[j]
	})
	for i, w := range words {
		words[i] = fmt.Sprintf("%d times: %s", failed[w], w)
	}
	return words
}

// recorded puts the recorded figures in place of the replay's: a replay sends the steady median only, so its
// percentiles are no measurement. Wall time and throughput hold for the recorded lengths; for others they are left out.
func recorded(r *data.LoadResult, about vllm.Replay, o Options) {
	l, ok := about.Load(o.Streams)
	if !ok {
		return
	}
	r.Recorded = true
	r.ITLp50Ns, r.ITLp90Ns, r.ITLp99Ns, r.TTFTp50Ns, r.TTFTp99Ns = l.ITLp50Ns, l.ITLp90Ns, l.ITLp99Ns, l.TTFTp50Ns, l.TTFTp99Ns
	r.TPOTp50Ns, r.WallNs, r.OutputTokS, r.SteadySamples = 0, 0, 0, 0
	if l.InputTokens == o.InputTokens && l.OutputTokens == o.OutputTokens && o.Requests == o.Streams {
		r.WallNs, r.OutputTokS = l.WallNs, l.OutputTokS
	}
}
