package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

func archived() string {
	return filepath.Join(sharedtest.Root(), "data", "campaigns", "h200x2-kimi-k2.5-int4")
}

func replayed(t testing.TB) (*replay.Server, Options) {
	t.Helper()
	s, err := replay.Start(context.Background(), replay.Options{Dir: archived()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseIdle(); s.Close() })
	return s, Options{Client: c, Replay: &s.About, Model: "kimi-k2.5-slice", InputTokens: 256, OutputTokens: 96, Vocabulary: 40960}
}

func TestReplayedLoadGivesTheRecordedSteadyGap(t *testing.T) {
	s, o := replayed(t)
	for _, l := range s.About.Loads {
		o.Streams, o.OutputTokens = l.Streams, l.OutputTokens
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.SteadyITLNs != l.SteadyITLNs || r.ITLp99Ns != l.ITLp99Ns || r.TTFTp50Ns != l.TTFTp50Ns || r.OutputTokS != l.OutputTokS || !r.Recorded {
			t.Errorf("C = %d: %+v, recorded %+v", l.Streams, r, l)
		}
		if r.Requests != l.Streams || r.Failed != 0 || r.OutputTokens != int64(l.Streams*l.OutputTokens) || r.InputTokens != int64(l.Streams*256) {
			t.Errorf("C = %d: counts %+v", l.Streams, r)
		}
	}
}

// TestReplaysClockCarriesTheLoadsShape takes the figures of the virtual clock itself: ramp-up included, the wall time and
// throughput of the model come within 1 % of what was recorded, although only medians were given to it.
func TestReplaysClockCarriesTheLoadsShape(t *testing.T) {
	s, o := replayed(t)
	for _, l := range s.About.Loads {
		o.Streams, o.OutputTokens = l.Streams, l.OutputTokens
		p, err := Start(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		<-p.done
		r := measure(p.samples, o.Streams, 0, nil)
		if ratio := float64(r.WallNs) / float64(l.WallNs); ratio < 0.99 || ratio > 1.01 {
			t.Errorf("C = %d: %d ns on the replay's clock, %d recorded", l.Streams, r.WallNs, l.WallNs)
		}
	}
}

func TestClosedLoopKeepsTheStreamsInFlight(t *testing.T) {
	_, o := replayed(t)
	o.Streams, o.Requests, o.OutputTokens = 4, 12, 8
	o.Replay.Loads = nil // figures of the clock
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 12 || r.OutputTokens != 96 || r.Nearest != 1 {
		t.Errorf("%+v", r)
	}
}

func TestUnrecordedLoadNamesTheNearest(t *testing.T) {
	_, o := replayed(t)
	o.Streams, o.OutputTokens = 100, 4
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Nearest != 64 || r.Recorded {
		t.Errorf("nearest %d, recorded %v", r.Nearest, r.Recorded)
	}
}

func TestSteadyGapsAreThoseWhileAllDecode(t *testing.T) {
	a := Sample{Arrivals: []int64{10, 20, 31, 43, 56}, Tokens: 5}
	b := Sample{Arrivals: []int64{25, 35, 46}, Tokens: 3}
	r := measure([]Sample{a, b}, 2, 0, nil)
	// both decode from 25 to 46: gaps 31-43 of a, 25-35 and 35-46 of b
	if r.SteadySamples != 3 || r.SteadyITLNs != 11 {
		t.Errorf("steady: %+v", r)
	}
	if r.TTFTp50Ns != 18 || r.WallNs != 56 || r.TPOTp50Ns != 11 || r.ITLp50Ns != 11 {
		t.Errorf("%+v", r)
	}
	if w := measure([]Sample{a, b}, 2, 0, &span{30, 100}); w.SteadySamples != 2 {
		t.Errorf("inside a window: %+v", w)
	}
	if r := measure([]Sample{a}, 2, 0, nil); r.SteadySamples != 0 || r.SteadyITLNs != 0 {
		t.Errorf("one of two streams is never steady: %+v", r)
	}
	if r := measure(nil, 2, 0, nil); r.Requests != 0 {
		t.Errorf("nothing: %+v", r)
	}
}

func TestPercentilesInterpolate(t *testing.T) {
	v := []int64{10, 20, 30, 40}
	for p, want := range map[float64]int64{0: 10, 50: 25, 90: 37, 99: 40, 100: 40} {
		if got := percentile(v, p); got != want {
			t.Errorf("p%v = %d, want %d", p, got, want)
		}
	}
}

func TestPassThatFailsAltogetherIsAnError(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Client: c, Streams: 2, InputTokens: 1, OutputTokens: 1}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "all 2 requests failed: 2 times: POST /v1/completions: the server answered 404") {
		t.Error(err)
	}
	s.Close()
	c.CloseIdle()
	_, err = Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "2 times: no server answers: connection refused; start it or give another target") {
		t.Error(err)
	}
}

func TestSlowServerIsCutAtTheLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			return
		}
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer s.Close()
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(context.Background(), Options{Client: c, Streams: 2, InputTokens: 1, OutputTokens: 1, MaxDuration: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "2 times: the pass reached its time limit of 50ms: no answer in time, after 0 of 1 tokens") {
		t.Error(err)
	}
}

func TestLimitsAreKept(t *testing.T) {
	for _, o := range []Options{{Streams: 0, InputTokens: 1, OutputTokens: 1}, {Streams: MaxStreams + 1, InputTokens: 1, OutputTokens: 1}, {Streams: 1, InputTokens: 1},
		{Streams: 1, InputTokens: 1, OutputTokens: 1, MaxDuration: 2 * MaxDuration}, {Streams: 4, Requests: 3, InputTokens: 1, OutputTokens: 1}} {
		if _, err := Start(context.Background(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestAllDecodeIsCheckedWithTheServer(t *testing.T) {
	_, o := replayed(t)
	o.Streams, o.OutputTokens, o.Hold = 64, 12, 4
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.AllDecode(ctx)
	if err != nil || d != (Decoding{Running: 64, Reported: true}) {
		t.Fatalf("%+v %v", d, err)
	}
	if _, err := o.Client.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Steps(ctx, 8); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if err := o.Client.StopProfile(ctx); err != nil {
		t.Fatal(err)
	}

	o.Streams, o.Hold, o.OutputTokens = 4, 0, 1
	if p, err = Start(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AllDecode(ctx); !errors.Is(err, errEnded) {
		t.Errorf("streams of one token: %v", err)
	}

	o.OutputTokens, o.Hold = 8, 4
	if p, err = Start(ctx, o); err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	cancel()
	if _, err := p.AllDecode(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestFailureIsSaidToBeBeforeOrAfterAllDecode(t *testing.T) {
	for chunks, when := range map[int]string{1: "before all streams decoded: ", 2: "while all streams decoded: "} {
		hangUp := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for range chunks {
				io.WriteString(w, `data: {"choices":[{"text":"a"}]}`+"\n\n")
			}
			http.NewResponseController(w).Flush()
			<-hangUp
		}))
		c, err := vllm.New(vllm.Options{Target: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Start(t.Context(), Options{Client: c, Model: "m", Streams: 2, InputTokens: 1, OutputTokens: 9})
		if err != nil {
			t.Fatal(err)
		}
		if chunks == 1 {
			close(hangUp)
		}
		if _, err = p.AllDecode(t.Context()); err == nil {
			close(hangUp)
			err = p.Steps(t.Context(), 4)
		}
		if err == nil || !strings.Contains(err.Error(), "a request failed "+when) {
			t.Errorf("%d chunks: %v, want %q", chunks, err, when)
		}
		p.Stop()
		c.CloseIdle()
		s.Close()
	}
}

// BenchmarkReplay256 is one pass of 256 streams with 96 tokens each, client and replay on the same machine.
func BenchmarkReplay256(b *testing.B) {
	_, o := replayed(b)
	o.Streams = 256
	for b.Loop() {
		if _, err := Run(context.Background(), o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(256*96*b.N)/b.Elapsed().Seconds(), "tokens/s")
}

func TestPromptsDifferBetweenRequestsAndPasses(t *testing.T) {
	first := prompt(1, 0, 256, 512)
	for _, other := range [][]int{prompt(1, 1, 256, 512), prompt(2, 0, 256, 512)} {
		if slices.Equal(first, other) {
			t.Error("two prompts are the same: a prefix cache would spare the second its prefill")
		}
	}
	for _, id := range prompt(1, 7, 4096, 512) {
		if id < 3 || id >= 512 {
			t.Fatalf("id %d", id)
		}
	}
}

func TestEveryPassSendsPromptsOfItsOwn(t *testing.T) {
	var mu sync.Mutex
	var prompts []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			return
		}
		var body struct{ Prompt json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		prompts = append(prompts, string(body.Prompt))
		http.Error(w, "that is enough", http.StatusBadRequest)
	}))
	defer s.Close()
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	for range 2 {
		if _, err := Run(context.Background(), Options{Client: c, Model: "m", Streams: 3, InputTokens: 64, OutputTokens: 1}); err == nil {
			t.Fatal("a pass without answers gives a result")
		}
	}
	slices.Sort(prompts)
	if n := len(slices.Compact(prompts)); n != 6 {
		t.Errorf("two passes of three requests sent %d different prompts", n)
	}
}

// TestChunksThatAreReadTogetherAreNoted: a client that comes late finds several chunks at once.
func TestChunksThatAreReadTogetherAreNoted(t *testing.T) {
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 10 {
			io.WriteString(w, strings.Repeat(aChunk, 4))
			http.NewResponseController(w).Flush()
			time.Sleep(2 * time.Millisecond)
		}
		io.WriteString(w, "data: [DONE]\n\n")
	})
	o.OutputTokens = 40
	r, err := Run(t.Context(), o)
	if err != nil || r.Failed > 0 || r.ITLp50Ns > oneRead.Nanoseconds() || !strings.Contains(strings.Join(r.Notes, "; "), "% of the chunks came less than 0.1 ms after the one before") {
		t.Errorf("%v %q %q, ITL %d", err, r.Errors, r.Notes, r.ITLp50Ns)
	}
}

func TestChunksOneByOneAreNotTakenForLate(t *testing.T) {
	ms := time.Millisecond.Nanoseconds()
	for name, c := range map[string]struct {
		gaps  []int64
		noted bool
	}{
		"the fastest steps":      {slices.Repeat([]int64{ms / 5}, 200), false},
		"one read of two in ten": {slices.Repeat([]int64{0, ms, ms, ms, ms, ms, ms, ms, ms, ms}, 20), true},
		"one in twenty":          {slices.Repeat(append([]int64{0}, slices.Repeat([]int64{ms}, 19)...), 20), false},
		"a pause of the server":  {append(slices.Repeat([]int64{ms}, 50), 4000*ms, 0, 0, ms), false},
		"too few to tell":        {slices.Repeat([]int64{0}, enoughGaps-1), false},
	} {
		q := Sample{Arrivals: []int64{5}, Tokens: 1000} // several tokens a chunk
		for _, gap := range c.gaps {
			q.Arrivals = append(q.Arrivals, q.last()+gap)
		}
		if note := bunched([]Sample{q}); (note != "") != c.noted {
			t.Errorf("%s: %q", name, note)
		}
	}
}
