package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/rooflab/rooflab/internal/atomicfile"
)

// workerDir is the folder of the worker program among the sources.
const workerDir = "worker"

type sourceFile struct {
	name string // rt/rt.go
	data []byte
}

// sourceDirs are the folders that are taken from the sources.
var sourceDirs = []string{"display", "dl", "eval", "proto", "rt", workerDir}

// sourceFiles reads the sources, without tests.
func sourceFiles(fsys fs.FS) ([]sourceFile, error) {
	if fsys == nil {
		return nil, errors.New("read the kernel's sources: none were given")
	}
	var files []sourceFile
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && !slices.Contains(sourceDirs, name) {
				return fs.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(name); strings.Count(name, "/") != 1 || ext != ".go" && ext != ".s" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		files = append(files, sourceFile{name, data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the kernel's sources: %w", err)
	}
	return files, nil
}

// The archives of the standard library and of the support packages are made by the go command, for libraries, and
// kept: the go command's own cache forgets what was not used for some days. Their files have the digest of the
// content as their name and lie in one folder. Two lists say which package has which, and what it needs: one of the
// toolchain, and one of the support packages as these sources have them.

// loadBase reads which archives are there.
func (b *Builder) loadBase() {
	there := map[string]bool{}
	entries, _ := os.ReadDir(filepath.Join(b.std, "pkg"))
	for _, e := range entries {
		there[e.Name()] = true
	}
	for _, dir := range []string{b.std, b.home} {
		for path, line := range readNames(dir) {
			if name := line[0]; there[name] {
				b.base[path] = line
				b.known[path] = &archive{file: filepath.Join(b.std, "pkg", name), id: name, deps: line[1:], base: true}
			}
		}
	}
}

func namesFile(dir string) string { return filepath.Join(dir, "archives") }

// readNames reads a list of archives: for each package the name of the file, and the packages that it needs. There may
// be none yet.
func readNames(dir string) map[string][]string {
	names := map[string][]string{}
	text, _ := os.ReadFile(namesFile(dir))
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 {
			names[words[0]] = words[1:]
		}
	}
	return names
}

// addBase makes the archives of packages of the standard library and of support packages, with all that they need.
func (b *Builder) addBase(ctx context.Context, nice bool, paths ...string) error {
	cmd := command(ctx, filepath.Join(b.home, "src"), append(offline(without(b.env, "GOWORK")), "GOWORK=off"), b.Toolchain.Go,
		slices.Concat([]string{"list", "-e", "-json=ImportPath,Export,Deps,Error"}, archiveFlags, []string{"--"}, paths)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", b.Toolchain.Go, err)
	}
	if nice {
		syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, 19)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("make the archives of %s: %s", strings.Join(paths, " "), strings.TrimSpace(stderr.String()))
	}
	pkgs, err := decodeList(stdout.Bytes())
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range pkgs {
		if p.Error != nil {
			return fmt.Errorf("make the archive of %s: %s", p.ImportPath, strings.TrimSpace(p.Error.Err))
		}
		b.keepBase(p)
	}
	return b.saveBase(ctx)
}

// keepBase takes an archive over. The caller holds mu.
func (b *Builder) keepBase(p listed) {
	if p.Export == "" || b.base[p.ImportPath] != nil {
		return
	}
	name := filepath.Base(p.Export)
	file, err := keep(p.Export, filepath.Join(b.std, "pkg", name))
	if err == nil {
		b.base[p.ImportPath] = append([]string{name}, p.Deps...)
	}
	b.known[p.ImportPath] = &archive{file: file, id: name, deps: p.Deps, base: true}
}

// saveBase writes which archives there are, with those that another kernel has added. The caller holds mu.
func (b *Builder) saveBase(ctx context.Context) error {
	lock, err := os.OpenFile(filepath.Join(b.std, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("lock the kernel's folder: %w", err)
	}
	defer lock.Close()
	if err := flock(ctx, lock); err != nil {
		return err
	}
	for _, dir := range []string{b.std, b.home} {
		names := readNames(dir)
		for path, line := range b.base {
			if b.support[path] == (dir == b.home) {
				names[path] = line
			}
		}
		var s strings.Builder
		for _, path := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintln(&s, path, strings.Join(names[path], " "))
		}
		if err := atomicfile.Write(namesFile(dir), []byte(s.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// keep makes a second name for a file, or a copy if it is on another disk. On an error the file itself is returned.
func keep(from, to string) (string, error) {
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if os.Link(from, to) == nil {
		return to, nil
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = atomicfile.Write(to, data, 0o644)
	}
	if err != nil {
		return from, err
	}
	return to, nil
}

// Worker returns the worker program; it is built, and the toolchain is tested, when there is none.
func (b *Builder) Worker(ctx context.Context) (string, error) {
	bin := filepath.Join(b.coreDir(), "worker")
	if !executable(bin) {
		if err := b.makeWorker(ctx, bin); err != nil {
			return "", err
		}
	}
	return bin, b.selfTest(ctx, bin)
}

// makeWorker builds the worker from the archives that cells use. Of several kernels that start, one builds.
func (b *Builder) makeWorker(ctx context.Context, bin string) error {
	unlock, err := b.lockHome(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if executable(bin) {
		return nil
	}
	b.o.Progress("compile the standard library and the worker")
	src := filepath.Join(b.home, "src")
	cmd := command(ctx, src, append(offline(without(b.env, "GOWORK")), "GOWORK=off"), b.Toolchain.Go,
		"list", "-json=Dir,GoFiles,SFiles,Imports", "./kernel/"+workerDir)
	out, err := output(cmd)
	if err != nil {
		return fmt.Errorf("read the worker's sources: %w", err)
	}
	var p struct {
		Dir                      string
		GoFiles, SFiles, Imports []string
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return fmt.Errorf("read the answer of go list: %w", err)
	}
	imports := slices.DeleteFunc(slices.Concat(p.Imports, b.supportPaths()), pseudo)
	if err := b.addBase(ctx, false, slices.Concat(imports, warmed)...); err != nil {
		return err
	}
	obj, cfg := filepath.Join(b.dir, "worker.a"), filepath.Join(b.dir, "worker.imports")
	if err := b.writeConfig(cfg, imports); err != nil {
		return err
	}
	assembled, abi, err := b.assemble(ctx, p.Dir, p.SFiles)
	if err != nil {
		return err
	}
	args := slices.Concat(b.compileFlags("main", obj), []string{"-importcfg", cfg}, abi)
	for _, f := range p.GoFiles {
		args = append(args, filepath.Join(p.Dir, f))
	}
	if err := b.tool(ctx, "compile", args...); err != nil {
		return fmt.Errorf("compile the worker: %w", err)
	}
	if err := appendObjects(obj, assembled); err != nil {
		return err
	}
	return b.makeCore(ctx, obj, imports)
}

// assemble makes objects of the worker's assembly files, and the compiler's arguments that go with them.
func (b *Builder) assemble(ctx context.Context, dir string, files []string) (objects, compile []string, err error) {
	if len(files) == 0 {
		return nil, nil, nil
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, filepath.Join(dir, f))
	}
	abi, header := filepath.Join(b.dir, "worker.abi"), filepath.Join(b.dir, "go_asm.h")
	args := []string{"-p", "main", "-dynlink", "-linkshared", "-I", b.dir, "-I", filepath.Join(b.Toolchain.Root, "pkg", "include"),
		"-D", "GOOS_linux", "-D", "GOARCH_" + runtime.GOARCH}
	if err := os.WriteFile(header, nil, 0o644); err != nil {
		return nil, nil, fmt.Errorf("compile the worker: %w", err)
	}
	if err := b.tool(ctx, "asm", slices.Concat(args, []string{"-gensymabis", "-o", abi}, paths)...); err != nil {
		return nil, nil, fmt.Errorf("compile the worker: %w", err)
	}
	for i, p := range paths {
		o := filepath.Join(b.dir, fmt.Sprintf("worker%d.o", i))
		if err := b.tool(ctx, "asm", slices.Concat(args, []string{"-o", o, p})...); err != nil {
			return nil, nil, fmt.Errorf("compile the worker: %w", err)
		}
		objects = append(objects, o)
	}
	return objects, []string{"-symabis", abi}, nil
}

func (b *Builder) supportPaths() []string { return slices.Sorted(maps.Keys(b.support)) }

// pseudo are the imports that have no archive.
func pseudo(path string) bool { return path == "unsafe" || path == "C" }

// warmed are the packages that cells can import without waiting: with what they import, most of the standard library.
var warmed = strings.Fields(`archive/tar archive/zip bufio bytes cmp compress/bzip2 compress/gzip compress/zlib container/heap container/list
	container/ring context crypto/md5 crypto/rand crypto/sha1 crypto/sha256 crypto/sha512 embed encoding encoding/base32 encoding/base64
	encoding/binary encoding/csv encoding/gob encoding/hex encoding/json encoding/pem encoding/xml errors expvar flag fmt go/ast go/format
	go/parser go/token hash/adler32 hash/crc32 hash/crc64 hash/fnv hash/maphash html html/template image image/color/palette image/draw
	image/gif image/jpeg image/png index/suffixarray io io/fs iter log log/slog maps math math/big math/bits math/cmplx math/rand math/rand/v2
	mime mime/multipart net net/http net/http/httptest net/http/httputil net/url os os/exec os/signal os/user path path/filepath reflect regexp
	runtime runtime/cgo runtime/debug runtime/metrics runtime/pprof runtime/trace slices sort strconv strings structs sync sync/atomic syscall
	testing testing/iotest testing/quick text/scanner text/tabwriter text/template time unicode unicode/utf16 unicode/utf8 unique weak`)

// Warm does all that can be done before the first cell: worker, self-test, archives and libraries of common packages.
// The rest of the standard library is left to WarmAll.
func (b *Builder) Warm(ctx context.Context) error {
	if _, err := b.Worker(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	missing := slices.DeleteFunc(slices.Concat(b.supportPaths(), warmed), func(p string) bool { return b.base[p] != nil })
	b.mu.Unlock()
	if len(missing) > 0 {
		b.o.Progress("compile the standard library")
		if err := b.addBase(ctx, false, missing...); err != nil {
			return err
		}
	}
	if err := b.warmLibraries(ctx); err != nil {
		return err
	}
	if err := b.warmRooflab(ctx); err != nil {
		b.o.Progress("rooflab's packages are left for the first cell: " + err.Error())
	}
	return ctx.Err()
}

// WarmAll makes the archives of the whole standard library at low priority.
// It returns at once when they are there, or when another kernel is at it. Files that nobody has used for long are
// removed.
func (b *Builder) WarmAll(ctx context.Context) error {
	b.trim()
	if err := b.warmLibraries(ctx); err != nil {
		return err
	}
	done := filepath.Join(b.std, "whole")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(b.std, "warming"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("lock the kernel's folder: %w", err)
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	if err := b.addBase(ctx, true, "std"); err != nil {
		return err
	}
	return atomicfile.Write(done, nil, 0o644)
}
