package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/internal/flock"
)

// CloseLostProfile closes the profile that a process which is gone left open, as the journal of the campaign in dir has
// it, and returns whether there was one. Without a journal nothing is sent: an open profile is somebody else's.
// While the process that opened it is alive, the profile is left to it and its end is waited for. That and the server's
// writing may take half an hour each; ReadProgress tells meanwhile what is waited for. The end of the context does no harm.
// A replay that is gone, and a server that runs without a profiler by now, have none open.
func CloseLostProfile(ctx context.Context, dir string) (bool, error) {
	word := teller{dir: dir}
	defer word.end()
	return lost{dir, flush, flush, word.tell}.close(ctx)
}

// recoverProfile closes a profile that an earlier process left open, also on another server than this session's.
func (s *Session) recoverProfile(ctx context.Context) error {
	_, err := s.lost().close(ctx)
	return err
}

func (s *Session) lost() lost { return lost{s.dir, s.flush, s.flush, s.tell} }

// lost is the profile that an earlier process may have left open.
type lost struct {
	dir      string
	patience time.Duration // for its process to end
	flush    time.Duration // for the server to write the traces
	tell     func(stage, detail string)
}

func (l lost) close(ctx context.Context) (was bool, err error) {
	if !exists(journalPath(l.dir)) {
		return false, nil
	}
	release, err := l.hold(ctx)
	if err != nil {
		return true, err
	}
	defer release()
	return true, l.closeHeld(ctx) // also when its process closed it meanwhile
}

// closeHeld is close for who holds the profile.
func (l lost) closeHeld(ctx context.Context) error {
	name := journalPath(l.dir)
	var j journal
	err := readJSON(name, &j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return noteOfProfile(err)
	}
	if err := l.wait(ctx, func() bool { return !j.alive() }); err != nil {
		return err
	}
	if !exists(name) {
		return nil // its process has closed it; one that is open now is somebody else's
	}
	switch err := l.stop(ctx, j); {
	case err == nil, errors.Is(err, vllm.ErrNoProfiler), j.Replay && errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(name)
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted while %s was to close the profile that an earlier round left open; nothing is lost: `rooflab doctor %s` goes on there: %w", j.Target, l.dir, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s was asked to close the profile that an earlier round left open and has not answered for %v; it may still write traces: look at its log, and run `rooflab doctor %s` again; if the server has ended, so has the profile: remove %s: %w", j.Target, l.flush, l.dir, name, err)
	case errors.Is(err, syscall.ECONNREFUSED): // the end of a tunnel refuses as well, and the server behind it profiles on
		return fmt.Errorf("an earlier round left a profile open on %s, where nothing answers now: if a tunnel or proxy leads there, open it and try again; if the server has ended, so has the profile: remove %s: %w", j.Target, name, err)
	default:
		return fmt.Errorf("an earlier round left a profile open on %s and it cannot be closed; see to it there, then remove %s: %w", j.Target, name, err)
	}
}

// noteOfProfile is the error of a journal that cannot be read.
func noteOfProfile(err error) error {
	return fmt.Errorf("%w; it notes an open profile: stop that on the server with POST /stop_profile, then remove the file", err)
}

// stop asks the server to close the profile and waits for it to write the traces.
func (l lost) stop(ctx context.Context, j journal) error {
	ctx, cancel := context.WithTimeout(ctx, l.flush)
	defer cancel()
	c, err := connect(j.Target)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	l.tell("close the profile that was left open on "+j.Target, "the server writes its traces "+since(time.Now().Unix()))
	if m, err := c.Metrics(ctx); err == nil && j.Server != 0 {
		if started := processOf(m); started != 0 && started != j.Server {
			return nil // the profile has gone with its process; one that is open now is somebody else's
		}
	}
	return stopTwice(ctx, speak(j.Engine, c, ""))
}

// hold lets one process at a time open or close a campaign's profile, and waits for the one that does. The lock holds where
// processes cannot be seen from each other, as in two containers. A file system without locks holds nothing; there the
// journal's process tells.
func (l lost) hold(ctx context.Context) (release func(), err error) {
	err = l.wait(ctx, func() bool {
		release, err = flock.Take(profileLock(l.dir))
		return !errors.Is(err, flock.ErrHeld)
	})
	if err == nil && release == nil {
		release = func() {} // the journal cannot be written either, and says why
	}
	return release, err
}

func profileLock(dir string) string {
	return filepath.Join(filepath.Dir(journalPath(dir)), "profile.lock")
}

// wait returns when the process that works with the profile has ended.
func (l lost) wait(ctx context.Context, over func() bool) error {
	for until := time.Now().Add(l.patience); !over(); {
		var j journal
		_ = readJSON(journalPath(l.dir), &j) // a process that opens a profile has not written it yet
		if time.Now().After(until) {
			return fmt.Errorf("%s; it closes the profile itself, so nothing was sent: try again when it has ended", j.work())
		}
		l.tell("wait for an earlier process, which closes the profile itself", j.work())
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("interrupted while %s; it closes the profile itself, and nothing is lost: %w", j.work(), err)
		}
	}
	return nil
}

// alive says that the process that opened the profile works on, and is another than this one, whose round has ended.
func (j journal) alive() bool { return j.PID != os.Getpid() && alive(j.PID, j.Began) }

// work says what the process that opened the profile does with it.
func (j journal) work() string {
	switch {
	case j.PID == 0:
		return "another process opens or closes a profile for this campaign"
	case j.Stopped != 0:
		return fmt.Sprintf("process %d waits for %s to write its traces, %s", j.PID, j.Target, since(j.Stopped))
	}
	return fmt.Sprintf("process %d is profiling %s for this campaign, %s", j.PID, j.Target, since(j.Opened))
}
