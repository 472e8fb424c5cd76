package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/internal/flock"
)

// silent is a server that does not answer a stop before speak is called; stopping runs when one arrives.
func silent(t *testing.T, stopping func()) (url string, speak func()) {
	t.Helper()
	answers := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stop_profile" {
			http.NotFound(w, r)
			return
		}
		stopping()
		select {
		case <-answers:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() { close(answers) }
}

func TestServerThatNeverAnswersTheStopIsWaitedForOnlySoLong(t *testing.T) {
	dir := t.TempDir()
	url, speak := silent(t, func() {})
	if err := writeJSON(journalPath(dir), journal{Target: url, PID: 1 << 22}); err != nil {
		t.Fatal(err)
	}
	var told []string
	tell := func(stage, detail string) { told = append(told, stage+": "+detail) }
	was, err := lost{dir, time.Hour, 50 * time.Millisecond, tell}.close(t.Context())
	if !was || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v %v", was, err)
	}
	for _, part := range []string{"has not answered for 50ms", "it may still write traces", "`rooflab doctor " + dir + "` again", "if the server has ended, so has the profile: remove " + journalPath(dir)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error has no %q: %v", part, err)
		}
	}
	if !exists(journalPath(dir)) {
		t.Error("the journal is gone, so nobody closes the profile any more")
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "close the profile that was left open on "+url+": the server writes its traces since ") {
		t.Errorf("meanwhile it is told: %q", told)
	}
	speak()
	if was, err := CloseLostProfile(t.Context(), dir); !was || err != nil || exists(journalPath(dir)) {
		t.Errorf("when the server answers: %v %v", was, err)
	}
	if now := lastProgress(dir); now != (Progress{}) {
		t.Errorf("at the end it is told: %+v", now)
	}
}

func TestInterruptWhileTheServerWritesDoesNoHarm(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	url, _ := silent(t, cancel)
	if err := writeJSON(journalPath(dir), journal{Target: url, PID: 1 << 22}); err != nil {
		t.Fatal(err)
	}
	_, err := CloseLostProfile(ctx, dir)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing is lost: `rooflab doctor "+dir+"` goes on there") {
		t.Errorf("%v", err)
	}
	if !exists(journalPath(dir)) || flock.Held(profileLock(dir)) {
		t.Error("the next one cannot go on there")
	}
}

// The round's own stop is bounded as well. Afterwards nobody works with the profile, although the process lives on.
func TestRoundWhoseStopIsNeverAnsweredLeavesItsProfileToTheNext(t *testing.T) {
	server := recordedServer(t)
	url := live(t, server, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/stop_profile" {
			return false
		}
		<-r.Context().Done()
		return true
	})
	s := open(t, t.TempDir(), Options{Target: url, TraceDir: server.TraceDir})
	s.flush = 50 * time.Millisecond
	_, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 10, WindowSteps: 2})
	if err == nil || !strings.Contains(err.Error(), "the profile may still be open; `rooflab doctor "+s.dir+"` closes it") {
		t.Errorf("%v", err)
	}
	var j journal
	if err := readJSON(s.journalPath(), &j); err != nil || j.PID != 0 || j.Stopped == 0 {
		t.Errorf("the journal says %+v (%v)", j, err)
	}
	if left, err := Find(s.dir); err != nil || left.Profile == nil || left.Profile.InUse {
		t.Errorf("%+v %v", left.Profile, err)
	}
}

// Of a killed rooflab the process of the cells may live on until the server has written its traces.
func TestProcessThatClosesItsProfileItselfIsWaitedFor(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	release, err := flock.Take(profileLock(s.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	// Its number is one that cannot be seen from here, as in another container: the lock tells that it works.
	if err := writeJSON(s.journalPath(), journal{Target: s.client.Target(), PID: 1 << 22, Opened: 900, Stopped: 1000}); err != nil {
		t.Fatal(err)
	}
	work := fmt.Sprintf("process %d waits for %s to write its traces, since 00:16:40 UTC", 1<<22, s.client.Target())
	if left, err := Find(s.dir); err != nil || !left.Profile.InUse || left.Profile.Doing != work {
		t.Errorf("%+v %v", left.Profile, err)
	}
	_, err = lost{s.dir, 0, 0, func(string, string) {}}.close(t.Context())
	if err == nil || err.Error() != work+"; it closes the profile itself, so nothing was sent: try again when it has ended" {
		t.Errorf("%v", err)
	}
	done := make(chan error, 1)
	go func() {
		was, err := CloseLostProfile(t.Context(), s.dir)
		if !was {
			err = errors.Join(err, errors.New("there was none"))
		}
		done <- err
	}()
	until(t, func() bool {
		return ReadProgress(s.dir).Stage == "wait for an earlier process, which closes the profile itself"
	})
	if now := ReadProgress(s.dir); now.Detail != work {
		t.Errorf("while waiting it is told: %+v", now)
	}
	// It closes its profile, and somebody else opens one.
	if err := os.Remove(s.journalPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.StartProfile(t.Context(), vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !s.server.ProfileOpen() {
		t.Error("somebody else's profile was closed")
	}
}

// On a file system without locks only the journal tells that a process works, and then that it has closed its profile.
func TestProfileThatItsProcessClosedIsNotClosedAgain(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	began, err := processStart(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(s.journalPath(), journal{Target: s.client.Target(), PID: other.Process.Pid, Began: began}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := CloseLostProfile(t.Context(), s.dir)
		done <- err
	}()
	until(t, func() bool { return ReadProgress(s.dir).Stage != "" })
	if err := os.Remove(s.journalPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.StartProfile(t.Context(), vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it says that it was killed
	if err := <-done; err != nil || !s.server.ProfileOpen() {
		t.Errorf("%v, somebody else's profile is open: %v", err, s.server.ProfileOpen())
	}
}

// until waits for something that another goroutine does.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it did not happen")
}
