package sitegen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
)

// TestCampaignOfPhase1AloneAnswers: the verdict at the end of notebook 10 opens the page, its first figure stands beside, the
// table of CPU operators has its own words, what happened on the live server follows it, a table of what was not recorded
// is left out, and the phases that have not run are named.
func TestCampaignOfPhase1AloneAnswers(t *testing.T) {
	dir := t.TempDir()
	b := &nb{}
	b.md("title", "# Phase 1: macro profile over HTTP")
	b.code("breakdown", "rules.Bottlenecks(windows)", []any{show(data.Bottlenecks{CPU: true, Heading: "Where the milliseconds of one decode step go: CPU operators", Note: "Rank 0.",
		Loads: []data.Load{{Label: "C = 8", Streams: 8, Steps: 2, SummedNs: 100, IdleNs: 20, SpanNs: 120}},
		Rows: []data.BottleneckRow{{Label: "Python and other host work", Components: []string{"host"}, Ns: []int64{60}},
			{Label: "All-reduce", Components: []string{"allreduce"}, Ns: []int64{40}}}})}, "site")
	bars := charts.Breakdown{Figure: charts.Figure{ID: "step", Title: "One step"}, Bars: []charts.BreakdownBar{{Label: "C = 8", Steps: 2,
		Segments: []charts.Segment{{Component: data.Host, Ns: 60}, {Component: "allreduce", Ns: 40}, {Component: data.Idle, Ns: 20}}}}}
	c, err := bars.Chart()
	b.code("step", "step", []any{chart(t, c, err)}, "site")
	b.code("live", "campaign.LiveTable(rounds)", []any{show(data.Table{ID: "live", Title: "The live server meanwhile: 3 requests were preempted",
		Columns: []data.Column{{Head: "On the server"}, {Head: "C = 8", Numeric: true}},
		Rows:    []data.Row{{Cells: []string{"Tokens generated", "1 024"}}, {Cells: []string{"Requests preempted", "3"}, Bold: true}, {Cells: []string{"Time between tokens, ms", "41.20"}, Rule: true}},
		Note:    "Noted at C = 8: failed requests."})}, "site")
	b.code("modes", "campaign.LiveTable(nil)", []any{show(data.Table{ID: "live", Note: "It was not recorded."})}, "site")
	b.code("verdict", "verdict", []any{show(data.Verdict{Campaign: "Campaign cpu", Heading: "At 8 streams Python and other host work takes 60.0 % of CPU time", Lede: "The traces have no GPU activity."})}, "site")
	if err := os.MkdirAll(filepath.Join(dir, "in", "notebooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in", "notebooks", "10-macro.ipynb"), b.json(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), Options{In: filepath.Join(dir, "in"), Out: filepath.Join(dir, "out")}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "out", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	at := -1
	for _, want := range []string{"Python and other host work takes 60.0", "The traces have no GPU activity.", "One step",
		"Phases that have not run:</b> 0 (preflight), 2 (micro), 3 (nsys), 4 (findings)", "Where the milliseconds of one decode step go: CPU operators",
		"CPU time of the step, summed", "Two threads at once", "Between steps: no operator runs",
		"3 requests were preempted", `href="10-macro.html#cell-live"`, "Tokens generated", `<tr class="bold"><th scope="row">Requests preempted`, `<tr class="rule"><th scope="row">Time between tokens`, ": failed requests."} {
		next := strings.Index(page, want)
		if next < at || next < 0 {
			t.Errorf("the page lacks %q, or has it too early", want)
		}
		at = max(at, next)
	}
	for _, never := range []string{"GPU time", "No verdict was published", "It was not recorded."} {
		if strings.Contains(page, never) {
			t.Errorf("the page says %q", never)
		}
	}
}
