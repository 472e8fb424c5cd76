// Package serve is the Jupyter side of a Go kernel: it answers the messages of front ends, runs the cells one after
// the other on an Engine, and publishes what they print, display and return.
//
// It does not know Go: what a cell means is the engine's business. It does not write kernelspecs and does not start
// kernels; package kernel does.
package serve

import (
	"encoding/json"
	"errors"
)

// Engine runs cells. Run is called from one goroutine, and Complete, Inspect and State from a second one, so that these
// three may come while a cell runs. Comm has a third, Info and Interrupt may come at any time, and Close once, also
// while a cell runs: it then makes Run return.
type Engine interface {
	// Info says who answers.
	Info() Info
	// Run executes a cell. It returns when all output of the cell itself has been handed to out; a goroutine of the
	// cell may use out later. The error may be a *CellError. The metadata of the result counts beside an error, too.
	Run(cell Cell, out Output) (Result, error)
	// Complete returns what may stand at the cursor, a byte offset in code. Nothing known is no error.
	Complete(code string, cursor int) Completion
	// Inspect describes what the cursor, a byte offset in code, is at. A detail of 1 asks for more, such as the source.
	// A bundle without data means that nothing is known.
	Inspect(code string, cursor, detail int) Bundle
	// State tells whether code can be run: "complete", "incomplete" with the indent of the next line, "invalid" or
	// "unknown".
	State(code string) (state, indent string)
	// Interrupt asks the running cell to end with an error. It returns at once. One that comes too late for its cell
	// must not end the next.
	Interrupt()
	// Comm takes a front end's comm_open, comm_msg or comm_close. An engine that lets front ends open comms is a
	// CommTargets, too.
	Comm(m CommMessage)
	// Close ends the engine and what it started.
	Close()
}

// CommTargets is an engine that lets front ends open comms. For one that is not, serve closes them at once.
type CommTargets interface {
	// HasTarget tells whether something answers to a comm's target name.
	HasTarget(name string) bool
}

// Cell is one piece of code to run. Its count is the number shown beside it; silent cells and expressions that a front
// end wants evaluated repeat the number of the cell before.
type Cell struct {
	Count  int
	Code   string
	Silent bool
}

// Result is what a cell gives back. A value without data is no result.
type Result struct {
	Value    Bundle
	Metadata map[string]any // for the metadata of execute_reply, such as timings
	Payload  []any          // of execute_reply, such as pages
}

// Completion is what may stand in place of code[Start:End], both byte offsets.
type Completion struct {
	Matches    []Match
	Start, End int
}

// Match is one completion. Type and signature may be empty; types are those of front ends: function, module, instance,
// class, keyword and the like.
type Match struct{ Text, Type, Signature string }

// CellError is the error of a cell as front ends show it. Only the traceback, one string a line or a block of lines,
// may have ANSI colours.
type CellError struct {
	Name, Value string
	Traceback   []string
}

func (e *CellError) Error() string { return e.Name + ": " + e.Value }

// Output is where the output of one cell goes. It stays valid after Run: goroutines may outlive their cell. It is safe
// for concurrent use, and waits when front ends are slow.
type Output interface {
	// Stream prints text on "stdout" or "stderr". A character may be cut between two calls.
	Stream(name, text string)
	// Display shows a value below the cell. With a display id, Update can replace it later.
	Display(b Bundle)
	// Update replaces the values that were displayed with the same id, in any cell.
	Update(b Bundle)
	// Clear removes the cell's output; with wait, when the next output comes.
	Clear(wait bool)
	// Input asks the user for a line, without its end. The error is ErrNoInput or ErrInterrupted.
	Input(prompt string, password bool) (string, error)
	// Comm sends a message to the front ends' end of a comm, or opens or closes one.
	Comm(m CommMessage)
}

// Errors of Output.Input.
var (
	ErrNoInput     = errors.New("the front end of this notebook takes no input")
	ErrInterrupted = errors.New("interrupted")
)

// Bundle is one value in several formats.
type Bundle struct {
	Data      map[string]any // MIME type -> value that encodes to JSON; []byte becomes base64
	Metadata  map[string]any
	DisplayID string
}

// CommMessage is one message of a comm, a channel between code in a front end and code in a cell.
type CommMessage struct {
	Type     string // comm_open, comm_msg or comm_close
	ID       string
	Target   string // name of what answers; comm_open only
	Data     json.RawMessage
	Metadata json.RawMessage
	Buffers  [][]byte
}

// Info describes an engine to front ends.
type Info struct {
	Name            string // of the implementation
	Version         string
	LanguageVersion string
	Banner          string
}
