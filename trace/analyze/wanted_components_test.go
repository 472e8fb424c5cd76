package analyze_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// oracleSum is a count and a time, as the component oracle prints it.
type oracleSum struct{ N, Ns int64 }

// flattenComponents reads what the component oracle says about one rank, and for rank 0 about the pairs of two ranks.
func flattenComponents(t *testing.T, path, rank string, out map[string]string) {
	t.Helper()
	var all map[string]json.RawMessage
	if !decode(t, path, &all) || all[rank] == nil {
		return
	}
	var e struct {
		Steps     int64
		StepNames []string `json:"step_names"`
		Events    int64    `json:"gpu_events"`
		Span      int64    `json:"span_ns"`
		Busy      int64    `json:"busy_ns"`
		Sum       int64    `json:"sum_ns"`
		Groups    map[string]oracleSum
		Gemms     map[string]oracleSum `json:"gemms_by_position"`
	}
	if err := json.Unmarshal(all[rank], &e); err != nil {
		t.Fatal(err)
	}
	for f, n := range map[string]int64{"steps": e.Steps, "gpu_events": e.Events, "span_ns": e.Span, "busy_ns": e.Busy, "sum_ns": e.Sum} {
		setInt(out, "components."+f, n)
	}
	out["components.step_names"] = strings.Join(e.StepNames, " ")
	put := func(kind string, sums map[string]oracleSum) {
		for name, s := range sums {
			setInt(out, "components."+kind+"."+name+".n", s.N)
			setInt(out, "components."+kind+"."+name+".ns", s.Ns)
		}
	}
	put("groups", e.Groups)
	put("gemms", e.Gemms)
	if raw := all["collective_pairs"]; raw != nil && rank == "rank0" {
		var pairs map[string]int64
		if err := json.Unmarshal(raw, &pairs); err != nil {
			t.Fatal(err)
		}
		delete(pairs, "offset") // where the windows begin, not a figure of the pairs
		for f, n := range pairs {
			setInt(out, "pairs."+f, n)
		}
	}
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

// oracleParts are the oracle's names of GEMMs by our parts. The oracle leaves the split-K reductions out.
var oracleParts = map[string]string{"attention.proj/qkv_a": "qkv_a_proj", "attention.proj/q_b": "q_b_proj", "attention.proj/w_uk": "absorb_w_uk",
	"attention.proj/w_uv": "absorb_w_uv", "attention.proj/o": "o_proj", "mlp.dense/gate_up": "dense_gate_up", "mlp.dense/down": "dense_down",
	"moe.router/": "router_gemm", "moe.shared_expert/gate_up": "shared_expert_gate_up", "moe.shared_expert/down": "shared_expert_down",
	"moe.experts/w13": "routed_w13", "moe.experts/w2": "routed_w2", "lm_head/": "lm_head"}

// componentFigures computes what the component oracle prints, and sums by component: the groups that are components of ours come
// from them, not from the regexes.
func componentFigures(of breakdown.Rank, r *trace.Rank, want map[string]string, out map[string]string) {
	sums := map[string]oracleSum{}
	sum := func(figure string, n int, ns int64) {
		s := sums[figure]
		sums[figure] = oracleSum{s.N + int64(n), s.Ns + ns}
	}
	for _, k := range of.Kernels {
		if g := oracleGroup(k.Name); g != "allreduce" && g != "allgather" && g != "moe_marlin" {
			sum("groups."+g, k.N, k.Ns)
		}
		if part, ok := oracleParts[k.Component+"/"+k.Part]; ok && !strings.Contains(k.Name, "splitKreduce") {
			sum("gemms."+part, k.N, k.Ns)
		}
	}
	for group, component := range map[string]string{"allreduce": "allreduce", "allgather": "allgather", "moe_marlin": "moe.experts"} {
		c := of.Component(component)
		sum("groups."+group, c.N, c.Ns)
	}
	for f, s := range sums {
		setInt(out, "components."+f+".n", s.N)
		setInt(out, "components."+f+".ns", s.Ns)
	}
	for f, n := range map[string]int64{"steps": int64(of.StepCount()), "gpu_events": int64(of.GPUEvents), "span_ns": of.SpanNs, "busy_ns": of.BusyNs, "sum_ns": of.SummedNs} {
		setInt(out, "components."+f, n)
	}
	var names []string
	for _, s := range r.Steps {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	out["components.step_names"] = strings.Join(names, " ")
	for figure := range want {
		if ops, ok := strings.CutPrefix(figure, "tracelens."); ok {
			out[figure] = traceLensMs(of, ops)
		}
	}
}

// pairFigures analyses a trace together with that of rank 1, where the oracle did.
func pairFigures(t *testing.T, path string, want map[string]string, out map[string]string) {
	t.Helper()
	if want["pairs.matched"] == "" {
		return
	}
	report, err := analyze.Files(path, strings.Replace(path, "_rank0", "_rank1", 1))
	if err != nil {
		t.Fatal(err)
	}
	c := report.Collectives
	for f, n := range map[string]int64{"matched": int64(c.Matched), "wait_rank0_ns": c.WaitNs[0], "wait_rank1_ns": c.WaitNs[1], "both_present_ns": c.TransferNs} {
		setInt(out, "pairs."+f, n)
	}
	for i, r := range report.Ranks {
		if ar := r.Component("allreduce"); c.Unmatched[i] == 0 && c.WaitNs[i]+c.TransferNs+c.TailNs[i] != ar.Ns {
			t.Errorf("%s: wait %d + transfer %d + tail %d is not %d", filepath.Base(path), c.WaitNs[i], c.TransferNs, c.TailNs[i], ar.Ns)
		}
	}
}

// traceLensOps maps the operators to which another tool attributes the kernels of three graph replays to our components. Its
// times have four decimals of ms. "op:module" is an operator in one kind of module only.
var traceLensOps = []struct {
	name       string
	ops        string
	components string
}{
	{"moe", "vllm::moe_forward TopK SortTokens", "moe.experts moe.routing moe.activation"},
	{"gemm", "aten::addmm", "attention.proj moe.router"},
	{"attention", "vllm::unified_attention_with_output", "attention.core"},
	{"kv_write", "_C_cache_ops::reshape_and_cache_flash", "attention.kv_write"},
	{"rope", "_C::rotary_embedding", "rope"},
	{"norm", "aiter::rmsnorm2d_fwd_with_add_ck aiter::rms_norm", "norm"},
	{"lm_head", "aten::mm:LogitsProcessor", "lm_head"},
}

// flattenTraceLens sums the operators of a trace as traceLensOps has them.
func flattenTraceLens(t *testing.T, path, name string, out map[string]string) {
	t.Helper()
	var all map[string]struct {
		Rows []struct {
			Op     string
			Module string
			Ms     json.Number `json:"kernel_ms"`
		}
	}
	if !decode(t, path, &all) {
		return
	}
	for _, g := range traceLensOps {
		total, found := new(big.Rat), false
		for _, row := range all[name].Rows {
			_, module, _ := strings.Cut(row.Module, ": ")
			if ops := strings.Fields(g.ops); slices.Contains(ops, row.Op) || slices.Contains(ops, row.Op+":"+module) {
				ms, _ := new(big.Rat).SetString(string(row.Ms))
				total.Add(total, ms)
				found = true
			}
		}
		if found {
			out["tracelens."+g.name] = total.FloatString(4)
		}
	}
}

// traceLensMs is our time of one of those groups, in ms with four decimals.
func traceLensMs(of breakdown.Rank, group string) string {
	i := slices.IndexFunc(traceLensOps, func(g struct{ name, ops, components string }) bool { return g.name == group })
	var ns int64
	for _, c := range strings.Fields(traceLensOps[i].components) {
		ns += of.Component(c).Ns
	}
	return fmt.Sprint(big.NewRat(ns, 1_000_000).FloatString(4))
}
