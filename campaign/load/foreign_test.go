package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

const (
	aChunk = `data: {"choices":[{"text":"a"}]}` + "\n\n"
	answer = aChunk + aChunk + aChunk + `data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}}` + "\n\ndata: [DONE]\n\n"
)

// serve is a server with four streams of three tokens for it.
func serve(t testing.TB, h http.HandlerFunc) Options {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return Options{Client: c, Model: "m", Streams: 4, InputTokens: 4, OutputTokens: 3}
}

// shared is a server with gauges that works for others, too.
type shared struct {
	names              [3]string // of the gauges and the counter
	labels             string    // of the counters, with braces
	running, tokens    atomic.Int64
	prompts, preempted atomic.Int64
	others             atomic.Int64 // in the gauge
	othersTokens       atomic.Int64 // that others get with each of our requests
	pause              time.Duration
}

func (s *shared) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		fmt.Fprintf(w, "%s %d\n%s 0\n", s.names[0], s.running.Load()+s.others.Load(), s.names[1])
		for name, value := range map[string]int64{s.names[2]: s.tokens.Load(), strings.Replace(s.names[2], "generation", "prompt", 1): s.prompts.Load(), "vllm:num_preemptions_total": s.preempted.Load()} {
			fmt.Fprintf(w, "# TYPE %s counter\n%[1]s%s %d\n", name, s.labels, value)
		}
		return
	}
	s.prompts.Add(4)
	s.running.Add(1)
	defer s.running.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, aChunk+aChunk)
	http.NewResponseController(w).Flush()
	s.tokens.Add(2)
	select {
	case <-time.After(s.pause):
	case <-r.Context().Done():
		return
	}
	s.tokens.Add(1 + s.othersTokens.Load())
	s.running.Add(-1)
	defer s.running.Add(1) // gone from the gauges before the client knows
	io.WriteString(w, strings.TrimPrefix(answer, aChunk+aChunk))
}

var (
	vllmNames   = [3]string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:generation_tokens_total"}
	sglangNames = [3]string{"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:generation_tokens_total"}
)

func TestForeignTrafficIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		names [3]string
		prep  func(*shared)
		run   func(*shared)
		words string
	}{
		"quiet":          {vllmNames, nil, nil, ""},
		"quiet SGLang":   {sglangNames, nil, nil, ""},
		"in the gauge":   {vllmNames, nil, func(s *shared) { s.others.Store(3) }, "7 were in the server when ours were at most 4"},
		"late gauges":    {sglangNames, func(s *shared) { s.others.Store(9) }, nil, ""},
		"before":         {vllmNames, func(s *shared) { s.others.Store(2) }, func(s *shared) { s.others.Store(0) }, "2 were in the server when the load began"},
		"too short":      {vllmNames, func(s *shared) { s.othersTokens.Store(5) }, nil, "the server generated 32 tokens, at most 12 of them for us"},
		"SGLang's count": {sglangNames, func(s *shared) { s.othersTokens.Store(1) }, nil, "the server generated 16 tokens, at most 12 of them for us"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shared{names: c.names, pause: 400 * time.Millisecond}
			if c.prep != nil {
				c.prep(s)
			}
			p, err := Start(t.Context(), serve(t, s.serve))
			if err != nil {
				t.Fatal(err)
			}
			if c.run != nil {
				c.run(s)
			}
			r, err := p.Wait()
			if err != nil || strings.Contains(strings.Join(r.Notes, ""), "gauges are late") != (c.names == sglangNames) || r.Requests != 4 {
				t.Fatalf("%v %q %+v", err, r.Notes, r.LoadResult)
			}
			if c.words == "" && r.Foreign != "" || !strings.Contains(r.Foreign, c.words) {
				t.Errorf("%q, want %q", r.Foreign, c.words)
			}
		})
	}
}

// TestRequestsThatEndAreNotTakenForForeign makes short requests one after the other while the gauges are asked.
func TestRequestsThatEndAreNotTakenForForeign(t *testing.T) {
	s := &shared{names: vllmNames, pause: 3 * time.Millisecond}
	o := serve(t, s.serve)
	o.Requests = 600
	r, err := Run(t.Context(), o)
	if err != nil || r.Foreign != "" || r.Requests != 600 {
		t.Errorf("%v %q %+v", err, r.Foreign, r.LoadResult)
	}
}

func TestTokensOfRequestsThatWereCutAreNotTakenForForeign(t *testing.T) {
	for _, warmup := range []int{0, 4} {
		s := &shared{names: vllmNames, pause: 50 * time.Millisecond}
		o := serve(t, s.serve)
		o.Warmup, o.Requests = warmup, 400
		p, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.AllDecode(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.OpenWindow()
		if warmup > 0 {
			s.tokens.Add(10_000) // of somebody who came and went between two looks
		}
		p.CloseWindow()
		p.Stop()
		r, err := p.Wait()
		if err != nil || (r.Foreign != "") != (warmup > 0) {
			t.Errorf("%d requests to warm up: %v %q", warmup, err, r.Foreign)
		}
	}
}

// TestPromptsOfOthersAreSeen: they come and go between two looks, while our requests are cut, so that their tokens are not known.
func TestPromptsOfOthersAreSeen(t *testing.T) {
	const words = "the server read 28 prompt tokens, at most 16 of them for us"
	for name, c := range map[string]struct {
		names     [3]string
		labels    string
		others    int64
		preempted int64
		words     string
	}{
		"nobody else":                       {vllmNames, "", 0, 0, ""},
		"others":                            {vllmNames, "", 12, 0, words},
		"others, on SGLang":                 {sglangNames, "", 12, 0, words},
		"others, and a preemption":          {vllmNames, `{engine="0"}`, 12, 1, words},
		"read again by vLLM's first engine": {vllmNames, "", 12, 1, ""},
		"not all of ours were read":         {vllmNames, "", -8, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shared{names: c.names, labels: c.labels, pause: time.Minute}
			p, err := Start(t.Context(), serve(t, s.serve))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stop()
			if _, err := p.AllDecode(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.OpenWindow()
			s.prompts.Add(c.others)
			s.preempted.Add(c.preempted)
			p.CloseWindow()
			p.Stop()
			r, err := p.Wait()
			if err != nil || c.words == "" && r.Foreign != "" || !strings.Contains(r.Foreign, c.words) || strings.Contains(r.Foreign, "generated") {
				t.Errorf("%v %q, want %q", err, r.Foreign, c.words)
			}
		})
	}
}

// TestKVCacheIsKeptAtItsFullest: what it held before the pass counts nothing.
func TestKVCacheIsKeptAtItsFullest(t *testing.T) {
	for name, want := range map[string]float64{"vllm:kv_cache_usage_perc": 0.75, "vllm:gpu_cache_usage_perc": 0.75, "sglang:token_usage": 0.75, "vllm:other": 0} {
		var asked atomic.Int64
		s := &shared{names: vllmNames}
		if strings.HasPrefix(name, "sglang") {
			s.names = sglangNames
		}
		r, err := Run(t.Context(), serve(t, func(w http.ResponseWriter, r *http.Request) {
			s.serve(w, r)
			if r.URL.Path == "/metrics" {
				fmt.Fprintf(w, "%s{engine=\"0\"} 0.125\n%[1]s{engine=\"1\"} %v\n", name, []float64{0.9, 0.75, 0.5}[min(asked.Add(1)-1, 2)])
			}
		}))
		b, jsonErr := json.Marshal(r)
		if err != nil || jsonErr != nil || r.KVCachePeak != want || strings.Contains(string(b), "kv_cache_peak") != (want > 0) {
			t.Errorf("%s: %v, want %v; %v %s", name, r.KVCachePeak, want, err, b)
		}
	}
}

// TestForeignTrafficInAShortWindowIsSeen: the server is asked when the window opens and closes.
func TestForeignTrafficInAShortWindowIsSeen(t *testing.T) {
	s := &shared{names: vllmNames, pause: 3 * time.Second}
	p, err := Start(t.Context(), serve(t, s.serve))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if _, err := p.AllDecode(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(900 * time.Millisecond) // the next look would be a second away
	p.OpenWindow()
	s.others.Store(1)
	time.Sleep(windowLook + 100*time.Millisecond)
	s.others.Store(0)
	p.CloseWindow()
	p.Stop()
	if r, _ := p.Wait(); !strings.Contains(r.Foreign, "5 were in the server when ours were at most 4") {
		t.Errorf("%q", r.Foreign)
	}
}

func TestServersThatDoNotTellAreNoted(t *testing.T) {
	for words, h := range map[string]http.HandlerFunc{
		"the server answers 404 to /metrics":                    http.NotFound,
		`cannot be read, line 3: "<html>": "<html>" is no name`: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, vllmNames[0]+" 0\n\n<html>\n") },
		"no count of running requests":                          func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "other_engine:running 3\n") },
		"the server did not answer to /metrics within":          func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			o := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/metrics" {
					h(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, aChunk+aChunk)
				http.NewResponseController(w).Flush()
				time.Sleep(200 * time.Millisecond)
				io.WriteString(w, strings.TrimPrefix(answer, aChunk+aChunk))
			})
			p, err := Start(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(words, "did not answer") && !strings.Contains(words, "cannot be read") { // then AllDecode gets nothing either
				if d, err := p.AllDecode(t.Context()); err != nil || d.Reported {
					t.Errorf("%+v %v", d, err)
				}
			}
			r, err := p.Wait()
			if err != nil || r.Foreign != "" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], words) {
				t.Errorf("%v %q %q", err, r.Foreign, r.Notes)
			}
		})
	}
}

// A server that stops answering to /metrics during the pass leaves its counters unread, and that is said.
func TestCountersThatCannotBeReadAfterThePassAreNoted(t *testing.T) {
	s := &shared{names: vllmNames}
	var ended atomic.Bool
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && ended.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		s.serve(w, r)
		if r.URL.Path != "/metrics" {
			ended.Store(true)
		}
	})
	r, err := Run(t.Context(), o)
	if err != nil || r.Foreign != "" || !strings.Contains(strings.Join(r.Notes, "; "), "after the pass the server answers 503 to /metrics") {
		t.Errorf("%v %q %q", err, r.Foreign, r.Notes)
	}
}
