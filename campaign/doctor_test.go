package campaign

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

func TestWhatStoppedRunsLeftIsFound(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if left, err := Find(dir); err != nil || left.Profile != nil || len(left.Rounds)+len(left.Partial) != 0 {
		t.Fatalf("%+v %v", left, err)
	}
	run := data.Run{Schema: 1, Name: s.run, Rounds: []data.Round{
		{Streams: 1, Server: 5, Unprofiled: &data.LoadResult{}},
		{Streams: 4, Server: 5, Unprofiled: &data.LoadResult{}, Traces: []data.TraceFile{{Rank: 2, File: data.File{Path: "runs/x"}}}, After: &data.LoadResult{}},
		{Streams: 8, Unprofiled: &data.LoadResult{}},
	}}
	if err := s.writeRun(run); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, ".fetch", "a.trace.json.gz"), strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(journalPath(dir), journal{Target: s.client.Target(), Streams: 4, Opened: 60, PID: 1 << 22}); err != nil {
		t.Fatal(err)
	}
	left, err := Find(dir)
	want := Left{Dir: dir, Profile: &Profile{Target: s.client.Target(), Streams: 4, Opened: "1970-01-01 00:01:00 UTC", PID: 1 << 22},
		Rounds:  []LeftRound{{s.run, 1, "the profiled window", false}, {s.run, 4, "the trace of rank 2", false}},
		Partial: []string{"a.trace.json.gz"}}
	if diff := cmp.Diff(want, left); diff != "" || err != nil {
		t.Errorf("-want +got:\n%s%v", diff, err)
	}
}

// TestRoundThatIsMeasuredAgainIsFound stops the next round of the same load wherever it can: what it lacks is told, and that the
// finished one is still there.
func TestRoundThatIsMeasuredAgainIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(*http.Request) bool
		want   []LeftRound
	}{
		"in the first pass":                   {at("/v1/completions", 2), []LeftRound{}}, // nothing of it is there
		"before the window":                   {at("/start_profile", 1), []LeftRound{{"hostmem", 1, "the profiled window", true}}},
		"in the last pass":                    {at("/v1/completions", 4), []LeftRound{{"hostmem", 1, "the pass after the profile", true}}},
		"nowhere, so that it is the only one": {nil, []LeftRound{}},
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := startServer(t), t.TempDir()
			o := Options{Run: "hostmem"}
			if _, err := server.open(t, dir, o).Round(short); err != nil {
				t.Fatal(err)
			}
			server.refuse = c.refuse
			s := server.open(t, dir, o)
			if _, err := s.Round(longer); (err == nil) != (c.refuse == nil) {
				t.Fatal(err)
			}
			left, err := Find(dir)
			if diff := cmp.Diff(c.want, left.Rounds); diff != "" || err != nil {
				t.Errorf("-want +got:\n%s%v", diff, err)
			}
			server.refuse = nil
			if _, err := server.open(t, dir, o).Round(longer); err != nil {
				t.Fatal(err)
			}
			if left, err := Find(dir); err != nil || len(left.Rounds) > 0 {
				t.Errorf("of the round that went on: %+v %v", left.Rounds, err)
			}
			if err := writeJSON(s.begunPath(1), data.Round{Streams: 1}); err != nil { // of a process that was killed before it removed it
				t.Fatal(err)
			}
			if left, err := Find(dir); err != nil || len(left.Rounds) > 0 {
				t.Errorf("beside a finished round: %+v %v", left.Rounds, err)
			}
		})
	}
}

// A server that does not say when it began is live all the same.
func TestRoundOfASGLangServerIsFound(t *testing.T) {
	counted := []data.Delta{{Name: "sglang:generation_tokens_total", After: 9}}
	for want, r := range map[string]data.Round{
		"the profiled window":        {Unprofiled: &data.LoadResult{}, Metrics: counted},
		"the pass after the profile": {Unprofiled: &data.LoadResult{}, Metrics: counted, Traces: make([]data.TraceFile, 1), StopNs: 5},
		"":                           {Unprofiled: &data.LoadResult{Recorded: true}, Metrics: counted},
	} {
		if got := missing(t.TempDir(), r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A profile that another process is working with is not closed under its hands; when that process has died, it is.
func TestProfileIsLeftToTheProcessThatMeasures(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	ctx := context.Background()
	if _, err := s.client.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	began, err := processStart(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(s.journalPath(), journal{Target: s.client.Target(), PID: other.Process.Pid, Began: began}); err != nil {
		t.Fatal(err)
	}
	if left, err := Find(s.dir); err != nil || !left.Profile.InUse {
		t.Errorf("%+v %v", left.Profile, err)
	}
	short, cancel := context.WithTimeout(ctx, 300e6)
	defer cancel()
	if _, err := CloseLostProfile(short, s.dir); err == nil || !s.server.ProfileOpen() {
		t.Fatalf("the profile was closed while its process lives (%v)", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if was, err := CloseLostProfile(ctx, s.dir); !was || err != nil {
		t.Errorf("%v %v", was, err)
	}
	closed(t, s, "after its process died")
	// The number is another process's by now.
	if err := writeJSON(s.journalPath(), journal{Target: s.client.Target(), PID: os.Getppid(), Began: "1"}); err != nil {
		t.Fatal(err)
	}
	if was, err := CloseLostProfile(ctx, s.dir); !was || err != nil {
		t.Errorf("%v %v", was, err)
	}
}

// What a killed process wrote about its work is not what goes on.
func TestWorkOfAKilledProcessIsNotShownAsGoingOn(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	began, err := processStart(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := Progress{Stage: "C = 64: without the profiler", Detail: "12 of 64 requests", PID: other.Process.Pid, Began: began}
	if err := writeJSON(progressPath(s.dir), p); err != nil {
		t.Fatal(err)
	}
	work := Work{PID: p.PID, Doing: "C = 64: without the profiler, 12 of 64 requests"}
	if left, err := Find(s.dir); err != nil || left.Work == nil || *left.Work != work || ReadProgress(s.dir) != p {
		t.Errorf("of a living process: %+v %v", left.Work, err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it says that it was killed
	work.Gone = true
	if left, err := Find(s.dir); err != nil || left.Work == nil || *left.Work != work {
		t.Errorf("of a killed process: %+v %v", left.Work, err)
	}
	if now := ReadProgress(s.dir); now != (Progress{}) {
		t.Errorf("a killed process is at %+v", now)
	}
	p.PID = os.Getpid() // the number is another process's by now
	if err := writeJSON(progressPath(s.dir), p); err != nil {
		t.Fatal(err)
	}
	if now := ReadProgress(s.dir); now != (Progress{}) {
		t.Errorf("a process with the number of a killed one is at %+v", now)
	}
	if _, err := s.Round(RoundOptions{Streams: 1}); err != nil {
		t.Fatal(err)
	}
	if left, err := Find(s.dir); err != nil || left.Work != nil {
		t.Errorf("after a round that came to its end: %+v %v", left.Work, err)
	}
}
