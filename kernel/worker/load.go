package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/proto"
)

//go:linkname getitab runtime.getitab
func getitab(inter, typ unsafe.Pointer, canfail bool) unsafe.Pointer

// module is a loaded cell.
type module struct {
	size  int64              // of its mapped segments
	syms  map[string]uintptr // the cell's own functions and variables
	table map[string]any     // pointers to its variables (nil pointers before Run for moved ones), and its functions
}

var (
	modulesMu sync.Mutex
	modules   = map[string]*module{}
)

// at is the memory at an address outside of Go's heap.
func at(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// load opens a cell: first what it needs, then the cell itself, then its itab slots and type names are put right. The
// builder has seen to it that each package is in one file and that all were compiled against the same ones.
func load(run proto.ToWorker, m proto.Mod, fixed *int) error {
	if modules[m.Pkg] != nil {
		return nil
	}
	data, err := os.ReadFile(m.SO)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, l := range m.Libs {
		if err := openLibrary(l, fixed); err != nil {
			return err
		}
	}
	if err := packages.ofLibraries(run, m.Init); err != nil {
		return err
	}
	changed, err := fixFile(m.SO, f, data, syms)
	if err != nil {
		return err
	}
	base, err := open(m.SO)
	if err != nil {
		return err
	}
	mod := &module{size: mappedSize(f), syms: map[string]uintptr{}}
	for _, s := range syms {
		if name, ok := strings.CutPrefix(s.Name, m.Pkg+"."); ok && s.Section != elf.SHN_UNDEF {
			mod.syms[strings.TrimSuffix(name, ".abiinternal")] = base + uintptr(s.Value)
		}
	}
	modulesMu.Lock()
	modules[m.Pkg] = mod
	modulesMu.Unlock()
	unprotect(f, base)
	n, err := fixItabs(f, syms, base)
	if err != nil {
		return err
	}
	*fixed += n
	fixTypes(syms, base)
	if changed {
		sortTypelinks()
	}
	initialise(m.Pkg + "..inittask")
	if pc := mod.syms[prefix+prefix+"Tab"]; pc != 0 {
		fn := &struct{ pc uintptr }{pc}
		mod.table = map[string]any{}
		for l := (*(*func() []any)(unsafe.Pointer(&fn)))(); len(l) > 1; l = l[2:] {
			mod.table[l[0].(string)] = l[1]
		}
	}
	return nil
}

// fixFile puts the names in a cell's file right before it is opened. Changed says that types have other names now,
// which an earlier worker may have done.
func fixFile(path string, f *elf.File, data []byte, syms []elf.Symbol) (changed bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if changed, err = fixStrings(file, f, data, syms); err != nil {
		return changed, err
	}
	if _, err := fixNames(file, f, data); err != nil {
		return changed, err
	}
	if _, err := os.Stat(path + ".fixed"); err == nil {
		return true, nil
	}
	if changed {
		return true, os.WriteFile(path+".fixed", nil, 0o644)
	}
	return false, nil
}

func mappedSize(f *elf.File) (n int64) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			n += int64(p.Memsz)
		}
	}
	return n
}

func fileOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr < p.Vaddr+p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// unprotect makes the read-only data of a module writable, for the fixes below.
func unprotect(f *elf.File, base uintptr) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X == 0 {
			from := (base + uintptr(p.Vaddr)) &^ 4095
			to := (base + uintptr(p.Vaddr+p.Memsz) + 4095) &^ 4095
			mem := unsafe.Slice((*byte)(at(from)), to-from)
			syscall.Mprotect(mem, syscall.PROT_READ|syscall.PROT_WRITE)
		}
	}
}

// fixItabs re-points every slot that refers to a static itab to the itab that the runtime uses for the pair.
// Without it, a type assertion on an interface value made in an earlier cell can fail (golang/go#80107).
func fixItabs(f *elf.File, syms []elf.Symbol, base uintptr) (int, error) {
	sec := f.Section(".rela.dyn")
	if sec == nil {
		return 0, nil
	}
	d, err := sec.Data()
	if err != nil {
		return 0, err
	}
	n := 0
	for o := 0; o+24 <= len(d); o += 24 {
		off, info := binary.LittleEndian.Uint64(d[o:]), binary.LittleEndian.Uint64(d[o+8:])
		si := info >> 32
		if si == 0 || !strings.HasPrefix(syms[si-1].Name, "go:itab.") {
			continue
		}
		slot := (*unsafe.Pointer)(at(base + uintptr(off)))
		if want := canonical(*slot); want != nil {
			*slot = want
			n++
		}
	}
	return n, nil
}

// canonical gives the itab that the runtime uses for the pair of a static itab, if it is another one.
func canonical(it unsafe.Pointer) unsafe.Pointer {
	want := getitab(*(*unsafe.Pointer)(it), *(*unsafe.Pointer)(unsafe.Add(it, 8)), true)
	if want == nil || want == it {
		return nil
	}
	// The runtime makes itabs with hash 0 (type switches look at it) because it counts on static ones.
	if h := (*uint32)(unsafe.Add(want, 16)); *h == 0 {
		*h = (*abiType)(*(*unsafe.Pointer)(unsafe.Add(want, 8))).hash
	}
	return want
}
