// Command worker is the process in which cells run. It loads cells, calls them, and talks to the kernel over
// two pipes of its own (files 3 and 4); files 1 and 2 are pipes that carry the cells' output and marks.
//
// It is built on the user's machine, links nothing but the standard library and the kernel's own support packages,
// and knows nothing of Jupyter. It does not compile cells and does not restart itself.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/display"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/rt"
)

// toKernel carries the messages to the kernel.
var toKernel struct {
	sync.Mutex
	f *os.File
}

func send(m proto.FromWorker) {
	toKernel.Lock()
	defer toKernel.Unlock()
	if err := proto.Send(toKernel.f, m); err != nil {
		os.Exit(0) // the kernel is gone
	}
}

// maxStack ends a recursion without end before the report of its gigabyte, Go's own limit, takes a quarter of a minute.
const maxStack = 256 << 20

func main() {
	if err := checkRuntime(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	repairMakeFunc()
	toKernel.f = os.NewFile(4, "to-kernel")
	for _, fd := range []int{3, 4} { // not for the programs that cells start
		syscall.CloseOnExec(fd)
	}
	rt.Goexit = runtime.Goexit
	rt.Bail = bail
	rt.ShowFn = func(_ *rt.Cell, v []any) { show(v) }
	rt.Report = reportGoroutine
	rt.SleepFn = sleep
	rt.StoppedFn = stopped
	rt.ContextFn = cellContext
	rt.ExitFn = exit
	rt.PrintFn = builtinPrint
	rt.FilterFn = cleanRecovered
	connectOutput()
	connectStdin()
	display.Connect(screen{})
	debug.SetTraceback("single")
	debug.SetMaxStack(maxStack)
	limitMemory()
	go memory.watch()
	send(proto.FromWorker{Ev: "ready"})
	serve(os.NewFile(3, "from-kernel"))
}

// checkRuntime refuses a Go whose data structures may differ from those that this program was written for.
func checkRuntime() error {
	if v := runtime.Version(); v != "go1.26" && !strings.HasPrefix(v, "go1.26.") && !strings.HasPrefix(v, "go1.26-") {
		return fmt.Errorf("the Go kernel needs Go 1.26 and was built with %s: install Go 1.26 and run `rooflab kernel install` again", v)
	}
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return errors.New("the Go kernel needs a 64-bit machine")
	}
	return findInside()
}

// serve answers the kernel until it closes the pipe.
func serve(in *os.File) {
	for {
		var m proto.ToWorker
		if err := proto.Receive(in, &m); err != nil {
			return
		}
		switch m.Op {
		case "run":
			go run(m)
		case "eval":
			go evaluate(m)
		case "stop":
			go stop(m.ID)
		case "input":
			answer(m)
		case "comm":
			go receiveComm(m.Comm)
		case "env":
			setenv(m)
			send(proto.FromWorker{Ev: "done", ID: m.ID})
		case "mem":
			go func() { send(proto.FromWorker{Ev: "mem", ID: m.ID, Mem: measureMemory()}) }()
		}
	}
}

func setenv(m proto.ToWorker) {
	for k, v := range m.Env {
		os.Setenv(k, v)
	}
}

// run loads cells and executes one.
func run(m proto.ToWorker) {
	reply := proto.FromWorker{Ev: "done", ID: m.ID, Cell: m.Cell}
	t0 := time.Now()
	for _, mod := range m.Load {
		if err := load(m, mod, &reply.Fixed); err != nil {
			reply.Err = &proto.RunError{Name: "LoadError", Value: err.Error()}
			finish(m, reply)
			return
		}
	}
	reply.LoadMS = ms(t0)
	pc := modules[m.Pkg].syms[prefix+prefix+"Run"]
	if pc == 0 {
		reply.Err = &proto.RunError{Name: "LoadError", Value: "the file has no code"}
		finish(m, reply)
		return
	}
	fn := &struct{ pc uintptr }{pc} // what a func value points to
	f := *(*func(*rt.Cell))(unsafe.Pointer(&fn))
	t0 = time.Now()
	reply.Err = call(m, f)
	reply.RunMS = ms(t0)
	finish(m, reply)
}

func finish(m proto.ToWorker, reply proto.FromWorker) {
	output.done(m.ID)
	send(reply)
}

func ms(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }
