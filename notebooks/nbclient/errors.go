package nbclient

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Place names a cell in messages.
type Place struct {
	Notebook string
	Cell     int // position in the notebook, from 1
	ID       string
}

func (p Place) String() string { return fmt.Sprintf("%s: cell %d (id %s)", p.Notebook, p.Cell, p.ID) }

// CellError means that a cell ended with an error of its own.
type CellError struct {
	Place
	Line      int // in the cell, from 1; 0 when the kernel does not tell
	Ename     string
	Evalue    string
	Traceback []string // may hold ANSI colours
}

func (e *CellError) Error() string {
	where := e.Place.String()
	if e.Line > 0 {
		where += fmt.Sprintf(", line %d", e.Line)
	}
	switch {
	case e.Ename == "" || e.Ename == "panic" && e.Evalue != "": // how a cell gives up; the value says why
		return where + ": " + e.Evalue
	case e.Evalue == "":
		return where + ": " + e.Ename
	}
	return where + ": " + e.Ename + ": " + e.Evalue
}

// PlainTraceback is the traceback without ANSI colours, one frame or message a line; empty when the kernel gave none.
func (e *CellError) PlainTraceback() string {
	return ansi.ReplaceAllString(strings.Join(e.Traceback, "\n"), "")
}

// TimeoutError means that a cell ran longer than allowed.
type TimeoutError struct {
	Place
	Limit        time.Duration
	KernelKilled bool // the cell did not react to the interrupt
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("%s: still running after %v, the limit for one cell", e.Place, e.Limit)
	if e.KernelKilled {
		s += "; it ignored the interrupt, so the kernel was killed"
	}
	return s
}

// KernelDiedError means that the kernel ended, or lost its connection, while a notebook needed it.
type KernelDiedError struct {
	Place         // Cell is 0 when no cell had started
	State  string // such as "exit status 3" or "signal: killed"
	Output string // last lines the process printed outside of cells, usually on stderr
}

func (e *KernelDiedError) Error() string {
	s := "the kernel died: " + e.State
	if e.Cell > 0 {
		s = e.Place.String() + ": " + s
	}
	if e.Output != "" {
		s += "; its last lines:\n" + e.Output
	}
	return s
}

var (
	ansi = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")
	// How kernels name a line of a cell, best first: "Cell In[3], line 2" (ipykernel), "cell[3]:2:5",
	// "repl.go:2:5" (gophernotes), "<ipython-input-3-...>:2" (ipykernel before 8).
	cellLines = []*regexp.Regexp{
		regexp.MustCompile(`Cell In\s?\[\d+\], line (\d+)`),
		regexp.MustCompile(`cell\[\d+\]:(\d+)`),
		regexp.MustCompile(`repl\.go:(\d+)`),
		regexp.MustCompile(`<ipython-input-[^>]*>:(\d+)`),
		regexp.MustCompile(`<ipython-input-[^>]*> in [^\n]*\n(?:[^\n]*\n)*?-+> (\d+)`),
	}
)

func newCellError(p Place, reply executeReply) *CellError {
	e := &CellError{Place: p, Ename: reply.Ename, Evalue: reply.Evalue, Traceback: reply.Traceback}
	if reply.Status == "aborted" && e.Ename == "" {
		e.Evalue = "the kernel did not run this cell (status aborted)"
	}
	e.Line = lineIn(strings.Join(e.Traceback, "\n") + "\n" + e.Evalue)
	return e
}

// lineIn finds the line of the cell in a traceback, 0 when it does not say.
func lineIn(text string) int {
	text = ansi.ReplaceAllString(text, "")
	for _, re := range cellLines {
		if m := re.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	return 0
}
