package sitegen

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// figures are measured numbers of a real campaign: two H200, Kimi-K2.5 shapes, TP 2 through host memory.
type figures struct {
	Run   string
	Loads []struct {
		C                                 int
		Steps                             int
		Summed, Busy, Span, ITL, Min, Max int64
		Tok                               float64
		Share                             map[string][2]float64
		Ns                                map[string]int64
	}
	AllReduce map[string][][2]int64
	Marlin    [][4]int64
	Layer     [][5]any
	Kernels   [][4]any
}

func readFigures(t testing.TB) figures {
	t.Helper()
	raw, err := os.ReadFile("testdata/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// nb builds a notebook as a client would leave it.
type nb struct {
	cells []any
	n     int
}

type rendered interface{ SimpleRender() map[string]interface{} }

func (b *nb) md(id, src string, tags ...string) {
	b.cells = append(b.cells, map[string]any{"cell_type": "markdown", "id": id, "metadata": tagged(tags), "source": src})
}

func (b *nb) code(id, src string, outputs []any, tags ...string) {
	b.n++
	if outputs == nil {
		outputs = []any{}
	}
	b.cells = append(b.cells, map[string]any{"cell_type": "code", "id": id, "metadata": tagged(tags), "source": src, "execution_count": b.n, "outputs": outputs})
}

func tagged(tags []string) map[string]any {
	if len(tags) == 0 {
		return map[string]any{}
	}
	return map[string]any{"tags": tags}
}

func (b *nb) json(t testing.TB) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(map[string]any{"cells": b.cells, "nbformat": 4, "nbformat_minor": 5,
		"metadata": map[string]any{"kernelspec": map[string]any{"name": "rooflab", "display_name": "Go (rooflab)", "language": "go"}, "language_info": map[string]any{"name": "go", "version": "go1.26.8"}}}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func show(r rendered) any {
	return map[string]any{"output_type": "display_data", "data": r.SimpleRender(), "metadata": map[string]any{}}
}

func bundle(pairs ...any) any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return map[string]any{"output_type": "display_data", "data": m, "metadata": map[string]any{}}
}

func stdout(s string) any {
	return map[string]any{"output_type": "stream", "name": "stdout", "text": s}
}

func chart(t testing.TB, c charts.Chart, err error) any {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return show(c)
}

// writeCampaign writes a campaign of three notebooks with real numbers and returns its folder.
func writeCampaign(t testing.TB) string {
	t.Helper()
	f := readFigures(t)
	dir := t.TempDir()
	put := func(name string, content []byte) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	putJSON := func(name string, v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		put(name, raw)
	}
	putJSON("manifest.json", data.Campaign{Schema: 1, ID: "hostmem-graph-uniform", Title: "Kimi-K2.5 shapes on two H200", Measured: "2026-11-30",
		Model:    data.Model{Name: "Kimi-K2.5 text model", Served: "kimi-slice", Config: "model/config.json", Quantisation: "INT4 experts, W4A16", Weights: "random"},
		Hardware: data.Hardware{GPU: "NVIDIA H200", Count: 2, Network: "TP 2 through host memory", CUDA: "13.0", NCCL: "2.28.9", Torch: "2.11.0+cu130"},
		Main:     "hostmem-graph-uniform", Runs: []data.RunRef{{Name: "hostmem-graph-uniform", What: "peer-to-peer off, CUDA graphs on, routing drawn uniformly"}},
		Notes: []string{"Rank 1 was kept at C = 64 only.", "Real routing was not measured."},
		Files: []data.File{{Path: "runs/hostmem-graph-uniform/c1_rank0.pt.trace.json.gz", SHA256: "47d71c6edb1c34a9637022416d93e147fef5e47f09fa13a62d0a84e142ae2842", Bytes: 1234567},
			{Path: "model/config.json", SHA256: "84f5e0c44cd5c61120d13e4d9b4923b3d0d44541daf30ccdb72583eb2fde3b7c", Bytes: 2345}}})
	putJSON("runs/hostmem-graph-uniform/run.json", data.Run{Schema: 1, Name: "hostmem-graph-uniform",
		Environment: data.Environment{Engine: "vllm", Version: "0.24.0", Args: []string{"serve", "--tensor-parallel-size", "2"}, Env: map[string]string{"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_P2P_DISABLE": "1"}, TP: 2, Graphs: "full and piecewise", Routing: "uniform"},
		Rounds:      []data.Round{{Streams: 1, Unprofiled: &data.LoadResult{OutputTokS: 97.2, SteadyITLNs: 9585653}, Traces: []data.TraceFile{{Rank: 0}}, WorldSize: 2}, {Streams: 64, Unprofiled: &data.LoadResult{OutputTokS: 710.4, SteadyITLNs: 44280170}, Traces: []data.TraceFile{{Rank: 0}, {Rank: 1}}, WorldSize: 2}, {Streams: 256, Notes: []string{"Rank 1 was not kept."}}}})
	put("results/allreduce.json", []byte(`{"kind":"allreduce"}`))
	put("notebooks/10-macro.ipynb", macro(t, f))
	put("notebooks/20-micro.ipynb", micro(t, f))
	put("notebooks/40-findings.ipynb", findings(t, f))
	return dir
}

func macro(t testing.TB, f figures) []byte {
	b := &nb{}
	b.md("question", "# Where a decode step at C = 64 goes\n\nPhase 1, macro: one profiled window of the running server while all 64 streams decode. The question is where one step spends its time, and whether all-reduce is transfer or one rank waiting for the other.\n\nExpected before this was run: the expert GEMMs take more than half of the step, all-reduce 5–8 %.")
	b.code("parameters", "streams := 64", nil, "parameters")
	b.code("injected", "streams = 64\ncampaignDir := \"data/campaigns/hostmem-graph-uniform\"", nil, "injected-parameters")
	b.code("open", "import (\n\t\"fmt\"\n\n\t\"github.com/rooflab/rooflab/campaign\"\n\t\"github.com/rooflab/rooflab/trace/breakdown\"\n)\n\nc, err := campaign.Open(campaignDir)\nif err != nil {\n\tpanic(err)\n}\nr0, r1 := c.Rank(64, 0), c.Rank(64, 1) // streams, rank", nil)
	b.md("components", "## Time by component\n\nKernel names are mapped to components by name where the name says it, and by their place between two collectives where it does not: every `nvjet_…` GEMM has the same kind of name.\n\n> [!NOTE]\n> Means over 10 steps of rank 0.")
	l := f.Loads[1]
	tab := data.Table{Title: "C = 64, rank 0, mean of 10 steps", Columns: []data.Column{{Head: "Component"}, {Head: "time", Unit: "ms a step", Numeric: true}, {Head: "share", Unit: "%", Numeric: true}}}
	for _, k := range []string{"moe.experts", "allreduce", "attention.proj", "attention.core", "moe.routing", "moe.shared_expert", "allgather"} {
		tab.Rows = append(tab.Rows, data.Row{Component: k, Cells: []string{data.ComponentLabel(k), units.MsPer(l.Ns[k], int64(l.Steps), 2), units.Percent(l.Ns[k], l.Summed, 1)}})
	}
	tab.Rows = append(tab.Rows, data.Row{Bold: true, Rule: true, Cells: []string{"GPU time, summed", units.MsPer(l.Summed, int64(l.Steps), 2), "100.0"}})
	b.code("breakdown", "b := breakdown.Of(r0)\nb.Top(7).Table()", []any{show(tab)})
	b.md("layer-text", "## One layer, kernel by kernel\n\nTwo expert GEMMs and two all-reduces follow one another; nothing but the shared expert runs beside them.")
	b.code("layer", "step := r0.Steps()[5]\ncharts.Layer(step, 31)", []any{layerChart(t, f)})
	var lines strings.Builder
	fmt.Fprintf(&lines, "%4s %10s  %-18s %s\n", "n", "µs", "component", "kernel")
	for _, k := range f.Kernels {
		fmt.Fprintf(&lines, "%4.0f %10.1f  %-18s %s\n", k[2], k[3].(float64)/1000, k[1], k[0])
	}
	b.code("launches", "for _, k := range b.Kernels() { // sorted by time\n\tfmt.Printf(\"%4d %10.1f  %-18s %s\\n\", k.N, k.Micros(), k.Component, k.Name)\n}", []any{stdout(lines.String())})
	b.md("wait-text", "## Transfer or waiting?\n\nThe n-th all-reduce of rank 0 and of rank 1 are one call. Until the second rank arrives the first one waits inside the kernel; only the time in which both are present can be transfer.")
	b.code("wait-error", "pairs := breakdown.Pair(r0, r1)\nif len(pairs.Unmatched) == 0 {\n\tfmt.Println(pairs.Waits())\n}", []any{map[string]any{"output_type": "error", "ename": "compile error",
		"evalue":    "cell 7, line 3, column 20: pairs.Waits undefined (type breakdown.Pairs has no field or method Waits)",
		"traceback": []string{"\x1b[31mcell 7, line 3, column 20: pairs.Waits undefined (type breakdown.Pairs has no field or method Waits)\x1b[0m", "    \tfmt.Println(pairs.Waits())", "    \t                  ^^^^^", "Did you mean pairs.Wait? Cells 1 to 6 keep their state; nothing of this cell was run."}}}, "raises-exception")
	b.code("wait", "for rank, t := range pairs.Wait() {\n\tfmt.Printf(\"rank %d waits    %7.2f ms\\n\", rank, t.Millis())\n}", []any{stdout("rank 0 waits       1.71 ms\nrank 1 waits       1.70 ms\nboth transfer    150.96 ms in 1230 calls\n")})
	b.md("result", "## Result\n\nBoth expectations were wrong at this load. Waiting is 1.1 % of all-reduce time, so it is transfer that has to become cheaper. The finding and what follows from it: [findings](40-findings.ipynb#cell-findings). Raw numbers: [all-reduce](../results/allreduce.json).")
	return b.json(t)
}

func micro(t testing.TB, f figures) []byte {
	b := &nb{}
	b.md("question", "# How far from the floor\n\nMicro-benchmarks at the shapes of this model, against ceilings that were measured on the same GPU: $P = \\min(\\mathrm{peak}, B \\cdot I)$.")
	b.code("allreduce", "charts.Latency(c.Micro(\"allreduce\"))", []any{allreduceChart(t, f)})
	b.code("marlin", "charts.Roofline(c.Micro(\"marlin\"))", []any{rooflineChart(t, f)})
	return b.json(t)
}

func layerChart(t testing.TB, f figures) any {
	tl := charts.Timeline{Figure: charts.Figure{ID: "layer", Title: "One layer: two all-reduces and two expert GEMMs take 80 % of its 724 µs, one after the other",
		Caption: "Layer 31 of 61, step 6 of 10, C = 64, rank 0: 36 kernels, 27 µs without any. The second GPU stream carries the shared expert and hides it.", Width: charts.Full},
		Lanes: []string{"main GPU stream", "second GPU stream: shared expert"}}
	for _, k := range f.Layer {
		s := charts.Slice{StartNs: int64(k[0].(float64)), DurNs: int64(k[1].(float64)), Lane: int(k[2].(float64)), Component: k[3].(string), Name: k[4].(string)}
		tl.Slices = append(tl.Slices, s)
		label := map[string]string{"allreduce": "All-reduce", "moe.experts": "Experts"}[s.Component]
		if label != "" {
			tl.Groups = append(tl.Groups, charts.Group{StartNs: s.StartNs, EndNs: s.StartNs + s.DurNs, Label: label, Component: s.Component})
		}
	}
	c, err := tl.Chart()
	return chart(t, c, err)
}

func allreduceChart(t testing.TB, f figures) any {
	l := charts.Latency{Figure: charts.Figure{ID: "allreduce", Title: "LL over Ring costs nothing extra at C = 1 and 2.6 times NCCL’s own choice at C = 256", Width: charts.Half,
		Caption: "Two GPUs, bf16, graph-captured, mean of 400 calls. Diamonds: the same call inside the served step, 14, 125 and 490 µs."}, XLabel: "message size (tokens × 7168 × 2 bytes)"}
	for _, s := range []struct{ key, label, style string }{{"ll_ring", "LL + Ring, as served", charts.Served}, {"auto", "NCCL’s choice", charts.Alternative}, {"nvlink", "NVLink", charts.Reference}} {
		series := charts.LatencySeries{Label: s.label, Component: "allreduce", Style: s.style}
		for _, p := range f.AllReduce[s.key] {
			series.Points = append(series.Points, charts.LatencyPoint{Bytes: p[0], Ns: p[1]})
		}
		l.Series = append(l.Series, series)
	}
	for _, ld := range f.Loads {
		size := int64(ld.C) * 7168 * 2
		l.Markers = append(l.Markers, charts.SizeMarker{Label: fmt.Sprintf("C = %d", ld.C), Bytes: size})
		l.Observed = append(l.Observed, charts.Observed{Label: "in the server", Bytes: size, Ns: ld.Ns["allreduce"] / int64(ld.Steps) / 123, Named: ld.C == 256})
	}
	c, err := l.Chart()
	return chart(t, c, err)
}

func rooflineChart(t testing.TB, f figures) any {
	r := charts.Roofline{Figure: charts.Figure{ID: "roofline", Title: "The expert GEMMs are limited by memory at every decode size, and reach 62 % of their roof at best", Width: charts.Half,
		Caption: "M tokens a call, one rank’s shapes (384 experts, top-8, K 7168, N 256), uniform routing. Both ceilings were measured on the same GPU."}, XLabel: "FLOP per byte of expert weights read",
		Ceilings: []charts.Ceiling{{Label: "memory, read", BytesPerS: 4261e9, Source: "measured on this GPU", Measured: true}, {Label: "bf16", FLOPPerS: 753e12, Source: "measured on this GPU", Measured: true}}}
	s := charts.RoofSeries{Component: "moe.experts"}
	for _, p := range f.Marlin {
		s.Points = append(s.Points, charts.RoofPoint{Label: fmt.Sprintf("M = %d", p[0]), FLOP: p[1], Bytes: p[2], Ns: p[3], Named: p[0] == 1 || p[0] == 64 || p[0] == 256 || p[0] == 1024})
	}
	r.Series = []charts.RoofSeries{s}
	c, err := r.Chart()
	return chart(t, c, err)
}
