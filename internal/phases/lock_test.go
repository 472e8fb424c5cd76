package phases

import (
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

func TestHalfWrittenNotebookIsNotLeft(t *testing.T) {
	dir := t.TempDir()
	if err := campaign.Init(dir, archive()); err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: before.Max}); err != nil {
		t.Skip(err)
	}
	err := prepare(dir, archive(), notebooks.Phases())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err == nil {
		t.Fatal("a notebook of more than 1000 bytes was written")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "notebooks", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
