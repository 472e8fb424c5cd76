package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// journal notes an open profile, so that one that was left open by a killed process is closed by the next.
// It never holds the API key.
type journal struct {
	Target  string `json:"target"`
	Replay  bool   `json:"replay,omitempty"`         // of a recording: it ends with the process that plays it
	Engine  string `json:"engine,omitempty"`         // of the server; "" is vLLM
	Streams int    `json:"streams,omitempty"`        // of the round
	Server  int64  `json:"server_started,omitempty"` // when the server's process started, in s since the epoch; 0 = not known
	Opened  int64  `json:"opened,omitempty"`         // seconds since the epoch
	Stopped int64  `json:"stopped,omitempty"`        // when the server was asked to stop it; it writes the traces then
	PID     int    `json:"pid,omitempty"`            // of the process that opened it, on this machine
	Began   string `json:"began,omitempty"`          // when that process started, as /proc has it: pids are used again
}

func journalPath(dir string) string { return filepath.Join(dir, ".journal", "profile.json") }

func (s *Session) journalPath() string { return journalPath(s.dir) }

const (
	flush = 30 * time.Minute // how long a server may take to write its traces
	dying = 10 * time.Second // how long a process that was told to end may take, when nothing is open any more
)

// held is how long the server was held up: it stands still while the profiler starts, and while it stops and writes.
type held struct{ start, stop time.Duration }

// profiled opens a profile, runs window and closes the profile again, whatever happens: an error, the end of the
// context, a panic. Only a killed process leaves it open; then the journal stays and the next round closes it.
func (s *Session) profiled(ctx context.Context, o vllm.ProfileOptions, window func() error) (h held, err error) {
	before := s.lost()
	before.patience = dying // the load runs already
	release, err := before.hold(ctx)
	if err != nil {
		return h, err
	}
	defer release()
	if err := before.closeHeld(ctx); err != nil { // of a process that came in between and is gone
		return h, err
	}
	began, _ := processStart(os.Getpid())
	j := journal{Target: s.client.Target(), Replay: s.about != nil, Engine: s.engineName, Streams: s.streams, Server: s.started, Opened: time.Now().Unix(), PID: os.Getpid(), Began: began}
	if err := writeJSON(s.journalPath(), j); err != nil {
		return h, err
	}
	open := true
	defer func() {
		if !open {
			return
		}
		j.Stopped = time.Now().Unix()
		_ = writeJSON(s.journalPath(), j) // only for who waits; the profile is closed all the same
		s.tell("the server writes its traces", since(j.Stopped))
		at := time.Now()
		stopped := s.stopProfile(ctx)
		h.stop = time.Since(at)
		if stopped != nil {
			j.PID, j.Began = 0, "" // nobody works with it any more: who comes next closes it
			stopped = errors.Join(stopped, writeJSON(s.journalPath(), j))
		}
		err = errors.Join(err, stopped)
	}()
	at := time.Now()
	// A start that is cut off may still reach the profiler, after the stop: so it is not cut off.
	if _, err := s.engine().StartProfile(context.WithoutCancel(ctx), o); err != nil {
		var status *vllm.StatusError
		if errors.As(err, &status) && status.Status < 500 { // refused: nothing of ours is open
			open = false
			return h, errors.Join(err, os.Remove(s.journalPath()))
		}
		return h, err // not known whether it has started, on none, some or all ranks
	}
	h.start = time.Since(at)
	if s.afterOpen != nil {
		s.afterOpen()
	}
	return h, window()
}

// stopProfile closes the profile, also when the context has ended.
func (s *Session) stopProfile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.flush)
	defer cancel()
	if err := stopTwice(ctx, s.engine()); err != nil {
		return fmt.Errorf("the profile may still be open; `rooflab doctor %s` closes it, or: curl -X POST %s/stop_profile: %w", s.dir, s.client.Target(), err)
	}
	return os.Remove(s.journalPath())
}

// stopTwice stops the profiler, and tries once more when the connection broke: a second stop does no harm, and a profiler
// that runs on slows down a server that belongs to somebody else.
func stopTwice(ctx context.Context, c engine) error {
	err := c.StopProfile(ctx)
	var status *vllm.StatusError
	if err == nil || errors.As(err, &status) || errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil {
		return err
	}
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	return c.StopProfile(ctx)
}
