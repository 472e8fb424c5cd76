//lint:file-ignore U1000 layouts of the runtime: fields that nobody reads hold the others in their places

package main

import (
	"fmt"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/dl"
)

// moduleData is the runtime's description of a linked file (runtime/symtab.go, Go 1.26).
type moduleData struct {
	pcHeader              unsafe.Pointer
	tables                [6][3]uintptr
	findfunctab           uintptr
	minpc, maxpc          uintptr
	text, etext           uintptr
	sections              [13]uintptr
	types, etypes         uintptr
	rodata, gofunc        uintptr
	epclntab              uintptr
	textsectmap           [3]uintptr
	typelinks             []int32
	itablinks             []unsafe.Pointer
	ptab                  [3]uintptr
	pluginpath            string
	pkghashes             [3]uintptr
	inittasks             []unsafe.Pointer
	modulename            string
	modulehashes          [3]uintptr
	hasmain               uint8
	bad                   bool
	gcdatamask, gcbssmask [2]uintptr
	typemap               map[int32]*abiType
	next                  *moduleData
}

type typePair struct{ a, b *abiType }

// inside are functions and variables of the runtime that a loader needs and that the runtime has for itself. They are
// found by their names in the library of the core, which has all of the runtime.
var inside struct {
	last        **moduleData // the newest module
	core        *moduleData  // the only one at start: the runtime and the worker
	modulesInit func()
	verify      func(*moduleData)
	itabLock    unsafe.Pointer
	lock        func(unsafe.Pointer)
	unlock      func(unsafe.Pointer)
	doInit      func([]unsafe.Pointer)
	itabAdd     func(unsafe.Pointer)
	typesEqual  func(a, b *abiType, seen map[typePair]struct{}) bool
	frame       *frameObject // of reflect.MakeFunc
}

// findInside fills inside.
func findInside() error {
	for name, to := range map[string]any{
		"lastmoduledatap":          &inside.last,
		"modulesinit":              &inside.modulesInit,
		"moduledataverify1":        &inside.verify,
		"itabLock":                 &inside.itabLock,
		"lock":                     &inside.lock,
		"unlock":                   &inside.unlock,
		"doInit":                   &inside.doInit,
		"itabAdd":                  &inside.itabAdd,
		"typesEqual":               &inside.typesEqual,
		"methodValueCallFrameObjs": &inside.frame,
	} {
		variable := dl.Symbol("runtime." + name)
		function := dl.Symbol("runtime." + name + ".abiinternal")
		slot := (*unsafe.Pointer)((*[2]unsafe.Pointer)(unsafe.Pointer(&to))[1])
		switch {
		case function != nil:
			fn := new(unsafe.Pointer) // what a func value points to
			*fn = function
			*slot = unsafe.Pointer(fn)
		case variable != nil:
			*slot = variable
		default:
			return fmt.Errorf("the Go kernel finds no %s in this runtime", name)
		}
	}
	inside.core = *inside.last
	return nil
}

// known are the types that the process uses, by their hash: of equal types the one of the first module.
var known struct {
	types map[uint32][]*abiType
	maps  []map[int32]*abiType // of the modules, for the collector, which does not look into moduleData
}

// register makes a module known to the runtime as plugin.Open does (runtime.plugin_lastmoduleinit), but does not go
// through the types of all earlier modules again: with all of std that would take 20 ms a cell.
func (m *moduleData) register() {
	if known.types == nil {
		known.types = make(map[uint32][]*abiType, len(inside.core.typelinks))
		inside.core.collect()
	}
	inside.modulesInit() // from here on the collector knows its variables
	m.typemap = make(map[int32]*abiType, len(m.typelinks))
	known.maps = append(known.maps, m.typemap)
	for _, off := range m.typelinks {
		t := (*abiType)(at(m.types + uintptr(off)))
		for _, k := range known.types[t.hash] {
			if inside.typesEqual(t, k, map[typePair]struct{}{}) {
				t = k
				break
			}
		}
		m.typemap[off] = t
	}
	m.collect()
	inside.verify(m)
	inside.lock(inside.itabLock)
	for _, it := range m.itablinks {
		inside.itabAdd(it)
	}
	inside.unlock(inside.itabLock)
}

// collect adds the types of a module to those known.
func (m *moduleData) collect() {
collect:
	for _, off := range m.typelinks {
		t := m.typemap[off]
		if t == nil { // the first module has no map
			t = (*abiType)(at(m.types + uintptr(off)))
		}
		l := known.types[t.hash]
		for _, k := range l {
			if k == t {
				continue collect
			}
		}
		known.types[t.hash] = append(l, t)
	}
}

// regArgs has the layout of internal/abi.RegArgs on amd64: integers, floats, and the pointers among the integers.
type regArgs struct {
	ints   [9]uintptr
	floats [15]uint64
	ptrs   [9]unsafe.Pointer
	rets   [2]uint8
}

// frameObject is what the collector knows of a variable in a frame (runtime.stackObjectRecord).
type frameObject struct {
	off, size, ptrBytes int32
	gcData              uint32 // offset of the pointer mask from rodata
}

// repairMakeFunc corrects what the runtime has computed at its start (runtime.stkobjinit) for frames of
// reflect.MakeFunc: the Go linker does not export pointer masks, and the system's linker binds the one reference to a
// mask in all of std to something else. The collector would crash.
func repairMakeFunc() {
	t := typeOf(regArgs{})
	if o := inside.frame; uintptr(o.size) == t.size && uintptr(o.ptrBytes) == t.ptrdata {
		o.gcData = uint32(uintptr(unsafe.Pointer(t.gcdata)) - inside.core.rodata)
	}
}

// typeOf must not be inlined: of a known type the compiler would make the same kind of reference.
//
//go:noinline
func typeOf(v any) *abiType { return *(**abiType)(unsafe.Pointer(&v)) }
