package compiled

import (
	"time"

	"github.com/rooflab/rooflab/kernel/proto"
)

// How long a cell may take to end after an interrupt before the user hears about it, and before another interrupt
// means that the worker is to be killed.
const (
	patience  = time.Second
	impatient = 500 * time.Millisecond
)

// Interrupt ends the running cell: the tools that build it are killed, and the worker is told to stop it. When that
// does not help, a second one kills the worker.
func (e *Engine) Interrupt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, w := e.running, e.worker
	if x == nil {
		return
	}
	x.cancel(errInterrupted)
	if x.request == 0 || w == nil {
		return
	}
	if !x.stopped.IsZero() && time.Since(x.stopped) > impatient {
		w.kill()
		return
	}
	if x.stopped.IsZero() {
		x.stopped = time.Now()
		time.AfterFunc(patience, func() { e.remind(x) })
	}
	request := x.request
	go w.send(proto.ToWorker{Op: "stop", ID: request}) // the worker's pipe may be full
}

// remind tells the user what else can be done about a cell that does not end.
func (e *Engine) remind(x *execution) {
	e.mu.Lock()
	still := e.running == x && x.request != 0
	e.mu.Unlock()
	if still {
		lost := e.losses()
		if lost != "" {
			lost = ", which costs " + lost
		}
		x.out.Stream("stderr", "The cell has not ended yet; it may be closing something. Interrupt again to kill the worker process"+lost+".\n")
	}
}
