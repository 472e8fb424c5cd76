// Package diag is the one form in which rooflab reports that it went on although something was wrong.
// It does not print, log or decide exit codes.
package diag

import "fmt"

// Severity says what a diagnostic means for the figures beside it.
type Severity string

// The severities, mildest first.
const (
	Info     Severity = "info"      // worth knowing, figures are complete
	Warning  Severity = "warning"   // figures are complete but may mislead
	DataLoss Severity = "data_loss" // something in the input is missing from the figures
)

// Pos is a place in an input. The zero value means the whole input.
type Pos struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`   // from 1
	Offset int64  `json:"offset,omitempty"` // bytes from the start of the decoded input
}

// Diagnostic is one kind of trouble, counted.
type Diagnostic struct {
	ID       string   `json:"id"` // stable, lower_snake_case
	Severity Severity `json:"severity"`
	N        int      `json:"n"` // how often it was seen
	Pos      Pos      `json:"pos,omitzero"`
	Text     string   `json:"text"`           // what was found, for people
	Hint     string   `json:"hint,omitempty"` // what to do about it
}

// String gives file, place, text and hint on one line.
func (d Diagnostic) String() string {
	s := d.Text
	if d.N > 1 {
		s = fmt.Sprintf("%s (%d times)", s, d.N)
	}
	switch {
	case d.Pos.File != "" && d.Pos.Line > 0:
		s = fmt.Sprintf("%s:%d: %s", d.Pos.File, d.Pos.Line, s)
	case d.Pos.File != "":
		s = d.Pos.File + ": " + s
	}
	if d.Hint != "" {
		s += "; " + d.Hint
	}
	return s
}
