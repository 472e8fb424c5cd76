package campaign

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/campaign/load"
	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// RoundOptions describe one load. Zero values are the defaults named here.
// A replay always has the recorded lengths, and a note when others were asked for: its figures hold for no other.
type RoundOptions struct {
	Streams       int
	InputTokens   int     // of every prompt; 256
	OutputTokens  int     // of every answer in the unprofiled pass; 128
	WindowSteps   int     // decode steps to profile; 16
	WindowSeconds float64 // how long the window may last at most; 2
}

// Defaults of RoundOptions, and the tokens that a profiled pass has around its window.
const (
	defaultInput  = 256
	defaultOutput = 128
	defaultWindow = 16
	defaultSecond = 2
	holdTokens    = 4    // of every stream before a replay's window
	warmTokens    = 4    // of every stream before the unprofiled pass of a live server
	slackTokens   = 1024 // of every stream on a live server: decoding must not end while the profiler starts
)

// Round measures one load: a pass without profiler, then a second one in which a short window is profiled while all
// streams decode. The traces are copied into the campaign's folder and the round is kept in runs/<run>/run.json.
// A round that is there already with the same options is returned as it is; one that was stopped half-way goes on.
// Interrupting the process closes the profile first.
func (s *Session) Round(o RoundOptions) (data.Round, error) {
	return s.RoundContext(context.Background(), o)
}

// RoundContext is Round with a context: in a cell context.Background() ends when the cell is interrupted.
func (s *Session) RoundContext(ctx context.Context, o RoundOptions) (data.Round, error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	round, err := s.round(ctx, o)
	if err != nil {
		return round, fmt.Errorf("round C = %d: %w", o.Streams, err)
	}
	return round, nil
}

func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func (s *Session) round(ctx context.Context, o RoundOptions) (data.Round, error) {
	if err := s.askReplay(ctx); err != nil {
		return data.Round{}, err
	}
	round, err := s.plan(&o)
	if err != nil {
		return round, err
	}
	run, err := s.readRun()
	if err != nil {
		return round, err
	}
	if kept := find(run, round); kept != nil && !s.opts.Again {
		if s.finished(*kept) {
			return *kept, nil
		}
		round = *kept
		round.Notes = slices.Clone(kept.Notes) // of the pass that is not made again
	}
	model, err := s.ready(ctx)
	if err != nil {
		return round, err
	}
	if run.Environment.Version == "" {
		if run.Environment.Version, err = s.client.Version(ctx); err != nil {
			return round, err
		}
	}
	if round.Unprofiled == nil {
		if err := s.unprofiled(ctx, &round, s.loadOptions(o, model)); err != nil {
			return round, err
		}
		if err := s.keep(&run, round); err != nil {
			return round, err
		}
	}
	if s.noTrace(round.Streams) {
		return round, nil
	}
	if err := s.window(ctx, &round, o, s.loadOptions(o, model), model); err != nil {
		return round, err
	}
	return round, s.keep(&run, round)
}

// plan fills in defaults and refuses what cannot be measured.
func (s *Session) plan(o *RoundOptions) (data.Round, error) {
	var notes []string
	if s.about != nil {
		l, ok := s.about.Load(o.Streams)
		if !ok {
			var have []int
			for _, l := range s.about.Loads {
				have = append(have, l.Streams)
			}
			return data.Round{}, fmt.Errorf("%s/%s was not recorded with %d streams; recorded: %v", s.about.Campaign, s.about.Run, o.Streams, have)
		}
		if or(o.InputTokens, l.InputTokens) != l.InputTokens || or(o.OutputTokens, l.OutputTokens) != l.OutputTokens {
			notes = append(notes, fmt.Sprintf("recorded with %d prompt and %d output tokens", l.InputTokens, l.OutputTokens))
		}
		o.InputTokens, o.OutputTokens = l.InputTokens, l.OutputTokens
	}
	o.InputTokens, o.OutputTokens, o.WindowSteps = or(o.InputTokens, defaultInput), or(o.OutputTokens, defaultOutput), or(o.WindowSteps, defaultWindow)
	if o.WindowSeconds == 0 {
		o.WindowSeconds = defaultSecond
	}
	switch {
	case o.WindowSteps < 1 || o.WindowSteps > 256 || o.WindowSeconds < 0 || o.WindowSeconds > 60:
		return data.Round{}, fmt.Errorf("a window of %d steps and %g s: give 1 to 256 steps and at most 60 s, else traces get too large to read", o.WindowSteps, o.WindowSeconds)
	case o.Streams < 1:
		return data.Round{}, fmt.Errorf("give the number of streams, such as 1, 64 or 256")
	}
	round := data.Round{Streams: o.Streams, InputTokens: o.InputTokens, OutTokens: o.OutputTokens, WindowSteps: o.WindowSteps, Notes: notes}
	if s.about != nil {
		round.WindowSteps = 0 // the recorded trace has the window that it has
	}
	return round, nil
}

func or(v, otherwise int) int {
	if v == 0 {
		return otherwise
	}
	return v
}

// ready checks what a round needs before it disturbs anybody.
func (s *Session) ready(ctx context.Context) (vllm.Model, error) {
	if s.traceDir == "" {
		return vllm.Model{}, fmt.Errorf("the server writes traces on its own disk and does not name them: give --trace-dir, or set ROOFLAB_TRACE_DIR, to its torch_profiler_dir as seen from here")
	}
	model, err := s.served(ctx)
	if err != nil {
		return model, err
	}
	s.manifest.Model.Served = model.ID // kept with the first round
	return model, s.recoverProfile(ctx)
}

// noTrace says that a replay has figures of this load but no trace.
func (s *Session) noTrace(streams int) bool {
	if s.about == nil {
		return false
	}
	l, _ := s.about.Load(streams)
	return len(l.Ranks) == 0
}

func find(run data.Run, like data.Round) *data.Round {
	for i, r := range run.Rounds {
		if r.Streams == like.Streams && r.InputTokens == like.InputTokens && r.OutTokens == like.OutTokens && r.WindowSteps == like.WindowSteps {
			return &run.Rounds[i]
		}
	}
	return nil
}

// finished says that nothing is left to measure: the traces are there, byte for byte.
func (s *Session) finished(r data.Round) bool {
	if r.Unprofiled == nil || len(r.Traces) == 0 {
		return r.Unprofiled != nil && s.noTrace(r.Streams)
	}
	for _, t := range r.Traces {
		f, err := hashFile(filepath.Join(s.dir, filepath.FromSlash(t.Path)))
		if err != nil || f.SHA256 != t.SHA256 {
			return false
		}
	}
	return true
}

// keep puts the round into run.json, in place of one with the same load, ordered by streams.
func (s *Session) keep(run *data.Run, round data.Round) error {
	rounds := []data.Round{}
	placed := false
	for _, r := range run.Rounds {
		if r.Streams == round.Streams { // its traces have the same names, so there is one round a load
			continue
		}
		if !placed && r.Streams > round.Streams {
			rounds = append(rounds, round)
			placed = true
		}
		rounds = append(rounds, r)
	}
	if !placed {
		rounds = append(rounds, round)
	}
	run.Rounds = rounds
	if err := s.writeRun(*run); err != nil {
		return err
	}
	return s.introduce(*run)
}

// introduce names the first run that is measured as the campaign's, with its date: the recorded one of a replay.
func (s *Session) introduce(run data.Run) error {
	if s.manifest.Main != "" {
		return nil
	}
	measured := time.Now().UTC().Format("2006-01-02")
	if s.archive != "" {
		c, err := ReadManifest(s.archive)
		if err != nil {
			return err
		}
		measured = c.Measured
	}
	if s.manifest.Measured == "" {
		s.manifest.Measured = measured
	}
	s.manifest.Main, s.manifest.Runs = run.Name, []data.RunRef{{Name: run.Name, What: run.What}}
	return writeJSON(filepath.Join(s.dir, data.ManifestFile), s.manifest)
}

func (s *Session) loadOptions(o RoundOptions, model vllm.Model) load.Options {
	return load.Options{Client: s.client, Replay: s.about, Model: model.ID, Streams: o.Streams,
		InputTokens: o.InputTokens, OutputTokens: o.OutputTokens, Vocabulary: s.vocabulary()}
}

// unprofiled measures the load without the profiler, and what the server's counters did meanwhile.
// A live server is warmed up before: its first requests compile and fill caches, which no later ones do.
func (s *Session) unprofiled(ctx context.Context, round *data.Round, o load.Options) error {
	if s.about == nil {
		warm := o
		warm.OutputTokens = min(warmTokens, o.OutputTokens)
		if _, err := load.Run(ctx, warm); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	before, err := s.client.Metrics(ctx)
	if err != nil {
		return err
	}
	if err := s.keepAnswers(ctx, before); err != nil {
		return err
	}
	if busy, _ := before.Sum("vllm:num_requests_running"); busy > 0 && s.about == nil {
		round.Notes = append(round.Notes, fmt.Sprintf("other traffic: %.0f requests ran when the round began", busy))
	}
	result, err := load.Run(ctx, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	after, err := s.client.Metrics(ctx)
	if err != nil {
		return err
	}
	round.Unprofiled = &result.LoadResult
	for _, e := range result.Errors {
		round.Notes = append(round.Notes, "failed requests, "+e)
	}
	if metrics.Restarted(before, after) {
		return fmt.Errorf("the server was started again during the pass; see its log")
	}
	round.Metrics = deltas(before, after)
	made := metrics.Compare(before, after, "vllm:generation_tokens_total")
	if made.Found && made.Increase() != float64(result.OutputTokens) {
		round.Notes = append(round.Notes, fmt.Sprintf("the server generated %.0f tokens, the streams received %d: there was other traffic or requests failed", made.Increase(), result.OutputTokens))
	}
	return nil
}

// watched are the counters that a round keeps.
var watched = []string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:num_preemptions_total",
	"vllm:prefix_cache_hits_total", "vllm:iteration_tokens_total_count", "vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count", "vllm:spec_decode_num_drafts_total"}

func deltas(before, after metrics.Scrape) []data.Delta {
	var ds []data.Delta
	for _, name := range watched {
		if d := metrics.Compare(before, after, name); d.Found {
			ds = append(ds, data.Delta{Name: name, Before: d.Before, After: d.After})
		}
	}
	return ds
}

// window makes the load again, profiles a window of it and collects the traces.
func (s *Session) window(ctx context.Context, round *data.Round, o RoundOptions, opts load.Options, model vllm.Model) error {
	if s.about != nil {
		opts.Hold, opts.OutputTokens = holdTokens, 2*holdTokens+o.WindowSteps
	} else {
		opts.OutputTokens = longAnswer(o, model)
	}
	seen, err := listTraces(s.traceDir)
	if err != nil {
		return err
	}
	start, err := s.client.Metrics(ctx)
	if err != nil {
		return err
	}
	pass, err := load.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer pass.Stop()
	if _, err := pass.AllDecode(ctx); err != nil {
		return err
	}
	err = s.profiled(ctx, func() error {
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
		round.Profiled = &result.LoadResult
	}
	return s.collect(ctx, round, seen)
}

// longAnswer returns output tokens that outlast the start of the profiler, as far as the model's length allows.
func longAnswer(o RoundOptions, model vllm.Model) int {
	n := o.OutputTokens + o.WindowSteps + slackTokens
	if model.MaxModelLen > o.InputTokens {
		n = min(n, model.MaxModelLen-o.InputTokens)
	}
	return n
}

// vocabulary reads the model's number of token ids; 0 when the folder does not say.
func (s *Session) vocabulary() int {
	var c struct {
		VocabSize  int `json:"vocab_size"`
		TextConfig struct {
			VocabSize int `json:"vocab_size"`
		} `json:"text_config"`
	}
	name, err := s.File(s.manifest.Model.Config)
	if err != nil || readJSON(name, &c) != nil {
		return 0
	}
	return max(c.VocabSize, c.TextConfig.VocabSize)
}
