package figures_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/charts/figures"
	"github.com/rooflab/rooflab/internal/golden"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/roofline"
	"github.com/rooflab/rooflab/trace/rules"
)

// The files hold what the notebooks made of the recorded H200 campaign: all windows without kernel names, the first
// five layers at C = 256, and one layer at C = 64.
func read(t *testing.T, name string, v any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

// check compares everything that a figure hands on: caption, numbers, description and what is drawn.
func check(t *testing.T, c charts.Chart, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.MarshalIndent(c.Spec, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got := c.Text() + "\n\n" + c.Desc + "\n\n" + string(spec) + "\n"
	golden.Check(t, c.ID+".golden", got)
}

func windows(t *testing.T) []rules.Window {
	var ws []rules.Window
	read(t, "windows.json", &ws)
	return ws
}

func TestSharesOverLoads(t *testing.T) {
	c, err := figures.Shares(charts.Figure{ID: "shares", Title: "Shares"}, windows(t), "allreduce", "moe.experts")
	check(t, c, err)
	for _, share := range []string{"19.3", "35.0", "56.3", "15.5", "45.5", "27.5"} {
		if !strings.Contains(c.Text(), share) {
			t.Errorf("the published share %s %% is not in the figure", share)
		}
	}
}

func TestABarIsExactlyOneStep(t *testing.T) {
	ws := windows(t)
	c, err := figures.Breakdown(charts.Figure{ID: "step", Title: "A step"}, ws)
	check(t, c, err)
	var spec charts.Breakdown
	if err := json.Unmarshal(marshal(t, c.Spec), &spec); err != nil {
		t.Fatal(err)
	}
	for i, bar := range spec.Bars {
		var sum int64
		for _, s := range bar.Segments {
			sum += s.Ns
		}
		if sum != ws[i].SpanNs {
			t.Errorf("%s: the parts make %d ns, the window is %d ns", bar.Label, sum, ws[i].SpanNs)
		}
	}
}

func TestLayersLeaveOutWhatIsInNone(t *testing.T) {
	var r breakdown.Rank
	read(t, "layers.json", &r)
	c, err := figures.Layers(charts.Figure{ID: "layers", Title: "Layers"}, r)
	check(t, c, err)
}

func TestRooflineShowsMeasuredAndPrintedCeilings(t *testing.T) {
	measured := roofline.Roof{Bandwidth: roofline.Ceiling{Name: "read", Kind: roofline.Bandwidth, Value: 4261e9, Measured: true, Source: "sum over 1 GiB"},
		Compute: roofline.Ceiling{Name: "bf16", Kind: roofline.Compute, Value: 753e12, Measured: true, Source: "8192³ matrix product"}}
	sheet := roofline.Roof{Bandwidth: roofline.Ceiling{Name: "memory", Kind: roofline.Bandwidth, Value: 4800e9, Source: "data sheet of the H200"},
		Compute: roofline.Ceiling{Name: "bf16 dense", Kind: roofline.Compute, Value: 990e12, Source: "data sheet of the H200"}}
	var points []roofline.Point
	read(t, "points.json", &points)
	c, err := figures.Roofline(charts.Figure{ID: "roofline", Title: "Roofline"}, "FLOP per byte", "moe.experts", measured, sheet, points, "M = 64")
	check(t, c, err)
}

func TestTimelineNamesWhatIsLongAndCutsKernelNames(t *testing.T) {
	var slices []breakdown.Slice
	read(t, "layer.json", &slices)
	c, err := figures.Timeline(charts.Figure{ID: "layer", Title: "One layer"}, slices)
	check(t, c, err)
	var spec charts.Timeline
	if err := json.Unmarshal(marshal(t, c.Spec), &spec); err != nil {
		t.Fatal(err)
	}
	cut := 0
	for i, s := range spec.Slices {
		if n := len([]rune(s.Name)); n > 80 || s.Name != slices[i].Name && n != 80 {
			t.Errorf("slice %d: %d characters: %s", i, n, s.Name)
		}
		if strings.HasSuffix(s.Name, "…") {
			cut++
		}
	}
	if cut == 0 {
		t.Error("no name was long enough to be cut: the test shows nothing")
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
