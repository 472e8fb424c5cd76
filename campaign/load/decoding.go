package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Decoding is the state of a server under load.
type Decoding struct {
	Running, Waiting int  // as /metrics says
	Reported         bool // /metrics has these gauges
}

// AllDecode waits until every stream has received two tokens and the server says that it runs all of them and lets none wait.
// It gives up with an explanation when the load ends before that.
func (p *Pass) AllDecode(ctx context.Context) (Decoding, error) {
	err := p.until(ctx, "before all streams decoded", func() bool { return p.atLeast(2) == p.opts.Streams })
	if errors.Is(err, errEnded) {
		err = fmt.Errorf("%w before all %d of them decoded at once; give more output tokens", err, p.opts.Streams)
	}
	if err != nil {
		return Decoding{}, err
	}
	const poll = 50 * time.Millisecond
	for {
		m, err := p.opts.Client.Metrics(ctx)
		if err != nil {
			return Decoding{}, err
		}
		running, ok := m.Sum("vllm:num_requests_running")
		waiting, _ := m.Sum("vllm:num_requests_waiting")
		d := Decoding{int(running), int(waiting), ok}
		if !ok || d.Waiting == 0 && d.Running >= p.opts.Streams {
			return d, nil
		}
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-p.done:
			p.mu.Lock()
			failed := reasons(p.failed)
			p.mu.Unlock()
			if len(failed) > 0 {
				return d, fmt.Errorf("load: a request failed before all streams decoded: %s", failed[0])
			}
			return d, fmt.Errorf("load: the server never ran all %d streams at once (last: %d running, %d waiting); raise --max-num-seqs, or the KV cache is too small", p.opts.Streams, d.Running, d.Waiting)
		case <-time.After(poll):
		}
	}
}

// Steps waits until n more tokens have arrived at the slowest stream, or the streams end.
func (p *Pass) Steps(ctx context.Context, n int) error {
	p.mu.Lock()
	from := make(map[int]int, len(p.decoding))
	for i, chunks := range p.decoding {
		from[i] = chunks
	}
	p.mu.Unlock()
	err := p.until(ctx, "while all streams decoded", func() bool {
		for i, was := range from {
			if chunks, running := p.decoding[i]; running && chunks < was+n {
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

// atLeast counts the streams in flight with so many chunks. The lock is held.
func (p *Pass) atLeast(chunks int) int {
	n := 0
	for _, c := range p.decoding {
		if c >= chunks {
			n++
		}
	}
	return n
}

var errEnded = errors.New("load: the streams ended")

// until waits for a condition, which is checked under the lock whenever something arrives. It returns errEnded when the
// streams end without it, and says when it was that a request failed.
func (p *Pass) until(ctx context.Context, when string, ready func() bool) error {
	for {
		p.mu.Lock()
		ok, news := ready(), p.news
		failed := reasons(p.failed)
		p.mu.Unlock()
		if ok {
			return nil
		}
		if len(failed) > 0 {
			return fmt.Errorf("load: a request failed %s: %s", when, failed[0])
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			p.mu.Lock()
			ok := ready()
			p.mu.Unlock()
			if ok {
				return nil
			}
			return errEnded
		case <-news:
		}
	}
}
