package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/faultproxy"
	"github.com/rooflab/rooflab/internal/livevllm"
)

// small is a round that takes a moment only.
var small = RoundOptions{Streams: 2, InputTokens: 16, OutputTokens: 8, WindowSteps: 4}

const (
	completions = "POST /v1/completions"
	startURL    = "POST /start_profile"
	stopURL     = "POST /stop_profile"
)

// Requests for completions of a small round, in order: two of the warm-up, two before, two profiled, two after.
const (
	ofBefore   = 2
	ofProfiled = 4
	ofAfter    = 6
)

// A fault of the server, or of the way to it, ends the round with words that say what it was, or is overcome.
// What was measured before it is kept, no profile stays open, and when the fault is gone the round goes on from there.
func TestFaults(t *testing.T) {
	server := livevllm.Start(t, livevllm.Options{APIKey: apiKey})
	t.Run("the key is missing", func(t *testing.T) { withoutKey(t, server) })
	t.Run("the key is in a file", func(t *testing.T) { keyInFile(t, server) })
	t.Run("the network is gone while a profile is open", func(t *testing.T) { networkGone(t, server) })
	t.Run("the server dies while a profile is open", func(t *testing.T) { serverDies(t, server) })
	for name, c := range map[string]struct {
		faults   []faultproxy.Fault
		inWindow func(*faultproxy.Proxy)
		limit    time.Duration // of the round
		want     []string      // parts of the error; none: the round is made all the same
		kept     int           // passes that are measured when it stops: before, profiled, after
		journal  bool          // the profile could not be closed
		notes    string        // of the round that is made all the same
	}{
		"busy before all": {faults: []faultproxy.Fault{{On: completions, Status: 503, Body: "come back later"}},
			want: []string{"warm-up", "503", "come back later"}},
		"too many requests": {faults: []faultproxy.Fault{{On: completions, Skip: ofBefore, Status: 429, Body: `{"error":{"message":"slow down","type":"RateLimit"}}`}},
			want: []string{"all 2 requests failed", "429", "slow down"}},
		"one request fails": {faults: []faultproxy.Fault{{On: completions, Skip: ofBefore, Times: 1, Status: 500, Body: "oops"}},
			notes: "failed requests, 1 times: POST /v1/completions: the server answered 500: oops"},
		"no answer to requests": {faults: []faultproxy.Fault{{On: completions, Skip: ofBefore, Hang: true}}, limit: 3 * time.Second,
			want: []string{"the round took longer than its limit of 3s", "--max-seconds"}},
		"streams cut before": {faults: []faultproxy.Fault{{On: completions, Skip: ofBefore, CutAt: 700}},
			want: []string{"all 2 requests failed", "the stream ended before [DONE]"}},
		"streams cut before the window": {faults: []faultproxy.Fault{{On: completions, Skip: ofProfiled, Times: 2, CutAt: 300}},
			want: []string{"a request failed before all streams decoded", "the stream ended before [DONE]"}, kept: 1},
		"streams cut in the window": {inWindow: (*faultproxy.Proxy).Break,
			want: []string{"a request failed while all streams decoded", "the stream ended before [DONE]"}, kept: 1},
		"streams cut after": {faults: []faultproxy.Fault{{On: completions, Skip: ofAfter, CutAt: 700}},
			want: []string{"all 2 requests failed", "the stream ended before [DONE]"}, kept: 2},
		"garbage in a stream": {faults: []faultproxy.Fault{{On: completions, Skip: ofBefore, CutAt: 300, Garbage: "\n\ndata: {\"id\": \x00\xff\n\ndata: [DONE]\n\n"}},
			want: []string{"all 2 requests failed", "the stream holds something that is no event of vLLM"}},
		"a page in place of a stream": {faults: []faultproxy.Fault{{On: completions, Skip: ofBefore, Status: 200, Body: "<html>log in</html>"}},
			want: []string{"all 2 requests failed", "instead of text/event-stream"}},
		"streams drip": {faults: []faultproxy.Fault{{On: completions, Drip: 50 * time.Microsecond}}},
		"all is slow":  {faults: []faultproxy.Fault{{Delay: 50 * time.Millisecond}}},
		"no metrics": {faults: []faultproxy.Fault{{On: "/metrics", Status: 500, Body: "oops"}},
			want: []string{"GET /metrics", "500"}},
		"metrics cut": {faults: []faultproxy.Fault{{On: "/metrics", CutAt: 1000}},
			want: []string{"GET /metrics"}},
		"metrics are a page": {faults: []faultproxy.Fault{{On: "/metrics", Status: 200, Body: "<html>log in</html>"}},
			want: []string{"metrics"}},
		"the profiler cannot be reached": {faults: []faultproxy.Fault{{On: startURL, Status: 503}},
			want: []string{"the profiler did not start, or a gateway in between gave up"}, kept: 1},
		"the profiler fails": {faults: []faultproxy.Fault{{On: startURL, Status: 500}},
			want: []string{"the profiler did not start; see the server's log"}, kept: 1},
		"the answer to the start is lost": {faults: []faultproxy.Fault{{On: startURL, Drop: true}},
			want: []string{"POST /start_profile"}, kept: 1},
		"the answer to the stop is lost": {faults: []faultproxy.Fault{{On: stopURL, Times: 1, Drop: true}}},
		"a gateway gives up on the stop": {faults: []faultproxy.Fault{{On: stopURL, Times: 1, Status: 504}}},
		"the stop is late":               {faults: []faultproxy.Fault{{On: stopURL, Delay: time.Second}}},
		"the stop is refused": {faults: []faultproxy.Fault{{On: stopURL, Status: 500, Body: "oops"}},
			want: []string{"the profile may still be open", "rooflab doctor", "/stop_profile"}, kept: 1, journal: true},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := faultproxy.Start(t, server.URL)
			s := openLive(t, proxy.URL, server.TraceDir, c.limit)
			proxy.Set(c.faults...)
			if c.inWindow != nil {
				s.afterOpen = func() { c.inWindow(proxy) }
			}
			_, err := s.Round(small)
			proxy.Set()
			s.afterOpen = nil
			kept := passes(t, s)
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if c.notes != "" {
					checkNotes(t, s, c.notes)
				}
			} else {
				for _, part := range c.want {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("the error has no %q: %v", part, err)
					}
				}
				if len(kept) != c.kept {
					t.Errorf("%d passes are kept, not %d", len(kept), c.kept)
				}
			}
			if exists(s.journalPath()) != c.journal {
				t.Errorf("the journal is there: %v", !c.journal)
			}
			if !c.journal {
				server.CheckNoProfile(t)
			}
			if c.kept == 0 && !c.journal { // nothing that a second round could lose
				return
			}
			finish(t, s, kept)
			server.CheckNoProfile(t)
		})
	}
}

const apiKey = "sesame-1234"

func withoutKey(t *testing.T, server *livevllm.Server) {
	s := openLive(t, server.URL, server.TraceDir, 0)
	t.Setenv("ROOFLAB_API_KEY", "")
	s = reopen(t, s)
	_, err := s.Round(small)
	var status *vllm.StatusError
	if !errors.As(err, &status) || status.Status != 401 || !strings.Contains(err.Error(), "ROOFLAB_API_KEY") {
		t.Errorf("%v", err)
	}
	t.Setenv("ROOFLAB_API_KEY", "wrong-5678")
	if _, err = reopen(t, s).Round(small); !errors.As(err, &status) || status.Status != 401 || strings.Contains(err.Error(), "wrong-5678") {
		t.Errorf("with a wrong key: %v", err)
	}
}

// keyInFile also looks for the key in everything that is kept.
func keyInFile(t *testing.T, server *livevllm.Server) {
	s := openLive(t, server.URL, server.TraceDir, 0)
	t.Setenv("ROOFLAB_API_KEY", "")
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(apiKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOFLAB_API_KEY_FILE", file)
	s = reopen(t, s)
	s.afterOpen = func() { checkNoKey(t, s.dir) } // with the journal
	if _, err := s.Round(small); err != nil {
		t.Fatal(err)
	}
	checkNoKey(t, s.dir)
}

func checkNoKey(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if bytes.Contains(b, []byte(apiKey)) {
			t.Errorf("%s holds the key", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// reopen opens the session's campaign again, as the environment is now.
func reopen(t *testing.T, s *Session) *Session {
	t.Helper()
	again, err := Open(s.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

// openLive opens a new campaign on a live server.
func openLive(t *testing.T, target, traces string, limit time.Duration) *Session {
	t.Helper()
	dir := t.TempDir()
	if err := Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ROOFLAB_TARGET", "ROOFLAB_CAMPAIGN", "ROOFLAB_TRACE_DIR", "ROOFLAB_ARCHIVE", "ROOFLAB_HOST", "ROOFLAB_API_KEY_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("ROOFLAB_API_KEY", apiKey)
	s, err := Open(Options{Dir: dir, Target: target, TraceDir: traces, Limits: Limits{Time: limit}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// passes encodes what is measured of the only round so far: before, profiled, after.
func passes(t *testing.T, s *Session) (all []string) {
	t.Helper()
	run, err := s.readRun()
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Rounds) == 0 {
		return nil
	}
	r := run.Rounds[0]
	for _, p := range []*data.LoadResult{r.Unprofiled, r.Profiled, r.After} {
		if p == nil {
			continue
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

func checkNotes(t *testing.T, s *Session, want string) {
	t.Helper()
	run, err := s.readRun()
	if err != nil {
		t.Fatal(err)
	}
	if notes := run.Rounds[0].Notes; !slices.Contains(notes, want) {
		t.Errorf("the notes are %q, want %q", notes, want)
	}
}

// finish makes the round again, without limit, and checks that it measures only what is missing.
func finish(t *testing.T, s *Session, kept []string) {
	t.Helper()
	s.limits.Time = defaultTime
	r, err := s.Round(small)
	if err != nil {
		t.Fatalf("when the fault was gone: %v", err)
	}
	if len(r.Traces) == 0 || r.Unprofiled == nil || r.Profiled == nil || r.After == nil {
		t.Errorf("the round is not complete: %+v", r)
	}
	now := passes(t, s)
	for i, was := range kept {
		if now[i] != was {
			t.Errorf("pass %d was measured again:\n%s\n%s", i, was, now[i])
		}
	}
	if exists(s.journalPath()) {
		t.Error("the note of an open profile is still there")
	}
}

// While the way to a server is gone, it is not known whether its profile is open: that is not forgotten.
func networkGone(t *testing.T, server *livevllm.Server) {
	proxy := faultproxy.Start(t, server.URL)
	s := openLive(t, proxy.URL, server.TraceDir, 0)
	s.afterOpen = proxy.Down
	_, err := s.Round(small)
	if err == nil || !strings.Contains(err.Error(), "the profile may still be open") {
		t.Errorf("%v", err)
	}
	s.afterOpen = nil
	kept := passes(t, s)
	if len(kept) != 1 || !exists(s.journalPath()) {
		t.Fatalf("%d passes are kept, and the journal: %v", len(kept), exists(s.journalPath()))
	}
	if _, err := CloseLostProfile(context.Background(), s.dir); err == nil || !exists(s.journalPath()) {
		t.Errorf("without a network the profile counts as closed: %v", err)
	}
	if _, err := s.Round(small); err == nil || !exists(s.journalPath()) {
		t.Errorf("a round without a network: %v", err)
	}
	proxy.Up()
	if open, err := CloseLostProfile(context.Background(), s.dir); !open || err != nil {
		t.Errorf("with a network again: %v %v", open, err)
	}
	server.CheckNoProfile(t)
	finish(t, s, kept)
}

// A server that dies has no profile open any more; its successor's belong to others.
func serverDies(t *testing.T, server *livevllm.Server) {
	s := openLive(t, server.URL, server.TraceDir, 0)
	s.afterOpen = server.Kill
	if _, err := s.Round(small); err == nil {
		t.Error("the round was made without a server")
	} else {
		t.Log(err)
	}
	s.afterOpen = nil
	kept := passes(t, s)
	if len(kept) != 1 {
		t.Errorf("%d passes are kept", len(kept))
	}
	server.Restart()
	other, err := vllm.New(vllm.Options{Target: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer other.CloseIdle()
	if _, err := other.StartProfile(t.Context(), vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Round(small); !errors.Is(err, vllm.ErrAlreadyProfiling) {
		t.Errorf("while somebody else profiles: %v", err)
	}
	if _, err := other.StartProfile(t.Context(), vllm.ProfileOptions{}); !errors.Is(err, vllm.ErrAlreadyProfiling) {
		t.Errorf("somebody else's profile was closed: %v", err)
	}
	if err := other.StopProfile(t.Context()); err != nil {
		t.Fatal(err)
	}
	finish(t, s, nil)
	checkNotes(t, s, "the server was started again while this load was measured; the round was measured anew from its start")
	server.CheckNoProfile(t)
}
