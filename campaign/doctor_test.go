package campaign

import (
	"context"
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
		Rounds:  []LeftRound{{s.run, 1, "the profiled window"}, {s.run, 4, "the trace of rank 2"}},
		Partial: []string{"a.trace.json.gz"}}
	if diff := cmp.Diff(want, left); diff != "" || err != nil {
		t.Errorf("-want +got:\n%s%v", diff, err)
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
