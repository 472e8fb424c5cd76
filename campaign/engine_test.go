package campaign

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/campaign/sglang/fake"
	"github.com/rooflab/rooflab/campaign/vllm"
)

func TestRoundAgainstSGLang(t *testing.T) {
	prof := filepath.Join(t.TempDir(), "prof")
	server, err := fake.Start(fake.Options{TP: 2, Key: "the-key", Dir: prof})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("ROOFLAB_API_KEY", "the-key")
	dir := t.TempDir()
	if err := Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir, Target: server.URL, TraceDir: prof})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Server()
	if err != nil || info.Version != "0.5.4" || info.Profiler != "yes" || info.Running != 0 || len(info.Models) != 1 {
		t.Errorf("%+v %v", info, err)
	}
	if server.ProfileOpen() {
		t.Fatal("asking about the server started a profile")
	}
	round, err := s.Round(RoundOptions{Streams: 4, InputTokens: 8, OutputTokens: 40, WindowSteps: 8})
	if err != nil {
		t.Fatal(err)
	}
	if server.ProfileOpen() || exists(s.journalPath()) {
		t.Error("a profile is left open")
	}
	if len(round.Traces) != 2 || round.WorldSize != 2 || round.Unprofiled == nil || round.Unprofiled.OutputTokens != 160 {
		t.Errorf("%+v", round)
	}
	for _, n := range round.Notes {
		if strings.Contains(n, "no decode step") {
			t.Errorf("note: %s", n)
		}
	}
	if started := server.Started(); len(started) != 1 || !strings.Contains(started[0], `"with_stack":false`) || !strings.Contains(started[0], prof) {
		t.Errorf("starts %q", started)
	}
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if strings.Contains(string(b), "the-key") {
			t.Errorf("%s holds the API key", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestProfileThatAKilledProcessLeftOnSGLangIsClosed(t *testing.T) {
	server, err := fake.Start(fake.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	c, err := connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	for _, again := range []bool{false, true} { // the second time it has ended before
		if _, err := speak(engineSGLang, c, "").StartProfile(context.Background(), vllm.ProfileOptions{MaxIterations: 1}); err != nil {
			t.Fatal(err)
		}
		if again {
			if err := speak(engineSGLang, c, "").StopProfile(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeJSON(journalPath(dir), journal{Target: server.URL, Engine: engineSGLang}); err != nil {
			t.Fatal(err)
		}
		if found, err := CloseLostProfile(context.Background(), dir); !found || err != nil || exists(journalPath(dir)) || server.ProfileOpen() {
			t.Errorf("%v %v", found, err)
		}
	}
}

func TestWrongKeyIsSaidBeforeAnythingIsMeasured(t *testing.T) {
	server, err := fake.Start(fake.Options{Key: "the-key"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("ROOFLAB_API_KEY", "another-key")
	dir := t.TempDir()
	if err := Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir, Target: server.URL, TraceDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Round(RoundOptions{Streams: 1})
	if err == nil || !strings.Contains(err.Error(), "ROOFLAB_API_KEY") || strings.Contains(err.Error(), "another-key") || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
