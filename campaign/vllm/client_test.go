package vllm

import (
	"context"
	"errors"
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
	c, err := New(Options{Target: s.URL, APIKey: "the-key"})
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
	c, err := New(Options{Target: addr})
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
