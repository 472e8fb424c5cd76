// Package texttab lays out rows of text as an aligned table for terminals and plain-text outputs.
// It does not format numbers and does not know what the columns mean.
package texttab

import (
	"strings"
	"unicode/utf8"
)

// Table is a grid of cells. Rows may be shorter than the head.
type Table struct {
	Head    []string
	Units   []string // a second head row; nil or empty strings for none
	Numeric []bool   // right-aligned columns; missing entries are false
	Rows    [][]string
	Rules   []int // a rule is drawn before these row numbers
}

const gap = "  "

// String returns the table with every line trimmed on the right and ended by a newline.
// Column widths follow the widest cell; nothing is cut.
func (t Table) String() string {
	heads := [][]string{t.Head}
	if hasText(t.Units) {
		heads = append(heads, t.Units)
	}
	width := make([]int, len(t.Head))
	for _, row := range append(append([][]string{}, heads...), t.Rows...) {
		for i, cell := range row {
			if i < len(width) {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, row := range heads {
		t.line(&b, row, width)
	}
	rule := ruleLine(width)
	b.WriteString(rule)
	rules := map[int]bool{}
	for _, r := range t.Rules {
		rules[r] = true
	}
	for i, row := range t.Rows {
		if rules[i] && i > 0 {
			b.WriteString(rule)
		}
		t.line(&b, row, width)
	}
	return b.String()
}

func (t Table) line(b *strings.Builder, row []string, width []int) {
	var line strings.Builder
	for i, w := range width {
		cell := ""
		if i < len(row) {
			cell = row[i]
		}
		pad := strings.Repeat(" ", w-utf8.RuneCountInString(cell))
		if i > 0 {
			line.WriteString(gap)
		}
		if i < len(t.Numeric) && t.Numeric[i] {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

func ruleLine(width []int) string {
	n := len(gap) * max(len(width)-1, 0)
	for _, w := range width {
		n += w
	}
	return strings.Repeat("─", n) + "\n"
}

func hasText(cells []string) bool {
	for _, c := range cells {
		if c != "" {
			return true
		}
	}
	return false
}
