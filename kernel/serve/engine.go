// Package serve is the Jupyter side of a Go kernel: it answers the messages of front ends, runs the cells one after
// the other on an Engine, and publishes what they print, display and return.
//
// It does not know Go: what a cell means is the engine's business. It does not write kernelspecs and does not start
// kernels; package kernel does.
package serve

// Engine runs cells. All methods but Info and Interrupt are called from one goroutine, one at a time. A goroutine that
// a cell ends with runtime.Goexit is replaced by another.
type Engine interface {
	// Info says who answers.
	Info() Info
	// Run executes a cell, the count-th of the session. What it prints is what it writes to os.Stdout and os.Stderr.
	// An error names a place in the cell as cell[COUNT]:LINE:COLUMN.
	Run(count int, code string) (Bundle, error)
	// Complete returns what may stand in place of the text between start and cursor, both byte offsets in code.
	Complete(code string, cursor int) (matches []string, start int)
	// Inspect describes what the cursor, a byte offset in code, is at. Nothing known is "".
	Inspect(code string, cursor int) string
	// State tells whether code can be run: "complete", "incomplete" with the indent of the next line, "invalid" or
	// "unknown".
	State(code string) (state, indent string)
	// Interrupt asks the running cell to end with an error. It returns at once.
	Interrupt()
}

// Bundle is one value in several formats. A bundle without data is no result.
type Bundle struct {
	Data     map[string]any // MIME type -> value that encodes to JSON
	Metadata map[string]any
}

// Info describes an engine to front ends.
type Info struct {
	Name            string // of the implementation
	Version         string
	LanguageVersion string
	Banner          string
}
