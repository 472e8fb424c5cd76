// Package build turns the generated source of a cell into a file to load: it finds the user's Go and its settings, makes
// the worker program and the archives of packages once per toolchain, resolves imports in the module of the
// notebook's folder, compiles and links.
//
// Every package has exactly one archive for the whole session: a process can hold only one version of a package.
//
// Package build does not know what cells mean, and it neither runs the worker (but for the self-test) nor talks to
// Jupyter.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rooflab/rooflab/internal/atomicfile"
	"github.com/rooflab/rooflab/kernel/link"
)

// Module is the module whose support packages are linked into cells.
const Module = "github.com/rooflab/rooflab"

// Options of a Builder.
type Options struct {
	Go            string       // the go command; empty: the one on PATH
	Dir           string       // the notebook's folder: its module decides what cells import
	Cache         string       // empty: rooflab/kernel in the user's cache folder
	Sources       fs.FS        // the support packages and the worker: rt/*.go, worker/*.go ...
	RooflabSource string       // a checkout of rooflab, for notebooks outside any module; may be empty
	Version       string       // the running version of rooflab, v1.2.3, or empty
	Progress      func(string) // a line for each step that takes long; nil: none
}

// Builder makes the files of one session. Its methods may be called from several goroutines.
type Builder struct {
	Toolchain *Toolchain
	o         Options
	env       []string // of all tools
	std       string   // folder of what is kept for this toolchain: the standard library
	home      string   // folder in it of what is kept for these sources: support packages, worker, cells
	dir       string   // of the session; removed by Close
	lock      *os.File
	module    module

	linking sync.Mutex // one link at a time; guards libs
	libs    libraries

	listing sync.Mutex // one `go list` at a time
	mu      sync.Mutex // guards the rest
	known   map[string]*archive
	watched map[string]stamp    // files whose change may change archives
	notes   map[string]bool     // what the user has been told
	base    map[string][]string // package -> its line of a list of archives
	support map[string]bool

	findCompanions sync.Once
	company        []string
}

// New prepares a session: milliseconds when Warm has been run before with the same toolchain.
func New(ctx context.Context, o Options) (*Builder, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("find the notebook's folder: %w", err)
	}
	if o.Cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a folder for the kernel's files: %w", err)
		}
		o.Cache = filepath.Join(user, "rooflab", "kernel")
	}
	if o.Cache, err = filepath.Abs(o.Cache); err != nil {
		return nil, fmt.Errorf("find a folder for the kernel's files: %w", err)
	}
	t, err := findToolchain(ctx, o.Go, o.Dir)
	if err != nil {
		return nil, err
	}
	b := &Builder{Toolchain: t, o: o, known: map[string]*archive{}, watched: map[string]stamp{}, notes: map[string]bool{},
		base: map[string][]string{}, support: map[string]bool{}}
	if err := b.openHome(); err != nil {
		return nil, err
	}
	if err := b.openSession(); err != nil {
		return nil, err
	}
	b.env = append(without(t.env, "TMPDIR"), "TMPDIR="+filepath.Join(b.dir, "tmp"))
	b.module = b.findModule()
	b.loadBase()
	b.libs = libraries{linker: b.newLinker(b.coreDir()), owner: map[string]*link.Library{}, cells: map[string]*link.Library{}}
	return b, nil
}

// Times of one build.
type Times struct {
	List    time.Duration // finding and making the archives of new imports
	Compile time.Duration // cgo and the C compiler included
	Link    time.Duration
	Cached  bool // the file was there from an earlier session
}

// openHome finds the folder of this toolchain and these sources, and writes the sources if they are not there.
func (b *Builder) openHome() error {
	files, err := sourceFiles(b.o.Sources)
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintln(sum, f.name, len(f.data))
		sum.Write(f.data)
		if dir := filepath.Dir(f.name); dir != workerDir {
			b.support[Module+"/kernel/"+dir] = true
		}
	}
	b.std = filepath.Join(b.o.Cache, b.Toolchain.digest)
	b.home = filepath.Join(b.std, hex.EncodeToString(sum.Sum(nil))[:16])
	mod := filepath.Join(b.home, "src", "go.mod")
	if _, err := os.Stat(mod); err == nil {
		now := time.Now()
		os.Chtimes(b.std, now, now) // in use: see trim
		os.Chtimes(b.home, now, now)
		return nil
	}
	for _, d := range []string{filepath.Join(b.std, "pkg"), filepath.Join(b.home, "cells"), filepath.Join(b.home, "libs")} {
		if err := os.MkdirAll(d, 0o700); err != nil { // what users write in cells is nobody else's business
			return fmt.Errorf("make the kernel's folder: %w", err)
		}
	}
	for _, f := range files {
		path := filepath.Join(b.home, "src", "kernel", f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the kernel's folder: %w", err)
		}
		if err := atomicfile.Write(path, f.data, 0o644); err != nil {
			return err
		}
	}
	// go.mod comes last: with it the sources are complete
	return atomicfile.Write(mod, []byte("module "+Module+"\n\ngo "+b.Toolchain.Lang[2:]+"\n"), 0o644)
}
