package breakdown

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// view says how a table of lines looks: text columns, a count, times, a share of the first time, a closing text.
type view struct {
	id, title, note string
	heads           []string
	count           string // head of the count; empty for none
	times           []timeColumn
	share, each     bool             // percent, of the summed GPU time; mean time of one call
	last            string           // head of the closing text; empty for none
	perStep         bool             // times and counts are divided by the steps
	briefUnits      bool             // the note says that times are of a step, not the heads
	whole           func(Rank) int64 // what the share is of; nil for the summed GPU time
}

type timeColumn struct {
	head string
	adds bool // the sum of the column means something
}

// line is one row of a view before its figures are written. The first of ns decides what is large; together they are SummedNs.
type line struct {
	heads     []string
	component string
	n         int64
	ns        []int64
	last      string
}

// none is a time that does not exist.
const none = -1

// build makes the table: the lines of each rank, what --top left out, and their sum. One unit of time serves the whole table.
func (r Report) build(v view, top int, of func(Rank) []line) data.Table {
	note := r.notes()
	if v.perStep {
		r = r.counted()
	}
	all := make([][]line, len(r.Ranks))
	largest := int64(0)
	for i, rank := range r.Ranks {
		all[i] = of(rank)
		for _, l := range all[i] {
			largest = max(largest, slices.Max(l.ns)/v.steps(rank))
		}
	}
	unit := timeUnit{"ms", 1e6, 3}
	if largest < 1e6 {
		unit = timeUnit{"µs", 1e3, 1}
	}
	t := data.Table{ID: v.id, Title: r.title(v.title), Note: note, Columns: v.columns(r, unit)}
	if v.note != "" {
		t.Note = v.note + "\n" + t.Note
	}
	for i, rank := range r.Ranks {
		lines := v.cut(all[i], top)
		sum := v.add("Sum", all[i])
		for at, l := range append(lines, sum) {
			row := data.Row{Cells: v.cells(rank, l, unit), Component: l.component, Bold: at == len(lines), Rule: at == len(lines) || at == 0 && i > 0}
			if r.rankColumns() > 0 {
				row.Cells = append([]string{r.label(i)}, row.Cells...)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

type timeUnit struct {
	name     string
	ns       int64
	decimals int
}

// rankColumns is how many columns name the rank: one when there are several.
func (r Report) rankColumns() int { return min(max(len(r.Ranks)-1, 0), 1) }

func (v view) steps(rank Rank) int64 {
	if v.perStep {
		return max(int64(rank.StepCount()), 1)
	}
	return 1
}

func (v view) columns(r Report, unit timeUnit) []data.Column {
	per := ""
	if v.perStep && !v.briefUnits && !slices.ContainsFunc(r.Ranks, func(k Rank) bool { return k.StepCount() == 0 }) {
		per = " a step"
	}
	var out []data.Column
	if r.rankColumns() > 0 {
		out = append(out, data.Column{Head: "Rank"})
	}
	for _, h := range v.heads {
		out = append(out, data.Column{Head: h})
	}
	if v.count != "" {
		out = append(out, data.Column{Head: v.count, Unit: "n" + per, Numeric: true})
	}
	for i, c := range v.times {
		out = append(out, data.Column{Head: c.head, Unit: unit.name + per, Numeric: true})
		if i == 0 && v.share {
			out = append(out, data.Column{Unit: "%", Numeric: true})
		}
	}
	if v.each {
		out = append(out, data.Column{Head: "Each", Unit: "µs", Numeric: true})
	}
	if v.last != "" {
		out = append(out, data.Column{Head: v.last})
	}
	return out
}

func (v view) cells(rank Rank, l line, unit timeUnit) []string {
	steps := v.steps(rank)
	out := slices.Clone(l.heads)
	if v.count != "" {
		decimals := 0
		if l.n%steps != 0 {
			decimals = 1
		}
		out = append(out, units.Fixed(l.n, steps, decimals))
	}
	for i, ns := range l.ns {
		if ns == none {
			out = append(out, "")
		} else {
			out = append(out, units.Fixed(ns, unit.ns*steps, unit.decimals))
		}
		if i == 0 && v.share {
			whole := rank.SummedNs
			if v.whole != nil {
				whole = v.whole(rank)
			}
			out = append(out, units.Percent(ns, whole, 1))
		}
	}
	if v.each {
		out = append(out, units.Us(l.ns[0]/max(l.n, 1), 1))
	}
	if v.last != "" {
		out = append(out, l.last)
	}
	return out
}

// cut keeps the top largest lines in their order and adds up the others.
func (v view) cut(lines []line, top int) []line {
	if top <= 0 || len(lines) <= top {
		return lines
	}
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[b].ns[0], lines[a].ns[0]) })
	keep := order[:top]
	slices.Sort(keep)
	var kept, rest []line
	for i, l := range lines {
		if _, ok := slices.BinarySearch(keep, i); ok {
			kept = append(kept, l)
		} else {
			rest = append(rest, l)
		}
	}
	return append(kept, v.add(fmt.Sprintf("%d others", len(rest)), rest))
}

// add sums lines. A column that does not add up stays empty.
func (v view) add(label string, lines []line) line {
	sum := line{heads: make([]string, len(v.heads)), ns: make([]int64, len(v.times))}
	sum.heads[0] = label
	for c, column := range v.times {
		if !column.adds {
			sum.ns[c] = none
		}
	}
	for _, l := range lines {
		sum.n += l.n
		for c, column := range v.times {
			if column.adds && l.ns[c] != none {
				sum.ns[c] += l.ns[c]
			}
		}
	}
	return sum
}

// width is what a table may take on a terminal.
const width = 100

// fit cuts the texts of one column so that the table fits the width.
func fit(t *data.Table, column int) {
	room := width
	for c, col := range t.Columns {
		if c == column {
			continue
		}
		widest := max(utf8.RuneCountInString(col.Head), utf8.RuneCountInString(col.Unit))
		for _, row := range t.Rows {
			widest = max(widest, utf8.RuneCountInString(row.Cells[c]))
		}
		room -= widest + 2 // the gap between columns
	}
	room = max(room, 16)
	for _, row := range t.Rows {
		row.Cells[column] = cut(row.Cells[column], room)
	}
}

// cut shortens a text to a number of characters.
func cut(text string, room int) string {
	if r := []rune(text); len(r) > room {
		return strings.TrimRight(string(r[:room-1]), " ") + "…"
	}
	return text
}
