package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/internal/atomicfile"
)

// A session has a folder of its own. It is locked as long as the session lives, so that folders of dead sessions
// are recognised also when process numbers are used again or another machine shares the disk.

func (b *Builder) openSession() error {
	root := filepath.Join(b.o.Cache, "sessions")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("make the session's folder: %w", err)
	}
	removeStale(root)
	dir, err := os.MkdirTemp(root, fmt.Sprintf("%d-", os.Getpid()))
	if err != nil {
		return fmt.Errorf("make the session's folder: %w", err)
	}
	b.dir = dir
	if b.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return fmt.Errorf("lock the session's folder: %w", err)
	}
	if err := syscall.Flock(int(b.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock the session's folder: %w", err)
	}
	return os.Mkdir(filepath.Join(dir, "tmp"), 0o755)
}

// removeStale removes the folders of sessions that have ended without Close.
func removeStale(root string) {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			// no lock yet: perhaps it is being made
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
				os.RemoveAll(dir)
			}
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

// Close removes the session's folder. Cells that a worker has loaded stay usable there.
func (b *Builder) Close() error {
	err := os.RemoveAll(b.dir)
	b.lock.Close()
	return err
}

// flock waits for a file's lock.
func flock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lockHome keeps other kernels from making the same things at the same time.
func (b *Builder) lockHome(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.home, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the kernel's folder: %w", err)
	}
	if err := flock(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// What is kept on disk: cells of earlier sessions up to cellBytes, and toolchains used within homeAge.
const (
	cellBytes = 512 << 20
	homeAge   = 30 * 24 * time.Hour
)

// removeOlder removes a folder that was not used for some time.
func removeOlder(dir string, age time.Duration) {
	if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > age {
		os.RemoveAll(dir)
	}
}

// trim removes what has not been used for long, once a day.
func (b *Builder) trim() {
	mark := filepath.Join(b.home, "trimmed")
	if info, err := os.Stat(mark); err == nil && time.Since(info.ModTime()) < 24*time.Hour {
		return
	}
	atomicfile.Write(mark, nil, 0o644)
	for _, dir := range []string{b.o.Cache, b.std} { // toolchains, then versions of rooflab
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			old := filepath.Join(dir, e.Name())
			if _, err := os.Stat(namesFile(old)); err != nil {
				continue // something else
			}
			age := homeAge
			if plugins, _ := filepath.Glob(filepath.Join(old, "*", "worker")); dir == b.o.Cache && len(plugins) > 0 {
				age = 24 * time.Hour // of a rooflab that made plug-ins
			}
			removeOlder(old, age)
		}
	}
	libs, _ := filepath.Glob(filepath.Join(b.home, "libs", "lib*"))
	for _, dir := range libs {
		removeOlder(dir, homeAge)
	}
	for _, begun := range []string{".core-*", filepath.Join("libs", ".new-*")} { // by kernels that were killed
		dirs, _ := filepath.Glob(filepath.Join(b.home, begun))
		for _, dir := range dirs {
			removeOlder(dir, time.Hour)
		}
	}
	b.trimCells()
}

// trimCells keeps the cells that were used last.
func (b *Builder) trimCells() {
	type file struct {
		path string
		size int64
		used time.Time
	}
	var files []file
	var total int64
	cells, _ := os.ReadDir(filepath.Join(b.home, "cells"))
	for _, e := range cells {
		if info, err := e.Info(); err == nil {
			files = append(files, file{filepath.Join(b.home, "cells", e.Name()), info.Size(), info.ModTime()})
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b file) int { return a.used.Compare(b.used) })
	for _, f := range files {
		if total <= cellBytes {
			return
		}
		os.Remove(f.path)
		total -= f.size
	}
}
