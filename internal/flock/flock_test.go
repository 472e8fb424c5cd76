package flock

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMain lets this test binary be the other process: it takes the lock, says so, and waits to be killed.
func TestMain(m *testing.M) {
	name := os.Getenv("FLOCK_TEST_FILE")
	if name == "" {
		os.Exit(m.Run())
	}
	release, err := Take(name)
	if err != nil {
		os.Exit(1)
	}
	defer release()
	os.Stdout.WriteString("taken")
	io.Copy(io.Discard, os.Stdin)
}

func TestLockOfAKilledProcessIsFree(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deep", "lock")
	if Held(name) {
		t.Error("a lock without a file is held")
	}
	if _, err := os.Stat(filepath.Dir(name)); err == nil {
		t.Error("looking made a folder")
	}
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "FLOCK_TEST_FILE="+name)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("taken"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(name); !errors.Is(err, ErrHeld) || !Held(name) {
		t.Errorf("while the other process has it: %v, held %v", err, Held(name))
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.Wait() // it says that it was killed
	if Held(name) {
		t.Error("held by a process that is gone")
	}
	release, err := Take(name)
	if err != nil || !Held(name) {
		t.Fatalf("%v, held %v", err, Held(name))
	}
	if release(); Held(name) {
		t.Error("held after its release")
	}
}

func TestLockThatCannotBeMadeSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(filepath.Join(file, "lock")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("%v", err)
	}
}
