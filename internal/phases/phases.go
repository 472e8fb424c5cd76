// Package phases runs the notebooks of a campaign, one after another, against a server or a replay, and leaves the
// executed notebooks and their results in the campaign's folder.
// It does not analyse, draw or publish; the notebooks and sitegen do.
package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
)

// Options say what to run. Dir and Target are required.
type Options struct {
	Dir       string // the campaign's folder; made when it is not there
	Target    string // "http://host:port", or "replay:DIR" for an archived campaign
	Host      string // where a live server runs, as campaign/target reads it; "" is this machine
	TraceDir  string // where a live server writes its profiles, seen from the host; "" is what its command line says
	Limits    campaign.Limits
	From      string // the archive that gives a new folder its manifest; "" is the replayed one
	Numbers   []int  // phases to run; empty means all
	Params    []nbclient.Param
	Kernel    string // kernelspec; "" is what the notebooks name
	KernelDir string
	Timeout   time.Duration // for one cell
	Resume    bool          // leave notebooks that finished and have not changed

	Begin func(p notebooks.Phase)                    // before a notebook; may be nil
	Cell  func(p notebooks.Phase, e nbclient.Event)  // for every cell; may be nil
	Warn  func(p notebooks.Phase, d diag.Diagnostic) // what did not stop the run; may be nil
	Lost  func(p notebooks.Phase, stop string)       // the kernel died; stop says what became of the profiler; may be nil
}

// Error says which notebook stopped the campaign. What was measured before stays in the folder.
type Error struct {
	Phase   notebooks.Phase
	Dir     string
	Err     error
	Stopped bool // from outside: nothing is to be put right before the next run
}

func (e *Error) Error() string {
	when := " once the cause is gone"
	if e.Stopped {
		when = ""
	}
	return fmt.Sprintf("phase %d stopped: %v\nwhat was measured before is kept in %s; the same command with --resume goes on there%s", e.Phase.Number, e.Err, e.Dir, when)
}

func (e *Error) Unwrap() error { return e.Err }

// Run executes the phases in order and stops at the first that fails.
func Run(ctx context.Context, o Options) error {
	todo, err := o.phases()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	srv, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer srv.close()
	if err := o.reachable(ctx); err != nil {
		return err
	}
	if err := prepare(o.Dir, o.from(), todo); err != nil {
		return err
	}
	unlock, err := lock(o.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	for _, p := range todo {
		if p.Number == 1 { // before a cell with its limit of time waits for what an earlier run left open
			if _, err := campaign.CloseLostProfile(ctx, dir); err != nil {
				return &Error{Phase: p, Dir: o.Dir, Err: err, Stopped: ctx.Err() != nil}
			}
		}
		if o.Begin != nil {
			o.Begin(p)
		}
		if err := o.run(ctx, dir, srv, p); err != nil {
			return &Error{Phase: p, Dir: o.Dir, Err: err, Stopped: ctx.Err() != nil}
		}
	}
	if _, err := campaign.Archive(dir, ""); err != nil {
		return fmt.Errorf("the notebooks ran, but their files could not be listed with hashes in the manifest: %w", err)
	}
	return nil
}

func (o Options) phases() ([]notebooks.Phase, error) {
	all := notebooks.Phases()
	if len(o.Numbers) == 0 {
		return all, nil
	}
	var out []notebooks.Phase
	for _, n := range o.Numbers {
		if n < 0 || n >= len(all) {
			return nil, fmt.Errorf("phase %d: phases are 0 to %d", n, len(all)-1)
		}
		out = append(out, all[n])
	}
	return out, nil
}

// from is the archive that a new folder takes its manifest from, or "".
func (o Options) from() string {
	if o.From != "" {
		return o.From
	}
	if dir, ok := strings.CutPrefix(o.Target, "replay:"); ok {
		return dir
	}
	return ""
}

// reachable asks a live server for its version before a folder is made for it: a mistyped address leaves nothing behind.
func (o Options) reachable(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(o.Dir, data.ManifestFile)); err == nil || o.from() != "" {
		return nil
	}
	return campaign.Reachable(ctx, o.Target)
}

// server is what the notebooks talk to.
type server struct {
	url, host, traceDir, archive string
	limits                       campaign.Limits
	replay                       *replay.Server
}

func (o Options) open(ctx context.Context) (server, error) {
	dir, ok := strings.CutPrefix(o.Target, "replay:")
	if !ok {
		if o.Target == "" {
			return server{}, errors.New("no target: give --target http://host:port, or --target replay:DIR for an archived campaign")
		}
		s := server{url: o.Target, host: o.Host, traceDir: o.TraceDir, limits: o.Limits}
		host, err := target.FromEnv(o.Host)
		if err == nil && o.TraceDir != "" && host.Local() {
			s.traceDir, err = filepath.Abs(o.TraceDir) // the kernel works in another folder
		}
		return s, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return server{}, err
	}
	r, err := replay.Start(ctx, replay.Options{Dir: dir})
	if err != nil {
		return server{}, err
	}
	return server{url: r.URL, host: "local", traceDir: r.TraceDir, archive: abs, replay: r}, nil
}

func (s server) close() {
	if s.replay != nil {
		_ = s.replay.Close()
	}
}

// env tells the notebooks where things are; nothing of it is written into them.
func (s server) env(dir string) []string {
	env := []string{"ROOFLAB_CAMPAIGN=" + dir, "ROOFLAB_TARGET=" + s.url}
	if s.traceDir != "" {
		env = append(env, "ROOFLAB_TRACE_DIR="+s.traceDir)
	}
	if s.archive != "" {
		env = append(env, "ROOFLAB_ARCHIVE="+s.archive)
	}
	if s.host != "" {
		env = append(env, "ROOFLAB_HOST="+s.host)
	}
	for name, limit := range map[string]int64{"STREAMS": int64(s.limits.Streams), "SECONDS": int64(s.limits.Time / time.Second), "TRACE_BYTES": s.limits.TraceBytes} {
		if limit != 0 {
			env = append(env, fmt.Sprintf("ROOFLAB_MAX_%s=%d", name, limit))
		}
	}
	return env
}

// prepare makes the campaign's folder and puts the notebooks there that are not there yet.
func prepare(dir, from string, todo []notebooks.Phase) error {
	if err := campaign.Init(dir, from); err != nil {
		return err
	}
	for _, p := range todo {
		name := notebookPath(dir, p)
		if _, err := os.Stat(name); err == nil {
			continue
		}
		b, err := notebooks.Read(p.Notebook)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, b, 0o644); err != nil {
			_ = os.Remove(name) // half a notebook would stay in the way
			return err
		}
	}
	return nil
}

func notebookPath(dir string, p notebooks.Phase) string {
	return filepath.Join(dir, "notebooks", p.Notebook+".ipynb")
}

// run runs one notebook. dir is the campaign's folder, absolute: the kernel works in another one.
func (o Options) run(ctx context.Context, dir string, srv server, p notebooks.Phase) error {
	name := notebookPath(o.Dir, p)
	opts := nbclient.Options{Notebook: name, Out: name, Kernel: o.Kernel, KernelDir: o.KernelDir, Env: srv.env(dir),
		Timeout: o.Timeout, Resume: o.Resume}
	var err error
	if opts.Params, err = declared(o.Dir, p, o.Params); err != nil {
		return err
	}
	if o.Cell != nil {
		opts.Progress = func(e nbclient.Event) { o.Cell(p, e) }
	}
	if o.Warn != nil {
		opts.Warn = func(d diag.Diagnostic) { o.Warn(p, d) }
	}
	lost := func(told string) {
		if o.Lost != nil {
			o.Lost(p, told)
		}
	}
	opts.OnKernelLost = func() {
		told, _ := StopLostProfile(dir)
		lost(told)
	}
	if _, err = nbclient.Run(ctx, opts); err != nil {
		// The process that cells ran in can be gone although the kernel was not.
		if told, open := StopLostProfile(dir); open {
			lost(told)
		}
	}
	return err
}

// StopLostProfile closes the profile that a lost kernel left open, as the journal of the campaign in dir has it, so that
// no profiler keeps running on the server. It says what it did, and whether one was open. A profile that is not in the journal is somebody else's.
// Waiting for the server to write its traces ends with Ctrl-C, also with a second one.
func StopLostProfile(dir string) (told string, open bool) {
	ctx, stop := campaign.Interruptible(context.Background())
	defer stop()
	switch open, err := campaign.CloseLostProfile(ctx, dir); {
	case err != nil:
		return fmt.Sprintf("its profiler could not be stopped, look after it: %v", err), true
	case open:
		return "the profile that was open is closed", true
	}
	return "it had no profile open", false
}
