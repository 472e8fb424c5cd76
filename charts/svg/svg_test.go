package svg_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/assets"
	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/charts/internal/firstscreen"
	"github.com/rooflab/rooflab/charts/svg"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/golden"
)

var (
	look = flag.String("look", "", "also write every drawing into this folder")
)

var widths = []int{340, 456, 540, 660, 1120}

func render(t testing.TB, c charts.Chart, opt svg.Options) []byte {
	t.Helper()
	pic, err := svg.Render(c, opt)
	if err != nil {
		t.Fatal(err)
	}
	return pic
}

func TestDrawingsAreTheSameEachTime(t *testing.T) {
	var sums strings.Builder
	for _, c := range firstscreen.Charts(t) {
		for _, w := range widths {
			for _, literal := range []bool{false, true} {
				opt := svg.Options{Width: w, Literal: literal}
				pic := render(t, c, opt)
				if !bytes.Equal(pic, render(t, c, opt)) {
					t.Errorf("%s at %d: two drawings differ", c.ID, w)
				}
				fmt.Fprintf(&sums, "%s %d literal=%t %x\n", c.ID, w, literal, sha256.Sum256(pic))
				if *look != "" {
					name := fmt.Sprintf("%s-%d-%t.svg", c.ID, w, literal)
					if err := os.WriteFile(filepath.Join(*look, name), pic, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		golden.Check(t, c.ID+".svg", string(render(t, c, svg.Options{Width: 540})))
	}
	golden.Check(t, "drawings.sha256", sums.String())
}

// elements reads an SVG as XML and calls f for each element.
func elements(t *testing.T, pic []byte, f func(xml.StartElement)) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(pic))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if s, ok := tok.(xml.StartElement); ok {
			f(s)
		}
	}
}

func TestDrawingsReferToNothingOutside(t *testing.T) {
	for _, c := range firstscreen.Charts(t) {
		for _, literal := range []bool{false, true} {
			pic := render(t, c, svg.Options{Width: 540, Literal: literal})
			checkInert(t, c.ID, pic)
			if literal && bytes.Contains(pic, []byte("var(")) {
				t.Errorf("%s: a literal drawing needs the page's variables", c.ID)
			}
			if literal && bytes.Contains(pic, []byte(" class=")) {
				t.Errorf("%s: a literal drawing needs a style sheet", c.ID)
			}
			if !literal && regexp.MustCompile(`(fill|stroke)="#`).Match(pic) {
				t.Errorf("%s: a page's drawing has fixed colours", c.ID)
			}
		}
	}
}

func checkInert(t *testing.T, name string, pic []byte) {
	t.Helper()
	ids := map[string]bool{}
	var refs []string
	elements(t, pic, func(e xml.StartElement) {
		switch e.Name.Local {
		case "script", "style", "image", "use", "foreignObject", "a":
			t.Errorf("%s: element %s", name, e.Name.Local)
		}
		for _, a := range e.Attr {
			if a.Name.Local == "id" {
				ids[a.Value] = true
			}
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "style" {
				t.Errorf("%s: attribute %s=%q", name, a.Name.Local, a.Value)
			}
			if a.Name.Local != "xmlns" && strings.Contains(a.Value, "//") {
				t.Errorf("%s: address in %s=%q", name, a.Name.Local, a.Value)
			}
			for _, m := range regexp.MustCompile(`url\(#([^)]*)\)`).FindAllStringSubmatch(a.Value, -1) {
				refs = append(refs, m[1])
			}
			if a.Name.Local == "aria-labelledby" {
				refs = append(refs, strings.Fields(a.Value)...)
			}
		}
	})
	for _, r := range refs {
		if !ids[r] {
			t.Errorf("%s: refers to #%s, which is not there", name, r)
		}
	}
}

func TestIDsCarryFigureAndWidth(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range firstscreen.Charts(t) {
		for _, w := range widths {
			elements(t, render(t, c, svg.Options{Width: w}), func(e xml.StartElement) {
				for _, a := range e.Attr {
					if a.Name.Local != "id" {
						continue
					}
					if seen[a.Value] {
						t.Errorf("id %s is used twice on a page", a.Value)
					}
					seen[a.Value] = true
				}
			})
		}
	}
}

func TestEveryClassHasARule(t *testing.T) {
	css := svg.CSS()
	for _, c := range firstscreen.Charts(t) {
		elements(t, render(t, c, svg.Options{Width: 660}), func(e xml.StartElement) {
			for _, a := range e.Attr {
				if a.Name.Local != "class" || e.Name.Local == "svg" {
					continue
				}
				for _, cl := range strings.Fields(a.Value) {
					if !strings.Contains(css, "."+cl+"{") {
						t.Errorf("%s: class %s has no rule", c.ID, cl)
					}
				}
			}
		})
	}
	for _, v := range regexp.MustCompile(`var\(--([a-z-]+)\)`).FindAllStringSubmatch(css, -1) {
		if !strings.Contains(fmt.Sprint(svg.Palette()), "{"+v[1]+" ") {
			t.Errorf("variable --%s is not in the palette", v[1])
		}
	}
}

const evil = `</script><img src=x onerror=alert(1)>"'&__f__alert(1)__f__ µ≥ 测试` + "\x01"

func TestHostileStringsAreInert(t *testing.T) {
	f := charts.Figure{Title: evil, Caption: evil}
	seg := []charts.Segment{{Component: evil, Ns: 5e6}, {Component: "allreduce", Ns: 5e6}}
	for _, m := range []interface{ Chart() (charts.Chart, error) }{
		charts.Breakdown{Figure: f, Bars: []charts.BreakdownBar{{Label: evil, Note: evil, Beside: evil, Steps: 1, Segments: seg}}},
		charts.Timeline{Figure: f, Lanes: []string{evil, evil}, Slices: []charts.Slice{{DurNs: 10000, Component: evil, Name: evil}}, Groups: []charts.Group{{EndNs: 10000, Label: evil, Note: evil}}},
		charts.Shares{Figure: f, Base: evil, XLabel: evil, Loads: []string{evil, evil}, Lines: []charts.ShareLine{{Component: evil, Label: evil, Points: []charts.SharePoint{{PartNs: 1, WholeNs: 2}, {PartNs: 1, WholeNs: 2}}}}},
		charts.Latency{Figure: f, XLabel: evil, Series: []charts.LatencySeries{{Label: evil, Points: []charts.LatencyPoint{{Bytes: 5, Ns: 5000}}}}, Markers: []charts.SizeMarker{{Label: evil, Bytes: 5}}, Observed: []charts.Observed{{Label: evil, Bytes: 5, Ns: 400, Named: true}}},
		charts.Roofline{Figure: f, XLabel: evil, Ceilings: []charts.Ceiling{{Label: evil, BytesPerS: 1e12, Source: evil}}, Series: []charts.RoofSeries{{Label: evil, Points: []charts.RoofPoint{{Label: evil, FLOP: 1e9, Bytes: 1e9, Ns: 1e6, Named: true}}}}},
		charts.Bars{Figure: f, Unit: evil, Rows: []charts.BarRow{{Label: evil, Values: []charts.BarValue{{Label: evil, Value: 1, Component: evil}, {Missing: evil}}}}},
		charts.Layers{Figure: f, Steps: 1, Columns: []charts.LayerColumn{{Label: evil, Segments: seg}}},
	} {
		c, err := m.Chart()
		if err != nil {
			t.Fatal(err)
		}
		for _, literal := range []bool{false, true} {
			checkInert(t, c.Kind, render(t, c, svg.Options{Width: 340, Literal: literal}))
		}
		b := c.SimpleRender()
		if err := svg.Enrich(b); err != nil {
			t.Fatal(err)
		}
		if htm := b["text/html"].(string); strings.Contains(htm, "<script") || strings.Contains(htm, "<img src=x") {
			t.Errorf("%s: %s", c.Kind, htm)
		}
	}
}

func TestNotebookOutputsGetAPicture(t *testing.T) {
	for _, c := range firstscreen.Charts(t) {
		b := c.SimpleRender()
		if err := svg.Enrich(b); err != nil {
			t.Fatal(err)
		}
		htm, _ := b["text/html"].(string)
		m := regexp.MustCompile(`^<figure><img alt="[^"]+" width="660" height="\d+" src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"><figcaption>`).FindStringSubmatch(htm)
		if m == nil {
			t.Fatalf("%s: html is %.200s", c.ID, htm)
		}
		pic, err := base64.StdEncoding.DecodeString(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if string(pic) != b["image/svg+xml"] {
			t.Errorf("%s: the two pictures differ", c.ID)
		}
		for _, key := range []string{data.MIMEChart, "text/plain"} {
			if b[key] == nil {
				t.Errorf("%s: %s is gone", c.ID, key)
			}
		}
	}
}

func TestOtherOutputsStayAsTheyAre(t *testing.T) {
	b := map[string]interface{}{"text/plain": "42"}
	if err := svg.Enrich(b); err != nil || len(b) != 1 {
		t.Errorf("bundle %v, error %v", b, err)
	}
}

func TestAChartThatCannotBeDrawnSaysWhy(t *testing.T) {
	c := firstscreen.Charts(t)[0]
	c.Spec = json.RawMessage(`{"lines": 3}`)
	b := c.SimpleRender()
	if err := svg.Enrich(b); err == nil {
		t.Fatal("no error")
	}
	htm, _ := b["text/html"].(string)
	if !strings.Contains(htm, "No picture: draw fig-reversal: read its numbers") || !strings.Contains(htm, "<pre>") || b["text/plain"] == nil {
		t.Errorf("html is %.300s", htm)
	}
	for name, opt := range map[string]svg.Options{"narrow": {Width: 10}, "bad id": {Width: 340, ID: `x" onload="alert(1)`}} {
		if _, err := svg.Render(firstscreen.Charts(t)[0], opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// heat is a figure of a kind that only ECharts draws.
func heat(t testing.TB) charts.Chart {
	t.Helper()
	c, err := charts.ECharts{Figure: charts.Figure{Title: "Rank 1 arrives late at every all-reduce " + evil}, Unit: "µs", Desc: "rank 0: 1 µs, rank 1: 5 µs",
		Table: data.Table{Columns: []data.Column{{Head: "rank"}}},
		Option: map[string]interface{}{"xAxis": map[string]interface{}{"type": "category", "data": []string{"rank 0", evil}}, "yAxis": map[string]interface{}{},
			"series": []interface{}{map[string]interface{}{"type": "bar", "name": evil, "data": []int{1, 5}, "itemStyle": map[string]interface{}{"color": "var(--c-network)"}, "label": map[string]interface{}{"show": true}}}}}.Chart()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEChartsDrawsOtherOptionsOrIsMissedInPlainWords(t *testing.T) {
	c := heat(t)
	if _, err := assets.ECharts(); errors.Is(err, assets.ErrNoECharts) {
		b := c.SimpleRender()
		if err := svg.Enrich(b); !errors.Is(err, assets.ErrNoECharts) {
			t.Errorf("error %v", err)
		}
		if htm, _ := b["text/html"].(string); !strings.Contains(htm, "make assets") {
			t.Errorf("html does not say what to do: %s", htm)
		}
		return
	}
	for _, literal := range []bool{false, true} {
		opt := svg.Options{Width: 540, Literal: literal}
		pic := render(t, c, opt)
		if !bytes.Equal(pic, render(t, c, opt)) {
			t.Error("two drawings differ")
		}
		if bytes.Contains(pic, []byte("var(--c-network)")) == literal {
			t.Errorf("literal=%t: wrong kind of colour", literal)
		}
		if n := bytes.Count(pic, []byte("<path")); n < 4 {
			t.Errorf("only %d paths", n)
		}
		elements(t, pic, func(e xml.StartElement) {
			if e.Name.Local == "script" || e.Name.Local == "image" || e.Name.Local == "style" {
				t.Errorf("element %s", e.Name.Local)
			}
		})
	}
}

// The options are only seen by a browser otherwise; a wrong one would be an empty box there.
func TestEveryOptionIsDrawnByECharts(t *testing.T) {
	if _, err := assets.ECharts(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("a quarter of a second a figure")
	}
	least := map[string]int{charts.KindShares: 6, charts.KindBreakdown: 21, charts.KindLatency: 27, charts.KindRoofline: 15, charts.KindTimeline: 36, charts.KindLayers: 300, charts.KindBars: 5}
	for _, c := range firstscreen.Charts(t) {
		kind := c.Kind
		var spec charts.ECharts
		spec.Height = 400
		c.Kind = charts.KindECharts
		c.Spec, _ = json.Marshal(spec)
		pic := render(t, c, svg.Options{Width: 660, Literal: true})
		if *look != "" {
			_ = os.WriteFile(filepath.Join(*look, "echarts-"+kind+".svg"), pic, 0o644)
		}
		if n := bytes.Count(pic, []byte("<path")); n < least[kind] {
			t.Errorf("%s: ECharts draws %d paths, want %d or more", kind, n, least[kind])
		}
	}
}

func BenchmarkRender(b *testing.B) {
	for _, c := range firstscreen.Charts(b) {
		b.Run(c.Kind, func(b *testing.B) {
			for b.Loop() {
				render(b, c, svg.Options{Width: 660})
			}
		})
	}
	if _, err := assets.ECharts(); err == nil {
		b.Run("echarts", func(b *testing.B) {
			c := heat(b)
			for b.Loop() {
				render(b, c, svg.Options{Width: 660})
			}
		})
	}
}
