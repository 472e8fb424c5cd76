package vllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

func client(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, "the-key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func wantError(t *testing.T, what string, err error, is error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%s: %v is no %v", what, err, is)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func TestNetworkErrorsSayWhatToDo(t *testing.T) {
	ctx := context.Background()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c, err := New(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(ctx)
	wantError(t, "refused", err, syscall.ECONNREFUSED, "no server answers at "+addr+": connection refused; start it or give another target")

	slow := client(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	})
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = slow.Version(short)
	wantError(t, "slow", err, context.DeadlineExceeded, "no answer from", "busy or still loading")

	dying := client(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		conn.Close()
	})
	_, err = dying.Version(ctx)
	wantError(t, "dying", err, io.ErrUnexpectedEOF, "closed the connection in the middle")

	page := client(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	_, err = page.Version(ctx)
	wantError(t, "a web page", err, nil, "is no JSON", "a vLLM server?")

	for _, bad := range []string{"", "http://", "ftp://x", "http://user:secret@x"} {
		_, err := New(bad, "")
		wantError(t, bad, err, nil)
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Error("the error repeats the password")
		}
	}
}

func TestWrongModelNamesWhatIsServed(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-key" {
			t.Error("the API key was not sent")
		}
		io.WriteString(w, `{"data":[{"id":"llama"},{"id":"lora-1"}]}`)
	})
	_, err := c.CheckModel(context.Background(), "kimi")
	wantError(t, "wrong model", err, nil, "the server serves llama, lora-1, the campaign is about kimi")
	_, err = c.CheckModel(context.Background(), "")
	wantError(t, "no model", err, nil, "the server serves llama, lora-1; say in manifest.json")
	one := client(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"data":[{"id":"llama"}]}`) })
	if m, err := one.CheckModel(context.Background(), ""); err != nil || m.ID != "llama" {
		t.Errorf("the only model: %+v %v", m, err)
	}
}

func TestMissingProfilerIsExplainedForTheVersion(t *testing.T) {
	for version, words := range map[string]string{
		"0.8.5":  "environment variable VLLM_TORCH_PROFILER_DIR=/absolute/dir",
		"0.12.0": "VLLM_TORCH_PROFILER_WITH_STACK=0",
		"0.14.1": "--profiler-config",
		"0.24.0": "does not read VLLM_TORCH_PROFILER_DIR any more",
	} {
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				io.WriteString(w, `{"version":"`+version+`"}`)
				return
			}
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"detail":"Not Found"}`)
		})
		err := c.StartProfile(context.Background())
		wantError(t, version, err, nil, "the server has no profiler", words)
		if p := c.Profiler(context.Background(), version); p.Configured != "no" || !strings.Contains(p.Why, words) {
			t.Errorf("%s: %+v", version, p)
		}
	}
}

func TestBrokenStreamsAreToldApart(t *testing.T) {
	const chunk = `data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}` + "\n\n"
	for name, c := range map[string]struct {
		body string
		is   error
		n    int
	}{
		"cut":              {chunk + chunk, ErrCut, 2},
		"cut in an event":  {chunk + `data: {"choi`, ErrCut, 1},
		"empty":            {"", ErrCut, 0},
		"no JSON":          {chunk + "data: <html>\n\ndata: [DONE]\n\n", ErrGarbage, 1},
		"no event":         {"<html>\n", ErrGarbage, 0},
		"error frame":      {chunk + `data: {"error":{"message":"out of memory","code":500}}` + "\n\ndata: [DONE]\n\n", ErrServer, 1},
		"error, then gone": {chunk + `data: {"error":{"message":"out of memory","code":500}}` + "\n\n", ErrServer, 1},
		"too long":         {"data: " + strings.Repeat("x", maxEvent+10), ErrGarbage, 0},
		"endless event":    {strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 6), ErrGarbage, 0},
		"whole":            {": ping\n\n" + chunk + "event: x\r\nid: 1\r\n" + chunk + "data: [DONE]\n\n", nil, 2},
	} {
		n := 0
		s, err := client(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, c.body)
		}).Stream(context.Background(), Completion{Prompt: []int{1}, MaxTokens: 2}, time.Now(), func(Chunk) { n++ })
		if !errors.Is(err, c.is) || n != c.n || s.Chunks != n {
			t.Errorf("%s: %d chunks, %v; want %d and %v", name, n, err, c.n, c.is)
		}
	}
}

func TestServerThatDiesInTheMiddleOfAStream(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"text":"a"}]}`+"\n\n")
		rc := http.NewResponseController(w)
		rc.Flush()
		conn, _, _ := rc.Hijack()
		conn.Close()
	})
	n := 0
	_, err := c.Stream(context.Background(), Completion{Prompt: []int{1}, MaxTokens: 2}, time.Now(), func(Chunk) { n++ })
	wantError(t, "died", err, ErrCut, "after 1 chunks")
}

func TestVersionsAreOrderedAsPEP440(t *testing.T) {
	order := []string{"0.9.0.1", "0.10.0.dev5", "0.10.0a1", "0.10.0b2", "0.10.0rc1.dev3", "0.10.0rc1", "0.10.0rc2", "0.10.0", "0.10.0.post1.dev1", "0.10.0.post1", "0.10.1", "0.11.0rc2.dev500+g51da0ca66", "0.11.0rc2", "0.24.0", "1.0", "1!0.1", "dev"}
	for i, a := range order {
		for j, b := range order {
			if got := ParseVersion(a).Compare(ParseVersion(b)); got != compare(i, j) {
				t.Errorf("%s against %s: %d", a, b, got)
			}
		}
	}
	for _, same := range [][2]string{{"1.0", "1.0.0"}, {"v0.24.0", "0.24.0+cu130"}, {"0.16.0-rc.2", "0.16.0rc2"}, {"1.0-1", "1.0.post1"}} {
		if ParseVersion(same[0]).Compare(ParseVersion(same[1])) != 0 {
			t.Errorf("%s differs from %s", same[0], same[1])
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n", true)
	f.Add(": rooflab arrival 12\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n", true)
	f.Add("data: {\"error\":{\"message\":\"x\"}}\r\n\r\ndata: [DONE]", false)
	f.Fuzz(func(t *testing.T, body string, replay bool) {
		s := Stream{Replay: replay}
		n := 0
		err := readStream(strings.NewReader(body), &s, func() int64 { return 0 }, func(Chunk) { n++ })
		if n != s.Chunks {
			t.Fatalf("%d chunks were given, %d counted", n, s.Chunks)
		}
		if err == nil && !strings.Contains(body, "[DONE]") {
			t.Fatalf("a stream without [DONE] was taken as whole: %q", body)
		}
	})
}
