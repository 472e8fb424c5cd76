package breakdown_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
)

const allReduce = "ncclDevKernel_AllReduce_Sum"

func match(t *testing.T, ranks ...*trace.Rank) *breakdown.Collectives {
	t.Helper()
	var cls []*classify.Result
	for _, r := range ranks {
		cls = append(cls, classify.Run(r))
	}
	c, err := breakdown.Match(ranks, cls)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStragglerAndWhatItDid: rank 0 arrives at 100 and 300, rank 1 at 160 and 290. From 100 to 160 rank 1 runs a norm for 10, of
// which 5 beside it an expert GEMM that lasts 30 in all, and has 25 left.
func TestStragglerAndWhatItDid(t *testing.T) {
	a := rank(event{100, 80, "7", allReduce}, event{300, 20, "7", allReduce})
	b := rank(event{90, 20, "7", "rms_norm_kernel"}, event{105, 30, "8", marlin}, event{160, 20, "7", allReduce}, event{290, 30, "7", allReduce})
	c := match(t, a, b)
	if d := cmp.Diff([]int64{10, 60}, c.CausedNs); d != "" || c.Last[0] != 1 || c.Last[1] != 1 {
		t.Errorf("caused: %s, last %v", d, c.Last)
	}
	want := &breakdown.Straggler{GapNs: 60, Before: []breakdown.Activity{{Name: "idle", Ns: 25}, {Name: "moe.experts", Ns: 25}, {Name: "norm", Ns: 10}},
		Kernels: []breakdown.Activity{{Name: marlin, Component: "moe.experts", Ns: 25}, {Name: "rms_norm_kernel", Component: "norm", Ns: 10}}}
	if d := cmp.Diff(want, c.Straggler); d != "" {
		t.Error(d)
	}
}

func TestRanksThatAreLateAlikeHaveNoStraggler(t *testing.T) {
	a := rank(event{100, 80, "7", allReduce}, event{300, 20, "7", allReduce})
	b := rank(event{110, 70, "7", allReduce}, event{290, 30, "7", allReduce})
	if c := match(t, a, b); c.Straggler != nil || c.CausedNs[0] != 10 || c.CausedNs[1] != 10 {
		t.Errorf("%+v", c)
	}
}

// TestEagerRanksOfTheCampaign: rank 0 is late, and idle meanwhile. The sums are those of the oracle's pairs; how often it is last
// and the skews were computed apart, in Python, from the starts of the kernels.
func TestEagerRanksOfTheCampaign(t *testing.T) {
	c := match(t, campaign(t, "hostmem-eager/c64_rank0.pt.trace.json.gz"), campaign(t, "hostmem-eager/c64_rank1.pt.trace.json.gz"))
	if c.Matched != 369 || c.CausedNs[0] != 894189591 || c.CausedNs[1] != 871544 || c.Last[0] != 364 || c.Last[1] != 5 {
		t.Errorf("%+v", c)
	}
	// The all-gathers of a step are the oracle's, on each rank.
	g := c.Others[0]
	if len(c.Others) != 1 || g.Component != "allgather" || g.Matched != 3 || g.WaitNs[0]+g.TransferNs+g.TailNs[0] != 1061977 || g.WaitNs[1]+g.TransferNs+g.TailNs[1] != 3084878 {
		t.Errorf("%+v", c.Others)
	}
	s := c.Straggler
	if s == nil || s.Rank != 0 || s.GapNs != 894189591 || s.Before[0].Name != breakdown.IdleActivity {
		t.Fatalf("%+v", s)
	}
	var sum, wait int64
	for _, a := range s.Before {
		sum += a.Ns
	}
	var skews []int64
	for _, step := range c.Skew.Steps {
		skews = append(skews, step.SkewNs)
		wait += step.WaitNs[1]
	}
	if d := cmp.Diff([]int64{2888690, 5387389, 6721954}, skews); d != "" || c.Skew.P50Ns != 5387389 || c.Skew.MaxNs != 6721954 {
		t.Error(d)
	}
	if sum != s.GapNs || wait != c.WaitNs[1] {
		t.Errorf("before: %d of %d; waits of the steps: %d of %d", sum, s.GapNs, wait, c.WaitNs[1])
	}
}

// TestRunsWithoutAllReduce: with experts on every rank, all-to-alls are what the ranks meet in.
func TestRunsWithoutAllReduce(t *testing.T) {
	const dispatch, gather = "deep_ep::intranode::dispatch", "ncclDevKernel_AllGather_RING_LL"
	a := rank(event{100, 80, "7", dispatch}, event{300, 20, "7", gather})
	b := rank(event{150, 30, "7", dispatch}, event{300, 21, "7", gather})
	c := match(t, a, b)
	if c.Component != "all_to_all" || c.Matched != 1 || c.WaitNs[0] != 50 || c.TransferNs != 30 || c.Straggler == nil || len(c.Others) != 1 || c.Others[0].TailNs[1] != 1 {
		t.Errorf("%+v", c)
	}
	report := breakdown.Report{Ranks: []breakdown.Rank{of(a), of(b)}, Collectives: c}
	report.Ranks[1].Rank = 1
	one := report.Only(1).Collectives
	if one == nil || one.Others[0].TailNs[0] != 1 || len(one.Others[0].WaitNs) != 1 || len(c.Others[0].WaitNs) != 2 {
		t.Errorf("%+v of %+v", one, c)
	}
}
