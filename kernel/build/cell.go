package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rooflab/rooflab/kernel/proto"
)

// cellPrefix begins the package paths of cells.
const cellPrefix = "nb/"

// Unit is a generated source file.
type Unit struct {
	Cell   int    // the number that messages name
	Pkg    string // import path, nb/c7: unique in the session, and the same for the same cell of a later session
	Source []byte // may import "C", and may have //go:embed directives for files below the notebook's folder
}

// Built is a cell made ready for the worker.
type Built struct {
	Mod   proto.Mod // the worker may change its file
	Times Times
}

// job is one run of Cell.
type job struct {
	Unit
	file    *ast.File
	imports []string
	cgo     bool
	embed   *embedding
	base    string // path of all files of the cell, less the ending
	times   Times
}

// Cell compiles and links a unit. Packages that it needs keep their archives for the rest of the session. A context
// that ends kills the tools, and the error is the context's.
func (b *Builder) Cell(ctx context.Context, u Unit) (Built, error) {
	j, err := b.newJob(u)
	if err != nil {
		return Built{}, err
	}
	t0 := time.Now()
	if err := b.resolve(ctx, j.imports...); err != nil {
		return Built{}, err
	}
	j.times.List = time.Since(t0)
	b.linking.Lock()
	defer b.linking.Unlock()
	key, err := b.key(j)
	if err != nil {
		return Built{}, err
	}
	cached := b.fromCache(j, key)
	if !cached {
		t0 = time.Now()
		if err := b.compile(ctx, j); err != nil {
			return Built{Times: j.times}, err
		}
		j.times.Compile = time.Since(t0)
	}
	t0 = time.Now()
	n, err := b.need(ctx, u.Cell, j.imports)
	if err != nil {
		return Built{Times: j.times}, err
	}
	if !cached {
		if err := b.link(ctx, j, n); err != nil {
			return Built{Times: j.times}, err
		}
		b.toCache(j, key)
	}
	if err := b.addCell(ctx, j, n); err != nil {
		return Built{Times: j.times}, err
	}
	j.times.Link += time.Since(t0)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[u.Pkg] = &archive{file: j.base + ".a", id: key, deps: b.all(j.imports), cell: u.Cell}
	return Built{Mod: proto.Mod{SO: j.base + ".so", Pkg: u.Pkg, Libs: n.files, Init: n.inits}, Times: j.times}, nil
}

func (b *Builder) newJob(u Unit) (*job, error) {
	j := &job{Unit: u, base: filepath.Join(b.dir, strings.NewReplacer("/", "_", string(filepath.Separator), "_").Replace(u.Pkg))}
	embeds := bytes.Contains(u.Source, []byte("//go:embed"))
	mode := parser.ImportsOnly
	if embeds {
		mode = parser.ParseComments | parser.SkipObjectResolution
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", u.Source, mode)
	if err != nil {
		return nil, err
	}
	j.file = f
	for _, s := range f.Imports {
		path, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			return nil, err
		}
		if path == "C" {
			j.cgo = true
			continue
		}
		j.imports = append(j.imports, path)
	}
	if j.cgo { // what cgo's own code imports
		j.imports = append(j.imports, "runtime/cgo", "syscall")
	}
	if embeds {
		if j.embed, err = findEmbeds(fset, f, b.o.Dir); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// compile makes the cell's archive.
func (b *Builder) compile(ctx context.Context, j *job) error {
	if j.cgo {
		return b.compileC(ctx, j)
	}
	src := j.base + ".go"
	if err := os.WriteFile(src, j.Source, 0o644); err != nil {
		return fmt.Errorf("write the cell: %w", err)
	}
	return b.compileGo(ctx, j, "-complete", src)
}

func (b *Builder) compileGo(ctx context.Context, j *job, args ...string) error {
	cfg := j.base + ".imports"
	if err := b.writeConfig(cfg, j.imports); err != nil {
		return err
	}
	args = slices.Concat(b.compileFlags(j.Pkg, j.base+".a"), []string{"-importcfg", cfg, "-dwarf=false", "-trimpath", b.dir + "=>"}, args)
	if j.embed != nil {
		cfg := j.base + ".embed"
		if err := os.WriteFile(cfg, j.embed.config(), 0o644); err != nil {
			return fmt.Errorf("write the list of embedded files: %w", err)
		}
		args = append([]string{"-embedcfg", cfg}, args...)
	}
	return b.tool(ctx, "compile", args...)
}

// compileFlags are those of all that is compiled here. They must agree with archiveFlags.
func (b *Builder) compileFlags(path, archive string) []string {
	return []string{"-p", path, "-dynlink", "-linkshared", "-installsuffix", "dynlink", "-lang=" + b.Toolchain.Lang, "-pack", "-o", archive}
}

// A cell's file depends on nothing but its source, its package path and the archives of what it needs. So a cell
// with the same number and text in a later session needs no compiler. Type identity is not touched: the path
// contains the cell's number, and whatever an earlier cell was, its key is part of the later cell's.

// key is the digest of all that decides what a cell's file is, or empty if that is not known (headers of
// C) or the file is not to be kept.
func (b *Builder) key(j *job) (string, error) {
	if j.cgo || j.Cell > selfCell {
		return "", nil
	}
	if err := b.openCore(); err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, "2", b.libs.core.Digest(), j.Pkg, len(j.Source))
	sum.Write(j.Source)
	b.mu.Lock()
	for _, p := range b.changeable(j.imports) {
		id := b.known[p].id
		if id == "" {
			b.mu.Unlock()
			return "", nil // it depends on a cell without a key
		}
		fmt.Fprintln(sum, p, id)
	}
	b.mu.Unlock()
	if j.embed != nil {
		for _, name := range j.embed.names() {
			d, err := digestFile(j.embed.Files[name])
			if err != nil {
				return "", fmt.Errorf("embed %s: %w", name, err)
			}
			fmt.Fprintln(sum, name, d)
		}
		fmt.Fprintln(sum, string(j.embed.patterns()))
	}
	return hex.EncodeToString(sum.Sum(nil))[:32], nil
}

func (b *Builder) cached(key, ext string) string { return filepath.Join(b.home, "cells", key+ext) }

func (b *Builder) fromCache(j *job, key string) bool {
	if key == "" {
		return false
	}
	now := time.Now()
	for _, ext := range []string{".so", ".a"} {
		if os.Chtimes(b.cached(key, ext), now, now) != nil {
			return false
		}
	}
	t0 := time.Now()
	if copyFile(b.cached(key, ".so"), j.base+".so") != nil || copyFile(b.cached(key, ".a"), j.base+".a") != nil {
		return false
	}
	j.times.Link, j.times.Cached = time.Since(t0), true
	return true
}

// toCache keeps a cell's file for later sessions. That it cannot (a full disk) is no reason to fail.
func (b *Builder) toCache(j *job, key string) {
	if key == "" {
		return
	}
	for _, ext := range []string{".a", ".so"} {
		next := filepath.Join(b.home, "cells", fmt.Sprintf(".%s%s.%d", key, ext, os.Getpid()))
		if copyFile(j.base+ext, next) != nil || os.Rename(next, b.cached(key, ext)) != nil {
			os.Remove(next)
			return
		}
	}
}

// copyFile makes a copy of its own: the worker writes into the files that it loads.
func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	os.Remove(to) // it may be mapped into a process
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if e := w.Close(); err == nil {
		err = e
	}
	return err
}
