package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// closed checks that nothing is left open behind a round that was stopped.
func closed(t *testing.T, s *Session, what string) {
	t.Helper()
	if s.server.ProfileOpen() {
		t.Errorf("%s: the profile was left open", what)
	}
	if exists(s.journalPath()) {
		t.Errorf("%s: the journal was left behind", what)
	}
}

func TestProfileIsClosedWhereverARoundIsStopped(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 120 * time.Millisecond, 250 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		s.opts.Again = true
		if _, err := s.RoundContext(ctx, RoundOptions{Streams: 64}); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("stopped after %v: %v", after, err)
		}
		cancel()
		closed(t, s, after.String())
	}

	ctx, cancel := context.WithCancel(context.Background())
	s.afterOpen = cancel
	if _, err := s.RoundContext(ctx, RoundOptions{Streams: 64}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped inside the window: %v", err)
	}
	closed(t, s, "inside the window")

	s.afterOpen = func() { panic("in the window") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		s.Round(RoundOptions{Streams: 64})
	}()
	closed(t, s, "panic")

	s.afterOpen = nil
	if _, err := s.Round(RoundOptions{Streams: 64}); err != nil {
		t.Errorf("a round after all that: %v", err)
	}
}

func TestStoppedRoundGoesOnWhereItWas(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	s.afterOpen = cancel
	if _, err := s.RoundContext(ctx, RoundOptions{Streams: 64}); err == nil {
		t.Fatal("the round was not stopped")
	}
	again := open(t, dir, Options{})
	r, err := again.Round(RoundOptions{Streams: 64})
	if err != nil || len(r.Traces) != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	m, err := again.client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := m.Sum("vllm:generation_tokens_total"); n != 64*(2*holdTokens+defaultWindow) {
		t.Errorf("%v tokens: the unprofiled pass was measured again", n)
	}
}

func TestProfileOfAKilledProcessIsClosedByTheNextRound(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	ctx := context.Background()
	if _, err := s.client.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(s.journalPath(), journal{Target: s.client.Target()}); err != nil {
		t.Fatal(err)
	}
	if err := s.recoverProfile(ctx); err != nil {
		t.Fatal(err)
	}
	closed(t, s, "after recovery")
	if err := writeJSON(s.journalPath(), journal{Target: "http://127.0.0.1:1", Replay: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.recoverProfile(ctx); err != nil {
		t.Errorf("a journal of a replay that is gone: %v", err)
	}
}

func TestProfileThatIsNotInTheJournalIsLeftOpen(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	ctx := context.Background()
	if _, err := s.client.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if ours, err := CloseLostProfile(ctx, s.dir); ours || err != nil {
		t.Errorf("%v %v", ours, err)
	}
	if !s.server.ProfileOpen() {
		t.Error("somebody else's profile was closed")
	}
	if err := writeJSON(s.journalPath(), journal{Target: s.client.Target()}); err != nil {
		t.Fatal(err)
	}
	if ours, err := CloseLostProfile(ctx, s.dir); !ours || err != nil {
		t.Errorf("%v %v", ours, err)
	}
	closed(t, s, "in the journal")
}

func TestProfileIsClosedOnTheServerThatHasIt(t *testing.T) {
	other, err := replay.Start(context.Background(), replay.Options{Dir: archived()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := open(t, t.TempDir(), Options{})
	client, err := vllm.New(vllm.Options{Target: other.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdle()
	if _, err := client.StartProfile(context.Background(), vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(s.journalPath(), journal{Target: other.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Round(RoundOptions{Streams: 1}); err != nil {
		t.Fatal(err)
	}
	if other.ProfileOpen() {
		t.Error("the campaign went to another server and the profile on the first one stayed open")
	}
}

// A server with several ranks may have started the profiler on some of them before it answered with an error.
func TestStartThatFailsInTheServerIsStopped(t *testing.T) {
	server := recordedServer(t)
	var stops atomic.Int64
	target := live(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/stop_profile" {
			stops.Add(1)
		}
		if r.URL.Path == "/start_profile" && r.Method == http.MethodPost {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	s := open(t, t.TempDir(), Options{Target: target, TraceDir: server.TraceDir})
	if _, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2}); err == nil || !strings.Contains(err.Error(), "the profiler did not start") {
		t.Errorf("%v", err)
	}
	if stops.Load() != 1 || exists(s.journalPath()) {
		t.Errorf("%d stops", stops.Load())
	}
}

func TestStopIsSentAgainWhenTheConnectionBreaks(t *testing.T) {
	server := recordedServer(t)
	var stops atomic.Int64
	target := live(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/stop_profile" && stops.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	s := open(t, t.TempDir(), Options{Target: target, TraceDir: server.TraceDir})
	s.patience = time.Second // the second rank was not kept
	if _, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2}); err != nil {
		t.Error(err)
	}
	if server.ProfileOpen() || exists(s.journalPath()) || stops.Load() != 2 {
		t.Errorf("after %d stops the profile is open: %v", stops.Load(), server.ProfileOpen())
	}
}

func TestRefusedProfilesAreExplained(t *testing.T) {
	for words, o := range map[string]replay.Options{"the server has no profiler: start the server with --profiler-config": {NoProfiler: true}, "already open": {SecondStart: "409"}} {
		o.Dir = archived()
		server, err := replay.Start(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		s := open(t, t.TempDir(), Options{Target: server.URL, TraceDir: server.TraceDir})
		if o.SecondStart != "" {
			if _, err := s.client.StartProfile(context.Background(), vllm.ProfileOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.Round(RoundOptions{Streams: 1})
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v", err)
		}
		if exists(s.journalPath()) {
			t.Error("the journal was left behind")
		}
		if o.SecondStart != "" && !server.ProfileOpen() {
			t.Error("somebody else's profile was closed")
		}
	}
}

// A folder that was mistyped is found out before the server is disturbed.
func TestTraceDirThatIsNotTheServersIsRefused(t *testing.T) {
	server := recordedServer(t)
	target := live(t, server, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			t.Errorf("the server was sent %s", r.URL.Path)
		}
		return false
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(target, "http://"), ":")
	config := fmt.Sprintf(`{"profiler":"torch","torch_profiler_dir":%q}`, server.TraceDir)
	serverProcess(t, "serve", "HOME=/", "vllm", "serve", "m", "--port", port, "--profiler-config", config)
	s := open(t, t.TempDir(), Options{Target: target, TraceDir: server.TraceDir + "x"})
	_, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2})
	if want := "--trace-dir " + server.TraceDir + "x is not there, and the server's own command line says " + server.TraceDir; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// live hides that a server is a replay, so that a session takes it for a live one.
func live(t *testing.T, server *replay.Server, change func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rooflab/replay" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if change != nil && change(w, r) {
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, server.URL+r.URL.Path, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			if !strings.HasPrefix(k, "Rooflab-") {
				w.Header()[k] = v
			}
		}
		w.WriteHeader(resp.StatusCode)
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			w.Write(buf[:n])
			http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

func TestRoundOnALiveServer(t *testing.T) {
	server := recordedServer(t)
	s := open(t, t.TempDir(), Options{Target: live(t, server, nil), TraceDir: server.TraceDir})
	s.patience = 300 * time.Millisecond
	host, _ := os.Hostname()
	if err := s.SaveEnvironment(data.Environment{Engine: "vllm", Args: []string{"--master-addr", host}, TP: 2, Graphs: "none"}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 20, WindowSteps: 4})
	if err != nil {
		t.Fatal(err)
	}
	if server.ProfileOpen() {
		t.Error("the profile was left open")
	}
	if r.Unprofiled.Recorded || r.Unprofiled.OutputTokens != 20 || r.Unprofiled.SteadySamples != 19 || r.Unprofiled.OutputTokS <= 0 {
		t.Errorf("unprofiled: %+v", r.Unprofiled)
	}
	if r.After == nil || r.After.OutputTokens != 20 || r.StopNs <= 0 {
		t.Errorf("after the profile: %+v, held for %d ns", r.After, r.StopNs)
	}
	if r.Profiled == nil || r.Profiled.Failed != 0 || r.Profiled.SteadySamples < 3 {
		t.Errorf("profiled: %+v", r.Profiled)
	}
	r.Notes = slices.DeleteFunc(r.Notes, aboutAfter) // how busy this machine is
	if len(r.Traces) != 1 || r.WorldSize != 2 || len(r.Notes) != 2 || r.Notes[1] != "1 of 2 ranks: no complete trace came from rank 1" {
		t.Errorf("traces: %+v %d %q", r.Traces, r.WorldSize, r.Notes)
	}
	if want := "vLLM 0.24.0 is not known to refuse a start while somebody else's profile is open, so such a one cannot be seen: ask"; !strings.HasPrefix(r.Notes[0], want) {
		t.Errorf("of other people's profiles: %q", r.Notes[0])
	}
	if s.run != "main" || s.manifest.Main != "main" || s.manifest.Measured == "" {
		t.Errorf("run %q, manifest %+v", s.run, s.manifest)
	}
	b, err := os.ReadFile(s.dir + "/runs/main/run.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"127.0.0.1", server.TraceDir, s.dir} {
		if strings.Contains(string(b), secret) {
			t.Errorf("run.json holds %s", secret)
		}
	}
	if err := os.Remove(filepath.Join(s.dir, filepath.FromSlash(r.Traces[0].Path))); err != nil {
		t.Fatal(err)
	}
	again, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 20, WindowSteps: 4})
	again.Notes = slices.DeleteFunc(again.Notes, aboutAfter)
	if diff := cmp.Diff(r.Notes, again.Notes); diff != "" || err != nil {
		t.Errorf("notes of the round that went on (-before +after):\n%s%v", diff, err)
	}
	run, err := s.readRun()
	want := data.Environment{Engine: "vllm", Version: "0.24.0", Args: []string{"--master-addr", "host"}, TP: 2, Graphs: "none"}
	if diff := cmp.Diff(want, run.Environment); diff != "" || err != nil {
		t.Errorf("environment (-want +got):\n%s%v", diff, err)
	}
	checkReplays(t, s.dir, again)
}

// checkReplays repeats a live round from the folder that it was kept in: with the same figures and the same traces.
func checkReplays(t *testing.T, dir string, live data.Round) {
	t.Helper()
	s := open(t, t.TempDir(), Options{Target: "replay:" + dir})
	info, err := s.Server()
	if err := s.SaveEnvironment(data.Environment{Engine: "another"}); err != nil || exists(filepath.Join(s.dir, "runs")) {
		t.Errorf("a replay's environment was written: %v", err)
	}
	if err != nil || info.Recorded != "h200x2-kimi-k2.5-int4/main" || info.Version != "0.24.0" || info.WorldSize != 2 {
		t.Errorf("%+v %v", info, err)
	}
	r, err := s.Round(RoundOptions{Streams: live.Streams})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(live.Traces, r.Traces); diff != "" || len(r.Traces) == 0 {
		t.Errorf("traces (-live +replayed):\n%s", diff)
	}
	if r.WorldSize != live.WorldSize || r.Unprofiled.SteadyITLNs != live.Unprofiled.SteadyITLNs || r.Unprofiled.OutputTokS != live.Unprofiled.OutputTokS {
		t.Errorf("live %+v, replayed %+v", live.Unprofiled, r.Unprofiled)
	}
}

func TestHostNamesAreTakenOutOfAnswers(t *testing.T) {
	for host, want := range map[string]string{
		"node7":     `a{instance="host:8000",peer="host,host"} 1 node7-kimi xnode7 10.0.0.5:80`,
		"10.0.0.5":  `a{instance="node7:8000",peer="NODE7.cluster.local,node7"} 1 node7-kimi xnode7 host:80`,
		"localhost": "", "127.0.0.1": "", "": "",
	} {
		text := `a{instance="node7:8000",peer="NODE7.cluster.local,node7"} 1 node7-kimi xnode7 10.0.0.5:80`
		if want == "" {
			want = text
		}
		if got := replaceHost(text, host); got != want {
			t.Errorf("%q:\n%s\n%s", host, got, want)
		}
	}
}

func TestServersThatShowOtherPeoplesProfiles(t *testing.T) {
	for _, c := range []struct {
		engine, version string
		replay, unseen  bool
	}{
		{engineVLLM, "0.24.0", false, true}, {engineVLLM, "0.28.1rc1.dev500+g51da0ca66", false, true}, {engineVLLM, "dev", false, true}, {engineVLLM, "", false, true},
		{engineVLLM, "0.32.0", false, false}, {engineVLLM, "0.24.0", true, false}, {engineSGLang, "0.5.4", false, false},
	} {
		s := &Session{engineName: c.engine}
		if c.replay {
			s.about = &vllm.Replay{}
		}
		text := s.unseen(c.version)
		if (text != "") != c.unseen || c.unseen && !aboutTraces(text+": "+howUnseen) {
			t.Errorf("%+v: %q", c, text)
		}
		p := Preflight{Server: ServerInfo{Version: c.version}}
		s.judge(&p)
		if found := slices.ContainsFunc(p.Findings, func(f PreflightFinding) bool { return f.ID == "profile_unseen" }); found != c.unseen {
			t.Errorf("%+v: preflight finds %+v", c, p.Findings)
		}
	}
}

func TestTroubleOfALiveServer(t *testing.T) {
	server := recordedServer(t)
	o := RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2}

	s := open(t, t.TempDir(), Options{Target: live(t, server, nil)})
	if _, err := s.Round(o); err == nil || !strings.Contains(err.Error(), "give --trace-dir") {
		t.Errorf("no trace folder: %v", err)
	}

	s = open(t, t.TempDir(), Options{Target: live(t, server, nil), TraceDir: t.TempDir()})
	s.patience = 100 * time.Millisecond
	if _, err := s.Round(o); err == nil || !strings.Contains(err.Error(), "no complete trace has appeared") {
		t.Errorf("the wrong trace folder: %v", err)
	}

	s = open(t, t.TempDir(), Options{Target: live(t, server, nil), TraceDir: server.TraceDir, Model: "llama"})
	if _, err := s.Round(o); err == nil || !strings.Contains(err.Error(), "the server serves kimi-k2.5-slice, the campaign is about llama") {
		t.Errorf("the wrong model: %v", err)
	}

	broken := live(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/stop_profile" {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	s = open(t, t.TempDir(), Options{Target: broken, TraceDir: server.TraceDir})
	_, err := s.Round(o)
	var status *vllm.StatusError
	if err == nil || !errors.As(err, &status) || !strings.Contains(err.Error(), "curl -X POST "+broken+"/stop_profile") {
		t.Errorf("a stop that fails: %v", err)
	}
	if !exists(s.journalPath()) {
		t.Error("the journal must stay when a profile may be open")
	}
}
