package analyze_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
)

// sum is a count and a time, as the oracle prints it.
type sum struct {
	N  int   `json:"n"`
	Ns int64 `json:"ns"`
}

type oracleRank struct {
	Steps         int            `json:"steps"`
	StepNames     []string       `json:"step_names"`
	GPUEvents     int            `json:"gpu_events"`
	Span          int64          `json:"span_ns"`
	Busy          int64          `json:"busy_ns"`
	Sum           int64          `json:"sum_ns"`
	Groups        map[string]sum `json:"groups"`
	Gemms         map[string]sum `json:"gemms_by_position"`
	Unrecognised  int            `json:"segments_not_recognised"`
	SegmentsTotal int            `json:"segments"`
}

type oraclePairs struct {
	Matched int   `json:"matched"`
	Wait0   int64 `json:"wait_rank0_ns"`
	Wait1   int64 `json:"wait_rank1_ns"`
	Both    int64 `json:"both_present_ns"`
}

// oracleGroups are the regexes of the oracle script, in its order: the first match names the group.
var oracleGroups = []struct {
	name string
	re   *regexp.Regexp
}{
	{"allreduce", regexp.MustCompile(`ncclDevKernel_AllReduce|cross_device_reduce`)},
	{"allgather", regexp.MustCompile(`ncclDevKernel_AllGather`)},
	{"moe_marlin", regexp.MustCompile(`marlin_moe_wna16::Marlin`)},
	{"moe_router_align", regexp.MustCompile(`vllm::moe::|topk`)},
	{"mla_attention", regexp.MustCompile(`_fwd_grouped_kernel_stage1|_fwd_kernel_stage2|flash::|FlashAttn|flash_mla|concat_and_cache_mla`)},
	{"gemm", regexp.MustCompile(`nvjet|cublas|gemm|cutlass`)},
	{"triton", regexp.MustCompile(`^triton_`)},
	{"elementwise", regexp.MustCompile(`elementwise_kernel`)},
	{"memory", regexp.MustCompile(`^Mem(cpy|set)`)},
}

func oracleGroup(name string) string {
	for _, g := range oracleGroups {
		if g.re.MatchString(name) {
			return g.name
		}
	}
	return "other"
}

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

func TestCampaignAgreesWithOracle(t *testing.T) {
	compared := 0
	for path, traces := range runs(t) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var byRank map[string]json.RawMessage
		if err := json.Unmarshal(raw, &byRank); err != nil {
			t.Fatal(err)
		}
		report, err := analyze.Files(traces...)
		if err != nil {
			t.Fatal(err)
		}
		ranks, err := analyze.Ranks(traces...)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range report.Ranks {
			name := "rank" + string(rune('0'+r.Rank))
			var want oracleRank
			if err := json.Unmarshal(byRank[name], &want); err != nil {
				t.Fatal(err)
			}
			t.Run(strings.TrimSuffix(filepath.Base(path), "_rank0.components.json")+"/"+name, func(t *testing.T) {
				checkRank(t, r, ranks[i], want)
				checkSums(t, r)
			})
			compared++
		}
		if raw, ok := byRank["collective_pairs"]; ok {
			checkPairs(t, report, raw)
		} else if report.Collectives != nil {
			t.Errorf("%s: collectives for one rank", path)
		}
	}
	if compared != 14 {
		t.Errorf("compared %d traces, expected 14", compared)
	}
}

func checkRank(t *testing.T, r breakdown.Rank, raw *trace.Rank, want oracleRank) {
	t.Helper()
	got := oracleRank{Steps: r.StepCount(), GPUEvents: r.GPUEvents, Span: r.SpanNs, Busy: r.BusyNs, Sum: r.SummedNs,
		Groups: map[string]sum{}, Gemms: map[string]sum{}, Unrecognised: want.Unrecognised, SegmentsTotal: want.SegmentsTotal}
	names := map[string]bool{}
	for _, s := range raw.Steps {
		names[s.Name] = true
	}
	got.StepNames = slices.Sorted(maps.Keys(names))
	for _, k := range r.Kernels {
		g := oracleGroup(k.Name)
		s := got.Groups[g]
		got.Groups[g] = sum{s.N + k.N, s.Ns + k.Ns}
	}
	// The oracle names GEMMs only where all are nvjet kernels, and leaves the split-K reductions out.
	parts := map[string]string{"attention.proj/qkv_a": "qkv_a_proj", "attention.proj/q_b": "q_b_proj", "attention.proj/w_uk": "absorb_w_uk",
		"attention.proj/w_uv": "absorb_w_uv", "attention.proj/o": "o_proj", "mlp.dense/gate_up": "dense_gate_up", "mlp.dense/down": "dense_down",
		"moe.router/": "router_gemm", "moe.shared_expert/gate_up": "shared_expert_gate_up", "moe.shared_expert/down": "shared_expert_down",
		"moe.experts/w13": "routed_w13", "moe.experts/w2": "routed_w2", "lm_head/": "lm_head"}
	for _, k := range r.Kernels {
		part, ok := parts[k.Component+"/"+k.Part]
		if _, known := want.Gemms[part]; ok && known && !strings.Contains(k.Name, "splitKreduce") {
			s := got.Gemms[part]
			got.Gemms[part] = sum{s.N + k.N, s.Ns + k.Ns}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("differs from the oracle (-want +got):\n%s", d)
	}
	for group, component := range map[string]string{"allreduce": "allreduce", "allgather": "allgather", "moe_marlin": "moe.experts"} {
		c := r.Component(component)
		if (sum{c.N, c.Ns}) != want.Groups[group] {
			t.Errorf("%s: got %d events, %d ns, want %+v", component, c.N, c.Ns, want.Groups[group])
		}
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

func checkPairs(t *testing.T, report *breakdown.Report, raw json.RawMessage) {
	t.Helper()
	var want oraclePairs
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	c := report.Collectives
	if c == nil {
		t.Fatal("no collectives for two ranks")
	}
	got := oraclePairs{c.Matched, c.WaitNs[0], c.WaitNs[1], c.TransferNs}
	if got != want {
		t.Errorf("pairs: got %+v, want %+v", got, want)
	}
	for i, r := range report.Ranks {
		if ar := r.Component(classify.AllReduce); c.Unmatched[i] == 0 && c.WaitNs[i]+c.TransferNs+c.TailNs[i] != ar.Ns {
			t.Errorf("rank %d: wait %d + transfer %d + tail %d is not %d", i, c.WaitNs[i], c.TransferNs, c.TailNs[i], ar.Ns)
		}
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
