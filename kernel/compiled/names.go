package compiled

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// named finds cells in messages: a position in a cell, or a cell as the notes of package session name it.
var named = regexp.MustCompile(`cell(\[| )(\d+)(\]?)(?::(\d+))?`)

// rename makes the cells in a text those that the user sees: code that was compiled with an earlier cell has its
// present place, and an execution has the number that stands beside its cell.
func (e *Engine) rename(text string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return named.ReplaceAllStringFunc(text, func(found string) string {
		m := named.FindStringSubmatch(found)
		cell, err := strconv.Atoi(m[2])
		if err != nil {
			return found
		}
		line := 0
		if m[4] != "" {
			line, _ = strconv.Atoi(m[4]) // digits only
			cell, line = e.place(cell, line)
		}
		if count, ok := e.counts[cell]; ok {
			cell = count
		}
		shown := fmt.Sprintf("cell%s%d%s", m[1], cell, m[3])
		if m[4] != "" {
			shown += fmt.Sprintf(":%d", line)
		}
		return shown
	})
}

// place is where a line of a cell stands now.
func (e *Engine) place(cell, line int) (int, int) {
	for _, m := range slices.Backward(e.moves) {
		if m.FromCell == cell && m.FromLine <= line && line < m.FromLine+m.Lines {
			return m.Cell, line - m.FromLine + m.Line
		}
	}
	return cell, line
}
