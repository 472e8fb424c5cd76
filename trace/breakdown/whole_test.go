package breakdown_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// window makes a rank of a prefill step, two decode steps and a third one that the window cut; an all-reduce of no step comes first.
// A step is an expert GEMM of 60 and an all-reduce of 30, and the GPU is idle for 10 after each; those of the prefill step are ten
// times as long, and the last step has its GEMM only.
func window() *trace.Rank {
	var b trace.Builder
	at, id := int64(0), int64(0)
	add := func(name string, dur int64, launched int64) {
		if id++; launched >= 0 {
			b.Launch("9", "9", id, launched, 1, trace.LaunchKernel)
		}
		b.Add(trace.Kernel{Start: at, Dur: dur, Correlation: id, Name: b.Name(name), Stream: b.Stream("7"), Device: b.Device("0")})
		at += dur
	}
	add(allReduce, 30, -1)
	for i, name := range []string{"execute_context_2(512)_generation_0(0)", "execute_context_0(0)_generation_2(2)", "execute_context_0(0)_generation_2(2)", "execute_context_0(0)_generation_2(2)"} {
		cpu, long := int64(1000*(i+1)), map[bool]int64{true: 10, false: 1}[i == 0]
		b.Annotate("9", "9", name, cpu, 500)
		add(marlin, 60*long, cpu+1)
		if i < 3 {
			add(allReduce, 30*long, cpu+2)
		}
		at += 10
	}
	return b.Build()
}

// TestAStepIsMadeOfWholeDecodeSteps: neither the prefill step, nor the partial step, nor work of no step is averaged in.
func TestAStepIsMadeOfWholeDecodeSteps(t *testing.T) {
	r := of(window())
	if r.SummedNs != 30+900+180+60 || r.Component("moe.experts").Ns != 600+180 || r.StepCount() != 2 {
		t.Errorf("the window: %+v", r)
	}
	w := r.Whole
	if w == nil || w.Steps != 2 || w.SummedNs != 180 || w.BusyNs != 180 || w.IdleNs != 20 || w.SpanNs != 200 || w.GPUEvents != 4 || r.StepP50Ns != 100 {
		t.Fatalf("%+v", w)
	}
	report := breakdown.Report{Ranks: []breakdown.Rank{r}}
	table := report.Table()
	got := ""
	for _, row := range table.Rows {
		got += strings.Join(row.Cells, "|") + "\n"
	}
	for _, want := range []string{"moe.experts|1|<0.001|66.7", "allreduce|1|<0.001|33.3", "GPU idle (% of the span)||<0.001|10.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if r.Health[0].ID != "other_work_in_window" ||
		!strings.Contains(table.Note, "the window also holds 1 prefill step, 1 partial decode step, 1 GPU event of no step: times and shares of a step are of its 2 whole decode steps alone") {
		t.Errorf("%v\n%s", r.Health, table.Note)
	}
	if pure := of(campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz")); pure.Whole != nil || len(pure.Health) != 0 {
		t.Errorf("a window of decode steps alone: %v %v", pure.Whole, pure.Health)
	}
}

func TestProfilerThatChangesTheStepIsNamed(t *testing.T) {
	for itl, want := range map[int64]string{0: "", 96: "", 95: "the profiler changed the step", 106: "the profiler changed the step", 105: ""} {
		r := of(window())
		r.SetITL(itl)
		first := r.Health[0]
		if got := first.ID == "profiler_changed_step"; got != (want != "") || !strings.Contains(first.Text, want) || r.ITLNs != itl {
			t.Errorf("ITL %d: %v", itl, r.Health)
		}
	}
	r := breakdown.Rank{StepP50Ns: 44_900_000, Steps: []breakdown.StepGroup{{Kind: trace.Decode, N: 3}}}
	r.SetITL(40_000_000)
	if text := fmt.Sprint(r.Health[0].Text); text != "the profiler changed the step: 44.90 ms with it, 40.00 ms without (+12 %)" {
		t.Error(text)
	}
}
