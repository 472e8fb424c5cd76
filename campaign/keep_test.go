package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// short and longer are two rounds of the same load.
var (
	short  = RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2}
	longer = RoundOptions{Streams: 1, OutputTokens: 12, WindowSteps: 2}
)

// fakeServer is a live server that fails where a test says.
type fakeServer struct {
	*replay.Server
	url     string
	seen    func(r *http.Request) // every request but those of /metrics
	refuse  func(r *http.Request) bool
	process atomic.Int64 // when it started
	answers atomic.Int64 // requests for completions
}

var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds .*$`)

func startServer(t *testing.T) *fakeServer {
	t.Helper()
	r := recordedServer(t)
	s := &fakeServer{Server: r}
	s.process.Store(1000)
	s.url = others(t, r, s.take, func(page string) string {
		return startTime.ReplaceAllString(page, fmt.Sprintf("process_start_time_seconds %d", s.process.Load()))
	})
	return s
}

func (s *fakeServer) take(r *http.Request) (refused bool) {
	if s.seen != nil && r.URL.Path != "/metrics" {
		s.seen(r)
	}
	if r.URL.Path == "/v1/completions" {
		s.answers.Add(1)
	}
	return s.refuse != nil && s.refuse(r)
}

func (s *fakeServer) open(t *testing.T, dir string, o Options) *Session {
	t.Helper()
	o.Target, o.TraceDir = s.url, s.TraceDir
	c := open(t, dir, o)
	c.patience = 100 * time.Millisecond // the second rank was not kept
	return c
}

// whole checks that run.json has one finished round of the load, with its traces and the times of its tokens, and returns it.
func whole(t *testing.T, s *Session) data.Round {
	t.Helper()
	run, err := s.readRun()
	if err != nil || len(run.Rounds) != 1 {
		t.Errorf("%d rounds, %v", len(run.Rounds), err)
		return data.Round{}
	}
	r := run.Rounds[0]
	if !s.finished(r) {
		t.Errorf("the round of %d tokens in run.json is not finished: %+v", r.OutTokens, r)
	}
	for _, pass := range []string{"before", "profiled", "after"} {
		if !exists(s.local(s.samplesName(r, pass))) {
			t.Errorf("the times of the tokens of the pass %q are gone", pass)
		}
	}
	return r
}

func files(t *testing.T, s *Session) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(s.dir, "runs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// at refuses the n-th request to a path from now on, and all later ones.
func at(path string, n int64) func(*http.Request) bool {
	var seen atomic.Int64
	return func(r *http.Request) bool {
		return r.URL.Path == path && r.Method == http.MethodPost && seen.Add(1) >= n
	}
}

// TestFinishedRoundStaysUntilAnotherIsFinished breaks the next round of the same load wherever it can, and lets it go on. With
// every request, and so between all that is written, the finished one must be there.
func TestFinishedRoundStaysUntilAnotherIsFinished(t *testing.T) {
	for name, c := range map[string]struct {
		next    RoundOptions
		again   bool
		refuse  func(*http.Request) bool
		answers int64 // that are still asked for when the round goes on
	}{
		"other lengths, in the first pass":   {longer, false, at("/v1/completions", 2), 4},
		"other lengths, before the window":   {longer, false, at("/start_profile", 1), 2},
		"other lengths, in the last pass":    {longer, false, at("/v1/completions", 4), 1},
		"the same again, before the window":  {short, true, at("/start_profile", 1), 2},
		"the same again, after the profile":  {short, true, at("/v1/completions", 4), 1},
		"the same again, and nothing breaks": {short, true, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := startServer(t), t.TempDir()
			s := server.open(t, dir, Options{})
			first, err := s.Round(short)
			if err != nil {
				t.Fatal(err)
			}
			before := files(t, s)
			server.seen = func(*http.Request) { whole(t, s) }
			server.refuse = c.refuse
			s = server.open(t, dir, Options{Again: c.again})
			if _, err := s.Round(c.next); (err == nil) != (c.refuse == nil) {
				t.Fatal(err)
			}
			if c.refuse != nil {
				if kept := whole(t, s); kept.OutTokens != first.OutTokens || !cmp.Equal(kept.Unprofiled, first.Unprofiled) || kept.Traces[0].SHA256 != first.Traces[0].SHA256 {
					t.Errorf("another round took its place: %+v", kept)
				}
				server.refuse = nil
				server.answers.Store(0)
				s = server.open(t, dir, Options{Again: c.again})
				if _, err := s.Round(c.next); err != nil {
					t.Fatal(err)
				}
				if n := server.answers.Load(); n != c.answers {
					t.Errorf("%d answers were asked for when the round went on, want %d", n, c.answers)
				}
			}
			if kept := whole(t, s); kept.OutTokens != c.next.OutputTokens || cmp.Equal(kept.Unprofiled, first.Unprofiled) {
				t.Errorf("the new round is not in run.json: %+v", kept)
			}
			if diff := cmp.Diff(before, files(t, s)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

// TestRoundThatWasSetAsideIsReturned: who gives up the other round finds the first one as it was.
func TestRoundThatWasSetAsideIsReturned(t *testing.T) {
	server, dir := startServer(t), t.TempDir()
	s := server.open(t, dir, Options{})
	first, err := s.Round(short)
	if err != nil {
		t.Fatal(err)
	}
	server.refuse = at("/start_profile", 1)
	if _, err := s.Round(longer); err == nil {
		t.Fatal("the second round was made")
	}
	server.answers.Store(0)
	got, err := server.open(t, dir, Options{}).Round(short)
	if err != nil || server.answers.Load() != 0 {
		t.Fatalf("%v, %d requests", err, server.answers.Load())
	}
	got.Traces = slices.Clone(first.Traces)
	if diff := cmp.Diff(first, got); diff != "" {
		t.Error(diff)
	}
	if _, paths, err := s.Run(s.run); err != nil || len(paths) != len(first.Traces) {
		t.Errorf("%q %v", paths, err)
	}
}

// TestProfiledRoundStaysWhenItsServerStartsAgain: its last pass can never be made, yet its figures and traces are good.
func TestProfiledRoundStaysWhenItsServerStartsAgain(t *testing.T) {
	server, dir := startServer(t), t.TempDir()
	s := server.open(t, dir, Options{})
	server.refuse = at("/v1/completions", 4) // warm-up, before, profiled, after
	first, err := s.Round(short)
	if err == nil || !s.hasTraces(first) {
		t.Fatalf("%v %+v", err, first)
	}
	server.process.Store(2000)
	server.refuse = at("/start_profile", 1)
	if _, err := s.Round(short); err == nil {
		t.Fatal("a refused profile was no error")
	}
	run, err := s.readRun()
	if err != nil || len(run.Rounds) != 1 || run.Rounds[0].Server != 1000 || !s.hasTraces(run.Rounds[0]) {
		t.Fatalf("%+v %v", run.Rounds, err)
	}
	server.refuse = nil
	server.answers.Store(0)
	got, err := s.Round(short)
	if err != nil || got.Server != 2000 || server.answers.Load() != 2 {
		t.Errorf("%+v %v, %d requests", got, err, server.answers.Load())
	}
	if whole(t, s).Server != 2000 {
		t.Error("the new round is not in run.json")
	}
}

// TestTimesOfTokensAreNeverThoseOfAnotherRound stops a round when it has measured its first pass and is about to keep it.
// What was begun before it must not be taken up with the files that it may have written.
func TestTimesOfTokensAreNeverThoseOfAnotherRound(t *testing.T) {
	for name, finished := range map[string]bool{"beside a finished round": true, "without any": false} {
		t.Run(name, func(t *testing.T) {
			server, dir := startServer(t), t.TempDir()
			s := server.open(t, dir, Options{})
			if finished {
				if _, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 8, WindowSteps: 2}); err != nil {
					t.Fatal(err)
				}
			}
			server.refuse = at("/start_profile", 1)
			if _, err := s.Round(short); err == nil {
				t.Fatal("a refused profile was no error")
			}
			server.refuse = nil
			times := s.local("runs/" + s.run + "/c1_before.jsonl.gz")
			server.seen = func(r *http.Request) {
				if r.URL.Path == "/v1/completions" {
					os.Remove(times)
					os.MkdirAll(filepath.Join(times, "in the way"), 0o755)
				}
			}
			if _, err := s.Round(longer); err == nil {
				t.Fatal("a file that cannot be written was no error")
			}
			server.seen = nil
			if err := os.RemoveAll(times); err != nil {
				t.Fatal(err)
			}
			server.answers.Store(0)
			if _, err := server.open(t, dir, Options{}).Round(short); err != nil || server.answers.Load() != 4 {
				t.Errorf("%v, %d requests: the first pass was not made again", err, server.answers.Load())
			}
			whole(t, s)
		})
	}
}

// TestLeftoversOfAReplacedRoundCountForNothing: of a process that was killed when run.json had the new round already.
func TestLeftoversOfAReplacedRoundCountForNothing(t *testing.T) {
	server, dir := startServer(t), t.TempDir()
	s := server.open(t, dir, Options{})
	r, err := s.Round(short)
	if err != nil {
		t.Fatal(err)
	}
	before := files(t, s)
	leave := func() {
		r.After = nil
		if err := errors.Join(writeJSON(s.begunPath(1), r), writeFile(s.local("runs/"+s.run+"/old_c1_rank7.pt.trace.json.gz"), strings.NewReader("x"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []bool{false, true} {
		leave()
		server.answers.Store(0)
		s = server.open(t, dir, Options{Again: again})
		server.refuse = at("/v1/completions", 1) // as soon as the old round is set aside
		if _, err := s.Round(short); (err != nil) != again {
			t.Fatal(err)
		}
		server.refuse = nil
		if _, err := s.Round(short); err != nil || again && server.answers.Load() != 1+4 {
			t.Errorf("again %v: %v, %d requests", again, err, server.answers.Load())
		}
		if diff := cmp.Diff(before, files(t, s)); diff != "" {
			t.Errorf("files (-before +after):\n%s", diff)
		}
	}
}

// TestDamagedRoundThatWasSetAsideIsMeasuredAnew: what is measured then has names of its own, and stays.
func TestDamagedRoundThatWasSetAsideIsMeasuredAnew(t *testing.T) {
	server, dir := startServer(t), t.TempDir()
	s := server.open(t, dir, Options{})
	if _, err := s.Round(short); err != nil {
		t.Fatal(err)
	}
	before := files(t, s)
	server.refuse = at("/v1/completions", 1)
	if _, err := s.Round(longer); err == nil {
		t.Fatal("a refused request was no error")
	}
	server.refuse = nil
	if err := os.Remove(s.local("runs/" + s.run + "/old_c1_rank0.pt.trace.json.gz")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Round(short); err != nil {
		t.Fatal(err)
	}
	whole(t, s)
	if diff := cmp.Diff(before, files(t, s)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

func TestSecondNameSurvivesWhatHappensToTheFirst(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	write := func(name, text string) {
		if err := writeFile(s.local(name), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "one")
	write("b", "of an attempt that was killed")
	if err := s.link("a", "b"); err != nil {
		t.Fatal(err)
	}
	write("a", "two")
	if b, err := os.ReadFile(s.local("b")); err != nil || string(b) != "one" {
		t.Errorf("%q %v", b, err)
	}
	if err := s.link("none", "c"); !errors.Is(err, fs.ErrNotExist) || exists(s.local("c")) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestTracesAboveTheLimitAreNotWrittenTwice: not by the same process of the server; another one may profile less.
func TestTracesAboveTheLimitAreNotWrittenTwice(t *testing.T) {
	server, dir := startServer(t), t.TempDir()
	_, err := server.open(t, dir, Options{Limits: Limits{TraceBytes: 1000}}).Round(short)
	if err == nil || !strings.Contains(err.Error(), ": give fewer steps, or raise --max-trace-bytes; they stay on the server") {
		t.Fatal(err)
	}
	posts := 0
	server.seen = func(r *http.Request) {
		if r.Method == http.MethodPost {
			posts++
		}
	}
	for _, o := range []RoundOptions{short, longer} {
		_, err = server.open(t, dir, Options{Limits: Limits{TraceBytes: 1000}}).Round(o)
		if err == nil || !strings.Contains(err.Error(), "judged by those of earlier loads; the limit is 1.0"+units.HardSpace+"kB: give fewer steps, or raise --max-trace-bytes") || posts > 0 {
			t.Fatalf("%v, %d requests", err, posts)
		}
	}
	if _, err := server.open(t, dir, Options{}).Round(short); err != nil {
		t.Errorf("with a higher limit: %v", err)
	}
	server.process.Store(2000)
	s := server.open(t, t.TempDir(), Options{})
	run := data.Run{TooLarge: &data.TooLarge{Server: 1000, WindowSteps: 2, Bytes: 1e12}}
	for started, refused := range map[int64]bool{1000: true, 2000: false} {
		s.started = started
		if err := s.fits(run, data.Round{WindowSteps: 2}); (err != nil) != refused {
			t.Errorf("process of %d: %v", started, err)
		}
	}
}

func TestRoundSaysHowFullTheKVCacheWas(t *testing.T) {
	server := recordedServer(t)
	usage := regexp.MustCompile(`(?m)^(vllm:kv_cache_usage_perc.*) .*$`)
	url := others(t, server, func(*http.Request) bool { return false }, func(page string) string { return usage.ReplaceAllString(page, "$1 0.42") })
	s := open(t, t.TempDir(), Options{Target: url, TraceDir: server.TraceDir})
	s.patience = 100 * time.Millisecond
	r, err := s.Round(short)
	if err != nil || r.Unprofiled.KVCachePeak != 0.42 || r.Profiled.KVCachePeak != 0.42 || r.After.KVCachePeak != 0.42 {
		t.Errorf("%+v %v", r, err)
	}
	played, err := open(t, t.TempDir(), Options{}).Round(RoundOptions{Streams: 1})
	if err != nil || played.Unprofiled.KVCachePeak != 0 {
		t.Errorf("a replay measures nothing: %+v %v", played.Unprofiled, err)
	}
}

func TestNotesOfALaterPassAreItsOwn(t *testing.T) {
	r := data.Round{Notes: []string{"of all passes", withProfiler + ": old", noteAfter + "9 % longer"}}
	noteOfPass(&r, withProfiler, []string{"of all passes", "new"})
	noteOfPass(&r, afterProfile, nil)
	if diff := cmp.Diff([]string{"of all passes", withProfiler + ": new"}, r.Notes); diff != "" {
		t.Error(diff)
	}
}
