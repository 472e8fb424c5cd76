// Package link links Go packages into shared libraries that are loaded one after another into one process. Each
// library holds whole packages, each package is in exactly one library, and the linker reads nothing but the
// packages of the library that is being made: all others are known by the index of their library.
//
// It knows the object files, type descriptors and shared libraries of Go 1.26 on linux/amd64. It does not compile, it
// does not load, and it starts no process itself.
package link

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Package is a compiled package.
type Package struct{ Path, Archive string }

// Library is a linked file.
type Library struct {
	File   string            // an ELF shared object
	Needs  []*Library        // those that must be loaded before
	Prefix string            // if not empty, all its symbols that others refer to have this in their names
	Prints map[string]string // package path -> fingerprint of the export data
	index  *index            // nil: not needed so far
	note   []byte            // of the core
}

// Changed is the error when a package that is to be linked was compiled against another version of one that is
// loaded.
type Changed struct{ Package, Importer string }

func (c *Changed) Error() string {
	return fmt.Sprintf("package %s has changed since it was loaded (%s needs the new one)", c.Package, c.Importer)
}

// Linker calls the tools.
type Linker struct {
	Run   func(ctx context.Context, args ...string) error // go tool link
	Extld string                                          // see Helper
	First string                                          // archive of a package with one function: the runtime takes the first function of a file as nameless
	Basic string                                          // archive with the basic types: package runtime, compiled from an empty file
}

// always are the symbols that the linker itself looks for.
var always = []string{"runtime.mapinitnoop", "runtime.unreachableMethod", "runtime.deferreturn", "runtime.addmoduledata",
	"runtime.morestack", "type:runtime.moduledata", "runtime.tlsg", "runtime.firstmoduledata", "runtime.lastmoduledatap", "go:link.abihash." + coreName}

// coreName is the name of the first library: the one with the runtime. The stub has it too, because each library
// asks at start-up for the ABI hash of what it was linked against, by name.
const coreName = "libcore.so"

// CellFlags are for libraries without C code and of few symbols: reading libc would take longer than all the rest.
const CellFlags = "-extldflags=-nostdlib"

// Core links the library that holds the runtime: the packages of a program, package main among them.
func (l *Linker) Core(ctx context.Context, dir string, pkgs []Package) (*Library, error) {
	return l.link(ctx, filepath.Join(dir, coreName), pkgs, nil, "-extldflags=-Wl,-soname="+coreName+" -Wl,-Bsymbolic")
}

// Link links packages against the libraries that hold what they import, also indirectly. The first of these is the
// core. The file is complete when Link returns without an error.
func (l *Linker) Link(ctx context.Context, out string, pkgs []Package, under []*Library, flags ...string) (*Library, error) {
	return l.link(ctx, out, pkgs, under, flags...)
}

// Known takes over a file that Link has made of these packages in another session. What it was linked against may
// be in other libraries now: a linked file refers to all by name.
func Known(file string, pkgs []Package, under []*Library) (*Library, error) {
	l := &Library{File: file, Needs: under, Prints: map[string]string{}}
	j := &job{pkgs: pkgs, under: under, refs: map[string]bool{}, defined: map[string]bool{}, imports: map[string]bool{}}
	return l, j.read(l)
}

// job is one link.
type job struct {
	pkgs    []Package
	under   []*Library
	tmp     string
	objects []*object
	imports map[string]bool
	refs    map[string]bool
	defined map[string]bool
	config  strings.Builder // what the linker calls importcfg
	args    []string
}

func (l *Linker) link(ctx context.Context, out string, pkgs []Package, under []*Library, flags ...string) (*Library, error) {
	j := &job{pkgs: slices.Clone(pkgs), under: under, refs: map[string]bool{}, defined: map[string]bool{},
		imports: map[string]bool{"runtime": true, "runtime/cgo": true}}
	var err error
	if j.tmp, err = os.MkdirTemp(filepath.Dir(out), "link"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(j.tmp)
	lib := &Library{File: out, Needs: under, Prints: map[string]string{}}
	if err := j.read(lib); err != nil {
		return nil, err
	}
	cfg := filepath.Join(j.tmp, "importcfg")
	j.args = append([]string{"-importcfg", cfg, "-installsuffix", "dynlink", "-buildmode=shared", "-s", "-w",
		"-extld=" + l.Extld, "-tmpdir", j.tmp, "-o", out}, flags...)
	if len(under) > 0 {
		if err := j.share(l, slices.Contains(flags, CellFlags)); err != nil {
			return nil, err
		}
	}
	for _, p := range j.pkgs {
		fmt.Fprintf(&j.config, "packagefile %s=%s\n", p.Path, p.Archive)
		j.args = append(j.args, p.Path+"="+p.Archive)
	}
	if err := os.WriteFile(cfg, []byte(j.config.String()), 0o644); err != nil {
		return nil, err
	}
	if err := l.Run(ctx, j.args...); err != nil {
		return nil, err
	}
	return lib, nil
}

// read reads the archives.
func (j *job) read(lib *Library) error {
	for _, p := range j.pkgs {
		o, err := readObject(p.Archive)
		if err != nil {
			return err
		}
		j.add(o)
		lib.Prints[p.Path] = o.print
		for i, print := range o.imports {
			j.imports[i] = true
			for _, u := range j.under {
				if old := u.Prints[i]; old != "" && old != print {
					return &Changed{i, p.Path}
				}
			}
		}
	}
	return nil
}

func (j *job) add(o *object) {
	j.objects = append(j.objects, o)
	maps.Copy(j.refs, o.refs)
	for _, d := range o.defs {
		j.defined[d] = true
	}
}

// share prepares the link against the libraries below: a stub for them, and the packages that each library has
// for itself.
func (j *job) share(l *Linker, cell bool) error {
	for i, o := range j.objects {
		settled, err := o.settle(j.defined, j.under)
		if err != nil {
			return err
		}
		if settled {
			j.pkgs[i].Archive = filepath.Join(j.tmp, fmt.Sprintf("%d.a", i))
			if err := os.WriteFile(j.pkgs[i].Archive, o.data, 0o644); err != nil {
				return err
			}
		}
	}
	if j.refs[basicType] {
		o, err := readObject(l.Basic)
		if err != nil {
			return err
		}
		j.add(o)
		j.pkgs = append(j.pkgs, Package{"basictypes", l.Basic})
	}
	j.pkgs = append([]Package{{"first", l.First}}, j.pkgs...)
	syms, err := find(j.under, j.refs, always)
	if err != nil {
		return err
	}
	file := filepath.Join(j.tmp, coreName)
	if err := os.WriteFile(file, stub(j.under[0].note, syms), 0o644); err != nil {
		return err
	}
	for _, p := range j.pkgs {
		delete(j.imports, p.Path)
	}
	for _, i := range slices.Sorted(maps.Keys(j.imports)) {
		fmt.Fprintf(&j.config, "packageshlib %s=%s\n", i, file)
	}
	j.args = append(j.args, "-linkshared")
	if cell {
		return nil
	}
	list := filepath.Join(j.tmp, "shared-names")
	j.args = append(j.args, "-extldflags=-Wl,-Bsymbolic "+quoteFlag("-Wl,--dynamic-list="+list))
	return os.WriteFile(list, []byte(j.sharedNames()), 0o644)
}

// symbols gives the index of a library. It is read or made when it is first asked for.
func (l *Library) symbols() (*index, error) {
	if l.index != nil {
		return l.index, nil
	}
	if x, err := readIndex(l.File + ".index"); err == nil {
		l.index = x
		return x, nil
	}
	x, _, err := newIndex(l.File, l.Needs)
	l.index = x
	return x, err
}

// Save writes files beside a library: FILE.index and FILE.prints for Open, and FILE.itabs, the offsets of its slots that
// refer to itabs, for the process that loads it.
func (l *Library) Save() error {
	x, itabs, err := newIndex(l.File, l.Needs)
	if err != nil {
		return err
	}
	l.index = x
	if l.Needs == nil {
		if l.note, err = abiNote(l.File); err != nil {
			return err
		}
	}
	slots := make([]byte, 8*len(itabs))
	for i, a := range itabs {
		binary.LittleEndian.PutUint64(slots[8*i:], a)
	}
	var prints strings.Builder
	for _, p := range slices.Sorted(maps.Keys(l.Prints)) {
		fmt.Fprintf(&prints, "%s %x\n", p, l.Prints[p])
	}
	for ending, data := range map[string][]byte{".itabs": slots, ".prints": []byte(prints.String()), ".index": x.lines} {
		if err := os.WriteFile(l.File+ending, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Open takes over a library that was saved.
func Open(file string, under []*Library) (*Library, error) {
	prints, err := os.ReadFile(file + ".prints")
	if err != nil {
		return nil, err
	}
	l := &Library{File: file, Needs: under, Prints: map[string]string{}}
	for line := range strings.Lines(string(prints)) {
		path, print, _ := strings.Cut(strings.TrimSpace(line), " ")
		text, err := hex.DecodeString(print)
		if err != nil {
			return nil, fmt.Errorf("read %s.prints: %w", file, err)
		}
		l.Prints[path] = string(text)
	}
	if under == nil {
		l.note, err = abiNote(file)
	}
	return l, err
}

// Digest tells cores apart: what was linked against one does not fit another.
func (l *Library) Digest() string { return fmt.Sprintf("%x", sha256.Sum256(l.note)) }

// find looks the wanted symbols up in the libraries. A function may be known by two names, one for each calling
// convention.
func find(libs []*Library, want map[string]bool, also []string) (syms []symbol, err error) {
	names := slices.Sorted(maps.Keys(want))
	names = append(names, also...)
	for _, name := range names {
		n := mangle(name)
		for _, v := range []string{n, n + ".abi0", n + ".abiinternal"} {
			for _, l := range libs {
				if l.Prefix != "" && !strings.Contains(name, l.Prefix) {
					continue
				}
				x, err := l.symbols()
				if err != nil {
					return nil, fmt.Errorf("read what %s defines: %w", l.File, err)
				}
				if s, ok := x.find(v); ok {
					syms = append(syms, s)
					break
				}
			}
		}
	}
	return syms, nil
}

// quoteFlag makes a word of the lists of flags that Go's tools read.
func quoteFlag(f string) string {
	if strings.Contains(f, "'") {
		return `"` + f + `"`
	}
	return "'" + f + "'"
}

// sharedNames lists, for the system's linker, the symbols of a library that it must share with all others in the
// process, whichever was loaded first: types that other libraries and cells may define too, and itabs, whose slots are
// looked at after loading. References to all else are bound when the library is made; with tens of thousands of names
// that saves most of the time of loading it.
func (j *job) sharedNames() string {
	own := map[string]bool{}
	for _, p := range j.pkgs {
		own[p.Path] = true
	}
	var l []string
	for d := range j.defined {
		if t, ok := strings.CutPrefix(d, "type:"); ok && !strings.HasPrefix(t, ".") && !declaredIn(t, own) {
			l = append(l, mangle(d))
		}
	}
	sort.Strings(l)
	var s strings.Builder
	s.WriteString("{\n  go?itab.*;\n")
	for _, n := range l {
		fmt.Fprintf(&s, "  \"%s\";\n", n)
	}
	s.WriteString("};\n")
	return s.String()
}

// declaredIn says that a type is declared in one of the packages, or is a pointer to such a type: no other object
// defines it. Instances of generic types and types without a name are defined wherever they are mentioned.
func declaredIn(typ string, pkgs map[string]bool) bool {
	typ = strings.TrimPrefix(typ, "*")
	slash := strings.LastIndexByte(typ, '/')
	dot := strings.IndexByte(typ[slash+1:], '.')
	if dot < 0 || strings.ContainsAny(typ, "*[]{}() ") {
		return false
	}
	return pkgs[typ[:slash+1+dot]]
}

// InitTask is the symbol with the initialisation of a package.
func InitTask(path string) string {
	const hex = "0123456789abcdef"
	slash := strings.LastIndexByte(path, '/')
	var b []byte
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c == '.' && i > slash || c == '%' || c == '"' || c >= 0x7f {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b) + "..inittask"
}
