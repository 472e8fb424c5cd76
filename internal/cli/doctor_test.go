package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/flock"
)

// screen is what a command wrote so far.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// measured is a campaign folder in which a process waits for a server to write its traces. The server is a replay that is gone.
func measured(t *testing.T) (dir string, ends func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "kimi")
	if err := campaign.Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	ends, err := flock.Take(filepath.Join(dir, ".journal", "profile.lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ends)
	journal := `{"target": "http://127.0.0.1:1", "replay": true, "streams": 4, "pid": 4194304, "opened": 900, "stopped": 1000}`
	if err := os.WriteFile(filepath.Join(dir, ".journal", "profile.json"), []byte(journal), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, ends
}

const waiting = "process 4194304 waits for http://127.0.0.1:1 to write its traces, since 00:16:40 UTC"

func TestDoctorWaitsForAProcessThatOutlivedItsRun(t *testing.T) {
	dir, ends := measured(t)
	var stdout, stderr screen
	done := make(chan error, 1)
	go func() { done <- Run(nil, &stdout, &stderr, []string{"doctor", dir}) }()
	want := []string{dir + ": " + waiting + "; waiting until it has closed it, Ctrl-C does no harm\n",
		"  wait for an earlier process, which closes the profile itself, " + waiting + "\n"}
	for range 2000 {
		if strings.Contains(stderr.String(), want[1]) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got := stderr.String(); got != want[0]+want[1] {
		t.Errorf("while it waits: %q", got)
	}
	ends()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := dir + ": a profile on http://127.0.0.1:1, of C = 4, opened 1970-01-01 00:15:00 UTC: closed, its process has ended\n"; stdout.String() != want {
		t.Errorf("%q", stdout.String())
	}
}

func TestDoctorDoesNotWaitForARunThatGoesOn(t *testing.T) {
	dir, _ := measured(t)
	release, err := flock.Take(filepath.Join(dir, ".journal", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, words := range [][]string{{"doctor", dir}, {"doctor", "--look", dir}} {
		var stdout, stderr screen
		if err := Run(nil, &stdout, &stderr, words); err != nil || stderr.String() != "" {
			t.Errorf("%v %q", err, stderr.String())
		}
		if want := dir + ": a profile on http://127.0.0.1:1, of C = 4, opened 1970-01-01 00:15:00 UTC: " + waiting + "; it closes the profile itself\n"; stdout.String() != want {
			t.Errorf("%q", stdout.String())
		}
	}
}
