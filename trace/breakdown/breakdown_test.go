package breakdown_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

var update = flag.Bool("update", false, "write the golden files anew")

// event is a kernel of a hand-made rank.
type event struct {
	start, dur   int64
	stream, name string
}

func rank(events ...event) *trace.Rank {
	var b trace.Builder
	for _, e := range events {
		b.Add(trace.Kernel{Start: e.start, Dur: e.dur, Name: b.Name(e.name), Stream: b.Stream(e.stream), Device: b.Device("0")})
	}
	return b.Build()
}

func of(t *trace.Rank) breakdown.Rank { return breakdown.Of(t, classify.Run(t)) }

const marlin = "void marlin_moe_wna16::Marlin<1l>(int)"

// TestOverlapIsChargedToTheSideStream: the shared expert runs beside the experts, partly beside itself.
func TestOverlapIsChargedToTheSideStream(t *testing.T) {
	r := of(rank(
		event{0, 100, "7", marlin},
		event{20, 30, "8", "nvjet_a"}, // inside the first expert GEMM
		event{90, 40, "8", "nvjet_b"}, // 10 beside the first, 20 alone, 10 beside the second
		event{120, 50, "7", marlin},
		event{200, 10, "7", "ncclDevKernel_AllReduce_Sum"},
	))
	if r.SummedNs != 230 || r.BusyNs != 180 || r.OverlapNs != 50 || r.SpanNs != 210 || r.IdleNs != 30 {
		t.Errorf("%+v", r)
	}
	if c := r.Component("moe.shared_expert"); c.OverlapNs != 50 || c.Ns != 70 {
		t.Errorf("shared expert %+v", c)
	}
	if c := r.Component("moe.experts"); c.OverlapNs != 0 || c.Part("w13").Ns != 100 || c.Part("w2").Ns != 50 {
		t.Errorf("experts %+v", c)
	}
}

// TestOverlapOnOneStream: kernels may overlap on one stream (programmatic dependent launch); the later one is charged.
func TestOverlapOnOneStream(t *testing.T) {
	r := of(rank(event{0, 10, "7", "triton_poi_a"}, event{8, 10, "7", "rms_norm_kernel"}, event{9, 1, "7", "rms_norm_kernel"}))
	if r.SummedNs != 21 || r.BusyNs != 18 || r.Component("norm").OverlapNs != 3 {
		t.Errorf("%+v", r)
	}
}

func TestEmptyRankHasNoFigures(t *testing.T) {
	r := of(rank())
	if r.SpanNs != 0 || len(r.Components) != 0 || breakdown.Share(1, 0) != 0 {
		t.Errorf("%+v", r)
	}
	if table := (breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{r}}).Table(); len(table.Rows) != 5 {
		t.Errorf("%d rows", len(table.Rows))
	}
}

// TestWaitTransferTail: rank 1 arrives late at the first all-reduce; its window begins one all-reduce later than rank 0's,
// and its clock has another base.
func TestWaitTransferTail(t *testing.T) {
	const ar = "ncclDevKernel_AllReduce_Sum"
	a := rank(event{0, 10, "7", ar}, event{100, 50, "7", ar}, event{200, 30, "7", ar})
	b := rank(event{1140, 12, "7", ar}, event{1205, 20, "7", ar})
	b.BaseNs, a.BaseNs = 9000, 10000
	c, err := breakdown.Match([]*trace.Rank{a, b}, []*classify.Result{classify.Run(a), classify.Run(b)})
	if err != nil {
		t.Fatal(err)
	}
	want := &breakdown.Collectives{Component: "allreduce", Ranks: []int{0, 1}, Matched: 2, Unmatched: []int{1, 0},
		WaitNs: []int64{45, 0}, TransferNs: 30, TailNs: []int64{5, 2},
		Last: []int{0, 2}, CausedNs: []int64{0, 45}, Straggler: &breakdown.Straggler{GapNs: 45, Before: []breakdown.Activity{{Name: "idle", Ns: 45}}, Kernels: []breakdown.Activity{}}}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	if _, err := breakdown.Match([]*trace.Rank{a}, nil); err == nil {
		t.Error("one rank has nothing to match")
	}
}

func campaign(t *testing.T, file string) *trace.Rank {
	t.Helper()
	r, err := kineto.ReadFile(filepath.Join(sharedtest.Dir(t), "campaign", file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLayerTimeline compares one layer with an independent computation of the same layer.
func TestLayerTimeline(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(sharedtest.Dir(t), "visual/first-screen.data.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Layer []struct {
			T, D int64
			Lane int
			C, K string
		}
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	r := campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz")
	got := breakdown.Layer(r, 5, 30)
	if len(got) != len(want.Layer) || len(got) == 0 {
		t.Fatalf("%d slices, want %d", len(got), len(want.Layer))
	}
	for i, w := range want.Layer {
		g := got[i]
		if g.StartNs != w.T || g.DurNs != w.D || g.Lane != w.Lane || !strings.HasPrefix(g.Name, w.K) {
			t.Errorf("slice %d: got %+v, want %+v", i, g, w)
		}
		if g.Component != w.C && w.C != "unknown" {
			t.Errorf("slice %d: component %s, want %s", i, g.Component, w.C)
		}
	}
	for _, none := range [][2]int{{-1, 0}, {99, 0}, {0, 61}, {0, -1}} {
		if s := breakdown.Layer(r, none[0], none[1]); len(s) != 0 {
			t.Errorf("step %d, layer %d: %d slices", none[0], none[1], len(s))
		}
	}
	if s := breakdown.Layer(r, 0, 0); len(s) == 0 || s[0].StartNs < 0 {
		t.Errorf("layer 0: %+v", s)
	}
}

// TestTables keeps the tables that people see.
func TestTables(t *testing.T) {
	one := campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz")
	two := campaign(t, "hostmem-graph-uniform/c64_rank1.pt.trace.json.gz")
	a, b := classify.Run(one), classify.Run(two)
	pairs, err := breakdown.Match([]*trace.Rank{one, two}, []*classify.Result{a, b})
	if err != nil {
		t.Fatal(err)
	}
	single := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{breakdown.Of(one, a)}}
	both := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{single.Ranks[0], breakdown.Of(two, b)}, Collectives: pairs}
	got := single.PartsTable().Text() + "\n\n" + both.Table().Text() + "\n"
	if *update {
		if err := os.WriteFile("testdata/tables.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/tables.golden")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-update writes it anew)\n%s", d)
	}
}

func TestAStepIsAWholeDecodeStepWhenThereAreAny(t *testing.T) {
	group := func(kind trace.StepKind, n, partial int) breakdown.StepGroup {
		return breakdown.StepGroup{Kind: kind, N: n, Partial: partial, ContextTokens: 9, GenerationTokens: 4}
	}
	for _, c := range []struct {
		steps  []breakdown.StepGroup
		n      int
		others string
	}{
		{[]breakdown.StepGroup{group(trace.Decode, 5, 0), group(trace.Idle, 2, 0)}, 5, ""},
		{[]breakdown.StepGroup{group(trace.Prefill, 2, 1), group(trace.Decode, 5, 2), group(trace.Mixed, 1, 0)}, 3, "1 prefill step, 1 partial prefill step, 1 mixed step, 2 partial decode steps"},
		{[]breakdown.StepGroup{group(trace.Prefill, 2, 0), group(trace.Mixed, 1, 0), group(trace.Idle, 1, 0)}, 3, ""},
		{[]breakdown.StepGroup{group(trace.Decode, 2, 2)}, 2, ""},
	} {
		r := breakdown.Rank{File: "x.json", Steps: c.steps, SpanNs: 10}
		if got := strings.Join(r.OtherSteps(), ", "); r.StepCount() != c.n || got != c.others {
			t.Errorf("%v: %d steps and %q, want %d and %q", c.steps, r.StepCount(), got, c.n, c.others)
		}
	}
}

func TestRanksThatNeverMeetAreNotSaidToHaveWaited(t *testing.T) {
	apart := breakdown.Report{Ranks: []breakdown.Rank{{Rank: 0}, {Rank: 1}}, Collectives: &breakdown.Collectives{Ranks: []int{0, 1}, Unmatched: []int{5, 6}, WaitNs: []int64{0, 0}, TailNs: []int64{0, 0}}}
	if text := apart.Table().Note; !strings.Contains(text, "different runs") || strings.Contains(text, "transfer") {
		t.Errorf("ranks of two runs: %s", text)
	}
	apart.Collectives.Unmatched = []int{0, 6} // a rank without all-reduces
	if text := apart.Table().Note; strings.Contains(text, "different runs") {
		t.Errorf("a rank without all-reduces: %s", text)
	}
}
