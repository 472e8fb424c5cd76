package vllm

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/internal/livevllm"
)

// TestRealServerDoesWhatTheClientSays asks a running vLLM, behind an API key, for all that the client knows of it.
func TestRealServerDoesWhatTheClientSays(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := livevllm.Start(t, livevllm.Options{APIKey: secretKey})
	ctx := context.Background()
	c, err := New(Options{Target: server.URL, APIKey: secretKey})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	version, err := c.Version(ctx)
	if err != nil || !StartReadsOptions(version) || !StartTellsOpen(version) {
		t.Fatalf("version %q, %v", version, err)
	}
	if p := c.Profiler(ctx, version); p.Configured != "yes" {
		t.Errorf("%+v", p)
	}
	if m, err := c.CheckModel(ctx, livevllm.Model); err != nil || m.OwnedBy != "vllm" || m.MaxModelLen == 0 {
		t.Errorf("%+v %v", m, err)
	}
	wrong, err := New(Options{Target: server.URL, APIKey: "another"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = wrong.Models(ctx)
	wantError(t, "another key", err, nil, "401", "API key in ROOFLAB_API_KEY")

	before, err := c.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const streams, tokens = 2, 900
	done := make(chan error, streams)
	for range streams {
		go func() {
			_, err := c.Stream(ctx, Completion{Model: livevllm.Model, Prompt: []int{3, 4, 5}, MaxTokens: tokens}, time.Now(), func(Chunk) {})
			done <- err
		}()
	}
	for running := 0; running < streams; time.Sleep(5 * time.Millisecond) {
		s, err := c.Metrics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if running, _, _ = metrics.Traffic(s); len(done) > 0 {
			t.Fatal("a stream has ended before both were seen to run")
		}
	}
	honoured, err := c.StartProfile(ctx, ProfileOptions{Prefix: "live-c2", MaxIterations: 200})
	if err != nil || !honoured {
		t.Fatalf("honoured %v, %v", honoured, err)
	}
	if _, err := c.StartProfile(ctx, ProfileOptions{}); !errors.Is(err, ErrAlreadyProfiling) {
		t.Errorf("a second start: %v", err)
	}
	other := make(chan error)
	go func() { other <- c.StopProfile(ctx) }()
	if err := c.StopProfile(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-other; err != nil {
		t.Errorf("a stop beside it: %v", err)
	}
	if err := c.StopProfile(ctx); err != nil {
		t.Errorf("a stop without a profile: %v", err)
	}
	for range streams {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(server.TraceDir, "*.pt.trace.json.gz"))
	if err != nil || len(names) != 1 || !strings.HasPrefix(filepath.Base(names[0]), "live-c2_") {
		t.Errorf("traces %v %v", names, err)
	}
	after, err := c.Metrics(ctx)
	if err != nil || metrics.Restarted(before, after) {
		t.Errorf("restarted, or %v", err)
	}
	if d := metrics.Compare(before, after, metrics.NamesOf(after).GenerationTokens); d.Increase() != streams*tokens {
		t.Errorf("%v tokens were generated, %d were sent", d.Increase(), streams*tokens)
	}
}
