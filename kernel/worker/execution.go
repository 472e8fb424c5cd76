package main

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/rt"
)

// execution is one run of one cell. Goroutines are told apart by a profiler label, which the runtime hands on to all
// that a goroutine starts, also in libraries; contexts of the cell carry it too, so that it survives labels of the
// user's own.
type execution struct {
	rt.Cell
	id     int             // of the request
	labels unsafe.Pointer  // the label set that its goroutines have at first
	ctx    context.Context // carries the label; cancelled by an interrupt
	asked  atomic.Bool     // the cell has taken ctx
	cancel func()
	stop   chan struct{} // closed by an interrupt
	main   uintptr       // the goroutine that runs the statements
	result chan *proto.RunError
	ended  chan struct{} // closed when that goroutine has ended, which may be later than the reply

	mu      sync.Mutex
	why     *proto.RunError // why it is to end early
	stops   int             // how many times it was asked to
	leaving int             // the last one that its main goroutine has obeyed
}

var (
	current     atomic.Pointer[execution]    // the one that runs
	interrupted atomic.Pointer[[]*execution] // those whose goroutines are to end; see reap
	executions  sync.Mutex                   // guards changes of the two, and stopID
	stopID      int                          // an interrupt that came before its execution
	lastCell    atomic.Int64                 // the number of the last one: it gets what nobody else has printed
)

const cellLabel = "cell"

//go:linkname getLabels runtime/pprof.runtime_getProfLabel
func getLabels() unsafe.Pointer

// getg identifies the calling goroutine among the living ones.
func getg() uintptr

// labelledCell reads the number of the cell from the label set of the calling goroutine.
func labelledCell(set unsafe.Pointer) (n int, ok bool) {
	if set == nil {
		return 0, false
	}
	for _, l := range *(*[]struct{ key, value string })(set) {
		if l.key == cellLabel {
			n, err := strconv.Atoi(l.value)
			return n, err == nil
		}
	}
	return 0, false
}

// has reports whether a goroutine with these labels belongs to x.
func (x *execution) has(set unsafe.Pointer) bool {
	if set == x.labels {
		return true
	}
	n, ok := labelledCell(set)
	return ok && n == x.N
}

// mine is the execution that the calling goroutine belongs to, if it runs or has been interrupted.
func mine() *execution {
	if x := current.Load(); x != nil && (x.has(getLabels()) || x.runsIn(getg())) {
		return x
	}
	return mineInterrupted()
}

func mineInterrupted() *execution {
	if l := interrupted.Load(); l != nil {
		for _, x := range *l {
			if x.has(getLabels()) || x.runsIn(getg()) {
				return x
			}
		}
	}
	return nil
}

// runsIn reports whether g, a living goroutine, is the one that runs the statements, whatever its labels are now.
func (x *execution) runsIn(g uintptr) bool {
	if g != x.main {
		return false
	}
	select {
	case <-x.ended: // and its g may be another one's
		return false
	default:
		return true
	}
}

// owner is the cell that the calling goroutine belongs to.
func owner() int {
	set := getLabels()
	x := current.Load()
	if x != nil && set == x.labels {
		return x.N
	}
	if n, ok := labelledCell(set); ok {
		return n
	}
	return int(lastCell.Load())
}

// call executes f as a cell in a goroutine of its own, and waits until it ends or is given up.
func call(m proto.ToWorker, f func(*rt.Cell)) *proto.RunError {
	x := &execution{id: m.ID, stop: make(chan struct{}), result: make(chan *proto.RunError, 3), ended: make(chan struct{})}
	x.N = m.Cell
	labelled := pprof.WithLabels(context.Background(), pprof.Labels(cellLabel, strconv.Itoa(m.Cell)))
	ctx, cancel := context.WithCancel(labelled) // never cancelled if nobody interrupts: goroutines may live on
	x.ctx, x.cancel = background{ctx}, cancel
	reopen()
	started := make(chan bool)
	go func() {
		defer close(x.ended)
		pprof.SetGoroutineLabels(labelled)
		x.labels, x.main = getLabels(), getg()
		if started <- true; !<-started {
			return
		}
		normal := false
		defer func() { x.leave(normal, recover()) }()
		f(&x.Cell)
		normal = true
	}()
	<-started
	executions.Lock()
	if stopID == x.id && x.id != 0 {
		executions.Unlock()
		started <- false
		return interruptError()
	}
	current.Store(x)
	lastCell.Store(int64(x.N))
	executions.Unlock()
	started <- true
	attend := time.AfterFunc(5*time.Millisecond, func() { x.attend() })
	err := <-x.result
	attend.Stop()
	executions.Lock()
	current.Store(nil)
	executions.Unlock()
	stdin.drain()
	return err
}

// leave reports how the statements have ended. It is called directly by a deferred function.
func (x *execution) leave(normal bool, r any) {
	x.mu.Lock()
	why := x.why
	x.mu.Unlock()
	switch {
	case why != nil:
		x.result <- why
	case normal:
		x.result <- nil
	case r != nil:
		x.result <- runError(r)
	default:
		x.result <- &proto.RunError{Name: "Goexit", Value: "the cell has called runtime.Goexit"}
	}
}

// attend looks after an execution that takes longer: what it reads from standard input, how much memory it has.
func (x *execution) attend() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; current.Load() == x; n++ {
		select {
		case <-x.ended:
			return
		case <-tick.C:
		}
		stdin.attend(x, n%10 == 9)
		if n%2 == 0 {
			memory.attend(x, n%100 == 0)
		}
	}
}

func interruptError() *proto.RunError {
	return &proto.RunError{Name: "Interrupted", Value: "interrupted"}
}

// patience is how long an interrupted cell may take to end by itself.
const patience = 200 * time.Millisecond

// stop interrupts the execution of a request, or whichever runs if id is 0.
func stop(id int) {
	executions.Lock()
	x := current.Load()
	if id != 0 && (x == nil || x.id != id) {
		stopID = max(stopID, id)
		x = nil
	}
	executions.Unlock()
	if x != nil {
		x.end(interruptError(), "a goroutine of the cell is still blocked or busy")
	}
}

// end asks all goroutines of an execution to end: what waits in cell code ends at once, loops at their next poll. What
// is blocked elsewhere is given up after a while and ends at its next step.
func (x *execution) end(why *proto.RunError, rest string) {
	x.mu.Lock()
	if x.why == nil {
		x.why = why
	}
	why = x.why
	x.stops++
	first := x.stops == 1
	x.mu.Unlock()
	if first {
		executions.Lock()
		l := []*execution{x}
		if old := interrupted.Load(); old != nil {
			l = append(l, *old...)
		}
		interrupted.Store(&l)
		executions.Unlock()
		rt.Stop.Store(true)
		close(x.stop)
		x.cancel()
		go x.reap()
	}
	stdin.stop()
	select {
	case <-x.ended:
		return
	case <-time.After(patience):
	}
	if first && x.asked.Load() {
		return // code that has the context knows, and may have something to close: it ends by itself, or when asked again
	}
	x.Dead.Store(true)
	given := *why
	given.Value += "; " + rest
	select {
	case x.result <- &given:
	default:
	}
}

// reap keeps the polls looking for goroutines of an interrupted execution: all the time at first, and then now and
// then, so that one that was blocked in a library ends when it comes back, and later cells run at full speed.
func (x *execution) reap() {
	begin := time.Now()
	time.Sleep(patience + 50*time.Millisecond)
	for alive := true; alive || time.Since(begin) < 5*time.Second; {
		rt.Stop.Store(false)
		time.Sleep(98 * time.Millisecond)
		rt.Stop.Store(true)
		time.Sleep(2 * time.Millisecond)
		select {
		case <-x.ended:
			alive = false
		default:
		}
	}
	executions.Lock()
	defer executions.Unlock()
	l := slices.DeleteFunc(slices.Clone(*interrupted.Load()), func(y *execution) bool { return y == x })
	interrupted.Store(&l)
	if len(l) == 0 {
		rt.Stop.Store(false)
	}
}

// bail ends the calling goroutine if it belongs to an interrupted execution. What the main goroutine does in its
// deferred functions is not cut short, unless the user asks again.
func bail() {
	x := mineInterrupted()
	if x == nil {
		return
	}
	if x.runsIn(getg()) {
		x.mu.Lock()
		obeyed := x.leaving == x.stops
		x.leaving = x.stops
		x.mu.Unlock()
		if obeyed {
			return
		}
	}
	rt.Goexit()
}

func sleep(ns int64) {
	if ns <= 0 {
		return
	}
	t := time.NewTimer(time.Duration(ns))
	select {
	case <-t.C:
	case <-stopped():
		t.Stop()
		rt.Goexit()
	}
}

func stopped() <-chan struct{} {
	if x := mine(); x != nil {
		return x.stop
	}
	return nil
}

// background is what stands for context.Background in a cell.
type background struct{ context.Context }

func (background) String() string { return "context.Background" }

func cellContext() any {
	if x := mine(); x != nil {
		x.asked.Store(true)
		return context.Context(x.ctx)
	}
	return context.Background()
}

// exit stands for os.Exit. It ends the calling cell, not the worker.
func exit(code int) {
	x := mine()
	if x == nil {
		fmt.Fprintf(stderr, "exit status %d: a goroutine of cell %d has ended\n", code, owner())
		rt.Goexit()
	}
	why := &proto.RunError{Name: "SystemExit", Value: "exit status " + strconv.Itoa(code)}
	if code == 0 {
		why.Value = "0" // what programs that run notebooks take for success
	}
	if !x.runsIn(getg()) {
		go x.end(why, "a goroutine of the cell is still blocked or busy")
		rt.Goexit()
	}
	x.mu.Lock()
	if x.why == nil {
		x.why = why
	}
	x.mu.Unlock()
	rt.Goexit()
}
