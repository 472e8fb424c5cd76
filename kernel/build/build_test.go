package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cache is shared by the tests of this package: the worker is built once.
var cache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rooflab-build-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cache = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func options(t testing.TB, dir string) Options {
	return Options{Dir: dir, Cache: cache, Sources: os.DirFS(".."), Progress: func(s string) { t.Log(s) }}
}

func open(t testing.TB, o Options) *Builder {
	t.Helper()
	b, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// bench is a builder with a running worker.
type bench struct {
	t testing.TB
	*Builder
	w *throwAway
}

func newBench(t testing.TB, dir string) *bench {
	b := open(t, options(t, dir))
	program, err := b.Worker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := startThrowAway(context.Background(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return &bench{t, b, w}
}

// source writes a cell as the session does.
func source(imports, decls, body string) []byte {
	return []byte("package 𐲀𐲀main\nimport 𐲀𐲀rt \"github.com/rooflab/rooflab/kernel/rt\"\n" + imports + "\n" + decls +
		"\n//go:noinline\nfunc 𐲀𐲀Run(𐲀𐲀c *𐲀𐲀rt.Cell) {\n" + body + "\n}\nfunc main() { 𐲀𐲀Run(nil) }\n")
}

// run builds a cell, runs it, and returns the text that it has panicked with.
func (b *bench) run(n int, imports, decls, body string) (string, Times) {
	b.t.Helper()
	pkg := fmt.Sprintf("nb/c%d", n)
	built, err := b.Cell(b.t.Context(), Unit{Cell: n, Pkg: pkg, Source: source(imports, decls, body)})
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := b.w.run(n, built.Mod)
	if err != nil {
		b.t.Fatal(err)
	}
	if m.Err == nil {
		return "", built.Times
	}
	return m.Err.Value, built.Times
}

// fails builds a cell that cannot be built.
func (b *bench) fails(n int, imports, decls, body string) error {
	b.t.Helper()
	_, err := b.Cell(b.t.Context(), Unit{Cell: n, Pkg: fmt.Sprintf("nb/c%d", n), Source: source(imports, decls, body)})
	if err == nil {
		b.t.Fatalf("cell %d was built", n)
	}
	return err
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCellsSeeEarlierCells(t *testing.T) {
	b := newBench(t, t.TempDir())
	if got, _ := b.run(1, "", "var 𐲀x = 41", "𐲀x++"); got != "" {
		t.Fatal(got)
	}
	got, times := b.run(2, "import c1 \"nb/c1\"\nimport \"fmt\"", "", "panic(fmt.Sprint(c1.𐲀x))")
	if got != "42" {
		t.Errorf("got %q, want 42", got)
	}
	if times.Compile <= 0 || times.Link <= 0 {
		t.Errorf("times %+v", times)
	}
}

func TestSameCellOfALaterSessionIsNotCompiledAgain(t *testing.T) {
	dir := t.TempDir()
	for session := range 2 {
		b := newBench(t, dir)
		_, t1 := b.run(1, "", "type T struct{ A int }\nvar X = T{7}", "")
		got, t2 := b.run(2, "import c1 \"nb/c1\"\nimport \"fmt\"", "", "panic(fmt.Sprint(c1.X.A, any(c1.X).(c1.T)))")
		if got != "7 {7}" {
			t.Errorf("session %d: got %q", session, got)
		}
		if want := session == 1; t1.Cached != want || t2.Cached != want {
			t.Errorf("session %d: cached %v %v, want %v", session, t1.Cached, t2.Cached, want)
		}
		t.Logf("session %d: %v %v", session, t1, t2)
	}
	// cell 1 is another one now: cell 2, whose text is the same, must be made anew
	b := newBench(t, dir)
	b.run(1, "", "type T struct{ B, A int }\nvar X = T{1, 8}", "")
	got, times := b.run(2, "import c1 \"nb/c1\"\nimport \"fmt\"", "", "panic(fmt.Sprint(c1.X.A, any(c1.X).(c1.T)))")
	if got != "8 {1 8}" || times.Cached {
		t.Errorf("got %q, cached %v", got, times.Cached)
	}
}

func TestContextEndsTheTools(t *testing.T) {
	b := newBench(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	body := strings.Repeat("func() { defer func() { println(1) }() }()\n", 20000)
	_, err := b.Cell(ctx, Unit{Cell: 1, Pkg: "nb/c1", Source: source("", "", body)})
	if err != context.Canceled {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if got, _ := b.run(2, "", "", "panic(2)"); !strings.Contains(got, "2") {
		t.Errorf("the next cell: %q", got)
	}
}

func TestCloseRemovesTheSessionAndTheNextStartWhatWasLeft(t *testing.T) {
	root := t.TempDir()
	o := options(t, t.TempDir())
	o.Cache = root
	left := filepath.Join(root, "sessions", "999999-dead")
	write(t, left, map[string]string{"lock": "", "nb_c1.so": "x"})
	b := open(t, o)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead session is there: %v", err)
	}
	other := open(t, o)
	if _, err := os.Stat(b.dir); err != nil {
		t.Errorf("the folder of a living session was removed: %v", err)
	}
	for _, s := range []*Builder{b, other} {
		s.Close()
		if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
			t.Errorf("the folder of a closed session is there: %v", err)
		}
	}
}

func TestWarmStartRunsNoTool(t *testing.T) {
	dir := t.TempDir()
	newBench(t, dir)
	t0 := time.Now()
	b := open(t, options(t, dir))
	t1 := time.Now()
	b.o.Progress = func(s string) { t.Errorf("a warm start does %q", s) }
	program, err := b.Worker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := startThrowAway(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("new %v, worker ready %v", t1.Sub(t0), time.Since(t1))
	w.end()
}

func TestAnotherVersionOfRooflabNeedsNoStandardLibrary(t *testing.T) {
	newBench(t, t.TempDir())
	o := options(t, t.TempDir())
	o.Sources = sabotaged(t, "package main", "package main // another version")
	b := open(t, o)
	if b.known["fmt"] == nil || b.known["runtime"] == nil {
		t.Error("the archives of the toolchain are not known")
	}
	if b.known[Module+"/kernel/rt"] != nil {
		t.Error("a support package of another version is taken over")
	}
}

func TestUnusedFoldersAndPlugInsAreRemoved(t *testing.T) {
	o := options(t, t.TempDir())
	o.Cache = t.TempDir()
	b := open(t, o)
	old := time.Now().Add(-2 * homeAge)
	for _, dir := range []string{filepath.Join(o.Cache, "0ld"), filepath.Join(b.std, "0ld")} {
		write(t, dir, map[string]string{"archives": ""})
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"old.so", "new.so"} {
		f := filepath.Join(b.home, "cells", name)
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(f, cellBytes*2/3); err != nil { // a file with a hole: it needs no room
			t.Fatal(err)
		}
		at := time.Now()
		if name == "old.so" {
			at = old
		}
		if err := os.Chtimes(f, at, at); err != nil {
			t.Fatal(err)
		}
	}
	inUse := filepath.Join(b.std, "0123")
	write(t, inUse, map[string]string{"archives": "", "core/worker": ""})
	library, plugins := filepath.Join(b.home, "libs", "lib0ld"), filepath.Join(o.Cache, "plug-ins")
	write(t, library, map[string]string{"lib0ld.so": ""})
	write(t, plugins, map[string]string{"archives": "", "0123/worker": ""})
	days := time.Now().Add(-48 * time.Hour)
	for dir, at := range map[string]time.Time{library: old, plugins: days, inUse: days} {
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	b.trim()
	for path, want := range map[string]bool{library: false, plugins: false, inUse: true, filepath.Join(o.Cache, "0ld"): false, filepath.Join(b.std, "0ld"): false, b.home: true,
		b.cached("old", ".so"): false, b.cached("new", ".so"): true, b.dir: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
}
