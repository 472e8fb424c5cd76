// Package flock lets one process at a time do a thing: the one that has the lock of a file. The system gives a lock back
// when its process ends, however it ends, and it holds between processes that cannot see each other, as in two containers.
// A file system without locks holds nobody up.
package flock

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// ErrHeld says that another process has the lock.
var ErrHeld = errors.New("another process has the lock")

// Take takes the lock of a file, and makes the file and its folder where they are missing. It does not wait.
func Take(name string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if held(f, syscall.LOCK_EX) {
		f.Close()
		return nil, ErrHeld
	}
	return func() { f.Close() }, nil
}

// Held says whether another process has the lock of a file. It changes nothing.
func Held(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false // without the file nobody has it
	}
	defer f.Close()
	return held(f, syscall.LOCK_SH)
}

func held(f *os.File, how int) bool {
	return errors.Is(syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB), syscall.EWOULDBLOCK) // other errors: no locks there
}
