package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/dl"
)

var (
	libraries   = map[string]bool{} // loaded files
	initialised = map[string]bool{} // symbols of initialisations
)

// open loads a Go library and makes it known to the runtime.
func open(file string) (base uintptr, err error) {
	before := *inside.last
	if base, err = dl.Open(file); err != nil {
		return 0, err
	}
	if *inside.last == before {
		return 0, fmt.Errorf("%s is not a new Go library", file)
	}
	(*inside.last).register()
	return base, nil
}

// openLibrary loads a library of whole packages. They are not initialised.
func openLibrary(file string, fixed *int) error {
	if libraries[file] {
		return nil
	}
	slots, err := os.ReadFile(file + ".itabs")
	if err != nil {
		return err
	}
	base, err := open(file)
	if err != nil {
		return err
	}
	libraries[file] = true
	var page uintptr
	for ; len(slots) >= 8; slots = slots[8:] {
		addr := base + uintptr(binary.LittleEndian.Uint64(slots))
		slot := (*unsafe.Pointer)(at(addr))
		want := canonical(*slot)
		if want == nil {
			continue
		}
		if addr&^4095 != page {
			page = addr &^ 4095
			syscall.Mprotect(unsafe.Slice((*byte)(at(page)), 4096), syscall.PROT_READ|syscall.PROT_WRITE)
		}
		*slot = want
		*fixed++
	}
	return nil
}

// initialise runs the initialisations of packages that have not been run, in the given order.
func initialise(symbols []string) {
	for _, s := range symbols {
		if initialised[s] {
			continue
		}
		initialised[s] = true
		// state, number of functions, functions: the runtime refuses one without functions
		if task := dl.Symbol(s); task != nil && (*[2]uint32)(task)[1] > 0 {
			inside.doInit([]unsafe.Pointer{task})
		}
	}
}
