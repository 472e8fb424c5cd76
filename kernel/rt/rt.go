// Package rt is the support package that the worker and every cell share. The code that the session generates calls
// it. It must stay tiny: whatever it imports is linked into each cell. Everything that needs more of the standard
// library is a hook that the worker sets.
//
// It does not know what a cell is made of, and it does nothing by itself.
package rt

import "sync/atomic"

// Stop is true while an interrupt is being carried out. Loops in cells poll it.
var Stop atomic.Bool

// Writer is an io.Writer.
type Writer interface{ Write([]byte) (int, error) }

// Hooks, set once by the worker before the first cell is loaded.
var (
	StreamFn  func(fd int) Writer    // see Stdout and Stderr
	Bail      func()                 // called by Poll when Stop is set: ends the goroutine if the interrupt is meant for it
	Goexit    func()                 // runtime.Goexit
	Report    func(recovered any)    // a goroutine of a cell has panicked
	SleepFn   func(ns int64)         // time.Sleep that an interrupt ends
	StoppedFn func() <-chan struct{} // see Stopped
	ContextFn func() any             // see Context
	ExitFn    func(code int)         // ends the calling cell with an exit status
	FilterFn  func(recovered any) any
	PrintFn   func(ln bool, v []any)
	ShowFn    func(*Cell, []any) // display the value of a cell's last expression
)

// Cell is one execution of one cell.
type Cell struct {
	N    int         // the number of the execution
	Dead atomic.Bool // given up by an interrupt: the goroutine ends at its next step
}

// Poll is called in loops, and in functions that may call themselves.
func Poll() {
	if Stop.Load() {
		Bail()
	}
}

// Step is called between the top-level statements of a cell.
func (c *Cell) Step() {
	if c.Dead.Load() {
		Goexit()
	}
	Poll()
}

// Show displays the values of the last expression.
func (c *Cell) Show(v ...any) { ShowFn(c, v) }

// Stdout stands for os.Stdout where an io.Writer is wanted. What is written to it goes to the cell of the goroutine that
// writes. If a cell has assigned another file to os.Stdout, it is that file.
func Stdout() Writer { return StreamFn(1) }

// Stderr stands for os.Stderr where an io.Writer is wanted.
func Stderr() Writer { return StreamFn(2) }

// Print stands for the builtin print.
func Print(v ...any) { PrintFn(false, v) }

// Println stands for the builtin println.
func Println(v ...any) { PrintFn(true, v) }

// Context stands for context.Background and context.TODO. It returns a context.Context, which is cancelled when the
// execution that the calling goroutine belongs to is interrupted, and never after the end of that execution.
func Context() any { return ContextFn() }

// Exit stands for os.Exit.
func Exit(code int) { ExitFn(code) }

// Guard is deferred in every goroutine that a cell starts: a panic there must not end the worker.
func Guard() {
	if r := recover(); r != nil {
		Report(r)
	}
}

// Filter may stand around recover() in cells: it gives runtime errors the names that the user wrote.
func Filter(r any) any {
	if r == nil {
		return nil
	}
	return FilterFn(r)
}
