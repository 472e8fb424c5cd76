package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
// streams decode, and on a live server the first pass once more, for what the profiler leaves behind. The traces are copied
// into the campaign's folder and the round is kept in runs/<run>/run.json.
// A round that is there already with the same options is returned as it is; one that was stopped half-way goes on.
// Interrupting the process closes the profile first.
func (s *Session) Round(o RoundOptions) (data.Round, error) {
	return s.RoundContext(context.Background(), o)
}

// RoundContext is Round with a context: in a cell context.Background() ends when the cell is interrupted.
func (s *Session) RoundContext(ctx context.Context, o RoundOptions) (data.Round, error) {
	ctx, stop := Interruptible(ctx)
	defer stop()
	round, err := s.round(ctx, o)
	if err != nil {
		return round, fmt.Errorf("round C = %d: %w", o.Streams, err)
	}
	return round, nil
}

// Interruptible returns a context that ends when the process is told to stop: by Ctrl-C, by SIGTERM, or by a terminal that
// goes away, unless the process was started to outlive that (nohup).
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	}
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

func (s *Session) round(ctx context.Context, o RoundOptions) (data.Round, error) {
	if err := s.askReplay(ctx); err != nil {
		return data.Round{}, err
	}
	round, err := s.plan(&o)
	if err != nil {
		return round, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limits.Time, fmt.Errorf("the round took longer than its limit of %v; raise --max-seconds, or give fewer tokens", s.limits.Time))
	defer cancel()
	if err := s.measure(ctx, &round, o); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && context.Cause(ctx) != ctx.Err() {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return round, err
	}
	return round, nil
}

// measure does what is left of the round: the pass without profiler, the profiled window, and the pass once more.
// After each it is kept, so that a round that was stopped goes on there.
func (s *Session) measure(ctx context.Context, round *data.Round, o RoundOptions) error {
	s.streams = round.Streams
	defer s.endProgress()
	run, err := s.readRun()
	if err != nil {
		return err
	}
	if done, err := s.resume(run, round); done || err != nil {
		return err
	}
	model, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if longest := model.MaxModelLen; longest > 0 && s.about == nil && o.InputTokens+o.OutputTokens > longest {
		return fmt.Errorf("%d prompt and %d output tokens are more than the %d tokens of one request that the server allows (max_model_len): give fewer", o.InputTokens, o.OutputTokens, longest)
	}
	if run.Environment.Version == "" {
		if run.Environment.Version, err = s.engine().Version(ctx); err != nil {
			return err
		}
	}
	if err := s.sameServer(ctx, round); err != nil {
		return err
	}
	traced := s.hasTraces(*round)
	if !traced {
		if err := s.fits(run, *round); err != nil {
			return err
		}
	}
	if err := s.setAside(&run, *round); err != nil {
		return err
	}
	pass := s.loadOptions(o, model)
	if round.Unprofiled == nil {
		if err := s.before(ctx, &run, round, pass); err != nil {
			return err
		}
		if err := s.keep(&run, *round); err != nil {
			return err
		}
	}
	if s.noTrace(round.Streams) {
		return nil
	}
	if !traced {
		round.After = nil
		if err := s.window(ctx, round, o, pass, model); err != nil {
			return s.remember(run, *round, err)
		}
		if err := s.keep(&run, *round); err != nil {
			return err
		}
		if err := os.Remove(s.leftPath(round.Streams)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if s.about == nil && round.After == nil {
		if err := s.after(ctx, round, pass); err != nil {
			return err
		}
		return s.keep(&run, *round)
	}
	return nil
}

// sameServer notes which process of the server is measured. A round that another one began starts again: figures of two
// processes are no pair.
func (s *Session) sameServer(ctx context.Context, round *data.Round) error {
	if s.about != nil {
		return nil
	}
	m, err := s.client.Metrics(ctx)
	if err != nil {
		return err
	}
	now := processOf(m)
	if round.Unprofiled != nil && (round.Server != 0 && now != round.Server || fell(m, round.Metrics)) {
		*round = data.Round{Streams: round.Streams, InputTokens: round.InputTokens, OutTokens: round.OutTokens, WindowSteps: round.WindowSteps,
			Notes: []string{"the server was started again while this load was measured; the round was measured anew from its start"}}
	}
	round.Server, s.started = now, now
	return nil
}

// processOf returns when the process of a server began, in seconds since the epoch; 0 when it does not say.
func processOf(m metrics.Scrape) int64 {
	started, _ := m.Sum("process_start_time_seconds")
	return int64(started)
}

// fell says that a counter is below what it was after the round's first pass. Servers of several processes, and SGLang, do not
// say when they began.
func fell(m metrics.Scrape, was []data.Delta) bool {
	for _, d := range was {
		if now, ok := m.Sum(d.Name); ok && now < d.After && !strings.HasSuffix(d.Name, "_sum") { // sums of seconds are rounded
			return true
		}
	}
	return false
}

// sameProcess returns an error when another process of the server answers than the one that the round began with.
func sameProcess(m metrics.Scrape, round data.Round) error {
	if processOf(m) != round.Server || fell(m, round.Metrics) {
		return errors.New("the server was started again during the round: see its log; the same command measures the round anew")
	}
	return nil
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
		if cmp.Or(o.InputTokens, l.InputTokens) != l.InputTokens || cmp.Or(o.OutputTokens, l.OutputTokens) != l.OutputTokens {
			notes = append(notes, fmt.Sprintf("recorded with %d prompt and %d output tokens", l.InputTokens, l.OutputTokens))
		}
		o.InputTokens, o.OutputTokens = l.InputTokens, l.OutputTokens
	}
	o.InputTokens, o.OutputTokens, o.WindowSteps = cmp.Or(o.InputTokens, defaultInput), cmp.Or(o.OutputTokens, defaultOutput), cmp.Or(o.WindowSteps, defaultWindow)
	if o.WindowSeconds == 0 {
		o.WindowSeconds = defaultSecond
	}
	switch {
	case o.WindowSteps < 1 || o.WindowSteps > 256 || o.WindowSeconds < 0 || o.WindowSeconds > 60:
		return data.Round{}, fmt.Errorf("a window of %d steps and %g s: give 1 to 256 steps and at most 60 s, else traces get too large to read", o.WindowSteps, o.WindowSeconds)
	case o.InputTokens < 1 || o.OutputTokens < 1:
		return data.Round{}, fmt.Errorf("%d prompt and %d output tokens: give at least 1 of each", o.InputTokens, o.OutputTokens)
	case o.Streams < 1:
		return data.Round{}, fmt.Errorf("give the number of streams, such as 1, 64 or 256")
	case o.Streams > s.limits.Streams && s.about == nil:
		return data.Round{}, fmt.Errorf("%d streams are more than the limit of %d that protects the server; raise it with --max-streams", o.Streams, s.limits.Streams)
	}
	round := data.Round{Streams: o.Streams, InputTokens: o.InputTokens, OutTokens: o.OutputTokens, WindowSteps: o.WindowSteps, Notes: notes}
	if s.about != nil {
		round.WindowSteps = 0 // the recorded trace has the window that it has
	}
	return round, nil
}

// ready checks what a round needs before it disturbs anybody.
func (s *Session) ready(ctx context.Context) (vllm.Model, error) {
	if err := s.findFolder(ctx); err != nil {
		return vllm.Model{}, err
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

func (s *Session) loadOptions(o RoundOptions, model vllm.Model) load.Options {
	return load.Options{Client: s.client, Replay: s.about, Model: model.ID, Streams: o.Streams,
		InputTokens: o.InputTokens, OutputTokens: o.OutputTokens, Vocabulary: s.vocabulary()}
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
