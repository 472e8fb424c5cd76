package data

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func sample() Bottlenecks {
	return Bottlenecks{
		Heading: "Where the milliseconds of one decode step go",
		Loads: []Load{
			{Label: "C = 64", Streams: 64, Steps: 10, SummedNs: 440053805, OverlapNs: 8992916, IdleNs: 17605311, SpanNs: 448666200, UnprofiledNs: 44280170},
			{Label: "C = 256", Streams: 256, Steps: 1, SummedNs: 1000, OverlapNs: 0, IdleNs: 0, SpanNs: 1000},
		},
		Rows: []BottleneckRow{
			{Label: "Expert GEMMs", Components: []string{"moe.experts"}, Ns: []int64{200157657, 275}},
			{Label: "All-reduce <b>", Components: []string{"allreduce"}, Ns: []int64{153844343, 725}},
		},
	}
}

func TestBottleneckTableShowsMillisecondsSharesAndWhatTheyLeaveOut(t *testing.T) {
	text := sample().Table().Text()
	for _, want := range []string{"20.02", "45.5", "15.38", "35.0", "44.01", "−0.90", "1.76", "3.9", "44.87", "44.28", "not measured"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestForeignTextIsEscapedInHTMLAndMarkdown(t *testing.T) {
	tab := Table{Title: "<script>", Columns: []Column{{Head: "a|b", Unit: "<i>"}}, Rows: []Row{{Cells: []string{"x|<y>\n"}}}, Note: "&"}
	if h := tab.HTML(); strings.Contains(h, "<script>") || strings.Contains(h, "<i>") || strings.Contains(h, "<y>") {
		t.Errorf("unescaped: %s", h)
	}
	if m := tab.Markdown(); !strings.Contains(m, `x\|<y> `) || !strings.Contains(m, `a\|b`) {
		t.Errorf("markdown: %s", m)
	}
	if h := sample().SimpleRender()["text/html"].(string); strings.Contains(h, "<b>") && strings.Contains(h, "All-reduce <b>") {
		t.Error("a component name reached the page unescaped")
	}
}

func TestATableOfWhatWasNotMeasuredIsItsNote(t *testing.T) {
	tab := Table{Note: "Not <recorded>."}
	if h, m, text := tab.HTML(), tab.Markdown(), tab.Text(); h != "<p>Not &lt;recorded&gt;.</p>" || m != "Not <recorded>.\n" || text != "Not <recorded>." {
		t.Errorf("%q %q %q", h, m, text)
	}
}

func TestCSVIsPlainNumbers(t *testing.T) {
	tab := Table{Columns: []Column{{Head: "a"}, {Head: "b", Unit: "ms", Numeric: true}}, Rows: []Row{{Cells: []string{`say "hi", all`, "−1\u202f234.5"}}}}
	if got, want := tab.CSV(), "a,b (ms)\n\"say \"\"hi\"\", all\",-1234.5\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestARecordWithNaNSaysSoInsteadOfBeingEmpty(t *testing.T) {
	b := sample()
	b.Loads[0].OutputTokS = math.NaN()
	r := b.SimpleRender()
	if _, ok := r[MIMEBottlenecks]; ok || !strings.Contains(r["text/plain"].(string), "cannot be shown") {
		t.Errorf("got %v", r)
	}
}

func TestRecordsSurviveTheWayThroughANotebook(t *testing.T) {
	for mime, rec := range map[string]map[string]interface{}{
		MIMEBottlenecks: sample().SimpleRender(),
		MIMEVerdict:     Verdict{Heading: "h", Facts: []Fact{{Head: "How sure", Text: "very"}}}.SimpleRender(),
		MIMEFacts:       Facts{Heading: "m", Items: []Fact{{Head: "a", Text: "b"}}}.SimpleRender(),
		MIMEFindings:    Findings{Items: []Finding{{Verdict: Rejected, Where: "at C = 256", Claim: "c", Text: "t", Values: []Value{{"C = 1", "2 %"}}}}}.SimpleRender(),
		MIMETiers:       Tiers{Loads: []string{"C = 1"}, Items: []Tier{{Change: "x", Gains: []Gain{{StepNs: 300, AfterNs: 200, FloorNs: 100}}}}}.SimpleRender(),
	} {
		if rec["text/plain"] == "" || rec["text/html"] == "" {
			t.Errorf("%s has no text or HTML", mime)
		}
		if _, err := json.Marshal(rec[mime]); err != nil || rec[mime] == nil {
			t.Errorf("%s: %v", mime, err)
		}
	}
}

func TestAnUnmeasuredAlternativeIsOpenNotZero(t *testing.T) {
	if g := (Gain{StepNs: 300, FloorNs: 100}); g.Factor() != "open" || g.Bound() != "≤ 3.00" {
		t.Errorf("got %s %s", g.Factor(), g.Bound())
	}
	if (Gain{StepNs: 1, AfterNs: 1}).Bound() != "" {
		t.Error("a bound was invented")
	}
}

func TestEveryComponentHasAFamilyAndALabel(t *testing.T) {
	for c := range componentLabels {
		if f := Family(c); FamilyLabel(f) == "" || (f == Unknown && c != "unknown") {
			t.Errorf("%s: family %q", c, f)
		}
	}
	if Family("moe.experts/w13") != Experts || Family("no such thing") != Unknown {
		t.Error("parts and unlisted names")
	}
}
