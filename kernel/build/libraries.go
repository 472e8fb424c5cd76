package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rooflab/rooflab/internal/atomicfile"
	"github.com/rooflab/rooflab/kernel/link"
)

// A worker process has all packages in libraries that are linked once and kept: the core, which is the runtime, the
// worker and what these import; the usual part of the standard library; and one for each set of packages that a
// notebook newly imports. A cell is linked alone: its link reads no other package. So linking takes the same
// milliseconds whatever a cell imports, and initialisations that the linker would leave out because one cell does not
// need them (of large maps) are there for all cells.

// libraries are those of one session. Package link knows them by what they define, the worker by their files.
type libraries struct {
	linker *link.Linker
	core   *link.Library
	loaded []*link.Library          // without the core, in the order in which they are to be loaded
	owner  map[string]*link.Library // package -> library
	cells  map[string]*link.Library
}

// coreDir is the folder of the worker, which appears at once when all of it is ready.
func (b *Builder) coreDir() string { return filepath.Join(b.home, "core") }

// openCore takes the core over. The caller holds linking.
func (b *Builder) openCore() error {
	if b.libs.core != nil {
		return nil
	}
	core, err := link.Open(filepath.Join(b.coreDir(), "libcore.so"), nil)
	if err != nil {
		return fmt.Errorf("open the worker's library: %w", err)
	}
	b.libs.core = core
	for path := range core.Prints {
		b.libs.owner[path] = core
	}
	return nil
}

// newLinker prepares links whose small files (first.a, basic.a, extld) are in dir.
func (b *Builder) newLinker(dir string) *link.Linker {
	run := func(ctx context.Context, args ...string) error { return b.tool(ctx, "link", args...) }
	return &link.Linker{Run: run, Extld: extldOf([]string{filepath.Join(dir, "extld")}), First: filepath.Join(dir, "first.a"), Basic: filepath.Join(dir, "basic.a")}
}

// makeHelper compiles the program that stands for the C compiler in links. A slow one passes all links on.
func (b *Builder) makeHelper(ctx context.Context, dir string, slow bool) error {
	var ld, libc string
	if !slow {
		ld, libc = b.findLd(ctx)
	}
	src := filepath.Join(b.dir, "extld.c")
	if err := os.WriteFile(src, []byte(link.Helper(b.Toolchain.CC, ld, libc)), 0o644); err != nil {
		return fmt.Errorf("write the linker's helper: %w", err)
	}
	next := filepath.Join(b.dir, "extld")
	if _, err := output(b.compilerC(ctx, b.dir, "-O1", "-o", next, src)); err != nil {
		return fmt.Errorf("compile the linker's helper: %w", err)
	}
	data, err := os.ReadFile(next)
	if err != nil {
		return fmt.Errorf("compile the linker's helper: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, "extld"), data, 0o755)
}

// findLd finds the system's linker and C library, or nothing.
func (b *Builder) findLd(ctx context.Context) (ld, libc string) {
	ld, err := exec.LookPath("ld.gold")
	if err != nil {
		if ld, err = exec.LookPath("ld"); err != nil {
			return "", ""
		}
	}
	out, err := output(b.compilerC(ctx, b.dir, "-print-file-name=libc.so.6"))
	if libc = strings.TrimSpace(string(out)); err != nil || !filepath.IsAbs(libc) {
		return "", ""
	}
	return ld, libc
}

// makeCore links the worker from its archive and those of the packages that it needs.
func (b *Builder) makeCore(ctx context.Context, worker string, imports []string) error {
	next := filepath.Join(b.home, ".core-"+filepath.Base(b.dir))
	if err := os.MkdirAll(next, 0o755); err != nil {
		return fmt.Errorf("make the worker's folder: %w", err)
	}
	defer os.RemoveAll(next)
	if err := b.makeHelper(ctx, next, false); err != nil {
		return err
	}
	for _, f := range []struct{ path, name, text, flag string }{
		{"runtime", "basic", "package runtime\n", "-std"},
		{"first", "first", "package first\n\n//go:noinline\nfunc F() {}\n", "-complete"},
	} {
		src := filepath.Join(b.dir, f.name+".go")
		if err := os.WriteFile(src, []byte(f.text), 0o644); err != nil {
			return fmt.Errorf("write the worker's parts: %w", err)
		}
		if err := b.tool(ctx, "compile", append(b.compileFlags(f.path, filepath.Join(next, f.name+".a")), f.flag, src)...); err != nil {
			return fmt.Errorf("compile the worker's parts: %w", err)
		}
	}
	b.mu.Lock()
	pkgs := append(b.packages(b.all(imports)), link.Package{Path: "main", Archive: worker})
	b.mu.Unlock()
	core, err := b.newLinker(next).Core(ctx, next, pkgs)
	if err == nil {
		err = core.Save()
	}
	if err != nil {
		return fmt.Errorf("link the worker: %w", b.plainLink(err))
	}
	empty := filepath.Join(b.dir, "empty.c")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		return fmt.Errorf("link the worker: %w", err)
	}
	// The program itself is empty: its main is the core's.
	if _, err := output(b.compilerC(ctx, next, "-o", "worker", empty, "-Wl,-z,now", "-Wl,--no-as-needed", "-L.", "-lcore", "-Wl,-rpath,$ORIGIN")); err != nil {
		return fmt.Errorf("link the worker: %w", err)
	}
	return os.Rename(next, b.coreDir())
}

// packages gives archives as the linker wants them. The caller holds mu.
func (b *Builder) packages(paths []string) (pkgs []link.Package) {
	for _, p := range paths {
		pkgs = append(pkgs, link.Package{Path: p, Archive: b.known[p].file})
	}
	return pkgs
}

// needs is what a cell is linked against and what its worker has to have.
type needs struct {
	under []*link.Library // the first is the core
	files []string        // of the libraries without the core and the cells, in the order of loading
	inits []string        // the initialisations that the core has not run, in order
}

// need finds or makes the libraries of all that a cell imports. The caller holds linking.
func (b *Builder) need(ctx context.Context, cell int, imports []string) (needs, error) {
	if err := b.openCore(); err != nil {
		return needs{}, err
	}
	var std, other []string
	b.mu.Lock()
	all := b.all(imports)
	paths := all
	if slices.ContainsFunc(all, func(p string) bool { return b.ofRooflab(p) && b.libs.owner[p] == nil }) {
		paths = b.all(slices.Concat(imports, b.companions()))
	}
	for _, p := range paths {
		switch {
		case b.libs.owner[p] != nil || b.libs.cells[p] != nil:
		case b.known[p].base:
			std = append(std, p)
		default:
			other = append(other, p)
		}
	}
	b.mu.Unlock()
	for _, set := range [][]string{b.usual(std), std, other} {
		if err := b.addLibrary(ctx, cell, set); err != nil {
			return needs{}, err
		}
	}
	n := needs{under: []*link.Library{b.libs.core}}
	wanted := map[*link.Library]bool{}
	var fresh []string
	for _, p := range all {
		if c := b.libs.cells[p]; c != nil {
			n.under = append(n.under, c)
		} else if l := b.libs.owner[p]; l != b.libs.core {
			wanted[l] = true
			fresh = append(fresh, p)
		}
	}
	for l := range maps.Clone(wanted) {
		for _, under := range l.Needs {
			wanted[under] = true
		}
	}
	for _, l := range b.libs.loaded {
		if wanted[l] {
			n.under, n.files = append(n.under, l), append(n.files, l.File)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.initOrder(fresh) {
		n.inits = append(n.inits, link.InitTask(p))
	}
	return n, nil
}

// usual is the usual part of the standard library, if one of the packages is in it and it is not loaded yet.
func (b *Builder) usual(std []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	set := slices.DeleteFunc(b.all(warmed), func(p string) bool { return b.libs.owner[p] != nil })
	if slices.ContainsFunc(set, func(p string) bool { return slices.Contains(std, p) }) {
		return set
	}
	return nil
}

// addLibrary makes or finds the library of those packages of a set that are in none.
func (b *Builder) addLibrary(ctx context.Context, cell int, set []string) error {
	set = slices.DeleteFunc(slices.Clone(set), func(p string) bool { return b.libs.owner[p] != nil })
	if len(set) == 0 {
		return nil
	}
	l, err := b.library(ctx, set)
	if err != nil {
		return err
	}
	b.libs.loaded = append(b.libs.loaded, l)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range set {
		b.libs.owner[p] = l
		if a := b.known[p]; a != nil && a.cell == 0 {
			a.cell = cell
		}
	}
	return nil
}

// library makes or finds the library of some packages. Its name is a digest of their archives and of those that they
// need.
func (b *Builder) library(ctx context.Context, set []string) (*link.Library, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, b.libs.core.Digest(), set)
	b.mu.Lock()
	all := b.all(set)
	for _, p := range all {
		fmt.Fprintln(sum, p, b.known[p].id)
	}
	pkgs := b.packages(set)
	b.mu.Unlock()
	wanted := map[*link.Library]bool{}
	for _, p := range all {
		if l := b.libs.owner[p]; l != nil {
			wanted[l] = true
		}
	}
	under := []*link.Library{b.libs.core}
	for _, l := range b.libs.loaded {
		if wanted[l] {
			under = append(under, l)
		}
	}
	name := fmt.Sprintf("lib%x", sum.Sum(nil)[:10])
	dir := filepath.Join(b.home, "libs", name)
	file := filepath.Join(dir, name+".so")
	open := func() (*link.Library, error) {
		now := time.Now()
		if err := os.Chtimes(dir, now, now); err != nil { // in use: see trim
			return nil, err
		}
		return link.Open(file, under)
	}
	if l, err := open(); err == nil {
		return l, nil
	}
	unlock, err := b.lockHome(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l, err := open(); err == nil { // another kernel has made it
		return l, nil
	}
	b.o.Progress("link " + describe(set))
	next := filepath.Join(b.home, "libs", ".new-"+filepath.Base(b.dir))
	if err := os.MkdirAll(next, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for a library: %w", err)
	}
	defer os.RemoveAll(next)
	l, err := b.libs.linker.Link(ctx, filepath.Join(next, name+".so"), pkgs, under)
	if err == nil {
		err = l.Save()
	}
	if err != nil {
		return nil, b.linkError(ctx, err)
	}
	os.RemoveAll(dir) // what could not be opened
	if err := os.Rename(next, dir); err != nil {
		return nil, fmt.Errorf("keep a library: %w", err)
	}
	return open()
}

func describe(set []string) string {
	if len(set) > 3 {
		return fmt.Sprintf("%s and %d other packages", set[0], len(set)-1)
	}
	return strings.Join(set, ", ")
}

// linkError puts the error of a link into the words of this package.
func (b *Builder) linkError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var changed *link.Changed
	if !errors.As(err, &changed) {
		return b.plainLink(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &ChangedError{Path: changed.Package}
	if a := b.known[changed.Package]; a != nil {
		e.Cell = a.cell
	}
	return e
}

// link makes the file of a compiled cell.
func (b *Builder) link(ctx context.Context, j *job, n needs) error {
	var flags []string
	if !j.cgo {
		flags = []string{link.CellFlags}
	}
	_, err := b.libs.linker.Link(ctx, j.base+".so", []link.Package{{Path: j.Pkg, Archive: j.base + ".a"}}, n.under, flags...)
	if err != nil {
		return b.linkError(ctx, err)
	}
	return nil
}

// addCell lets later cells be linked against a cell.
func (b *Builder) addCell(ctx context.Context, j *job, n needs) error {
	l, err := link.Known(j.base+".so", []link.Package{{Path: j.Pkg, Archive: j.base + ".a"}}, n.under)
	if err != nil {
		return b.linkError(ctx, err)
	}
	l.Prefix = j.Pkg + "."
	b.libs.cells[j.Pkg] = l
	return nil
}

// plainLink leaves out the echo of the linker's command line.
func (b *Builder) plainLink(err error) error {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, " -m64 ") && !strings.Contains(line, "failed: exit status") {
			lines = append(lines, strings.ReplaceAll(line, b.dir+string(filepath.Separator), ""))
		}
	}
	if len(lines) == 0 {
		return err
	}
	if len(lines) > 8 {
		lines = append(lines[:8], "...")
	}
	return errors.New("link the cell: " + strings.Join(lines, "\n"))
}
