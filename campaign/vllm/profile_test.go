package vllm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asVersion answers as a server of a version does; the other paths are given.
func asVersion(t *testing.T, version string, paths map[string]http.HandlerFunc) *Client {
	return client(t, func(w http.ResponseWriter, r *http.Request) {
		if h := paths[r.Method+" "+r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		if r.URL.Path == "/version" {
			io.WriteString(w, `{"version":"`+version+`"}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"detail":"Not Found"}`)
	})
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// What the hint for a version names, and what it must not: the version ignores it, or does not start with it.
func TestMissingProfilerIsExplainedForTheVersion(t *testing.T) {
	const (
		variable = "VLLM_TORCH_PROFILER_DIR=/absolute/dir"
		stack    = "VLLM_TORCH_PROFILER_WITH_STACK=0"
		frontend = "VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM=1"
		rpc      = "VLLM_RPC_TIMEOUT=1800000"
		flag     = "--profiler-config"
		removed  = "does not read VLLM_TORCH_PROFILER_DIR any more"
	)
	all := []string{variable, stack, frontend, rpc, flag, removed}
	for _, c := range []struct {
		names    []string
		versions []string
	}{
		{nil, []string{"0.4.2"}},
		{[]string{variable, rpc}, []string{"0.5.5", "0.6.6.post1", "0.7.3", "0.8.0rc1"}},
		{[]string{variable}, []string{"0.8.0", "0.8.5.post1", "v0.9.0.1", "0.9.2", "0.10.0", "0.10.1rc1"}},
		{[]string{variable, stack}, []string{"0.10.1", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1.post1", "0.11.2", "0.12.0rc1"}},
		{[]string{variable, stack, frontend}, []string{"0.12.0", "0.12.1.dev30+g1234567", "0.13.0rc2"}},
		{[]string{flag}, []string{"0.13.0", "0.14.1", "0.15.1", "0.16.0rc2"}},
		{[]string{flag, removed}, []string{"0.16.0", "0.16.1rc0", "0.17.1", "0.18.0", "0.19.1", "0.20.2+cpu", "0.21.0", "0.22.1", "0.24.0", "0.27.1", "0.28.0",
			"0.28.1rc1.dev500+g51da0ca66", "0.30.0", "0.32.0", "0.33.0"}},
		{[]string{flag, variable}, []string{"dev", "main", "0.24.0-custom"}},
	} {
		for _, version := range c.versions {
			cl := asVersion(t, version, nil)
			_, err := cl.StartProfile(context.Background(), ProfileOptions{})
			wantError(t, version, err, nil, append([]string{"the server"}, c.names...)...)
			p := cl.Profiler(context.Background(), version)
			if p.Configured != "no" {
				t.Errorf("%s: %+v", version, p)
			}
			for _, word := range all {
				named := false
				for _, n := range c.names {
					named = named || n == word
				}
				if strings.Contains(p.Why, word) != named || strings.Contains(err.Error(), word) != named {
					t.Errorf("%s: %q is named: %v, want %v:\n%s", version, word, !named, named, p.Why)
				}
			}
			for _, key := range []string{"detailed_trace_annotation", "capture_torch_profiler", "torch_profiler_activities", "warmup_iterations", "proton"} {
				if strings.Contains(p.Why, key) {
					t.Errorf("%s: suggests %s, which older versions with --profiler-config do not know", version, key)
				}
			}
		}
	}
}

func TestOptionsAreSentAndClaimedByVersion(t *testing.T) {
	for version, want := range map[string]bool{"0.8.5": false, "0.20.2+cpu": false, "0.24.0": false, "0.28.1rc1.dev500+g51da0ca66": false, "0.30.0": false,
		"0.32.0rc1": false, "0.32.0": true, "0.32.0+cpu": true, "0.33.0": true, "dev": false} {
		var bodies []string
		c := asVersion(t, version, map[string]http.HandlerFunc{"POST /start_profile": func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			bodies = append(bodies, r.Header.Get("Content-Type")+string(b))
		}})
		for _, o := range []ProfileOptions{{}, {Prefix: "c64"}, {Prefix: "round-1.c64", MaxIterations: 16}} {
			honoured, err := c.StartProfile(context.Background(), o)
			if err != nil || honoured != (want && o != ProfileOptions{}) {
				t.Errorf("%s, %+v: honoured %v, %v", version, o, honoured, err)
			}
		}
		if len(bodies) != 3 || bodies[0] != "" || bodies[1] != `application/json{"profile_prefix":"c64"}` || bodies[2] != `application/json{"profile_prefix":"round-1.c64","max_iterations":16}` {
			t.Errorf("%s: bodies %q", version, bodies)
		}
		if StartTellsOpen(version) != want {
			t.Errorf("%s: tells of an open profile: %v", version, !want)
		}
	}
	c := asVersion(t, "0.32.0", nil)
	for _, bad := range []ProfileOptions{{Prefix: "-x"}, {Prefix: "a/b"}, {Prefix: "ä"}, {Prefix: strings.Repeat("x", 129)}, {MaxIterations: -1}} {
		_, err := c.StartProfile(context.Background(), bad)
		wantError(t, "bad options", err, nil, "give 1")
	}
}

func TestServerThatRefusesOptionsIsAskedWithout(t *testing.T) {
	bodies := 0
	c := asVersion(t, "0.32.0", map[string]http.HandlerFunc{"POST /start_profile": func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); len(b) > 0 {
			bodies++
			status(422, `{"detail":[{"msg":"Extra inputs are not permitted"}]}`)(w, r)
		}
	}})
	if honoured, err := c.StartProfile(context.Background(), ProfileOptions{Prefix: "c1"}); honoured || err != nil || bodies != 1 {
		t.Errorf("honoured %v, %v, %d bodies", honoured, err, bodies)
	}
}

func TestRefusalsOfTheProfilerAreExplained(t *testing.T) {
	const conflict = `{"error":{"message":"A profiling session is already active. Call /stop_profile before starting another session.","type":"Conflict","param":null,"code":409}}`
	for _, c := range []struct {
		version, path string
		code          int
		body          string
		is            error
		words         []string
	}{
		{"0.32.0", "start", 409, conflict, ErrAlreadyProfiling, []string{"already open", "already active"}},
		{"0.32.0", "start", 400, `{"error":{"message":"bad prefix","type":"BadRequestError"}}`, nil, []string{"refuses the request to start", "bad prefix"}},
		{"0.32.0", "start", 404, "404 page not found\n", nil, []string{"does not pass /start_profile on", "own address"}},
		{"0.32.0", "start", 405, `{"detail":"Method Not Allowed"}`, nil, []string{"turned the POST into another request"}},
		{"0.32.0", "start", 500, "Internal Server Error", nil, []string{"did not start; see the server's log"}},
		{"0.11.0", "start", 500, "Internal Server Error", nil, []string{"0.11.0 answers so when a profile is open already"}},
		{"0.32.0", "start", 504, "<html>timeout</html>", nil, []string{"did not start, or a gateway"}},
		{"0.32.0", "stop", 500, "Internal Server Error", ErrStillWriting, []string{"see its log"}},
		{"0.8.0", "stop", 500, "Internal Server Error", ErrStillWriting, []string{"see its log"}},
		{"0.7.3", "stop", 500, "Internal Server Error", ErrStillWriting, []string{"0.7.3 needs the environment variable VLLM_RPC_TIMEOUT=1800000"}},
		{"0.32.0", "stop", 502, "<html>bad gateway</html>", ErrStillWriting, []string{"timeout of many minutes"}},
		{"0.32.0", "stop", 404, `{"detail":"Not Found"}`, nil, []string{"no profiler", "--profiler-config"}},
	} {
		cl := asVersion(t, c.version, map[string]http.HandlerFunc{"POST /" + c.path + "_profile": status(c.code, c.body), "GET /health": status(503, "")})
		err := cl.StopProfile(context.Background())
		if c.path == "start" {
			_, err = cl.StartProfile(context.Background(), ProfileOptions{})
		}
		wantError(t, c.version+" "+c.path, err, c.is, c.words...)
		var s *StatusError
		if !errors.As(err, &s) || s.Status != c.code {
			t.Errorf("%s %s: the status %d is lost: %v", c.version, c.path, c.code, err)
		}
	}
	if p := asVersion(t, "0.32.0", map[string]http.HandlerFunc{"OPTIONS /start_profile": status(404, "404 page not found")}).Profiler(context.Background(), "0.32.0"); p.Configured != "unknown" {
		t.Errorf("a gateway's 404: %+v", p)
	}
}

func TestStopIsRepeatedWhileAGatewayGivesUp(t *testing.T) {
	stops := 0
	c := asVersion(t, "0.32.0", map[string]http.HandlerFunc{"GET /health": status(200, ""), "POST /stop_profile": func(w http.ResponseWriter, r *http.Request) {
		if stops++; stops == 1 {
			status(504, "<html>gateway timeout</html>")(w, r)
		}
	}})
	if err := c.StopProfile(context.Background()); err != nil || stops != 2 {
		t.Errorf("%d stops, %v", stops, err)
	}
	stops = 0
	dead := asVersion(t, "0.32.0", map[string]http.HandlerFunc{"GET /health": status(502, ""), "POST /stop_profile": func(w http.ResponseWriter, r *http.Request) {
		stops++
		status(504, "")(w, r)
	}})
	if err := dead.StopProfile(context.Background()); !errors.Is(err, ErrStillWriting) || stops != 1 {
		t.Errorf("a server that is gone: %d stops, %v", stops, err)
	}
}

func TestStopEndsWithItsContextOnly(t *testing.T) {
	asked := make(chan struct{})
	c := asVersion(t, "0.32.0", map[string]http.HandlerFunc{"POST /stop_profile": func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	wantError(t, "stopped", c.StopProfile(ctx), context.Canceled, "POST /stop_profile: stopped")
}
