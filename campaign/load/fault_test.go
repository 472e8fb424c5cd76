package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// faulty is a server that does something else with every second request.
func faulty(t *testing.T, broken http.HandlerFunc) Options {
	t.Helper()
	var n atomic.Int64
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			http.NotFound(w, r)
		case n.Add(1)%2 == 0:
			broken(w, r)
		default:
			events(answer)(w, r)
		}
	})
}

// events answers with these events.
func events(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, text)
	}
}

// status refuses a request.
func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// hangUp sends events and breaks the connection: with a reset, or as if it ended there.
func hangUp(text string, reset bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		events(text)(w, r)
		out := http.NewResponseController(w)
		out.Flush()
		conn, _, err := out.Hijack()
		if err != nil {
			return
		}
		if reset {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

func TestFailedRequestsAreCountedAndExplained(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}` + "\n\n"
	for name, c := range map[string]struct {
		broken http.HandlerFunc
		words  string
		chunks int // that were received before; -1: not said
	}{
		"503":              {status(503, `{"error":{"message":"overloaded"}}`), "the server answered 503: overloaded", 0},
		"429":              {status(429, `{"detail":"slow down"}`), "the server answered 429: slow down", 0},
		"cut":              {events(aChunk), "the stream ended before [DONE] after 1 chunks", 1},
		"hung up":          {hangUp(aChunk+aChunk, false), "the stream ended before [DONE] after 2 chunks", 2},
		"reset":            {hangUp(aChunk+aChunk, true), "", -1}, // a reset takes along what was not read yet
		"no answer":        {hangUp("", true), "", 0},
		"a web page":       {events("<html>\n"), "no event of vLLM", 0},
		"garbage later":    {events(aChunk + "data: {\n\n"), "no event of vLLM", 1},
		"not a stream":     {status(200, `{"choices":[]}`), "content type", 0},
		"a huge line":      {events(aChunk + "data: " + strings.Repeat("x", 5<<20)), "longer than", 1},
		"too few tokens":   {events(aChunk + aChunk + usage + "data: [DONE]\n\n"), "the answer has 2 tokens instead of 3", 2},
		"nothing":          {events("data: [DONE]\n\n"), "the answer has 0 tokens instead of 3", 0},
		"the engine's end": {events(aChunk + `data: {"error":{"message":"EngineCore encountered an issue"}}` + "\n\ndata: [DONE]\n\n"), "EngineCore encountered an issue", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(context.Background(), faulty(t, c.broken))
			if err != nil || r.Requests != 2 || r.Failed != 2 || r.OutputTokens != 6 || r.E2EL.N != 2 {
				t.Fatalf("%+v %v", r.LoadResult, err)
			}
			if len(r.Errors) != 1 || !strings.Contains(r.Errors[0], c.words) || !strings.HasPrefix(r.Errors[0], "2 times: ") {
				t.Errorf("%q", r.Errors)
			}
			if strings.Contains(r.Errors[0], "127.0.0.1") {
				t.Errorf("the reason holds an address: %q", r.Errors)
			}
			for _, q := range r.Samples {
				if q.Error != "" && c.chunks >= 0 && len(q.Arrivals) != c.chunks {
					t.Errorf("%d chunks were kept of a request that failed after %d", len(q.Arrivals), c.chunks)
				}
			}
		})
	}
}

func TestOddStreamsAreRead(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}}` + "\n\n"
	for name, text := range map[string]string{
		"CRLF":                   strings.ReplaceAll(answer, "\n", "\r\n"),
		"comments":               ": ping\n\n" + strings.ReplaceAll(answer, "data: {", ": ping\n\n: ping\ndata: {"),
		"empty events":           "\n\ndata:\n\n" + strings.ReplaceAll(answer, "\n\n", "\n\n\n\n"),
		"no last newline":        strings.TrimRight(answer, "\n"),
		"long text":              strings.ReplaceAll(answer, `"a"`, `"`+strings.Repeat("x", 100<<10)+`"`),
		"several tokens a chunk": aChunk + aChunk + usage + "data: [DONE]\n\n",
		"all in one":             aChunk + usage + "data: [DONE]\n\n",
	} {
		o := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				events(text)(w, r)
			}
		})
		if r, err := Run(t.Context(), o); err != nil || r.Failed > 0 || r.OutputTokens != 12 || r.TPOT.N != 4 {
			t.Errorf("%s: %v %q %+v", name, err, r.Errors, r.LoadResult)
		}
	}
}

// TestServerThatDiesKeepsWhatWasMeasured: all connections break, and nobody answers any more.
func TestServerThatDiesKeepsWhatWasMeasured(t *testing.T) {
	var n atomic.Int64
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "%s 0\n%s 0\n", vllmNames[0], vllmNames[1])
			return
		}
		if n.Add(1) <= 4 {
			events(answer)(w, r)
			return
		}
		events(aChunk)(w, r)
		http.NewResponseController(w).Flush()
		if n.Load() == 8 {
			s.Listener.Close()
			go s.CloseClientConnections()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Client: c, Model: "m", Streams: 4, Requests: 12, InputTokens: 4, OutputTokens: 3})
	if err != nil || r.Requests != 4 || r.Failed != 8 || r.Foreign != "" || len(r.Samples) != 12 {
		t.Fatalf("%v %+v %q", err, r.LoadResult, r.Errors)
	}
	all := strings.Join(r.Errors, "; ")
	if !strings.Contains(all, "connection refused") || !strings.Contains(all, "before [DONE] after 1 chunks") && !strings.Contains(all, "in the middle") {
		t.Errorf("%q", r.Errors)
	}
}

// TestStreamThatStallsKeepsItsTokens: one stream of four gets no more tokens, until the limit.
func TestStreamThatStallsKeepsItsTokens(t *testing.T) {
	var n atomic.Int64
	o := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			return
		}
		if n.Add(1) != 2 {
			events(answer)(w, r)
			return
		}
		events(aChunk)(w, r)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	o.MaxDuration = 200 * time.Millisecond
	r, err := Run(t.Context(), o)
	if err != nil || r.Requests != 3 || len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "time limit of 200ms: no answer in time, after 1 of 3 tokens") {
		t.Errorf("%v %+v %q", err, r.LoadResult, r.Errors)
	}
}
