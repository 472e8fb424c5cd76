package load

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Open says how the schedule of an open loop was kept. Lateness is how much later than scheduled a request was sent, whether
// the client was slow or all places were taken.
type Open struct {
	Rate       float64 `json:"rate"` // asked for, in requests/s
	Burstiness float64 `json:"burstiness"`
	Seed       uint64  `json:"seed"`
	Cap        int     `json:"cap"`    // the most requests in flight
	Waited     int     `json:"waited"` // requests that were sent late because all places were taken
	Late       Latency `json:"late"`
	LateMaxNs  int64   `json:"late_max_ns"`
}

// schedule returns when to send n requests, in ns from the beginning, as `vllm bench serve` does: the gaps follow a gamma
// distribution with shape burstiness and scale 1/(rate*burstiness), all stretched so that the last request is at n/rate.
func schedule(seed uint64, n int, rate, burstiness float64) []int64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	at, sum := make([]float64, n), 0.0
	for i := range at {
		if math.IsInf(burstiness, 1) {
			sum++
		} else {
			sum += gamma(rng, burstiness)
		}
		at[i] = sum
	}
	ns := make([]int64, n)
	for i := range ns {
		if sum > 0 { // else all at once, as with a burstiness near 0
			ns[i] = int64(at[i] / sum * float64(n) / rate * 1e9)
		}
	}
	return ns
}

// gamma draws from the gamma distribution of this shape and scale 1: Marsaglia and Tsang, A simple method for generating
// gamma variables, ACM TOMS 26 (2000). Shapes below 1 are drawn at shape+1 and scaled down, as they say.
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rng, shape+1) * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// open sends every request at its time. When all places are taken it waits for one, and those behind it wait, too.
func (p *Pass) open(ctx context.Context) {
	free := make(chan *slot, len(p.slots))
	for i := range p.slots {
		p.slots[i].over.Store(true)
		free <- &p.slots[i]
	}
	var running sync.WaitGroup
	defer running.Wait()
	var blocked int64 // until when all places were taken
	for i, at := range schedule(p.opts.Seed, p.opts.Requests, p.opts.Rate, p.opts.Burstiness) {
		if !p.sleepUntil(ctx, at) {
			return
		}
		var place *slot
		select {
		case place = <-free:
		default:
			select {
			case place = <-free:
				blocked = p.now()
			case <-ctx.Done():
				return
			}
		}
		if at < blocked {
			p.mu.Lock()
			p.waited++
			p.mu.Unlock()
		}
		running.Go(func() {
			place.over.Store(false)
			p.one(ctx, place, Sample{Request: i, Scheduled: at})
			place.over.Store(true)
			free <- place
		})
	}
}

func (p *Pass) sleepUntil(ctx context.Context, at int64) bool {
	wait := time.Duration(at - p.now())
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// kept says how the schedule was kept, and in words if it was not.
func (p *Pass) kept() (*Open, []string) {
	o := p.opts
	k := &Open{Rate: o.Rate, Burstiness: o.Burstiness, Seed: o.Seed, Cap: o.Streams, Waited: p.waited}
	var late []int64
	for _, s := range p.samples {
		late = append(late, max(s.Sent-s.Scheduled, 0))
	}
	k.Late = summarise(late)
	if len(late) > 0 {
		k.LateMaxNs = late[len(late)-1]
	}
	var notes []string
	if p.waited > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests were sent late, because %d were in flight already and no more are allowed: the rate of %g requests/s was not kept", p.waited, o.Requests, o.Streams, o.Rate))
	}
	if n := o.Requests - len(p.samples); n > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests were not sent, because the pass ended before", n, o.Requests))
	}
	return k, notes
}
