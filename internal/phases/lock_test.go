package phases

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rooflab/rooflab/campaign"
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
