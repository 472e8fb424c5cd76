package campaign

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/launch"
	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// What is between us and the server may say no while the server profiles on: then the journal must stay.
func TestProfileIsNotTakenForClosedBecauseTheWayIsBlocked(t *testing.T) {
	gateway := httptest.NewServer(http.NotFoundHandler())
	defer gateway.Close()
	for name, c := range map[string]struct{ target, words string }{
		"the end of a tunnel": {"http://127.0.0.1:1", "if a tunnel or proxy leads there, open it and try again"},
		"a gateway":           {gateway.URL, "something between rooflab and the server does not pass /stop_profile on"},
	} {
		s := open(t, t.TempDir(), Options{})
		if err := writeJSON(s.journalPath(), journal{Target: c.target}); err != nil {
			t.Fatal(err)
		}
		if _, err := CloseLostProfile(context.Background(), s.dir); err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "remove "+s.journalPath()) {
			t.Errorf("%s: %v", name, err)
		}
		if !exists(s.journalPath()) {
			t.Errorf("%s: the journal is gone, so nobody closes the profile any more", name)
		}
	}
}

func TestProfileOfAServerThatHasNoProfilerAnyMoreIsClosed(t *testing.T) {
	server, err := replay.Start(context.Background(), replay.Options{Dir: archived(), NoProfiler: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := open(t, t.TempDir(), Options{})
	if err := writeJSON(s.journalPath(), journal{Target: server.URL}); err != nil {
		t.Fatal(err)
	}
	if was, err := CloseLostProfile(context.Background(), s.dir); !was || err != nil || exists(s.journalPath()) {
		t.Errorf("%v %v", was, err)
	}
}

// In another container the process that measures has another number, or none.
func TestProfileIsLeftToAProcessThatCannotBeSeen(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	var left Left
	var during error
	s.afterOpen = func() {
		b, err := os.ReadFile(s.journalPath())
		if err != nil {
			t.Fatal(err)
		}
		unseen := regexp.MustCompile(`"pid": \d+`).ReplaceAll(b, []byte(`"pid": 4194305`))
		if err := os.WriteFile(s.journalPath(), unseen, 0o644); err != nil {
			t.Fatal(err)
		}
		if left, err = Find(s.dir); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, during = CloseLostProfile(short, s.dir)
		if !s.server.ProfileOpen() {
			t.Error("the profile was closed under the hands of its process")
		}
	}
	if _, err := s.Round(RoundOptions{Streams: 1}); err != nil {
		t.Fatal(err)
	}
	if left.Profile == nil || !left.Profile.InUse || during == nil {
		t.Errorf("%+v, %v", left.Profile, during)
	}
	closed(t, s, "after the round")
}

// others is a live server of which only /metrics is another's: what change makes of the page. It refuses what seen does.
func others(t *testing.T, server *replay.Server, seen func(r *http.Request) (refused bool), change func(page string) string) string {
	return live(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if seen(r) {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		if r.URL.Path != "/metrics" {
			return false
		}
		resp, err := http.Get(server.URL + "/metrics")
		if err != nil {
			t.Error(err)
			return true
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		io.WriteString(w, change(string(b)))
		return true
	})
}

// The traces take long to fetch; meanwhile the server may die and come again.
func TestPassAfterTheProfileIsNotMeasuredOnAnotherProcess(t *testing.T) {
	server := recordedServer(t)
	var process atomic.Int64
	process.Store(1000)
	dir := t.TempDir()
	start := regexp.MustCompile(`(?m)^process_start_time_seconds .*$`)
	url := others(t, server, func(r *http.Request) bool {
		if strings.Contains(ReadProgress(dir).Stage, "wait for the traces") {
			process.Store(2000)
		}
		return false
	}, func(page string) string {
		return start.ReplaceAllString(page, fmt.Sprintf("process_start_time_seconds %d", process.Load()))
	})
	s := open(t, dir, Options{Target: url, TraceDir: server.TraceDir})
	s.patience = 300 * time.Millisecond
	o := RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2}
	if r, err := s.Round(o); err == nil || !strings.Contains(err.Error(), "started again during the round") || r.After != nil {
		t.Fatalf("%+v %v", r.After, err)
	}
	r, err := s.Round(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Server != 2000 || r.After == nil || len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "measured anew from its start") {
		t.Errorf("server %d, after %+v, notes %q", r.Server, r.After, r.Notes)
	}
}

func TestAnotherProcessShowsInItsCounters(t *testing.T) {
	round := data.Round{Metrics: []data.Delta{{Name: "vllm:generation_tokens_total", Before: 10, After: 50}, {Name: "vllm:inter_token_latency_seconds_sum", After: 0.3}}}
	for page, same := range map[string]bool{
		"vllm:generation_tokens_total{engine=\"0\"} 50\nvllm:inter_token_latency_seconds_sum{engine=\"0\"} 0.29999\n": true,
		"vllm:generation_tokens_total{engine=\"0\"} 80\n":                                                             true,
		"vllm:generation_tokens_total{engine=\"0\"} 49\n":                                                             false,
		"vllm:generation_tokens_total 80\nprocess_start_time_seconds 1.79604468058e+09\n":                             false,
	} {
		m, err := metrics.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		if err := sameProcess(m, round); (err == nil) != same {
			t.Errorf("%q: %v", page, err)
		}
	}
}

func TestNothingIsSentToABusyServer(t *testing.T) {
	server := recordedServer(t)
	var posts atomic.Int64
	running := regexp.MustCompile(`(?m)^(vllm:num_requests_running.*) .*$`)
	url := others(t, server, func(r *http.Request) bool {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
		return false
	}, func(page string) string { return running.ReplaceAllString(page, "$1 3.0") })
	s := open(t, t.TempDir(), Options{Target: url, TraceDir: server.TraceDir})
	s.calm = time.Millisecond
	if _, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 10}); err == nil || !strings.Contains(err.Error(), "other people's requests keep the server busy: 3 running") {
		t.Errorf("%v", err)
	}
	if posts.Load() != 0 {
		t.Errorf("%d requests were sent", posts.Load())
	}
}

func TestLimitsThatAreGivenAreNotReplaced(t *testing.T) {
	t.Setenv("ROOFLAB_MAX_STREAMS", "8")
	t.Setenv("ROOFLAB_MAX_SECONDS", "60")
	t.Setenv("ROOFLAB_MAX_TRACE_BYTES", "")
	got, err := Limits{Streams: 4}.fill()
	if want := (Limits{4, time.Minute, defaultTraceBytes}); got != want || err != nil {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"0", "-1", "1e3", "9223372037"} { // the last does not fit into ns
		t.Setenv("ROOFLAB_MAX_SECONDS", bad)
		if _, err := (Limits{}).fill(); err == nil || !strings.Contains(err.Error(), "ROOFLAB_MAX_SECONDS") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Not every key has a form: a cell that prints its environment must not be published.
func TestArchiveRefusesTheKeyOfTheServer(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "notebooks", "a.ipynb"), strings.NewReader(`{"text": ["ROOFLAB_API_KEY=letmein-please\n"]}`)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOFLAB_API_KEY", "")
	t.Setenv("ROOFLAB_API_KEY_FILE", "")
	if _, err := Archive(dir, ""); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOFLAB_API_KEY", "letmein-please")
	_, err := Archive(dir, "")
	if err == nil || !strings.Contains(err.Error(), "notebooks/a.ipynb:1 holds the API key of the server") || strings.Contains(err.Error(), "letmein") {
		t.Errorf("%v", err)
	}
}

func TestPublishedCommandLinesNameNoMachine(t *testing.T) {
	client, err := vllm.New(vllm.Options{Target: "http://gpu7:8000"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{client: client}
	process, err := launch.Process([]byte("vllm\x00serve\x00/m\x00--host\x00gpu7\x00"), []byte("VLLM_HOST_IP=gpu7.example.org\x00"))
	if err != nil {
		t.Fatal(err)
	}
	p := Preflight{Process: process, PID: 5, Drifts: launch.Drifts{{Item: "host", Process: "gpu7"}}}
	if !strings.Contains(p.ProcessTable().Text(), "gpu7") {
		t.Fatal("the report of the command line leaves it out as well")
	}
	s.publish(&p)
	for _, table := range []data.Table{p.ProcessTable(), p.DriftTable()} {
		if text := table.Text(); strings.Contains(text, "gpu7") {
			t.Errorf("%s names the machine:\n%s", table.ID, text)
		}
	}
}

func TestTraceThatClaimsTooManyRanksIsNotWaitedFor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a_rank0.1.pt.trace.json")
	if err := os.WriteFile(name, []byte(`{"distributedInfo": {"rank": 0, "world_size": 9223372036854775807}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := inspectTrace(name, 1); err != nil || got.world != 1 {
		t.Errorf("%d ranks, %v", got.world, err)
	}
}

// aboutAfter finds the notes that depend on how busy this machine is.
func aboutAfter(note string) bool {
	return strings.HasPrefix(note, afterProfile) || strings.HasPrefix(note, withProfiler) || strings.Contains(note, "short of CPU time")
}

// A round whose pass after the profile is measured again must not keep what was said about the one before.
func TestNoteOfAPassIsReplacedWithIt(t *testing.T) {
	server := recordedServer(t)
	s := open(t, t.TempDir(), Options{Target: live(t, server, nil), TraceDir: server.TraceDir})
	s.patience = 300 * time.Millisecond
	o := RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2}
	if _, err := s.Round(o); err != nil {
		t.Fatal(err)
	}
	run, err := s.readRun()
	if err != nil {
		t.Fatal(err)
	}
	run.Rounds[0].After = nil
	run.Rounds[0].Notes = append(run.Rounds[0].Notes, noteAfter+"99 % longer than before")
	if err := s.writeRun(run); err != nil {
		t.Fatal(err)
	}
	r, err := s.Round(o)
	if text := strings.Join(r.Notes, "; "); err != nil || r.After == nil || strings.Contains(text, "99 %") {
		t.Errorf("%q %v", text, err)
	}
}

// Two engines of a data-parallel server both have a rank 0.
func TestTracesOfTheSameRankAreNotDroppedInSilence(t *testing.T) {
	got := newest(map[string]traceInfo{
		"dp0_rank0": {name: "dp0_rank0", rank: 0, mod: 1}, "dp1_rank0": {name: "dp1_rank0", rank: 0, mod: 2}, "dp0_rank1": {name: "dp0_rank1", rank: 1, mod: 1}})
	if len(got) != 2 || got[0].name != "dp1_rank0" || got[0].others != 1 || got[1].others != 0 {
		t.Errorf("%+v", got)
	}
	if note := fmt.Sprintf(noteOthers, 0, 1); !aboutTraces(note) {
		t.Errorf("%q would stay when the traces are collected again", note)
	}
}

func TestPublishedTextsKeepTheirWords(t *testing.T) {
	client, err := vllm.New(vllm.Options{Target: "http://127.0.0.1:8000"})
	if err != nil {
		t.Fatal(err)
	}
	host, err := target.Parse("ssh:root@gpu7+docker:vllm")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{client: client, host: host}
	p := Preflight{Where: "no process of vLLM runs on ssh:root@gpu7+docker:vllm; run ncu as root on gpu7"}
	s.publish(&p)
	if want := "no process of vLLM runs on the server's machine; run ncu as root on host"; p.Where != want {
		t.Errorf("%q", p.Where)
	}
}

func TestOwnAddressesAreHere(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "0.0.0.0": true, "192.0.2.7": false, "gpu7.example.org": false}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok {
			names[n.IP.String()] = true
		}
	}
	for name, want := range names {
		if here(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// What cannot work is refused before the server has anything to do.
func TestLengthsThatTheServerDoesNotAllowAreRefused(t *testing.T) {
	server := startServer(t)
	posts := 0
	server.seen = func(r *http.Request) {
		if r.Method == http.MethodPost {
			posts++
		}
	}
	s := server.open(t, t.TempDir(), Options{})
	for words, o := range map[string]RoundOptions{
		"4000 prompt and 97 output tokens are more than the 4096 tokens of one request that the server allows (max_model_len)": {Streams: 1, InputTokens: 4000, OutputTokens: 97},
		"-1 prompt and 8 output tokens: give at least 1 of each":                                                               {Streams: 1, InputTokens: -1, OutputTokens: 8},
		"give the number of streams": {Streams: -1},
	} {
		if _, err := s.Round(o); err == nil || !strings.Contains(err.Error(), words) || posts > 0 {
			t.Errorf("%v, %d requests, want %q", err, posts, words)
		}
	}
}
