package phases

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/flock"
	"github.com/rooflab/rooflab/notebooks"
)

func TestSecondRunInAFolderIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	if err := campaign.Init(dir, archive()); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Target: "replay:" + archive(), Numbers: []int{0}}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another run works in "+dir) {
		t.Errorf("with a run going on: %v", err)
	}
	unlock()
	again, err := lock(dir)
	if err != nil {
		t.Fatalf("after it: %v", err)
	}
	again()
}

// When rooflab alone is killed, the process of its cells lives on until the server has written its traces.
func TestRunWaitsForTheProfileOfAnEarlierOne(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		dir := t.TempDir()
		if err := campaign.Init(dir, archive()); err != nil {
			t.Fatal(err)
		}
		release, err := flock.Take(filepath.Join(dir, ".journal", "profile.lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		journal := filepath.Join(dir, ".journal", "profile.json")
		write(t, journal, `{"target": "http://127.0.0.1:1", "replay": true, "pid": 4194304, "opened": 900, "stopped": 1000}`)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done, began := make(chan error, 1), false
		go func() {
			done <- Run(ctx, Options{Dir: dir, Target: "replay:" + archive(), Numbers: []int{1}, Kernel: "no-such-kernel", Begin: func(notebooks.Phase) { began = true }})
		}()
		var now campaign.Progress
		for range 2000 {
			if now = campaign.ReadProgress(dir); now.Stage != "" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if want := "wait for an earlier process, which closes the profile itself, process 4194304 waits for http://127.0.0.1:1 to write its traces, since 00:16:40 UTC"; now.Text() != want {
			t.Errorf("while it waits: %q", now.Text())
		}
		words := `no-such-kernel`
		if interrupted {
			words = "phase 1 stopped: interrupted while process 4194304 waits for http://127.0.0.1:1 to write its traces"
			cancel()
		} else {
			release()
		}
		err = <-done
		if err == nil || !strings.Contains(err.Error(), words) || began == interrupted {
			t.Errorf("began %v: %v", began, err)
		}
		if _, err := os.Stat(journal); (err == nil) != interrupted {
			t.Errorf("interrupted %v, journal: %v", interrupted, err)
		}
	}
}

// The limit on file sizes holds for a whole process, so the writing happens in a second one:
// in this one it could hit the log that go test keeps.
func TestHalfWrittenNotebookIsNotLeft(t *testing.T) {
	if dir := os.Getenv("ROOFLAB_TEST_SMALL_FILES"); dir != "" {
		writeWithSmallFiles(t, dir)
		return
	}
	dir := t.TempDir()
	if err := campaign.Init(dir, archive()); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(os.Args[0], "-test.run=^TestHalfWrittenNotebookIsNotLeft$", "-test.v")
	again.Env = append(os.Environ(), "ROOFLAB_TEST_SMALL_FILES="+dir)
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestHalfWrittenNotebookIsNotLeft") {
		t.Fatalf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "notebooks", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func writeWithSmallFiles(t *testing.T, dir string) {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		t.Fatal(err)
	}
	if err := prepare(dir, archive(), notebooks.Phases()); err == nil {
		t.Fatal("a notebook of more than 1000 bytes was written")
	}
}
