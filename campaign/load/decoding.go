package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// Decoding is the state of a server under load.
type Decoding struct {
	Running, Waiting int  // as /metrics says
	Reported         bool // /metrics has these gauges and keeps them current; else only the streams were looked at
}

// AllDecode waits until every stream has received two chunks and the server says that it runs all of them and lets none
// wait. It gives up with an explanation when the load ends before that. A server that does not say counts as one that does.
func (p *Pass) AllDecode(ctx context.Context) (Decoding, error) {
	if p.opts.Rate > 0 {
		return Decoding{}, errors.New("load: an open loop has no fixed number of streams that could all decode")
	}
	err := p.until(ctx, "before all streams decoded", func() bool { return p.decoding(2) == p.opts.Streams })
	if errors.Is(err, errEnded) {
		err = fmt.Errorf("%w before all %d of them decoded at once; give more output tokens", err, p.opts.Streams)
	}
	if err != nil {
		return Decoding{}, err
	}
	const poll = 50 * time.Millisecond
	for {
		d, err := p.traffic(ctx)
		if err != nil || !d.Reported || d.Waiting == 0 && d.Running >= p.opts.Streams {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-p.done:
			if why := p.firstFailure(); why != "" {
				return d, fmt.Errorf("load: a request failed before all streams decoded: %s", why)
			}
			return d, fmt.Errorf("load: the server never ran all %d streams at once (last: %d running, %d waiting); raise --max-num-seqs, or the KV cache is too small", p.opts.Streams, d.Running, d.Waiting)
		case <-time.After(poll):
		}
	}
}

func (p *Pass) traffic(ctx context.Context) (Decoding, error) {
	m, err := p.opts.Client.Metrics(ctx)
	var refused *vllm.StatusError
	if errors.As(err, &refused) { // a server without /metrics
		return Decoding{}, nil
	}
	if err != nil {
		return Decoding{}, err
	}
	running, waiting, ok := gauges(m)
	return Decoding{running, waiting, ok}, nil
}

// Steps waits until n more chunks have arrived at the slowest stream, or the streams end.
func (p *Pass) Steps(ctx context.Context, n int) error {
	goal := map[int]int64{}
	for i := range p.slots {
		if p.slots[i].began.Load() > 0 {
			goal[i] = p.slots[i].chunks.Load() + int64(n)
		}
	}
	err := p.until(ctx, "while all streams decoded", func() bool {
		if p.firstFailure() != "" { // its stream is over, but not because all had arrived
			return false
		}
		for i, want := range goal {
			if s := &p.slots[i]; s.chunks.Load() < want && !s.over.Load() {
				return false
			}
		}
		return true
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// decoding counts the requests in flight that have received so many chunks.
func (p *Pass) decoding(chunks int64) int {
	n := 0
	for i := range p.slots {
		if p.slots[i].decoding() >= chunks {
			n++
		}
	}
	return n
}

var errEnded = errors.New("load: the streams ended")

// until waits for a condition and looks at it every millisecond: streams that had to wake somebody with every token would
// spend more time on that than on the tokens. It returns errEnded when the streams end without it, and says when it was that
// a request failed.
func (p *Pass) until(ctx context.Context, when string, ready func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		over := false
		select {
		case <-p.done:
			over = true
		default:
		}
		if ready() {
			return nil
		}
		if why := p.firstFailure(); why != "" {
			return fmt.Errorf("load: a request failed %s: %s", when, why)
		}
		if over {
			return errEnded
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
		case <-tick.C:
		}
	}
}

// firstFailure returns the most frequent reason for failed requests, "" when none failed.
func (p *Pass) firstFailure() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failed) == 0 {
		return ""
	}
	return reasons(p.failed)[0]
}
