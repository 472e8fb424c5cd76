// Package proto is the protocol between the kernel and its worker: length-prefixed JSON over two pipes, and marks in
// the two pipes that carry the cells' output.
//
// It does not start processes and holds no state of a session.
package proto

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
)

// ToWorker is a message to the worker.
type ToWorker struct {
	Op   string `json:"op"` // run, eval, stop, input, env, mem, comm
	ID   int    `json:"id"` // of the request; for stop, of the request that is to end (0: whichever runs); for input, of the question
	Cell int    `json:"cell,omitempty"`
	Load []Mod  `json:"load,omitempty"` // cells to load first, in order
	Pkg  string `json:"pkg,omitempty"`  // the package whose Run is to be called
	Eval *Expr  `json:"eval,omitempty"`

	Text string            `json:"text,omitempty"` // input: the line, without its end
	Err  string            `json:"err,omitempty"`  // input: why there is none
	Env  map[string]string `json:"env,omitempty"`  // env: variables to set
	Comm *Comm             `json:"comm,omitempty"`
}

// Mod is a cell to load.
type Mod struct {
	SO, Pkg string
	Libs    []string `json:",omitempty"` // files of the libraries that it needs, to be loaded first, in order
	Init    []string `json:",omitempty"` // symbols of the initialisations to run then, in order, those that have been run aside
}

// Expr is an expression or assignment that the worker can carry out by reflection; see package eval.
type Expr struct {
	Op   string `json:"op"`             // lit, nil, var, field, index, slice, len, cap, deref, conv, un, bin, call, method, std, set
	Pkg  string `json:"pkg,omitempty"`  // of a var or call
	Name string `json:"name,omitempty"` // of a var, function or method; the operator of un, bin and set
	Lit  string `json:"lit,omitempty"`  // exact text of a literal
	Kind string `json:"kind,omitempty"` // of a lit or conv: a basic type, []byte or []rune
	Cell int    `json:"cell,omitempty"` // that declares Name
	Line int    `json:"line,omitempty"` // of the expression in its cell, for stack traces
	Path []int  `json:"path,omitempty"` // of a field
	Show bool   `json:"show,omitempty"` // display the value
	X    []Expr `json:"x,omitempty"`
}

// Calls tells whether an expression calls a function; nil does not.
func (e *Expr) Calls() bool {
	if e == nil {
		return false
	}
	switch e.Op {
	case "call", "method", "std":
		return true
	}
	return slices.ContainsFunc(e.X, func(x Expr) bool { return x.Calls() })
}

// FromWorker is a message from the worker. Replies to requests are ready, done, slow and mem; show, display, update,
// clear, input and comm come from code in cells, and also after the end of their cell.
type FromWorker struct {
	Ev   string `json:"ev"`
	ID   int    `json:"id"`             // of the request; for input, of the question
	Cell int    `json:"cell,omitempty"` // the execution whose goroutine sent it
	Seq  int    `json:"seq,omitempty"`  // the turn among the output in the pipes; see Streams.Event

	Data     map[string]any `json:"data,omitempty"` // show, display, update: MIME type -> value
	Metadata map[string]any `json:"metadata,omitempty"`
	Display  string         `json:"display,omitempty"` // display, update: display id
	Wait     bool           `json:"wait,omitempty"`    // clear
	Prompt   string         `json:"prompt,omitempty"`  // input
	Password bool           `json:"password,omitempty"`
	Comm     *Comm          `json:"comm,omitempty"`

	Err    *RunError `json:"err,omitempty"`
	LoadMS float64   `json:"load_ms,omitempty"`
	RunMS  float64   `json:"run_ms,omitempty"`
	Fixed  int       `json:"fixed,omitempty"` // itab slots re-pointed
	Mem    *Mem      `json:"mem,omitempty"`
}

// Comm is one message of a comm, a channel between code in a front end and code in a cell.
type Comm struct {
	Type     string          `json:"type"` // comm_open, comm_msg, comm_close; target, untarget: a cell answers to Target, or no longer
	ID       string          `json:"id"`
	Target   string          `json:"target,omitempty"` // comm_open, target, untarget
	Data     json.RawMessage `json:"data,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Buffers  [][]byte        `json:"buffers,omitempty"`
}

// Mem says where the worker's memory is. All sizes are bytes.
type Mem struct {
	Heap       int64            `json:"heap"`       // live objects after a collection
	Sys        int64            `json:"sys"`        // obtained from the system by the Go runtime
	RSS        int64            `json:"rss"`        // resident
	Limit      int64            `json:"limit"`      // what cells may use
	Goroutines int              `json:"goroutines"` // of cells and the worker
	Modules    map[string]int64 `json:"modules"`    // package of a cell -> size of its mapped file
}

// RunError is why a cell ended early.
type RunError struct {
	Name  string   `json:"name"`
	Value string   `json:"value"`
	Trace []string `json:"trace,omitempty"`
}

// Send writes a length-prefixed JSON message.
func Send(w io.Writer, v any) error {
	d, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b := make([]byte, 4, 4+len(d))
	binary.BigEndian.PutUint32(b, uint32(len(d)))
	_, err = w.Write(append(b, d...))
	return err
}

// Receive reads one.
func Receive(r io.Reader, v any) error {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return err
	}
	d := make([]byte, binary.BigEndian.Uint32(h[:]))
	if _, err := io.ReadFull(r, d); err != nil {
		return err
	}
	return json.Unmarshal(d, v)
}
