package breakdown_test

import (
	"slices"
	"testing"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
)

// glooRank is a rank whose all-reduces run on a thread of gloo, as on CPUs without vLLM's shared-memory kernels: the step calls
// c10d, which hands over, and then waits in Python. shift moves the begin of its all-reduces.
func glooRank(t *testing.T, rank int, shift int64) *trace.Rank {
	t.Helper()
	var b trace.Builder
	b.KeepHost()
	b.Rank.Rank = rank
	for step := range int64(2) {
		at := 1000 * step
		annotate := func(name string, start, dur int64) {
			b.Call("1", "1", name, start, dur)
			b.Annotate("1", "1", name, start, dur)
		}
		annotate("execute_context_0(0)_generation_4(4)", at, 900)
		b.Call("1", "1", "aten::embedding", at+100, 100)
		b.Call("1", "1", "aten::index_select", at+120, 50)
		b.Call("1", "1", "c10d::allreduce_", at+300+shift, 40)
		b.Call("1", "7", "gloo:all_reduce", at+320+shift, 400-shift)
		b.Call("1", "1", "_C::greedy_argmax", at+920, 30)
	}
	r := b.Build().OnCPU()
	if r == nil {
		t.Fatal("no rank of CPU work")
	}
	return r
}

func TestTimeInWhichAStepWaitsForGlooIsNotTheHosts(t *testing.T) {
	a, b := glooRank(t, 0, 0), glooRank(t, 1, 100)
	r := breakdown.Of(a, classify.Run(a))
	got := map[string][2]int64{}
	for _, c := range r.Components {
		got[c.Name] = [2]int64{int64(c.N), c.Ns}
	}
	want := map[string][2]int64{
		"embedding": {2, 200},
		"allreduce": {2, 2 * (40 + 400)},
		"sampling":  {2, 60},
		"host":      {6, 2 * (100 + 100 + 180)}, // before, between, and after the all-reduce
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: calls and ns %v, want %v", name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("components %v", got)
	}
	if r.OverlapNs != 2*20 || r.BusyNs != 2*930 || r.SummedNs-r.OverlapNs != r.BusyNs {
		t.Errorf("summed %d, overlap %d, busy %d", r.SummedNs, r.OverlapNs, r.BusyNs)
	}
	c, err := breakdown.Match([]*trace.Rank{a, b}, []*classify.Result{classify.Run(a), classify.Run(b)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Matched != 2 || !slices.Equal(c.WaitNs, []int64{200, 0}) || c.TransferNs != 600 || !slices.Equal(c.Unmatched, []int{0, 0}) {
		t.Errorf("%+v", c)
	}
}

// TestWindowOfIdleStepsAloneIsNotDivided: nothing computes, so there is no step to speak of, and no division by it.
func TestWindowOfIdleStepsAloneIsNotDivided(t *testing.T) {
	var b trace.Builder
	b.KeepHost()
	b.Call("1", "1", "execute_context_0(0)_generation_0(0)", 0, 10)
	b.Annotate("1", "1", "execute_context_0(0)_generation_0(0)", 0, 10)
	r := b.Build().OnCPU()
	if r == nil {
		t.Fatal("no rank of CPU work")
	}
	of := breakdown.Of(r, classify.Run(r))
	if of.StepCount() != 0 || of.SummedNs != 10 {
		t.Errorf("%d steps, %d ns", of.StepCount(), of.SummedNs)
	}
	report := breakdown.Report{Ranks: []breakdown.Rank{of}}
	if text := report.Table().Text(); text == "" {
		t.Error("no table")
	}
}
