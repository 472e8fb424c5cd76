package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/campaign/load"
	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// passTries is how often a pass is made when other people's requests run during it.
const passTries = 3

// errForeign means that figures are of no use because the server worked for others, too.
var errForeign = errors.New("nothing of this pass is kept, because its figures would be those of both; measure when the server is quiet")

// before measures the load without the profiler, and what the server's counters did meanwhile.
// A live server is warmed up before: its first requests compile and fill caches, which no later ones do.
func (s *Session) before(ctx context.Context, run *data.Run, round *data.Round, o load.Options) error {
	if s.about == nil {
		if err := s.quiet(ctx); err != nil {
			return err
		}
		s.tell("warm up", "")
		warm := o
		warm.OutputTokens = min(warmTokens, o.OutputTokens)
		if _, err := load.Run(ctx, warm); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
		m, err := s.client.Metrics(ctx)
		if err != nil {
			return err
		}
		if err := s.keepAnswers(ctx, m); err != nil {
			return err
		}
	}
	result, deltas, err := s.pass(ctx, *round, "without the profiler", o)
	if err != nil {
		return err
	}
	round.Unprofiled, round.Metrics = &result.LoadResult, deltas
	for _, e := range result.Errors {
		round.Notes = append(round.Notes, "failed requests, "+e)
	}
	round.Notes = append(round.Notes, result.Notes...)
	if err := s.forget(run, round.Streams); err != nil {
		return err
	}
	return s.keepSamples(*round, "before", result.Samples)
}

// after makes the first pass again. What differs is what the profiler left behind, or noise.
func (s *Session) after(ctx context.Context, round *data.Round, o load.Options) error {
	result, _, err := s.pass(ctx, *round, "without the profiler, once more", o)
	if err != nil {
		return err
	}
	round.After = &result.LoadResult
	noteOfPass(round, afterProfile, result.Notes)
	if was := round.Unprofiled.SteadyITLNs; was > 0 && result.SteadyITLNs > was+was/20 {
		round.Notes = append(round.Notes, fmt.Sprintf(noteAfter+"%s %% longer than before: the profiler left something behind, or the server changed", units.Percent(result.SteadyITLNs-was, was, 1)))
	}
	return s.keepSamples(*round, "after", result.Samples)
}

// How notes begin that are about the later passes.
const (
	withProfiler = "with the profiler"
	afterProfile = "after the profile"
	noteAfter    = afterProfile + " the steady ITL was "
)

// noteOfPass puts what a later pass has to say into the round's notes, in place of what it said before. What the first pass
// said holds for all.
func noteOfPass(round *data.Round, pass string, notes []string) {
	round.Notes = slices.DeleteFunc(round.Notes, func(n string) bool { return strings.HasPrefix(n, pass) })
	for _, n := range notes {
		if !slices.Contains(round.Notes, n) {
			round.Notes = append(round.Notes, pass+": "+n)
		}
	}
}

// pass makes the load when the server is quiet, again if others came in between, and returns what the server's counters did.
func (s *Session) pass(ctx context.Context, round data.Round, what string, o load.Options) (load.Result, []data.Delta, error) {
	for try := 1; ; try++ {
		if err := s.quiet(ctx); err != nil {
			return load.Result{}, nil, err
		}
		s.tell(what, requests(max(o.Requests, o.Streams)))
		before, err := s.client.Metrics(ctx)
		if err != nil {
			return load.Result{}, nil, err
		}
		if s.about == nil {
			if err := sameProcess(before, round); err != nil {
				return load.Result{}, nil, err
			}
		}
		result, err := load.Run(ctx, o)
		if ctx.Err() != nil {
			return result, nil, ctx.Err()
		}
		if err != nil {
			return result, nil, err
		}
		after, err := s.client.Metrics(ctx)
		if err != nil {
			return result, nil, err
		}
		if metrics.Restarted(before, after) {
			return result, nil, fmt.Errorf("the server was started again during the pass; see its log")
		}
		if result.Foreign == "" {
			return result, deltas(before, after), nil
		}
		if try == passTries {
			return result, nil, fmt.Errorf("%s, in %d passes: %w", result.Foreign, try, errForeign)
		}
	}
}

// quiet waits until the server runs nobody's requests: ours of an earlier pass, which take a moment to go, or other people's.
func (s *Session) quiet(ctx context.Context) error {
	if s.about != nil {
		return nil
	}
	for until := time.Now().Add(s.calm); ; {
		m, err := s.client.Metrics(ctx)
		if err != nil {
			return err
		}
		running, waiting, ok := metrics.Traffic(m)
		if !ok || running+waiting == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("other people's requests keep the server busy: %d running, %d waiting after %v; measure when it is quiet", running, waiting, s.calm)
		}
		s.tell("wait for other requests to end", fmt.Sprintf("%d running, %d waiting", running, waiting))
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// deltas are what the counters of the server did: tokens, requests, preemptions, prefix hits, steps, drafts.
func deltas(before, after metrics.Scrape) []data.Delta {
	var ds []data.Delta
	for _, name := range metrics.NamesOf(after).Counters() {
		if d := metrics.Compare(before, after, name); d.Found {
			ds = append(ds, data.Delta{Name: name, Before: d.Before, After: d.After})
		}
	}
	return ds
}

// keepSamples keeps when every token of a live pass came: c64_before.jsonl.gz, c64_profiled.jsonl.gz, c64_after.jsonl.gz.
func (s *Session) keepSamples(round data.Round, pass string, samples []load.Sample) error {
	if s.about != nil {
		return nil
	}
	pr, pw := io.Pipe()
	go func() {
		z := gzip.NewWriter(pw)
		err := load.WriteSamples(z, samples)
		pw.CloseWithError(errors.Join(err, z.Close()))
	}()
	defer pr.Close()
	return writeFile(s.local(s.samplesName(round, pass)), pr)
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}
