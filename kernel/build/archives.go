package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// archive is the compiled form of a package: export data for the type checker, object code for the linker.
type archive struct {
	file   string
	id     string   // digest of the content
	base   bool     // of the standard library or a support package: the same in every session of a toolchain
	deps   []string // packages it needs, also indirectly
	hidden bool     // an internal package of another module: cells may not import it
	cell   int      // the first cell that needed its library; 0: none, and the archive may still be replaced
}

// ChangedError says that a package is in use in a version that is no longer what its source is.
type ChangedError struct {
	Path string
	Cell int // that loaded it
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s has changed since cell %d loaded it: restart the kernel (%%restart)", e.Path, e.Cell)
}

// listed is what `go list` says about a package.
type listed struct {
	ImportPath, Name, Export, Dir string
	Standard                      bool
	Imports, Deps                 []string
	GoFiles, CgoFiles, CFiles     []string
	SFiles, HFiles, EmbedFiles    []string
	Module                        *listedModule
	Error                         *listError
	DepsErrors                    []*listError
}

type listedModule struct {
	Path, Version string
	Main          bool
	Replace       *listedModule
}

const listFields = "-json=ImportPath,Name,Export,Dir,Standard,Imports,Deps,GoFiles,CgoFiles,CFiles,SFiles,HFiles,EmbedFiles,Module,Error,DepsErrors"

// hidden says that a package is internal to a module other than the notebook's.
func (p *listed) hidden() bool { return internal(p.ImportPath) && (p.Module == nil || !p.Module.Main) }

func decodeList(out []byte) ([]listed, error) {
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// Archive opens a package's archive for the type checker; it is made if it is not known yet. Nothing is fetched
// from a network for it.
func (b *Builder) Archive(path string) (io.ReadCloser, error) {
	return b.ArchiveContext(context.Background(), path)
}

// ArchiveContext is Archive with a context that ends the making.
func (b *Builder) ArchiveContext(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := b.resolve(ctx, path); err != nil {
		return nil, err
	}
	b.mu.Lock()
	a := b.known[path]
	b.mu.Unlock()
	if a == nil {
		return nil, fmt.Errorf("package %s has no export data", path)
	}
	return os.Open(a.file)
}

// resolve makes sure that packages are known.
func (b *Builder) resolve(ctx context.Context, paths ...string) error {
	b.listing.Lock()
	defer b.listing.Unlock()
	var base, other []string
	b.mu.Lock()
	for _, p := range paths {
		a := b.known[p]
		std := b.isStd(p)
		if a != nil && a.hidden || std && internal(p) {
			b.mu.Unlock()
			return &ImportError{p, "use of internal package " + p + " not allowed"}
		}
		if a != nil || pseudo(p) {
			continue
		}
		if b.support[p] || std {
			base = append(base, p)
		} else {
			other = append(other, p)
		}
	}
	b.mu.Unlock()
	if len(base) > 0 {
		if err := b.addBase(ctx, false, base...); err != nil {
			return err
		}
	}
	if len(other) == 0 {
		return nil
	}
	if slices.ContainsFunc(other, b.ofRooflab) {
		b.mu.Lock()
		more := slices.DeleteFunc(slices.Concat(other, b.companions()), func(p string) bool { return b.known[p] != nil })
		slices.Sort(more)
		more = slices.Compact(more)
		b.mu.Unlock()
		if pkgs, err := b.list(ctx, more...); err == nil {
			return b.take(pkgs, other)
		} // perhaps one that is not asked for does not compile
	}
	pkgs, err := b.list(ctx, other...)
	if err != nil {
		return err
	}
	return b.take(pkgs, other)
}

func (b *Builder) isStd(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	if path == "" || strings.Contains(first, ".") || strings.HasPrefix(path, cellPrefix) {
		return false
	}
	info, err := os.Stat(filepath.Join(b.Toolchain.Root, "src", filepath.FromSlash(path)))
	return err == nil && info.IsDir()
}

func internal(path string) bool {
	return strings.HasPrefix(path, "vendor/") || strings.HasPrefix(path, "internal/") || strings.HasSuffix(path, "/internal") || strings.Contains(path, "/internal/")
}

// list asks the go command, in the module of the notebook's folder, for packages and all that they need. Packages
// with errors make a *ListError.
func (b *Builder) list(ctx context.Context, paths ...string) ([]listed, error) {
	if err := b.module.prepare(b.Toolchain.Lang, b.o.RooflabSource); err != nil {
		return nil, err
	}
	b.o.Progress("compile " + describe(paths))
	cmd := command(ctx, b.module.dir, offline(b.module.env(b.env)), b.Toolchain.Go,
		slices.Concat([]string{"list", "-e", listFields}, archiveFlags, []string{"--"}, paths)...)
	out, err := output(cmd)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, b.explain(paths, nil, err.Error())
	}
	pkgs, err := decodeList(out)
	if err != nil {
		return nil, err
	}
	return pkgs, b.explain(paths, pkgs, "")
}

// take adds listed packages to those that are known. A package that a cell has used keeps its archive.
func (b *Builder) take(pkgs []listed, asked []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	stale := false
	for _, p := range pkgs {
		old := b.known[p.ImportPath]
		if old == nil || old.base || p.Standard || b.support[p.ImportPath] || old.id == filepath.Base(p.Export) {
			continue
		}
		if old.cell > 0 {
			return &ChangedError{p.ImportPath, old.cell}
		}
		stale = true
	}
	if stale {
		b.forget()
	}
	for _, p := range pkgs {
		switch {
		case p.Export == "" || p.Name == "main":
		case b.support[p.ImportPath]:
			// cells use the worker's own: see explain
		case p.Standard:
			b.keepBase(p)
		case b.known[p.ImportPath] == nil:
			id := filepath.Base(p.Export)
			file, _ := keep(p.Export, filepath.Join(b.dir, id)) // the go command's cache may forget it
			b.known[p.ImportPath] = &archive{file: file, id: id, deps: p.Deps, hidden: p.hidden()}
			b.watch(p)
		}
	}
	for _, p := range pkgs {
		if a := b.known[p.ImportPath]; a != nil && !a.base {
			a.deps = slices.DeleteFunc(slices.Clone(p.Deps), func(d string) bool { return b.known[d] == nil })
		}
	}
	return nil
}

// forget drops the archives that no cell has used. The caller holds mu.
func (b *Builder) forget() (paths []string) {
	for path, a := range b.known {
		if !a.base && a.cell == 0 {
			delete(b.known, path)
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// stamp tells whether a file has been written.
type stamp struct {
	size int64
	at   time.Time
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime()}
}

// watch remembers the files of a package that can change: those outside the module cache. The caller holds mu.
func (b *Builder) watch(p listed) {
	for _, f := range b.module.files() {
		if _, ok := b.watched[f]; !ok {
			b.watched[f] = stampOf(f)
		}
	}
	m := p.Module
	if m == nil || !m.Main && (m.Replace == nil || m.Replace.Version != "") {
		return
	}
	files := slices.Concat([]string{"."}, p.GoFiles, p.CgoFiles, p.CFiles, p.SFiles, p.HFiles, p.EmbedFiles)
	for _, f := range files {
		f = filepath.Join(p.Dir, f)
		b.watched[f] = stampOf(f)
	}
}

// Changed looks for packages whose source has changed. Replaced are those that no cell has used yet: their archives
// will be made anew, and the type checker must forget the old ones. Notes say which packages in use have changed;
// each is said once. It costs microseconds when no file has been written.
func (b *Builder) Changed(ctx context.Context) (replaced, notes []string, err error) {
	b.listing.Lock()
	defer b.listing.Unlock()
	b.mu.Lock()
	written := false
	for f, s := range b.watched {
		written = written || stampOf(f) != s
	}
	var used []string
	for path, a := range b.known {
		if !a.base && a.cell > 0 && !strings.HasPrefix(path, cellPrefix) {
			used = append(used, path)
		}
	}
	if !written {
		b.mu.Unlock()
		return nil, nil, nil
	}
	for f := range b.watched {
		b.watched[f] = stampOf(f)
	}
	replaced = b.forget()
	b.mu.Unlock()
	if len(used) == 0 {
		return replaced, nil, nil
	}
	slices.Sort(used)
	pkgs, err := b.list(ctx, used...)
	if ctx.Err() != nil {
		return replaced, nil, ctx.Err()
	}
	broken := err != nil // a package that does not compile at the moment
	b.mu.Lock()
	defer b.mu.Unlock()
	now := map[string]string{}
	for _, p := range pkgs {
		now[p.ImportPath] = filepath.Base(p.Export)
		if !p.Standard {
			b.watch(p)
		}
	}
	for _, path := range used {
		if a := b.known[path]; now[path] != a.id && (now[path] != "" || broken) {
			note := (&ChangedError{path, a.cell}).Error()
			if !b.notes[note] {
				b.notes[note] = true
				notes = append(notes, note)
			}
		}
	}
	return replaced, notes, nil
}

// writeConfig writes what the compiler calls importcfg: the archives of what a package imports itself.
func (b *Builder) writeConfig(file string, imports []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s strings.Builder
	for _, p := range slices.Sorted(slices.Values(imports)) {
		if a := b.known[p]; a != nil {
			fmt.Fprintf(&s, "packagefile %s=%s\n", p, a.file)
		}
	}
	if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
		return fmt.Errorf("write the list of imports: %w", err)
	}
	return nil
}

// all is what packages need, themselves included, sorted. The caller holds mu.
func (b *Builder) all(paths []string) []string {
	seen := map[string]bool{}
	for _, p := range paths {
		if a := b.known[p]; a != nil {
			seen[p] = true
			for _, d := range a.deps {
				if b.known[d] != nil {
					seen[d] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// changeable is what a cell that imports paths depends on, without what is the same in every session of a toolchain.
// The caller holds mu.
func (b *Builder) changeable(paths []string) []string {
	return slices.DeleteFunc(b.all(paths), func(p string) bool { return b.known[p].base })
}

// initOrder sorts packages in the order in which Go initialises them: of those whose imports are ready, the first by
// path. The caller holds mu.
func (b *Builder) initOrder(paths []string) (order []string) {
	waiting := map[string]int{} // package -> how many that it needs are not ready
	users := map[string][]string{}
	for _, p := range paths {
		waiting[p] = 0
	}
	var ready []string
	for _, p := range paths {
		for _, d := range b.known[p].deps {
			if _, ok := waiting[d]; ok {
				waiting[p]++
				users[d] = append(users[d], p)
			}
		}
		if waiting[p] == 0 {
			ready = append(ready, p)
		}
	}
	slices.Sort(ready)
	for len(ready) > 0 {
		p := ready[0]
		ready, order = ready[1:], append(order, p)
		for _, u := range users[p] {
			if waiting[u]--; waiting[u] == 0 {
				at, _ := slices.BinarySearch(ready, u)
				ready = slices.Insert(ready, at, u)
			}
		}
	}
	return order
}

// digestFile is used in keys of the cache.
func digestFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}
