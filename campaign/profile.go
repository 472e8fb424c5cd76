package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// journal notes an open profile, so that one that was left open by a killed process is closed by the next.
type journal struct {
	Target string `json:"target"`
}

func journalPath(dir string) string { return filepath.Join(dir, ".journal", "profile.json") }

func (s *Session) journalPath() string { return journalPath(s.dir) }

// flush is how long a profile may take to be written after its window.
const flush = 30 * time.Minute

// profiled opens a profile, runs window and closes the profile again, whatever happens: an error, the end of the
// context, a panic. Only a killed process leaves it open; then the journal stays and the next round closes it.
func (s *Session) profiled(ctx context.Context, window func() error) (err error) {
	if err := writeJSON(s.journalPath(), journal{s.client.Target()}); err != nil {
		return err
	}
	open := true
	defer func() {
		if !open {
			return
		}
		err = errors.Join(err, s.stopProfile(ctx))
	}()
	// A start that is cut off may still reach the profiler, after the stop: so it is not cut off.
	if err := s.client.StartProfile(context.WithoutCancel(ctx)); err != nil {
		var status *vllm.StatusError
		if errors.As(err, &status) && status.Status < 500 { // refused: nothing of ours is open
			open = false
			return errors.Join(err, os.Remove(s.journalPath()))
		}
		return err // not known whether it has started, on none, some or all ranks
	}
	if s.afterOpen != nil {
		s.afterOpen()
	}
	return window()
}

// stopProfile closes the profile, also when the context has ended.
func (s *Session) stopProfile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flush)
	defer cancel()
	if err := stopTwice(ctx, s.client); err != nil {
		return fmt.Errorf("the profile may still be open; close it with: curl -X POST %s/stop_profile: %w", s.client.Target(), err)
	}
	return os.Remove(s.journalPath())
}

// stopTwice stops the profiler, and tries once more when the connection broke: a second stop does no harm, and a profiler
// that runs on slows down a server that belongs to somebody else.
func stopTwice(ctx context.Context, c *vllm.Client) error {
	err := c.StopProfile(ctx)
	var status *vllm.StatusError
	if err == nil || errors.As(err, &status) || errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil {
		return err
	}
	time.Sleep(time.Second)
	return c.StopProfile(ctx)
}

// recoverProfile closes a profile that an earlier process left open, also on another server than this session's.
func (s *Session) recoverProfile(ctx context.Context) error {
	_, err := CloseLostProfile(ctx, s.dir)
	return err
}

// CloseLostProfile closes the profile that a process which is gone left open, as the journal of the campaign in dir has
// it, and returns whether there was one. Without a journal nothing is sent: an open profile is somebody else's.
// A server that is gone, such as a replay, or runs without a profiler by now, has none open.
func CloseLostProfile(ctx context.Context, dir string) (bool, error) {
	name := journalPath(dir)
	var j journal
	err := readJSON(name, &j)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	c, err := vllm.New(j.Target, os.Getenv("ROOFLAB_API_KEY"))
	if err == nil {
		defer c.CloseIdle()
		err = stopTwice(ctx, c)
	}
	var status *vllm.StatusError
	if err != nil && !errors.Is(err, syscall.ECONNREFUSED) && !(errors.As(err, &status) && status.Status == http.StatusNotFound) {
		return true, fmt.Errorf("an earlier round left a profile open on %s and it cannot be closed; see to it there, then remove %s: %w", j.Target, name, err)
	}
	return true, os.Remove(name)
}
