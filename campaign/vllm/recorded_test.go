package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// exchange is one recorded request and answer of a real server.
type exchange struct {
	Name    string
	version string
	Request struct{ Method, Path, Body string }
	Reply   struct {
		Status  int
		Headers [][2]string
		Body    string
	} `json:"response"`
}

func recordedExchanges(t testing.TB) []exchange {
	files, err := filepath.Glob(filepath.Join(sharedtest.Dir(t), "vllm", "recorded", "v*", "*.json"))
	if err != nil || len(files) < 140 {
		t.Fatalf("%d recorded exchanges (%v)", len(files), err)
	}
	var all []exchange
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var e exchange
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatal(err)
		}
		if e.Reply.Status == 0 {
			continue // results of `vllm bench`
		}
		e.version = filepath.Base(filepath.Dir(f))
		all = append(all, e)
	}
	return all
}

// serve answers every request with the recorded answer.
func (e exchange) serve(t testing.TB) *Client {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != e.Request.Path { // /version, asked to explain a 404
			w.Write([]byte(`{"version":"0.32.0"}`))
			return
		}
		for _, h := range e.Reply.Headers {
			if n := strings.ToLower(h[0]); n != "connection" && n != "transfer-encoding" && n != "content-length" {
				w.Header().Set(h[0], h[1])
			}
		}
		w.WriteHeader(e.Reply.Status)
		w.Write([]byte(e.Reply.Body))
	}))
	t.Cleanup(s.Close)
	c, err := New(Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func TestClientReadsEveryRecordedExchange(t *testing.T) {
	ctx := context.Background()
	seen := map[string]int{}
	for _, e := range recordedExchanges(t) {
		c := e.serve(t)
		what := e.version + "/" + e.Name
		err := e.play(t, ctx, c, seen)
		if e.Reply.Status == http.StatusOK && !strings.HasPrefix(e.Name, "dead-stream") {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		var status *StatusError
		if e.Reply.Status != http.StatusOK && (!errors.As(err, &status) || status.Status != e.Reply.Status || status.Message == "") {
			t.Errorf("%s: %v, want the %d with the server's words", what, err, e.Reply.Status)
		}
		if err != nil && strings.Contains(err.Error(), "site-packages") {
			t.Errorf("%s: the message holds paths of the server: %v", what, err)
		}
	}
	for _, kind := range []string{"version", "models", "load", "metrics", "start", "stop", "stream"} {
		if seen[kind] < 2 {
			t.Errorf("%d exchanges of kind %s, want both versions", seen[kind], kind)
		}
	}
}

// play calls the method that the exchange is about.
func (e exchange) play(t *testing.T, ctx context.Context, c *Client, seen map[string]int) error {
	kind, err := "other", error(nil)
	switch e.Request.Method + " " + e.Request.Path {
	case "GET /version":
		kind = "version"
		var v string
		if v, err = c.Version(ctx); err == nil && "v"+v != e.version {
			t.Errorf("%s: version %q", e.Name, v)
		}
	case "GET /v1/models":
		kind = "models"
		var m []Model
		if m, err = c.Models(ctx); err == nil && (len(m) != 1 || m[0].ID != "tiny-moe" || m[0].MaxModelLen != 1024) {
			t.Errorf("%s: %+v", e.Name, m)
		}
	case "GET /load":
		kind = "load"
		var n int
		n, err = c.Load(ctx)
		if want := map[bool]int{true: 12}[e.Name == "load-tracking-busy"]; n != want {
			t.Errorf("%s: load %d, want %d", e.Name, n, want)
		}
	case "GET /metrics":
		kind = "metrics"
		s, merr := c.Metrics(ctx)
		if _, found := s.Sum("vllm:num_requests_running"); !found {
			t.Errorf("%s: no gauge", e.Name)
		}
		err = merr
	case "POST /start_profile":
		kind = "start"
		_, err = c.StartProfile(ctx, ProfileOptions{})
		if e.Reply.Status == http.StatusConflict && !errors.Is(err, ErrAlreadyProfiling) {
			t.Errorf("%s: %v", e.Name, err)
		}
	case "POST /stop_profile":
		kind, err = "stop", c.StopProfile(ctx)
	case "GET /health":
		err = c.Health(ctx)
	case "POST /v1/completions":
		if strings.Contains(e.Request.Body, `"stream":true`) {
			kind, err = "stream", e.stream(t, ctx, c)
			break
		}
		fallthrough
	default:
		_, _, err = c.do(ctx, e.Request.Method, e.Request.Path, []byte(e.Request.Body), time.Minute)
	}
	seen[kind]++
	return err
}

func (e exchange) stream(t *testing.T, ctx context.Context, c *Client) error {
	chunks := 0
	finish := ""
	s, err := c.Stream(ctx, Completion{Model: "tiny-moe", Prompt: []int{3}, MaxTokens: 1}, time.Now(), func(k Chunk) {
		chunks++
		finish = k.FinishReason
	})
	if strings.HasPrefix(e.Name, "dead-stream") {
		if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "EngineCore encountered an issue") || chunks == 0 {
			t.Errorf("%s: %d chunks, %v", e.Name, chunks, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if s.Counted == (e.Name == "completion-stream-no-usage") {
		t.Errorf("%s: usage found: %v", e.Name, s.Counted)
	}
	if chunks != s.Chunks || finish != "length" || s.Counted && s.Usage.CompletionTokens != chunks {
		t.Errorf("%s: %d chunks, usage %+v, finish %q", e.Name, chunks, s.Usage, finish)
	}
	return nil
}
