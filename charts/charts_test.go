package charts_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/charts/internal/firstscreen"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/golden"
)

func TestTextShowsTitleAndNumbers(t *testing.T) {
	for _, c := range firstscreen.Charts(t) {
		golden.Check(t, c.ID+".txt", c.Text()+"\n\n"+c.Desc+"\n")
	}
}

func TestOptionsAreStable(t *testing.T) {
	again := firstscreen.Charts(t)
	for i, c := range firstscreen.Charts(t) {
		if !bytes.Equal(c.Option, again[i].Option) {
			t.Errorf("%s: two builds give different options", c.ID)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, c.Option, "", " "); err != nil {
			t.Fatal(err)
		}
		if c.Kind == charts.KindBreakdown || c.Kind == charts.KindRoofline {
			golden.Check(t, c.ID+".option.json", string(append(pretty.Bytes(), '\n')))
		}
		if bytes.Contains(c.Option, []byte("__f__")) {
			t.Errorf("%s: the option carries code", c.ID)
		}
	}
}

func TestACellShowsTypedJSONAndText(t *testing.T) {
	for _, c := range firstscreen.Charts(t) {
		b := c.SimpleRender()
		raw, err := json.Marshal(b[data.MIMEChart])
		if err != nil {
			t.Fatal(err)
		}
		back, err := charts.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.Table, back.Table); d != "" || back.Title != c.Title || back.Kind != c.Kind {
			t.Errorf("%s: not the same after JSON: %s", c.ID, d)
		}
		if text, _ := b["text/plain"].(string); !strings.HasPrefix(text, c.Title) {
			t.Errorf("%s: text/plain does not start with the title: %q", c.ID, text)
		}
	}
}

func TestBadNumbersAreRefused(t *testing.T) {
	f := charts.Figure{Title: "A title"}
	seg := []charts.Segment{{Component: "allreduce", Ns: 5}}
	for name, m := range map[string]interface{ Chart() (charts.Chart, error) }{
		"NaN bar":            charts.Bars{Figure: f, Unit: "x", Rows: []charts.BarRow{{Label: "a", Values: []charts.BarValue{{Value: math.NaN()}}}}},
		"infinite bar":       charts.Bars{Figure: f, Unit: "x", Rows: []charts.BarRow{{Label: "a", Values: []charts.BarValue{{Value: math.Inf(1)}}}}},
		"negative bar":       charts.Bars{Figure: f, Unit: "x", Rows: []charts.BarRow{{Label: "a", Values: []charts.BarValue{{Value: -1}}}}},
		"negative segment":   charts.Breakdown{Figure: f, Bars: []charts.BreakdownBar{{Label: "C = 1", Steps: 1, Segments: []charts.Segment{{Component: "norm", Ns: -1}}}}},
		"no steps":           charts.Breakdown{Figure: f, Bars: []charts.BreakdownBar{{Label: "C = 1", Segments: seg}}},
		"whiskers reversed":  charts.Breakdown{Figure: f, Bars: []charts.BreakdownBar{{Label: "C = 1", Steps: 1, Segments: seg, MinNs: 2, MaxNs: 1}}},
		"no title":           charts.Breakdown{Bars: []charts.BreakdownBar{{Label: "C = 1", Steps: 1, Segments: seg}}},
		"bad id":             charts.Breakdown{Figure: charts.Figure{Title: "A", ID: "x');alert(1)"}, Bars: []charts.BreakdownBar{{Label: "C = 1", Steps: 1, Segments: seg}}},
		"share above whole":  charts.Shares{Figure: f, Base: "b", Loads: []string{"1", "2"}, Lines: []charts.ShareLine{{Points: []charts.SharePoint{{PartNs: 2, WholeNs: 1}, {PartNs: 1, WholeNs: 1}}}}},
		"points missing":     charts.Shares{Figure: f, Base: "b", Loads: []string{"1", "2"}, Lines: []charts.ShareLine{{Points: []charts.SharePoint{{PartNs: 1, WholeNs: 1}}}}},
		"zero on a log axis": charts.Latency{Figure: f, Series: []charts.LatencySeries{{Label: "a", Points: []charts.LatencyPoint{{Bytes: 0, Ns: 1}}}}},
		"sizes out of order": charts.Latency{Figure: f, Series: []charts.LatencySeries{{Label: "a", Points: []charts.LatencyPoint{{Bytes: 2, Ns: 1}, {Bytes: 1, Ns: 1}}}}},
		"NaN ceiling":        charts.Roofline{Figure: f, Ceilings: []charts.Ceiling{{Label: "m", BytesPerS: math.NaN(), Source: "s"}}, Series: []charts.RoofSeries{{Points: []charts.RoofPoint{{FLOP: 1, Bytes: 1, Ns: 1}}}}},
		"unsourced ceiling":  charts.Roofline{Figure: f, Ceilings: []charts.Ceiling{{Label: "m", BytesPerS: 1e12}}, Series: []charts.RoofSeries{{Points: []charts.RoofPoint{{FLOP: 1, Bytes: 1, Ns: 1}}}}},
		"point without time": charts.Roofline{Figure: f, Ceilings: []charts.Ceiling{{Label: "m", BytesPerS: 1e12, Source: "s"}}, Series: []charts.RoofSeries{{Points: []charts.RoofPoint{{FLOP: 1, Bytes: 1}}}}},
		"lane missing":       charts.Timeline{Figure: f, Lanes: []string{"main"}, Slices: []charts.Slice{{DurNs: 1, Lane: 1}}},
		"too many slices":    charts.Timeline{Figure: f, Lanes: []string{"main"}, Slices: make([]charts.Slice, charts.MaxSlices+1)},
		"NaN option":         charts.ECharts{Figure: f, Desc: "d", Table: data.Table{Columns: []data.Column{{Head: "a"}}}, Option: map[string]interface{}{"x": math.NaN()}},
	} {
		if c, err := m.Chart(); err == nil {
			t.Errorf("%s: accepted as %s", name, c.ID)
		}
	}
}

func TestIDsComeFromTitles(t *testing.T) {
	c, err := charts.Bars{Figure: charts.Figure{Title: "LL costs 2.6 × NCCL’s “own” choice </script> at C = 256, and a good deal more than that elsewhere"}, Unit: "µs",
		Rows: []charts.BarRow{{Label: "a", Values: []charts.BarValue{{Value: 1}}}}}.Chart()
	if err != nil {
		t.Fatal(err)
	}
	if want := "ll-costs-2-6-nccl-s-own-choice-script-at-c-256-and-a-good"; c.ID != want {
		t.Errorf("id %q, want %q", c.ID, want)
	}
}

func TestHostileStringsStayStrings(t *testing.T) {
	evil := `</script><img src=x onerror=alert(1)>"'__f__alert(1)__f__ µ≥`
	c, err := charts.Timeline{Figure: charts.Figure{Title: evil}, Lanes: []string{evil}, Slices: []charts.Slice{{DurNs: 10, Component: evil, Name: evil}}}.Chart()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("<")) {
		t.Errorf("an unescaped < in the JSON: it could close a script element")
	}
	if !strings.Contains(c.Text(), evil) {
		t.Errorf("the text lost the name")
	}
}
