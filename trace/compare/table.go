package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
)

// sumLabels are the words for the sums, as the bottleneck table has them.
var sumLabels = map[string]string{
	"summed": "GPU time, summed", "overlap": "Overlap, counted twice above", "busy": "GPU busy", "idle": "GPU idle", "step": "Step",
}

// nothing stands where nothing can be said, as in benchstat.
const nothing = "~"

// Tables returns one table a section, and the table of what else differs.
func (r Report) Tables() []data.Table {
	var out []data.Table
	for i := range r.Sections {
		out = append(out, r.section(i))
	}
	return append(out, r.differences())
}

// Table returns one table of all sections for other programs, without notes.
func (r Report) Table() data.Table {
	t := data.Table{ID: "compare", Columns: []data.Column{{Head: "load"}, {Head: "rank", Numeric: true}, {Head: "component"}, {Head: "name"}}}
	for _, side := range []string{"A", "B"} {
		for _, c := range []string{"median", "lo", "hi"} {
			t.Columns = append(t.Columns, data.Column{Head: side + " " + c, Unit: "ms a step", Numeric: true})
		}
		t.Columns = append(t.Columns, data.Column{Head: side + " n", Unit: "steps", Numeric: true})
	}
	t.Columns = append(t.Columns, data.Column{Head: "change", Unit: "ms a step", Numeric: true}, data.Column{Head: "change", Unit: "%", Numeric: true}, data.Column{Head: "p", Numeric: true}, data.Column{Head: "significant"})
	for _, s := range r.Sections {
		for _, row := range slices.Concat(s.Rows, s.Sums) {
			cells := []string{s.Load, strconv.Itoa(s.Rank), row.Component, row.Name}
			for _, e := range []Estimate{row.A, row.B} {
				lo, hi := "", ""
				if e.bounded() {
					lo, hi = exactMs(e.LoNs), exactMs(e.HiNs)
				}
				cells = append(cells, exactMs(e.MedianNs), lo, hi, strconv.Itoa(e.N))
			}
			pct := ""
			if row.A.MedianNs != 0 {
				pct = strconv.FormatFloat(row.ChangePct, 'f', 2, 64)
			}
			cells = append(cells, exactMs(row.ChangeNs), pct, strconv.FormatFloat(row.P, 'g', 4, 64), strconv.FormatBool(row.Significant))
			t.Rows = append(t.Rows, data.Row{Cells: cells, Component: row.Component})
		}
	}
	return t
}

// exactMs keeps every ns.
func exactMs(ns int64) string { return units.Ms(ns, 6) }

func (r Report) section(i int) data.Table {
	s := r.Sections[i]
	t := data.Table{ID: "compare", Title: fmt.Sprintf("GPU time a step by %s, %s, rank %d", r.By, s.Load, s.Rank), Columns: []data.Column{
		{Head: strings.ToUpper(r.By[:1]) + r.By[1:]},
		{Head: "A", Unit: "ms", Numeric: true}, {Unit: "±%", Numeric: true}, {Head: "B", Unit: "ms", Numeric: true}, {Unit: "±%", Numeric: true},
		{Head: "Change", Unit: "ms", Numeric: true}, {Unit: "%", Numeric: true}, {Head: "p", Numeric: true}, {},
	}}
	var foot []string
	for _, row := range s.Rows {
		label := row.Name
		if r.By == ByKernel {
			label = kernelLabel(row)
		}
		t.Rows = append(t.Rows, row.cells(label, &foot))
	}
	for i, row := range s.Sums {
		line := row.cells(sumLabels[row.Name], &foot)
		line.Rule, line.Bold = i == 0, row.Name == "summed" || row.Name == "step"
		t.Rows = append(t.Rows, line)
	}
	lines := []string{
		fmt.Sprintf("A: %s, n = %d whole %ssteps. B: %s, n = %d.", r.fileOf(r.A, s.FileA), s.NA, s.kind(), r.fileOf(r.B, s.FileB), s.NB),
	}
	for i, f := range foot {
		lines = append(lines, mark(i)+" "+f)
	}
	t.Note = strings.Join(lines, "\n")
	return t
}

// kind is the word before "steps": nothing for steps without marks.
func (s Section) kind() string {
	if s.Kind == string(trace.Unmarked) {
		return ""
	}
	return s.Kind + " "
}

// fileOf names the trace of a section: within a run by run and file, else as the side is named.
func (r Report) fileOf(s Side, file string) string {
	if s.Run != "" {
		return s.Name + "/" + file
	}
	for _, name := range strings.Split(s.Name, " + ") {
		if strings.HasSuffix("/"+name, "/"+file) {
			return name
		}
	}
	return file
}

// kernelLabel cuts a kernel's name, which may be a thousand characters long, and adds its component: one GEMM kernel may
// serve several. The other forms keep the name whole.
func kernelLabel(row Row) string {
	const width = 46
	return cut(row.Name, max(width-len(row.Component)-3, 12)) + " (" + row.Component + ")"
}

// cut shortens text to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// pText is p; below 0.001 it says so.
func pText(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return units.Float(p, 3)
}

// cells formats a row; foot collects the footnotes of the table.
func (row Row) cells(label string, foot *[]string) data.Row {
	change, pct := nothing, nothing
	if row.Significant {
		change = signed(units.Ms(row.ChangeNs, 3), row.ChangeNs)
		switch {
		case row.A.SumNs == 0:
			pct = "new"
		case row.B.SumNs == 0:
			pct = "gone"
		case row.A.MedianNs == 0:
			pct = "?"
		default:
			pct = signed(units.Percent(row.ChangeNs, row.A.MedianNs, 1), row.ChangeNs)
		}
	}
	marks := ""
	for _, w := range row.Warnings {
		i := slices.Index(*foot, w)
		if i < 0 {
			i = len(*foot)
			*foot = append(*foot, w)
		}
		marks += mark(i)
	}
	a, aRange := row.A.cells()
	b, bRange := row.B.cells()
	return data.Row{Cells: []string{label, a, aRange, b, bRange, change, pct, pText(row.P), marks}, Component: row.Component}
}

// cells are the median, and the larger half of its interval in percent; empty when nothing ran.
func (e Estimate) cells() (median, half string) {
	if e.SumNs == 0 {
		return "", ""
	}
	switch {
	case !e.bounded():
		half = "∞"
	case e.MedianNs != 0:
		half = units.Percent(max(e.HiNs-e.MedianNs, e.MedianNs-e.LoNs), abs(e.MedianNs), 0)
	}
	return units.Ms(e.MedianNs, 3), half
}

func (e Estimate) bounded() bool { return e.LoNs != -1 || e.HiNs != -1 }

func (r Report) differences() data.Table {
	t := data.Table{ID: "differences", Title: "What else differs", Columns: []data.Column{{Head: "Kind"}, {Head: "What"}, {Head: "A"}, {Head: "B"}}}
	for _, d := range r.Differences {
		what := d.What
		a, b := cut(d.A, 40), cut(d.B, 40)
		if a == b {
			a, b = d.A, d.B // they differ behind the cut
		}
		if d.Where != "" {
			what += " (" + d.Where + ")"
		}
		t.Rows = append(t.Rows, data.Row{Cells: []string{d.Kind, what, a, b}})
	}
	if len(r.Differences) == 0 {
		t.Rows = []data.Row{{Cells: []string{"", "nothing that is recorded", "", ""}}}
	}
	t.Note = strings.Join(slices.Concat(r.Cautions, r.Notes), "\n")
	return t
}

func signed(s string, n int64) string {
	if n > 0 && !strings.HasPrefix(s, "<") {
		return "+" + s
	}
	return s
}

// trim drops zeros after the point that say nothing.
func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// mark is the number of a footnote.
func mark(i int) string {
	const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹"
	out := ""
	for _, d := range strconv.Itoa(i + 1) {
		out += string([]rune(digits)[d-'0'])
	}
	return out
}
