package breakdown

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Table is the bottleneck table: components by time, for one rank or for several beside each other, in ms a step and in percent
// of the summed GPU time. A file without step annotations counts as one step.
func (r Report) Table() data.Table { return r.table(false, 0) }

// PartsTable is Table with the parts of each component below it.
func (r Report) PartsTable() data.Table { return r.table(true, 0) }

// SimpleRender shows the table in a notebook.
func (r Report) SimpleRender() map[string]interface{} { return r.Table().SimpleRender() }

// table shows the top components, all for 0, and the others as one row.
func (r Report) table(parts bool, top int) data.Table {
	t := data.Table{ID: "breakdown", Title: r.title(r.words().time + " by component"), Note: r.notes(), Columns: []data.Column{{Head: "Component"}}}
	r = r.counted()
	one := len(r.Ranks) == 1
	for i, rank := range r.Ranks {
		unit := "ms a step"
		if rank.StepCount() == 0 {
			unit = "ms"
		}
		if one {
			t.Columns = append(t.Columns, data.Column{Head: "Calls", Unit: strings.Replace(unit, "ms", "n", 1), Numeric: true})
		}
		t.Columns = append(t.Columns, data.Column{Head: r.label(i), Unit: unit, Numeric: true}, data.Column{Unit: "%", Numeric: true})
	}
	names := r.componentNames()
	shown := names
	if top > 0 && top < len(names) {
		shown = names[:top]
	}
	for _, name := range shown {
		row := data.Row{Cells: []string{name}, Component: name}
		for _, rank := range r.Ranks {
			c := rank.Component(name)
			row.Cells = append(row.Cells, cells(rank, one, c.N, c.Ns)...)
		}
		t.Rows = append(t.Rows, row)
		if parts {
			t.Rows = append(t.Rows, r.partRows(name, one)...)
		}
	}
	if rest := names[len(shown):]; len(rest) > 0 {
		t.Rows = append(t.Rows, r.othersRow(rest, one))
	}
	return r.sums(t, one)
}

// othersRow adds up the components that have no row of their own.
func (r Report) othersRow(names []string, calls bool) data.Row {
	row := data.Row{Cells: []string{fmt.Sprintf("%d others", len(names))}}
	for _, rank := range r.Ranks {
		var sum Component
		for _, name := range names {
			c := rank.Component(name)
			sum.N += c.N
			sum.Ns += c.Ns
		}
		row.Cells = append(row.Cells, cells(rank, calls, sum.N, sum.Ns)...)
	}
	return row
}

// cells are the figures of one component or part for one rank.
func cells(rank Rank, calls bool, n int, ns int64) []string {
	steps := max(int64(rank.StepCount()), 1)
	if n == 0 {
		return slices.Repeat([]string{""}, map[bool]int{true: 3, false: 2}[calls])
	}
	out := []string{units.MsPer(ns, steps, 3), units.Percent(ns, rank.SummedNs, 1)}
	if !calls {
		return out
	}
	decimals := 0
	if int64(n)%steps != 0 {
		decimals = 1
	}
	return append([]string{units.Fixed(int64(n), steps, decimals)}, out...)
}

// partRows are the parts of a component, indented.
func (r Report) partRows(name string, calls bool) []data.Row {
	var names []string
	for _, rank := range r.Ranks {
		for _, p := range rank.Component(name).Parts {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	var rows []data.Row
	for _, part := range names {
		row := data.Row{Cells: []string{"  " + part}, Component: name}
		for _, rank := range r.Ranks {
			p := rank.Component(name).Part(part)
			row.Cells = append(row.Cells, cells(rank, calls, p.N, p.Ns)...)
		}
		rows = append(rows, row)
	}
	return rows
}

// sums adds the rows that lead from the summed time to the step.
func (r Report) sums(t data.Table, calls bool) data.Table {
	first := len(t.Rows)
	add := func(label string, bold bool, part, whole func(Rank) int64) {
		row := data.Row{Cells: []string{label}, Bold: bold, Rule: len(t.Rows) == first}
		for _, rank := range r.Ranks {
			if calls {
				row.Cells = append(row.Cells, "")
			}
			pct := ""
			if whole != nil {
				pct = units.Percent(part(rank), whole(rank), 1)
			}
			row.Cells = append(row.Cells, units.MsPer(part(rank), max(int64(rank.StepCount()), 1), 3), pct)
		}
		t.Rows = append(t.Rows, row)
	}
	summed, span := func(k Rank) int64 { return k.SummedNs }, func(k Rank) int64 { return k.SpanNs }
	w := r.words()
	add(w.summed, true, summed, summed)
	add("Overlap, counted twice above", false, func(k Rank) int64 { return -k.OverlapNs }, nil)
	add(w.busy, false, func(k Rank) int64 { return k.BusyNs }, span)
	add(w.idle, false, func(k Rank) int64 { return k.IdleNs }, span)
	add(w.whole, true, span, nil)
	return t
}

// componentNames lists the components of all ranks by their largest share in any rank.
func (r Report) componentNames() []string {
	var names []string
	largest := map[string]int64{}
	for _, rank := range r.Ranks {
		for _, c := range rank.Components {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
			largest[c.Name] = max(largest[c.Name], permille(c.Ns, rank.SummedNs))
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		if largest[a] != largest[b] {
			return int(largest[b] - largest[a])
		}
		return strings.Compare(a, b)
	})
	return names
}

// permille is a share in millionths, for comparing without floats.
func permille(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return part * 1000 / max(whole/1000, 1)
}

// title names the load when all ranks have the same, and the step when the figures are of one.
func (r Report) title(what string) string {
	if len(r.Ranks) > 0 && r.Ranks[0].Step != nil {
		what += fmt.Sprintf(", step %d", *r.Ranks[0].Step)
	}
	loads := map[string]bool{}
	for _, rank := range r.Ranks {
		loads[rank.Load()] = true
	}
	if len(loads) != 1 || len(r.Ranks) == 0 {
		return what
	}
	return what + ", " + r.Ranks[0].Load()
}

// label heads the columns of a rank with what differs between the ranks.
func (r Report) label(i int) string {
	if len(r.Ranks) == 1 {
		return "Time"
	}
	ranks, loads := map[int]bool{}, map[string]bool{}
	for _, k := range r.Ranks {
		ranks[k.Rank], loads[k.Load()] = true, true
	}
	var words []string
	if len(loads) > 1 {
		words = append(words, strings.NewReplacer(",", "", " tokens", "", " token", "").Replace(r.Ranks[i].Load()))
	}
	if len(ranks) > 1 || len(words) == 0 {
		words = append(words, fmt.Sprintf("rank %d", r.Ranks[i].Rank))
	}
	return strings.Join(words, " · ")
}

// Load says what most of the counted steps did: "decode, 64 tokens".
func (r Rank) Load() string {
	if len(r.Steps) == 0 {
		return "no steps"
	}
	g := r.countedGroup()
	return stepWords(g.Kind, g.ContextTokens, g.GenerationTokens)
}

// countedGroup is the first, most frequent group of counted steps.
func (r Rank) countedGroup() StepGroup {
	counted := countedKind(r.Steps)
	for _, partial := range []bool{false, true} {
		for _, g := range r.Steps {
			if n := map[bool]int{true: g.Partial, false: g.N - g.Partial}[partial]; n > 0 && counted(g.Kind, partial) {
				return g
			}
		}
	}
	if len(r.Steps) == 0 {
		return StepGroup{}
	}
	return r.Steps[0]
}

func tokens(n int) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

// notes are the small print: what was read, how long the ranks waited, and what is wrong with the files.
func (r Report) notes() string {
	var lines []string
	w := r.words()
	if w == cpuWords {
		lines = append(lines, cpuNote+" Annotations of a step: "+r.annotations()+".")
	}
	for _, rank := range r.Ranks {
		line := fmt.Sprintf("%s: rank %d, %s, %s %ss, %s", rank.File, rank.Rank, orUnknown(rank.Device), units.Count(int64(rank.GPUEvents+rank.Operators)), w.event, steps(rank))
		for _, d := range rank.Health {
			if d.ID == "no_gpu_activity" { // said above
				continue
			}
			line += "; " + health(d)
		}
		lines = append(lines, line+".")
	}
	for _, c := range append(r.first(), r.More...) {
		if c.Matched == 0 && slices.Min(c.Unmatched) > 0 {
			lines = append(lines, "No all-reduce of one rank meets any of another in time: the files are of different runs or moments, so waiting is not known.")
			continue
		}
		lines = append(lines, c.split())
	}
	return strings.Join(lines, "\n")
}

// split says in one sentence where the time of a collective goes.
func (c Collectives) split() string {
	name := "All-reduce"
	if c.Component != "" && c.Component != classify.AllReduce {
		name = data.ComponentLabel(c.Component)
	}
	return fmt.Sprintf("%s, %s matched: transfer %s ms; waiting for the last rank %s ms; tail %s ms (totals, by rank).", name,
		units.Count(int64(c.Matched)), units.Ms(c.TransferNs, 1), msList(c.WaitNs), msList(c.TailNs))
}

func (r Report) first() []Collectives {
	if r.Collectives == nil {
		return nil
	}
	return []Collectives{*r.Collectives}
}

func health(d diag.Diagnostic) string {
	text := d.Text
	if d.Severity == diag.DataLoss {
		text = "DATA LOSS: " + text
	}
	if d.N > 1 {
		text += " (" + units.Count(int64(d.N)) + ")"
	}
	return text
}

func orUnknown(device string) string {
	if device == "" {
		return "GPU not named"
	}
	return device
}

func steps(r Rank) string {
	if len(r.Steps) == 0 {
		return "no step annotations: times are of the whole file"
	}
	var words []string
	for _, g := range r.Steps {
		phrase := plural(g.N, word(g.Kind)+" step")
		if n := g.ContextTokens + g.GenerationTokens; n > 0 {
			phrase += " of " + tokens(n)
		}
		if g.Kind == trace.Mixed && g.ContextTokens > 0 {
			phrase += fmt.Sprintf(" (%d of prompts)", g.ContextTokens)
		}
		words = append(words, phrase)
	}
	return strings.Join(words, ", ")
}

func msList(ns []int64) string {
	var words []string
	for _, n := range ns {
		words = append(words, units.Ms(n, 1))
	}
	return strings.Join(words, " / ")
}
