package data

import (
	"fmt"
	"html"
	"strings"

	"github.com/rooflab/rooflab/internal/units"
)

// SimpleRender shows the verdict in a notebook.
func (v Verdict) SimpleRender() map[string]interface{} {
	text := wrap(v.Heading, 100) + "\n\n" + wrap(v.Lede, 100)
	htm := "<h2>" + html.EscapeString(v.Heading) + "</h2><p>" + html.EscapeString(v.Lede) + "</p>"
	for _, f := range v.Facts {
		text += "\n\n" + wrap(f.Head+": "+f.Text, 100)
		htm += "<p><b>" + html.EscapeString(f.Head) + "</b> " + html.EscapeString(f.Text) + "</p>"
	}
	return bundle(MIMEVerdict, v, htm, text)
}

// SimpleRender shows the facts in a notebook.
func (f Facts) SimpleRender() map[string]interface{} {
	t := Table{Title: f.Heading, Note: f.Note, Columns: []Column{{Head: "What"}, {Head: "Value"}}}
	for _, it := range f.Items {
		t.Rows = append(t.Rows, Row{Cells: []string{it.Head, it.Text}})
	}
	return bundle(MIMEFacts, f, t.HTML(), t.Text())
}

// Note is a paragraph that a cell says, in Markdown.
type Note string

// SimpleRender shows the note in a notebook.
func (n Note) SimpleRender() map[string]interface{} {
	return map[string]interface{}{"text/markdown": string(n), "text/plain": wrap(string(n), 100)}
}

// SimpleRender shows the bottleneck table in a notebook.
func (b Bottlenecks) SimpleRender() map[string]interface{} {
	t := b.Table()
	return bundle(MIMEBottlenecks, b, t.HTML(), t.Text())
}

// BottleneckWords name the sums of a bottleneck table and what its shares are of.
type BottleneckWords struct{ Base, Summed, Overlap, Idle string }

// Words are those of GPU time, or of CPU time where there is no GPU activity.
func (b Bottlenecks) Words() BottleneckWords {
	if b.CPU {
		return BottleneckWords{"CPU time of the steps: operators, and Python and other host work", "CPU time of the step, summed", "Two threads at once", "Between steps: no operator runs"}
	}
	return BottleneckWords{"summed GPU time", "GPU time, summed", "Two streams at once", "Idle: no GPU work runs"}
}

// Table formats the totals as milliseconds a step and percent of the summed time.
func (b Bottlenecks) Table() Table {
	t := Table{Title: b.Heading, Note: b.Note, Columns: []Column{{Head: "Component"}}}
	for _, l := range b.Loads {
		t.Columns = append(t.Columns, Column{Head: l.Label, Unit: "ms a step", Numeric: true}, Column{Unit: "%", Numeric: true})
	}
	for _, r := range b.Rows {
		row := Row{Cells: []string{r.Label}}
		if len(r.Components) > 0 {
			row.Component = r.Components[0]
		}
		for i, l := range b.Loads {
			row.Cells = append(row.Cells, units.MsPer(r.Ns[i], int64(l.Steps), 2), units.Percent(r.Ns[i], l.SummedNs, 1))
		}
		t.Rows = append(t.Rows, row)
	}
	sum := func(label string, bold bool, cells func(Load) (string, string)) {
		row := Row{Cells: []string{label}, Bold: bold}
		for _, l := range b.Loads {
			ms, pct := cells(l)
			row.Cells = append(row.Cells, ms, pct)
		}
		t.Rows = append(t.Rows, row)
	}
	per := func(ns int64, l Load) string { return units.MsPer(ns, int64(l.Steps), 2) }
	first := len(t.Rows)
	w := b.Words()
	sum(w.Summed, true, func(l Load) (string, string) { return per(l.SummedNs, l), units.Percent(l.SummedNs, l.SummedNs, 1) })
	t.Rows[first].Rule = true
	sum(w.Overlap+", counted twice above", false, func(l Load) (string, string) { return per(-l.OverlapNs, l), "" })
	sum(w.Idle+" (% of the step)", false, func(l Load) (string, string) { return per(l.IdleNs, l), units.Percent(l.IdleNs, l.SpanNs, 1) })
	sum("Step while profiled", true, func(l Load) (string, string) { return per(l.SpanNs, l), "" })
	sum("Step without profiler (steady median ITL)", false, func(l Load) (string, string) {
		if l.UnprofiledNs == 0 {
			return "not measured", ""
		}
		return units.Ms(l.UnprofiledNs, 2), ""
	})
	return t
}

// Marks and words of the verdicts; they carry no colour.
var verdictWords = map[string]string{Confirmed: "✓ Confirmed", Rejected: "✕ Rejected", Open: "○ Open"}

// VerdictWord returns mark, word and place of a finding: "✕ Rejected at C = 256".
func (f Finding) VerdictWord() string {
	w, ok := verdictWords[f.Verdict]
	if !ok {
		w = "○ Open"
	}
	if f.Where != "" {
		w += " " + f.Where
	}
	return w
}

// SimpleRender shows the findings in a notebook.
func (f Findings) SimpleRender() map[string]interface{} {
	t := Table{Title: f.Heading, Note: f.Note, Columns: []Column{{Head: "Verdict"}, {Head: "Belief"}, {Head: "What the numbers say"}}}
	for _, it := range f.Items {
		var vals []string
		for _, v := range it.Values {
			vals = append(vals, v.Label+": "+v.Text)
		}
		text := it.Text
		if len(vals) > 0 {
			text += " (" + strings.Join(vals, ", ") + ")"
		}
		t.Rows = append(t.Rows, Row{Cells: []string{it.VerdictWord(), it.Claim, text}})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", f.Heading)
	for _, r := range t.Rows {
		fmt.Fprintf(&text, "\n%s: %s\n%s\n", r.Cells[0], r.Cells[1], wrap(r.Cells[2], 100))
	}
	return bundle(MIMEFindings, f, t.HTML(), strings.TrimRight(text.String(), "\n"))
}

// Factor formats the speed-up if the measured alternative holds, or "open".
func (g Gain) Factor() string {
	if g.AfterNs == 0 {
		return "open"
	}
	return units.Ratio(g.StepNs, g.AfterNs, 2)
}

// Bound formats the speed-up if the component cost nothing, or "".
func (g Gain) Bound() string {
	if g.FloorNs == 0 {
		return ""
	}
	return "≤ " + units.Ratio(g.StepNs, g.FloorNs, 2)
}

// SimpleRender shows the tiers in a notebook.
func (ts Tiers) SimpleRender() map[string]interface{} {
	t := Table{Title: ts.Heading, Note: ts.Note, Columns: []Column{{Head: "Tier"}, {Head: "Change"}}}
	for _, l := range ts.Loads {
		t.Columns = append(t.Columns, Column{Head: l, Unit: "×", Numeric: true}, Column{Unit: "bound", Numeric: true})
	}
	for _, it := range ts.Items {
		row := Row{Cells: []string{it.Kind, it.Change}, Bold: it.Total, Rule: it.Total}
		for _, g := range it.Gains {
			row.Cells = append(row.Cells, g.Factor(), g.Bound())
		}
		t.Rows = append(t.Rows, row)
	}
	return bundle(MIMETiers, ts, t.HTML(), t.Text())
}
