package sitegen

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
)

// item is one thing on a page, ready for the template "item"; one field is set, Heading and Side aside.
type item struct {
	Heading     string // of the record, when the section around it does not say it
	Prose       template.HTML
	Verdict     *verdictView
	Bottlenecks *bottleneckView
	Side        *tableView // beside the bottlenecks
	Pair        []*figureView
	Read        template.HTML // the sentence that reads a pair together
	Figure      *figureView
	Table       *tableView
	Findings    *findingsView
	Tiers       *tiersView
	Facts       *factsView
	Output      *outputView

	width string // of a figure
	kind  string // MIME type of the record
}

type label struct{ Text, Href string }

type factView struct {
	Head, Text string
	From       from
}

type verdictView struct {
	Campaign, Heading, Lede string
	Facts                   []factView
}

type factsView struct {
	Note  string
	Items []factView
	From  from
}

type bottleneckView struct {
	Caption, Note, Steps, CSV string
	From                      from
	Loads                     []label
	Scale                     int // percent at which a bar fills its cell, one for the whole table
	Rows                      []bottleneckRow
	Sums                      []sumRow
}

type bottleneckRow struct {
	Family, Names string
	Label         label
	Cells         []barCell
}

type sumRow struct {
	Label               label
	Family, Class, Note string
	Cells               []barCell
}

type barCell struct {
	Ms, Pct, Bar string
	Lead, Word   bool
}

type tableView struct {
	Title, Name, Note, CSV string
	From                   from
	Columns                []data.Column
	Rows                   []tableRow
}

type tableRow struct {
	Class, Family, Note string
	Label               label
	Cells               []tableCell
}

type tableCell struct {
	Text    string
	Numeric bool
}

type findingsView struct {
	Note  string
	From  from
	Items []findingView
}

type findingView struct {
	ID, Mark, Word, Claim, Text string
	Values                      []data.Value
	From                        from
}

type tiersView struct {
	Caption     string
	Note        string
	From        from
	Loads       []string
	Scale, Span int
	Items       []tierView
}

type tierView struct {
	Kind, Detail string
	Change       label
	Total        bool
	Gains        []gainView
}

type gainView struct {
	Factor, Bound, Max, Got string
	HasBar                  bool
}

// recordTypes are the typed outputs that a page lays out itself, in the order in which one is chosen of a bundle.
var recordTypes = []string{data.MIMEVerdict, data.MIMEBottlenecks, data.MIMEFindings, data.MIMETiers, data.MIMEFacts, data.MIMEChart, data.MIMETable}

// record reads a typed output and lays it out. An error says what is wrong with the record.
func (s *site) record(kind string, raw json.RawMessage, at place) (*item, error) {
	it := &item{kind: kind}
	switch kind {
	case data.MIMEVerdict:
		var v data.Verdict
		if err := decode(raw, &v); err != nil {
			return nil, err
		}
		if v.Heading == "" {
			return nil, fmt.Errorf("the verdict has no heading")
		}
		it.Verdict = &verdictView{v.Campaign, v.Heading, v.Lede, s.facts(v.Facts, at)}
	case data.MIMEBottlenecks:
		var b data.Bottlenecks
		if err := decode(raw, &b); err != nil {
			return nil, err
		}
		view, err := s.bottlenecks(b, at)
		if err != nil {
			return nil, err
		}
		it.Heading, it.Bottlenecks = b.Heading, view
	case data.MIMEFindings:
		var f data.Findings
		if err := decode(raw, &f); err != nil {
			return nil, err
		}
		it.Heading, it.Findings = f.Heading, s.findings(f, at)
	case data.MIMETiers:
		var t data.Tiers
		if err := decode(raw, &t); err != nil {
			return nil, err
		}
		it.Heading, it.Tiers = t.Heading, s.tiers(t, at)
	case data.MIMEFacts:
		var f data.Facts
		if err := decode(raw, &f); err != nil {
			return nil, err
		}
		it.Heading, it.Facts = f.Heading, &factsView{Note: f.Note, Items: s.facts(f.Items, at), From: at.own()}
	case data.MIMETable:
		var t data.Table
		if err := decode(raw, &t); err != nil {
			return nil, err
		}
		it.Table = s.table(t, at)
	case data.MIMEChart:
		c, err := charts.Parse(raw)
		if err != nil {
			return nil, err
		}
		if it.Figure, err = s.figure(c, at); err != nil {
			return nil, err
		}
		it.width = c.Width
	}
	return it, nil
}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	return nil
}

func (s *site) facts(facts []data.Fact, at place) []factView {
	var views []factView
	for _, f := range facts {
		views = append(views, factView{f.Head, f.Text, s.named(f.Ref, at)})
	}
	return views
}

// maxCaption is the length in bytes over which a note stands below its table instead of above.
const maxCaption = 160

const tiersCaption = "How many times faster a step could get. Filled: if the measured alternative holds. Outline and ≤: if the component cost nothing (Amdahl), the bound for any work on it."

func (s *site) bottlenecks(b data.Bottlenecks, at place) (*bottleneckView, error) {
	if len(b.Loads) == 0 {
		return nil, fmt.Errorf("the bottleneck table has no loads")
	}
	v := &bottleneckView{Caption: b.Note, From: at.own(), Scale: 10}
	if b.Note == "" || len(b.Note) > maxCaption {
		v.Caption, v.Note = "One decode step. Shares are of the "+b.Words().Base+"; bold marks the largest at each load.", b.Note
	}
	lead := make([]int64, len(b.Loads))
	sum := make([]int64, len(b.Loads))
	for _, r := range b.Rows {
		if len(r.Ns) != len(b.Loads) {
			return nil, fmt.Errorf("row %q of the bottleneck table has %d values for %d loads", r.Label, len(r.Ns), len(b.Loads))
		}
		for i, ns := range r.Ns {
			lead[i], sum[i] = max(lead[i], ns), sum[i]+ns
		}
	}
	var steps []string
	for i, l := range b.Loads {
		if l.Steps <= 0 || l.SummedNs <= 0 {
			return nil, fmt.Errorf("load %q of the bottleneck table has no steps or no time", l.Label)
		}
		s.addsUp(l, sum[i], at)
		v.Loads = append(v.Loads, label{l.Label, s.named(l.Source, at).Href})
		v.Scale = max(v.Scale, 10*int(math.Ceil(10*float64(lead[i])/float64(l.SummedNs))))
		steps = append(steps, strconv.Itoa(l.Steps))
	}
	v.Steps = enumerate(steps) + " steps"
	for _, r := range b.Rows {
		row := bottleneckRow{Family: data.Unknown, Label: label{r.Label, s.named(r.Source, at).Href}, Names: shortNames(r.Components)}
		if len(r.Components) > 0 {
			row.Family = data.Family(r.Components[0])
		}
		for i, l := range b.Loads {
			row.Cells = append(row.Cells, barCell{Ms: units.MsPer(r.Ns[i], int64(l.Steps), 2), Pct: units.Percent(r.Ns[i], l.SummedNs, 1),
				Bar: coordinate(100 * float64(r.Ns[i]) / float64(l.SummedNs)), Lead: r.Ns[i] == lead[i] && r.Ns[i] > 0})
		}
		v.Rows = append(v.Rows, row)
	}
	v.Sums = sums(b)
	v.CSV = s.csv(at, "", b.Table())
	return v, nil
}

// addsUp warns when the parts of a load are not its whole: a table that does not add up must not pass in silence.
func (s *site) addsUp(l data.Load, rows int64, at place) {
	if rows == l.SummedNs && l.SummedNs-l.OverlapNs+l.IdleNs == l.SpanNs {
		return
	}
	s.warn(diag.Diagnostic{ID: "sum_mismatch", Severity: diag.Warning, Pos: diag.Pos{File: at.book.file},
		Text: fmt.Sprintf("cell %s: the bottleneck table does not add up at %s: rows give %d of %d ns; summed - overlap + idle = %d, the step is %d ns",
			at.cell.id, l.Label, rows, l.SummedNs, l.SummedNs-l.OverlapNs+l.IdleNs, l.SpanNs)})
}

func sums(b data.Bottlenecks) []sumRow {
	w := b.Words()
	overlap := w.Overlap
	if !b.CPU {
		overlap = "Two GPU streams at once"
	}
	rows := []sumRow{
		{Label: label{Text: w.Summed}, Class: "sum"},
		{Label: label{Text: overlap + ", counted twice above"}},
		{Label: label{Text: w.Idle}, Family: data.Idle, Note: "share of the step"},
		{Label: label{Text: "Step while profiled"}, Class: "step"},
		{Label: label{Text: "Step without profiler"}, Note: "median time between tokens"},
	}
	for _, l := range b.Loads {
		n := int64(l.Steps)
		without := barCell{Ms: "not measured", Word: true}
		if l.UnprofiledNs > 0 {
			without = barCell{Ms: units.Ms(l.UnprofiledNs, 2)}
		}
		for i, c := range []barCell{
			{Ms: units.MsPer(l.SummedNs, n, 2), Pct: "100.0"},
			{Ms: units.MsPer(-l.OverlapNs, n, 2)},
			{Ms: "+" + units.MsPer(l.IdleNs, n, 2), Pct: units.Percent(l.IdleNs, l.SpanNs, 1)},
			{Ms: units.MsPer(l.SpanNs, n, 2)},
			without,
		} {
			rows[i].Cells = append(rows[i].Cells, c)
		}
	}
	return rows
}

// shortNames lists components, leaving out a prefix that the one before has too: "attention.core .kv_write".
func shortNames(names []string) string {
	if len(names) > 4 {
		return shortNames(names[:3]) + " …"
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n
		if i > 0 {
			prefix, rest, ok := strings.Cut(n, ".")
			if ok && strings.HasPrefix(names[i-1], prefix+".") {
				out[i] = "." + rest
			}
		}
	}
	return strings.Join(out, " ")
}

func (s *site) table(t data.Table, at place) *tableView {
	v := &tableView{Title: t.Title, Name: t.Title, Note: t.Note, Columns: t.Columns, From: at.own()}
	if v.Name == "" {
		v.Name = "Table of cell " + at.cell.id
	}
	for _, r := range t.Rows {
		row := tableRow{Note: r.Note}
		if r.Component != "" {
			row.Family = charts.FamilyOf(r.Component)
		}
		switch {
		case r.Bold && r.Rule:
			row.Class = "sum"
		case r.Bold:
			row.Class = "bold"
		case r.Rule:
			row.Class = "rule"
		}
		for i := range t.Columns {
			text := ""
			if i < len(r.Cells) {
				text = r.Cells[i]
			}
			if i == 0 {
				row.Label = label{text, s.named(r.Ref, at).Href}
			} else {
				row.Cells = append(row.Cells, tableCell{text, t.Columns[i].Numeric})
			}
		}
		v.Rows = append(v.Rows, row)
	}
	v.CSV = s.csv(at, t.ID, t)
	return v
}

// csv keeps a table as a file to download and returns its path; "" for a table without columns.
func (s *site) csv(at place, id string, t data.Table) string {
	if len(t.Columns) == 0 || len(t.Rows) == 0 {
		return ""
	}
	name := strings.TrimSuffix(at.book.page, ".html") + "." + at.cell.id
	if id = strings.Trim(pageName.ReplaceAllString(id, "-"), ".-"); id != "" {
		name += "." + id
	} else if at.slot != "" {
		name += "." + at.slot
	}
	p := "files/" + name + ".csv"
	s.files[p] = []byte(t.CSV())
	return p
}

func (s *site) findings(f data.Findings, at place) *findingsView {
	v := &findingsView{Note: f.Note, From: at.own()}
	for _, it := range f.Items {
		mark, word, _ := strings.Cut(it.VerdictWord(), " ")
		id := strings.Trim(pageName.ReplaceAllString(it.ID, "-"), ".-")
		if id != "" {
			id = at.unique("finding-" + id)
		}
		v.Items = append(v.Items, findingView{ID: id, Mark: mark, Word: word, Claim: it.Claim, Text: it.Text, Values: it.Values, From: s.named(it.Ref, at)})
	}
	return v
}

func (s *site) tiers(t data.Tiers, at place) *tiersView {
	v := &tiersView{Caption: tiersCaption, Note: strings.TrimSpace(strings.TrimPrefix(t.Note, tiersCaption)), From: at.own(), Loads: t.Loads, Span: 1 + len(t.Loads)}
	top := 1.0
	for _, it := range t.Items {
		for _, g := range it.Gains {
			top = max(top, ratio(g.StepNs, g.AfterNs), ratio(g.StepNs, g.FloorNs))
		}
	}
	v.Scale = int(math.Ceil((top-1)*100)) + 3
	for _, it := range t.Items {
		row := tierView{Kind: it.Kind, Detail: it.Detail, Change: label{it.Change, s.named(it.Ref, at).Href}, Total: it.Total}
		for i := range t.Loads {
			if i >= len(it.Gains) {
				row.Gains = append(row.Gains, gainView{Factor: "open"})
				continue
			}
			g := it.Gains[i]
			w := gainView{Factor: g.Factor(), Bound: g.Bound()}
			if m := ratio(g.StepNs, g.FloorNs); m > 0 && !it.Total {
				w.Max, w.HasBar = coordinate(max(100*(m-1), .6)), true
			}
			if m := ratio(g.StepNs, g.AfterNs); m > 0 && !it.Total {
				w.Got, w.HasBar = coordinate(max(100*(m-1), .6)), true
			}
			row.Gains = append(row.Gains, w)
		}
		v.Items = append(v.Items, row)
	}
	return v
}

func ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// coordinate writes a length of a drawing.
func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// unique returns an id that the page does not have yet.
func (at place) unique(id string) string {
	at.taken[id]++
	if n := at.taken[id]; n > 1 {
		return id + "-" + strconv.Itoa(n)
	}
	return id
}

// enumerate joins words: "27, 10 and 5".
func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
