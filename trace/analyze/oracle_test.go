package analyze_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
)

// runs maps the expected/*.components.json files to the traces they were made from.
func runs(t *testing.T) map[string][]string {
	t.Helper()
	shared := sharedtest.Dir(t)
	expected, _ := filepath.Glob(filepath.Join(shared, "campaign/expected/*.components.json"))
	out := map[string][]string{}
	for _, path := range expected {
		run, c, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), "_rank0.components.json"), "_c")
		traces, _ := filepath.Glob(filepath.Join(shared, "campaign", run, "c"+c+"_rank?.pt.trace.json.gz"))
		if len(traces) == 0 {
			t.Fatalf("no trace for %s", path)
		}
		out[path] = traces
	}
	if len(out) != 11 {
		t.Fatalf("%d expected files, 11 are known", len(out))
	}
	return out
}

// TestFiguresOfTheCampaignAddUp runs every load that the oracle knows. Its figures are compared by TestEveryFigureOfEveryTrace.
func TestFiguresOfTheCampaignAddUp(t *testing.T) {
	ranks := 0
	for path, traces := range runs(t) {
		report, err := analyze.Files(traces...)
		if err != nil {
			t.Fatal(err)
		}
		if (report.Collectives != nil) != (len(traces) > 1) {
			t.Errorf("%s: collectives of %d ranks: %v", path, len(traces), report.Collectives)
		}
		for _, r := range report.Ranks {
			checkSums(t, r)
			ranks++
		}
	}
	if ranks != 14 {
		t.Errorf("%d traces, expected 14", ranks)
	}
}

// checkSums proves that the figures of a rank add up.
func checkSums(t *testing.T, r breakdown.Rank) {
	t.Helper()
	var ns, overlap, inLayers, inKernels int64
	n := 0
	for _, c := range r.Components {
		ns += c.Ns
		overlap += c.OverlapNs
		n += c.N
	}
	for _, l := range r.Layers {
		inLayers += l.Ns
	}
	for _, k := range r.Kernels {
		inKernels += k.Ns
	}
	if n != r.GPUEvents || ns != r.SummedNs || inLayers != ns || inKernels != ns {
		t.Errorf("components %d ns of %d events, layers %d, kernels %d; summed is %d of %d", ns, n, inLayers, inKernels, r.SummedNs, r.GPUEvents)
	}
	if overlap != r.OverlapNs || r.SummedNs-r.OverlapNs != r.BusyNs || r.BusyNs+r.IdleNs != r.SpanNs {
		t.Errorf("overlap of components %d, of the rank %d; summed %d busy %d idle %d span %d", overlap, r.OverlapNs, r.SummedNs, r.BusyNs, r.IdleNs, r.SpanNs)
	}
	if ar := r.Component(classify.AllReduce); ar.OverlapNs != 0 {
		t.Errorf("overlap of %d ns is charged to the all-reduce, which runs on the main stream", ar.OverlapNs)
	}
	var span, summed int64
	events := 0
	for i, s := range r.StepTable {
		var c, o int64
		for _, comp := range s.Components {
			c += comp.Ns
			o += comp.OverlapNs
		}
		if c != s.SummedNs || c-o != s.BusyNs {
			t.Errorf("step %d: components %d - %d, summed %d, busy %d", i, c, o, s.SummedNs, s.BusyNs)
		}
		span += s.SpanNs
		summed += s.SummedNs
		events += s.Events
	}
	if span != r.SpanNs || summed != r.SummedNs || events != r.GPUEvents {
		t.Errorf("steps: span %d, summed %d, events %d; rank %d, %d, %d", span, summed, events, r.SpanNs, r.SummedNs, r.GPUEvents)
	}
}

// TestPublishedShares pins the shares that the campaign publishes.
func TestPublishedShares(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "campaign/hostmem-graph-uniform")
	report, err := analyze.Files(filepath.Join(dir, "c256_rank0.pt.trace.json.gz"), filepath.Join(dir, "c1_rank0.pt.trace.json.gz"), filepath.Join(dir, "c64_rank0.pt.trace.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range report.Ranks {
		ar, ex := r.Component("allreduce"), r.Component("moe.experts")
		got = append(got, r.Load(), units.Percent(ar.Ns, r.SummedNs, 1), units.Percent(ex.Ns, r.SummedNs, 1))
	}
	want := []string{"decode, 1 token", "19.3", "15.5", "decode, 64 tokens", "35.0", "45.5", "decode, 256 tokens", "56.3", "27.5"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestUnknownShareIsSmall: on every trace of a serving engine, less than 1 % of the GPU time is of kernels that no rule knows.
func TestUnknownShareIsSmall(t *testing.T) {
	shared := sharedtest.Dir(t)
	files, _ := filepath.Glob(filepath.Join(shared, "campaign/*/*.json.gz"))
	for _, name := range []string{"tl_vllm_decode_full_exec", "tl_vllm_piecewise_exec", "tl_sglang_decode_exec", "tl_sglang_prefill_exec", "tl_b200_vllm_moe_tp8_eager"} {
		files = append(files, filepath.Join(shared, "traces/public", name+".json.gz"))
	}
	if len(files) != 19 {
		t.Errorf("%d traces", len(files))
	}
	for _, f := range files {
		report, err := analyze.Files(f)
		if err != nil {
			t.Fatal(err)
		}
		r := report.Ranks[0]
		if unknown := r.Component("unknown").Ns; unknown*100 >= r.SummedNs {
			t.Errorf("%s: %s %% are unknown", r.File, units.Percent(unknown, r.SummedNs, 2))
		}
	}
}
