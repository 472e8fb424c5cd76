package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		w.Header().Set("Rooflab-Replay", "x")
		for i := range 10 {
			fmt.Fprintf(w, "line %d\n", i)
			http.NewResponseController(w).Flush()
		}
	}))
	defer server.Close()
	p := Start(t, server.URL)
	const all = "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\n"
	for _, c := range []struct {
		fault   Fault
		want    string // "status body error"
		reached int
	}{
		{Fault{}, "200 " + all, 1},
		{Fault{On: "POST /a", Status: 503}, "200 " + all, 1},
		{Fault{On: "GET /b", Status: 503}, "200 " + all, 1},
		{Fault{On: "GET /a", Status: 503, Body: "busy"}, "503 busy", 0},
		{Fault{On: "/a", Delay: time.Millisecond, Status: 429}, "429 ", 0},
		{Fault{Skip: 1, Status: 500}, "200 " + all, 1},
		{Fault{Hang: true}, "no answer: context deadline exceeded", 0},
		{Fault{Drop: true}, "no answer: EOF", 1},
		{Fault{CutAt: 10}, "200 line 0\nlin unexpected EOF", 1},
		{Fault{CutAt: 7, Garbage: "\x00{"}, "200 line 0\n\x00{", 1},
		{Fault{Drip: time.Microsecond}, "200 " + all, 1},
	} {
		p.Set(c.fault)
		reached = 0
		limit := time.Minute
		if c.fault.Hang {
			limit = 50 * time.Millisecond
		}
		if got := get(p.URL+"/a", limit); got != c.want || reached != c.reached {
			t.Errorf("%+v:\n%q\n%q, the server was reached %d times", c.fault, got, c.want, reached)
		}
	}
	p.Set(Fault{Times: 1, Status: 500})
	if a, b := get(p.URL+"/a", time.Minute), get(p.URL+"/a", time.Minute); a != "500 " || b != "200 "+all {
		t.Errorf("%q, then %q", a, b)
	}
	if seen := p.Seen(); len(seen) != 13 || !slices.Contains(seen, "GET /a") || len(p.Seen()) != 0 {
		t.Errorf("%q", seen)
	}
}

func get(url string, limit time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	r, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "no answer: " + err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	got := fmt.Sprintf("%d %s", r.StatusCode, b)
	if err != nil {
		got += " " + err.Error()
	}
	return got
}

func TestNetworkGoesAndComesBackOnTheSamePort(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Rooflab-Replay", "x")
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		if r.URL.Path == "/long" {
			<-r.Context().Done() // the server hears of it
			close(stop)
		}
	}))
	defer server.Close()
	p := StartLive(t, server.URL)
	r, err := http.Get(p.URL + "/long")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.Header.Get("Rooflab-Replay") != "" {
		t.Error("it looks like a replay")
	}
	p.Down()
	if _, err := io.ReadAll(r.Body); err == nil {
		t.Error("an answer went on without a network")
	}
	<-stop
	if _, err := http.Get(p.URL); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	p.Up()
	happened := make(chan struct{})
	p.After(2, func() { close(happened) })
	if got := get(p.URL+"/", time.Minute); got != "200 begun" {
		t.Error(got)
	}
	<-happened
	if got := get(p.URL+"/rooflab/replay", time.Minute); !strings.HasPrefix(got, "404") {
		t.Error(got)
	}
}
