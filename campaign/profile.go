package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	PID     int    `json:"pid,omitempty"`            // of the process that opened it, on this machine
	Began   string `json:"began,omitempty"`          // when that process started, as /proc has it: pids are used again
}

func journalPath(dir string) string { return filepath.Join(dir, ".journal", "profile.json") }

func (s *Session) journalPath() string { return journalPath(s.dir) }

// flush is how long a profile may take to be written after its window.
const flush = 30 * time.Minute

// held is how long the server was held up: it stands still while the profiler starts, and while it stops and writes.
type held struct{ start, stop time.Duration }

// profiled opens a profile, runs window and closes the profile again, whatever happens: an error, the end of the
// context, a panic. Only a killed process leaves it open; then the journal stays and the next round closes it.
func (s *Session) profiled(ctx context.Context, o vllm.ProfileOptions, window func() error) (h held, err error) {
	release, err := holdProfile(ctx, s.dir)
	if err != nil {
		return h, err
	}
	defer release()
	if err := closeLost(ctx, s.dir); err != nil { // of a process that came in between and is gone
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
		s.tell("the server writes its traces", "")
		at := time.Now()
		stopped := s.stopProfile(ctx)
		h.stop = time.Since(at)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flush)
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

// recoverProfile closes a profile that an earlier process left open, also on another server than this session's.
func (s *Session) recoverProfile(ctx context.Context) error {
	_, err := CloseLostProfile(ctx, s.dir)
	return err
}

// CloseLostProfile closes the profile that a process which is gone left open, as the journal of the campaign in dir has
// it, and returns whether there was one. Without a journal nothing is sent: an open profile is somebody else's.
// While the process that opened it is alive, the profile is left to it, and the error says so.
// A replay that is gone, and a server that runs without a profiler by now, have none open.
func CloseLostProfile(ctx context.Context, dir string) (bool, error) {
	if !exists(journalPath(dir)) {
		return false, nil
	}
	release, err := holdProfile(ctx, dir)
	if err != nil {
		return true, err
	}
	defer release()
	return true, closeLost(ctx, dir) // also when its process closed it meanwhile
}

// closeLost is CloseLostProfile for who holds the profile.
func closeLost(ctx context.Context, dir string) error {
	name := journalPath(dir)
	var j journal
	err := readJSON(name, &j)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; it notes an open profile: stop that on the server with POST /stop_profile, then remove the file", err)
	}
	if err := j.waitForItsProcess(ctx); err != nil {
		return err
	}
	switch err := j.close(ctx); {
	case err == nil, errors.Is(err, vllm.ErrNoProfiler), j.Replay && errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(name)
	case errors.Is(err, syscall.ECONNREFUSED): // the end of a tunnel refuses as well, and the server behind it profiles on
		return fmt.Errorf("an earlier round left a profile open on %s, where nothing answers now: if a tunnel or proxy leads there, open it and try again; if the server has ended, so has the profile: remove %s: %w", j.Target, name, err)
	default:
		return fmt.Errorf("an earlier round left a profile open on %s and it cannot be closed; see to it there, then remove %s: %w", j.Target, name, err)
	}
}

func (j journal) close(ctx context.Context) error {
	c, err := connect(j.Target)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	if m, err := c.Metrics(ctx); err == nil && j.Server != 0 {
		if started := processOf(m); started != 0 && started != j.Server {
			return nil // the profile has gone with its process; one that is open now is somebody else's
		}
	}
	return stopTwice(ctx, speak(j.Engine, c, ""))
}

// dying is how long a process that was told to end may take.
const dying = 10 * time.Second

// waitForItsProcess returns when the process that opened the profile has ended, or is this one, whose round has ended.
func (j journal) waitForItsProcess(ctx context.Context) error {
	for until := time.Now().Add(dying); ; {
		if !j.alive() {
			return nil
		}
		if time.Now().After(until) {
			return j.inUse()
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// alive says that the process that opened the profile works on, and is another than this one.
func (j journal) alive() bool {
	began, err := processStart(j.PID)
	return err == nil && began == j.Began && j.PID != os.Getpid()
}

// inUse says that the profile is somebody's who works with it.
func (j journal) inUse() error {
	return fmt.Errorf("process %d is profiling %s for this campaign since %s; it closes the profile itself when it ends or is interrupted", j.PID, j.Target, time.Unix(j.Opened, 0).UTC().Format("15:04:05 UTC"))
}

// holdProfile lets one process at a time open or close a campaign's profile. The system gives it back when the process ends,
// however it ends, and it holds where processes cannot be seen from each other, as in two containers. A file system without
// locks holds nothing; there the journal's process tells.
func holdProfile(ctx context.Context, dir string) (release func(), err error) {
	for until := time.Now().Add(dying); ; {
		release, held := tryHold(dir)
		if !held {
			return release, nil
		}
		if time.Now().After(until) {
			var j journal
			if readJSON(journalPath(dir), &j) != nil {
				return nil, fmt.Errorf("another process opens or closes a profile for %s; try again when it has ended", dir)
			}
			return nil, j.inUse()
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// tryHold is holdProfile without waiting; held says that another process has it.
func tryHold(dir string) (release func(), held bool) {
	name := filepath.Join(filepath.Dir(journalPath(dir)), "profile.lock")
	_ = os.MkdirAll(filepath.Dir(name), 0o755)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return func() {}, false // the journal cannot be written either, and says why
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		f.Close()
		return nil, true
	}
	return func() { f.Close() }, false
}

// processStart returns when a process of this machine began, in the kernel's own units; an error when there is none.
func processStart(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name before may hold anything but this
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" { // a zombie does nothing any more
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
