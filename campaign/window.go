package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rooflab/rooflab/campaign/load"
	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// window makes the load again, profiles a window of it and collects the traces.
func (s *Session) window(ctx context.Context, round *data.Round, o RoundOptions, opts load.Options, model vllm.Model) error {
	profile := vllm.ProfileOptions{}
	if s.about != nil {
		opts.Hold, opts.OutputTokens = holdTokens, 2*holdTokens+o.WindowSteps
	} else {
		opts.OutputTokens = longAnswer(o, model)
		profile = vllm.ProfileOptions{Prefix: s.prefix(round.Streams), MaxIterations: backstop(o.WindowSteps)}
	}
	if done, err := s.collectLeft(ctx, round); done || err != nil {
		return err
	}
	seen, err := s.roomForTraces(ctx, *round)
	if err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	start, err := s.client.Metrics(ctx)
	if err != nil {
		return err
	}
	if s.about == nil {
		if err := sameProcess(start, *round); err != nil {
			return err
		}
	}
	s.tell("with the profiler", "all streams begin")
	pass, err := load.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer pass.Stop()
	if _, err := pass.AllDecode(ctx); err != nil {
		return err
	}
	h, err := s.profiled(ctx, profile, func() error {
		s.tell("with the profiler", fmt.Sprintf("%d steps", o.WindowSteps))
		pass.OpenWindow()
		defer pass.CloseWindow()
		limit, cancel := context.WithTimeout(ctx, time.Duration(o.WindowSeconds*float64(time.Second)))
		defer cancel()
		if err := pass.Steps(limit, o.WindowSteps); err != nil && limit.Err() == nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	pass.Stop()
	end, err := s.client.Metrics(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the server does not answer after the profile: %w", err)
	}
	if metrics.Restarted(start, end) {
		return fmt.Errorf("the server was started again during the profile; see its log (a worker that dies while it writes a trace takes the server down)")
	}
	if s.about == nil { // a replay repeats the unprofiled gaps: no measurement of what the profiler costs
		result, err := pass.Wait()
		if err != nil {
			return err
		}
		if result.Foreign != "" {
			return fmt.Errorf("%s, while the profile was open: %w", result.Foreign, errForeign)
		}
		round.Profiled, round.StartNs, round.StopNs = &result.LoadResult, h.start.Nanoseconds(), h.stop.Nanoseconds()
		noteOfPass(round, withProfiler, result.Notes)
		if err := s.keepSamples(*round, "profiled", result.Samples); err != nil {
			return err
		}
		if err := writeJSON(s.leftPath(round.Streams), leftTraces{*round, s.folder.String(), seen, profile.Prefix}); err != nil {
			return err
		}
	}
	return s.collect(ctx, round, seen, profile.Prefix)
}

// prefix names a round's traces on servers that take a name: they are told from an earlier round's and from other people's.
func (s *Session) prefix(streams int) string {
	return fmt.Sprintf("rooflab-%.60s-c%d-%s", s.run, streams, time.Now().UTC().Format("20060102T150405"))
}

// backstop is the number of steps after which a server stops the profile by itself, if it can: enough that it never cuts a
// window short, few enough that a profile which nobody can stop any more ends before it fills a disk.
func backstop(steps int) int { return min(max(4*steps, 64), 256) }

// longAnswer returns output tokens that outlast the start of the profiler, as far as the model's length allows.
func longAnswer(o RoundOptions, model vllm.Model) int {
	n := o.OutputTokens + o.WindowSteps + slackTokens
	if model.MaxModelLen > o.InputTokens {
		n = min(n, model.MaxModelLen-o.InputTokens)
	}
	return n
}

// spare is what a disk keeps free beside the traces of a round.
const spare = 1 << 30

// roomForTraces lists the traces that are there before the round, and refuses a round whose traces would not fit onto the
// server's disk.
func (s *Session) roomForTraces(ctx context.Context, round data.Round) (map[string]fileState, error) {
	seen, err := s.folder.list(ctx)
	if err != nil || s.about != nil {
		return seen, err
	}
	run, err := s.readRun()
	if err != nil {
		return nil, err
	}
	needed := spare + 4*s.expectedBytes(run, round) // the server writes the JSON before it compresses it
	free, err := s.folder.free(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for free space where the traces go: %w", err)
	}
	if free < needed {
		return nil, fmt.Errorf("only %s are free where the server writes its traces, about %s are needed: make room there", units.Bytes(free), units.Bytes(needed))
	}
	return seen, nil
}

// tooLarge says that a round's traces are not taken because of their size.
type tooLarge struct{ bytes, limit int64 }

const fewer = "give fewer steps, or raise --max-trace-bytes"

func (e *tooLarge) Error() string {
	return fmt.Sprintf("the traces of this round have %s, the limit is %s: %s; they stay on the server", units.Bytes(e.bytes), units.Bytes(e.limit), fewer)
}

// fits refuses a round whose traces would be above the limit, before anything is sent for it.
func (s *Session) fits(run data.Run, round data.Round) error {
	expected := s.expectedBytes(run, round)
	if s.about != nil || expected <= s.limits.TraceBytes {
		return nil
	}
	return fmt.Errorf("the traces of this round would have about %s, judged by those of earlier loads; the limit is %s: %s", units.Bytes(expected), units.Bytes(s.limits.TraceBytes), fewer)
}

// remember keeps how large traces were that were not taken, so that the next round is refused before they are written again.
func (s *Session) remember(run data.Run, round data.Round, err error) error {
	var large *tooLarge
	if !errors.As(err, &large) {
		return err
	}
	run.TooLarge = &data.TooLarge{Server: s.started, WindowSteps: round.WindowSteps, Bytes: large.bytes}
	return errors.Join(err, s.writeRun(run))
}

// expectedBytes judges a round's traces by the largest of the run: a step costs about the same whatever its streams.
func (s *Session) expectedBytes(run data.Run, round data.Round) int64 {
	var largest int64
	judge := func(bytes int64, steps int) {
		if steps > 0 {
			largest = max(largest, bytes*int64(round.WindowSteps)/int64(steps))
		}
	}
	for _, r := range run.Rounds {
		var sum int64
		for _, t := range r.Traces {
			sum += t.Bytes
		}
		judge(sum, r.WindowSteps)
	}
	if l := run.TooLarge; l != nil && l.Server == s.started { // another process may profile less
		judge(l.Bytes, l.WindowSteps)
	}
	return largest
}
