package campaign

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

// archived is the recorded campaign of this checkout.
func archived() string { return filepath.Join(sharedtest.Root(), filepath.FromSlash(recorded)) }

// recordedServer plays the archived campaign as slowly as it was recorded, until the test ends.
func recordedServer(t *testing.T) *replay.Server {
	t.Helper()
	server, err := replay.Start(context.Background(), replay.Options{Dir: archived(), Speed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

// open makes a campaign folder and opens it on a replay of the archived campaign.
func open(t *testing.T, dir string, o Options) *Session {
	t.Helper()
	t.Setenv("ROOFLAB_TARGET", "")
	t.Setenv("ROOFLAB_CAMPAIGN", "")
	t.Setenv("ROOFLAB_TRACE_DIR", "")
	if err := Init(dir, archived()); err != nil {
		t.Fatal(err)
	}
	o.Dir = dir
	if o.Target == "" {
		o.Target = "replay:" + archived()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRoundsOfAReplayGiveTheRecordedFiguresTwice(t *testing.T) {
	var before []data.Round
	for range 2 {
		s := open(t, t.TempDir(), Options{})
		var rounds []data.Round
		for _, c := range []int{1, 64, 256} {
			began := time.Now()
			r, err := s.Round(RoundOptions{Streams: c})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("C = %d: %v", c, time.Since(began))
			rounds = append(rounds, r)
			checkRecorded(t, s, r)
		}
		if s.server.ProfileOpen() {
			t.Error("a profile was left open")
		}
		if _, err := os.Stat(s.journalPath()); !os.IsNotExist(err) {
			t.Error("the journal was left behind")
		}
		if before != nil {
			if diff := cmp.Diff(before, rounds); diff != "" {
				t.Errorf("the second campaign differs from the first (-first +second):\n%s", diff)
			}
		}
		before = rounds
	}
}

// checkRecorded compares a replayed round with the archive's.
func checkRecorded(t *testing.T, s *Session, got data.Round) {
	t.Helper()
	var run data.Run
	if err := readJSON(filepath.Join(archived(), "runs", s.run, runFile), &run); err != nil {
		t.Fatal(err)
	}
	for _, want := range run.Rounds {
		if want.Streams != got.Streams {
			continue
		}
		u := *want.Unprofiled
		u.Recorded = true
		if diff := cmp.Diff(u, *got.Unprofiled); diff != "" {
			t.Errorf("C = %d (-recorded +replayed):\n%s", got.Streams, diff)
		}
		if diff := cmp.Diff(want.Traces, got.Traces); diff != "" {
			t.Errorf("C = %d, traces (-recorded +replayed):\n%s", got.Streams, diff)
		}
		return
	}
	t.Fatalf("the archive has no round of %d streams", got.Streams)
}

func TestFinishedRoundIsNotMeasuredAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	first, err := s.Round(RoundOptions{Streams: 64})
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, Options{})
	second, err := again.Round(RoundOptions{Streams: 64})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	m, err := again.client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := m.Sum("vllm:generation_tokens_total"); n != 0 {
		t.Errorf("the finished round was measured again: %v tokens", n)
	}
}

func TestLineIntroducesACampaignThatNobodyDescribed(t *testing.T) {
	c := data.Campaign{ID: "kimi", Main: mainRun, Measured: "2026-12-01", Model: data.Model{Served: "tiny-moe"},
		Hardware: data.Hardware{Engine: engineTitle(data.Environment{Engine: engineVLLM, Version: "0.32.0"})}}
	if got, want := Line(c), "Campaign kimi · tiny-moe · vLLM 0.32.0 · measured 1 December 2026"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Main = "eager"
	if got := Line(c); !strings.HasPrefix(got, "Campaign eager · ") {
		t.Errorf("%q", got)
	}
}
