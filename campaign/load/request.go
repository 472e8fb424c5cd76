package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/rooflab/rooflab/campaign/vllm"
)

var errTooLong = errors.New("the pass reached its time limit")

// slot is the place of one request at a time. Its stream writes it with every chunk, those who wait for progress read it.
type slot struct {
	chunks atomic.Int64 // of all its requests so far
	began  atomic.Int64 // chunks when the request in flight began, plus 1; 0: none is in flight
	over   atomic.Bool  // nothing more comes
}

// decoding returns how many chunks the request in flight has received, 0 without one.
func (s *slot) decoding() int64 {
	began := s.began.Load()
	if began == 0 {
		return 0
	}
	return s.chunks.Load() - began + 1
}

// flight counts the requests in flight.
type flight struct {
	now, most, recent atomic.Int64 // recent: the most since somebody asked
}

func (f *flight) add() {
	n := f.now.Add(1)
	raise(&f.most, n)
	raise(&f.recent, n)
}

func (f *flight) done() { f.now.Add(-1) }

// high returns the most requests in flight since the last call.
func (f *flight) high() int { return int(max(f.recent.Swap(f.now.Load()), f.now.Load())) }

func raise(v *atomic.Int64, n int64) {
	for {
		was := v.Load()
		if n <= was || v.CompareAndSwap(was, n) {
			return
		}
	}
}

// one sends one request, reads its answer and keeps the sample.
func (p *Pass) one(ctx context.Context, at *slot, r Sample) {
	o := p.opts
	r.Arrivals = make([]int64, 0, o.OutputTokens)
	ask := vllm.Completion{Model: o.Model, Prompt: prompt(p.seed, r.Request, o.InputTokens, o.Vocabulary), MaxTokens: o.OutputTokens}
	if o.Replay != nil {
		ask.Streams, ask.Hold = o.Streams, o.Hold
	}
	at.began.Store(at.chunks.Load() + 1)
	p.flight.add()
	s, err := o.Client.Stream(ctx, ask, p.base, func(c vllm.Chunk) {
		r.Arrivals = append(r.Arrivals, c.At)
		at.chunks.Add(1)
	})
	p.flight.done()
	at.began.Store(0)
	r.Sent, r.Ended, r.Tokens, r.Prompt, r.nearest = s.Sent, p.now(), s.Chunks, o.InputTokens, s.Nearest
	if s.Counted { // a chunk may hold more than one token
		r.Tokens, r.Prompt = s.Usage.CompletionTokens, s.Usage.PromptTokens
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cut && errors.Is(err, context.Canceled):
		r.Cut = true
	case err != nil && errors.Is(context.Cause(ctx), errTooLong):
		r.Error = fmt.Sprintf("%v of %v: no answer in time, after %d of %d tokens", errTooLong, o.MaxDuration, r.Tokens, o.OutputTokens)
	case err != nil:
		r.Error = p.reason(err)
	case r.Tokens != o.OutputTokens:
		r.Error = fmt.Sprintf("the answer has %d tokens instead of %d; does the server's --max-model-len allow %d?", r.Tokens, o.OutputTokens, o.InputTokens+o.OutputTokens)
	}
	if r.Error != "" {
		p.failed[r.Error]++
	}
	p.samples = append(p.samples, r)
}

// reason is an error without the server's address: reasons are kept with the figures, and addresses change.
func (p *Pass) reason(err error) string {
	_, host, _ := strings.Cut(p.opts.Client.Target(), "://")
	return strings.NewReplacer(" at "+host, "", " from "+host, "", host, "the server").Replace(err.Error())
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
