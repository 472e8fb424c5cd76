package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/dl"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/rt"
)

var (
	libraries = map[string]bool{} // loaded files
	packages  = initialisations{begun: map[string]error{}}
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

// initialisations are those of packages, by symbol. One that fails leaves its package half made: nobody may use it.
type initialisations struct {
	mu    sync.Mutex
	begun map[string]error // nil when it has ended well, else why the package cannot be used
}

// ofLibraries runs the initialisations that have not been run, in the given order, as part of a cell: the user's packages
// may panic, block, or wait for an interrupt.
func (i *initialisations) ofLibraries(m proto.ToWorker, symbols []string) error {
	todo, err := i.pending(symbols)
	if err != nil || len(todo) == 0 {
		return err
	}
	var failed error
	stopped := call(m, func(*rt.Cell) {
		for _, s := range todo {
			if failed = i.one(s); failed != nil {
				return
			}
		}
	})
	if stopped == nil {
		return failed
	}
	if _, err := i.pending(todo); err != nil { // of the one that runs still, or was ended
		return fmt.Errorf("%s: %w", stopped.Value, err)
	}
	return errors.New(stopped.Value)
}

// pending lists the initialisations that have not begun. The error is that of the first package that cannot be used.
func (i *initialisations) pending(symbols []string) (todo []string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range symbols {
		err, begun := i.begun[s]
		if err != nil {
			return nil, err
		}
		if !begun {
			todo = append(todo, s)
		}
	}
	return todo, nil
}

// one runs the initialisation of one package. Until it has ended the package cannot be used.
func (i *initialisations) one(symbol string) (err error) {
	i.mu.Lock()
	err = i.begun[symbol]
	if err == nil {
		i.begun[symbol] = unusable(symbol, "did not end")
	}
	i.mu.Unlock()
	if err != nil { // a cell that an interrupt left behind runs it
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = unusable(symbol, "panicked: "+clean(panicText(r))+panicPlace())
			i.set(symbol, err)
		}
	}()
	initialise(symbol)
	i.set(symbol, nil)
	return nil
}

func (i *initialisations) set(symbol string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun[symbol] = err
}

func unusable(symbol, why string) error {
	return fmt.Errorf("package %s cannot be used before a restart (%%restart): its initialisation %s", packageOf(symbol), why)
}

// packageOf is the path of the package whose initialisation a symbol is.
func packageOf(symbol string) string {
	return strings.ReplaceAll(strings.TrimSuffix(symbol, "..inittask"), "%2e", ".")
}

// panicPlace says where the panic that is being recovered from was, in words.
func panicPlace() string {
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)]) // of what recovers, and the runtime's
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf(" (%s:%d)", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// initialise runs an initialisation. The runtime does nothing for one that has been run.
func initialise(symbol string) {
	// state, number of functions, functions: the runtime refuses one without functions
	if task := dl.Symbol(symbol); task != nil && (*[2]uint32)(task)[1] > 0 {
		inside.doInit([]unsafe.Pointer{task})
	}
}
