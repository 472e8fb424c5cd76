package nbformat

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Difference is one thing in which two notebooks differ.
type Difference struct {
	CellA int      `json:"cell_a,omitempty"` // from 1; 0: only in B
	CellB int      `json:"cell_b,omitempty"` // from 1; 0: only in A
	ID    string   `json:"id"`
	What  string   `json:"what"`  // "added", "removed", "type", "source" or "outputs"
	Lines []string `json:"lines"` // changed lines after "-" or "+", and " " lines around them
}

// Diff compares cell types, sources and outputs. It ignores what a second run changes without meaning: execution
// counts and times, cell and notebook metadata, and where a stream is cut.
// Cells are matched by id or by equal source, in order.
func Diff(a, b *Notebook) []Difference {
	pairs := align(len(a.Cells), len(b.Cells), func(i, j int) bool {
		x, y := &a.Cells[i], &b.Cells[j]
		return x.ID == y.ID || x.Type == y.Type && x.Source == y.Source
	})
	var diffs []Difference
	for _, p := range joinChanged(pairs) {
		switch {
		case p.b < 0:
			c := &a.Cells[p.a]
			diffs = append(diffs, Difference{CellA: p.a + 1, ID: c.ID, What: "removed", Lines: prefixed("-", lines(c.Source))})
		case p.a < 0:
			c := &b.Cells[p.b]
			diffs = append(diffs, Difference{CellB: p.b + 1, ID: c.ID, What: "added", Lines: prefixed("+", lines(c.Source))})
		default:
			diffs = append(diffs, diffCell(&a.Cells[p.a], &b.Cells[p.b], p)...)
		}
	}
	return diffs
}

// diffCell compares two cells that belong together.
func diffCell(x, y *Cell, p pair) []Difference {
	var diffs []Difference
	add := func(what string, a, b []string) {
		if d := diffLines(a, b); d != nil {
			diffs = append(diffs, Difference{CellA: p.a + 1, CellB: p.b + 1, ID: y.ID, What: what, Lines: d})
		}
	}
	add("type", []string{x.Type}, []string{y.Type})
	add("source", lines(x.Source), lines(y.Source))
	add("outputs", outputLines(x.Outputs), outputLines(y.Outputs))
	return diffs
}

// outputLines is a plain form of outputs for comparison: text in full, other data by size and hash.
func outputLines(outputs []Output) []string {
	var out []string
	for _, o := range JoinStreams(outputs) {
		switch o.Type {
		case Stream:
			out = append(out, o.Name+":")
			out = append(out, prefixed("  ", lines(o.Text))...)
		case Error:
			out = append(out, "error: "+o.Ename+": "+o.Evalue)
			out = append(out, prefixed("  ", lines(strings.Join(o.Traceback, "\n")))...)
		default:
			for _, mime := range o.Data.Types() {
				out = append(out, dataLines(o, mime)...)
			}
		}
	}
	return out
}

func dataLines(o Output, mime string) []string {
	if text, ok := o.Data.Text(mime); ok && strings.HasPrefix(mime, "text/") {
		return append([]string{o.Type + " " + mime + ":"}, prefixed("  ", lines(text))...)
	}
	raw, err := appendValue(nil, o.Data[mime], 0)
	if err != nil {
		raw = o.Data[mime]
	}
	if !isJSONMime(mime) {
		return []string{fmt.Sprintf("%s %s: %d bytes, sha256 %x", o.Type, mime, len(raw), sha256.Sum256(raw))}
	}
	return append([]string{o.Type + " " + mime + ":"}, prefixed("  ", lines(string(raw)))...)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	list := strings.Split(s, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

func prefixed(prefix string, list []string) []string {
	out := make([]string, len(list))
	for i, l := range list {
		out[i] = prefix + l
	}
	return out
}

// diffLines gives the changed lines with two lines around them; nil when there is no change.
func diffLines(a, b []string) []string {
	const around = 2
	pairs := align(len(a), len(b), func(i, j int) bool { return a[i] == b[j] })
	show := make([]bool, len(pairs))
	changed := false
	for i, p := range pairs {
		if p.a >= 0 && p.b >= 0 {
			continue
		}
		changed = true
		for k := max(0, i-around); k <= min(len(pairs)-1, i+around); k++ {
			show[k] = true
		}
	}
	if !changed {
		return nil
	}
	var out []string
	for i, p := range pairs {
		switch {
		case !show[i]:
			if i > 0 && show[i-1] {
				out = append(out, "...")
			}
		case p.b < 0:
			out = append(out, "-"+a[p.a])
		case p.a < 0:
			out = append(out, "+"+b[p.b])
		default:
			out = append(out, " "+a[p.a])
		}
	}
	return out
}

// pair joins an element of A with one of B; -1 stands for none.
type pair struct{ a, b int }

// align pairs two sequences by a longest common subsequence. Very long ones that differ in very many places are
// paired only where they start and end alike.
func align(n, m int, equal func(i, j int) bool) []pair {
	var head, tail []pair
	lo := 0
	for lo < n && lo < m && equal(lo, lo) {
		head = append(head, pair{lo, lo})
		lo++
	}
	for n > lo && m > lo && equal(n-1, m-1) {
		n, m = n-1, m-1
		tail = append(tail, pair{n, m})
	}
	for i, j := 0, len(tail)-1; i < j; i, j = i+1, j-1 {
		tail[i], tail[j] = tail[j], tail[i]
	}
	return append(append(head, middle(lo, n, m, equal)...), tail...)
}

// middle aligns [lo, n) with [lo, m).
func middle(lo, n, m int, equal func(i, j int) bool) []pair {
	const tableLimit = 16 << 20
	rows, cols := n-lo, m-lo
	var out []pair
	if rows*cols > tableLimit {
		for i := lo; i < n; i++ {
			out = append(out, pair{i, -1})
		}
		for j := lo; j < m; j++ {
			out = append(out, pair{-1, j})
		}
		return out
	}
	table := make([]int32, (rows+1)*(cols+1)) // length of the common part of what follows
	at := func(i, j int) *int32 { return &table[i*(cols+1)+j] }
	for i := rows - 1; i >= 0; i-- {
		for j := cols - 1; j >= 0; j-- {
			if equal(lo+i, lo+j) {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	i, j := 0, 0
	for i < rows || j < cols {
		switch {
		case i < rows && j < cols && equal(lo+i, lo+j):
			out = append(out, pair{lo + i, lo + j})
			i, j = i+1, j+1
		case j == cols || i < rows && *at(i+1, j) >= *at(i, j+1):
			out = append(out, pair{lo + i, -1})
			i++
		default:
			out = append(out, pair{-1, lo + j})
			j++
		}
	}
	return out
}

// joinChanged pairs what was removed with what was added at the same place, so that an edited cell shows as edited.
func joinChanged(pairs []pair) []pair {
	var out []pair
	for i := 0; i < len(pairs); {
		if pairs[i].a >= 0 && pairs[i].b >= 0 {
			out = append(out, pairs[i])
			i++
			continue
		}
		var removed, added []int
		for ; i < len(pairs) && (pairs[i].a < 0 || pairs[i].b < 0); i++ {
			if pairs[i].b < 0 {
				removed = append(removed, pairs[i].a)
			} else {
				added = append(added, pairs[i].b)
			}
		}
		for k := range max(len(removed), len(added)) {
			p := pair{-1, -1}
			if k < len(removed) {
				p.a = removed[k]
			}
			if k < len(added) {
				p.b = added[k]
			}
			out = append(out, p)
		}
	}
	return out
}
