package analyze_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/kineto"
)

// cpuTraces is the folder of the traces that vLLM wrote on a machine without GPU.
func cpuTraces(t *testing.T) string {
	t.Helper()
	return filepath.Join(sharedtest.Dir(t), "traces/vllm-cpu")
}

// TestOperatorsOfEveryStepAreCounted compares the calls of custom operators in each step with what another reader counted, and
// holds the times to the annotations.
func TestOperatorsOfEveryStepAreCounted(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(cpuTraces(t), "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]struct {
		Steps []struct {
			Name   string         `json:"name"`
			CPUOps int            `json:"cpu_ops"`
			Custom map[string]int `json:"custom_ops"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(raw, &expected); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, want := range expected {
		if len(want.Steps) == 0 {
			continue
		}
		ranks, err := analyze.Ranks(filepath.Join(cpuTraces(t), name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := ranks[0]
		if !r.CPU || len(r.Steps) != len(want.Steps) {
			t.Errorf("%s: CPU %t, %d steps, want %d", name, r.CPU, len(r.Steps), len(want.Steps))
			continue
		}
		got := make([]map[string]int, len(r.Steps))
		inside := make([]int, len(r.Steps))    // operators that began in the annotation
		covered := make([]int64, len(r.Steps)) // time of the annotation that some piece has
		for i := range got {
			got[i] = map[string]int{}
		}
		for _, k := range r.Kernels {
			if k.Step < 0 {
				continue
			}
			s := r.Steps[k.Step]
			if k.Start < s.CPUStart+s.CPUDur {
				covered[k.Step] += k.Dur
				if k.Kind == trace.KindOperator && !k.Continues() {
					inside[k.Step]++
				}
			}
			if k.Kind == trace.KindOperator && !k.Continues() {
				got[k.Step][r.Name(k)]++
			}
		}
		for i, s := range want.Steps {
			if inside[i] != s.CPUOps {
				t.Errorf("%s, step %d: %d operators in its annotation, want %d", name, i, inside[i], s.CPUOps)
			}
			if covered[i] != r.Steps[i].CPUDur {
				t.Errorf("%s, step %d: the pieces add up to %d ns, its annotation lasts %d ns", name, i, covered[i], r.Steps[i].CPUDur)
			}
			for op, n := range s.Custom {
				if got[i][op] != n {
					t.Errorf("%s, step %d: %d calls of %s, want %d", name, i, got[i][op], op, n)
				}
			}
			compared += len(s.Custom)
		}
	}
	if compared < 500 {
		t.Errorf("compared %d counts", compared)
	}
}

// TestDecodeStepOfTwoRanksOnCPU is the law of the model: two all-reduces a layer and one for the embedding, one all-gather of the
// logits, one expert call for each of three MoE layers, and GEMMs told apart by their place.
func TestDecodeStepOfTwoRanksOnCPU(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cpuTraces(t), "tp2-c8", "*.gz"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v %v", files, err)
	}
	rep, err := analyze.Files(files...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Ranks {
		if r.GPUEvents != 0 || !r.CPU || r.Device != "CPU" || r.LayerCount != 4 || r.StepCount() != 10 {
			t.Errorf("rank %d: %d GPU events, CPU %t, device %q, %d layers, %d steps", r.Rank, r.GPUEvents, r.CPU, r.Device, r.LayerCount, r.StepCount())
		}
		if r.Health[len(r.Health)-1].ID != "no_gpu_activity" {
			t.Errorf("rank %d does not say that there is no GPU activity: %v", r.Rank, r.Health)
		}
		n := map[string]int{}
		var ns int64
		for _, c := range r.Whole.Components {
			n[c.Name] = c.N
			ns += c.Ns
		}
		for component, want := range map[string]int{"allreduce": 9, "allgather": 1, "moe.experts": 3, "moe.router": 3, "attention.core": 4, "lm_head": 1, "rope": 4, "sampling": 1} {
			if n[component] != 10*want {
				t.Errorf("rank %d: %d calls of %s in 10 steps, want %d a step", r.Rank, n[component], component, want)
			}
		}
		gemms := map[string]int{}
		for _, k := range r.Whole.Kernels {
			if k.Name == "_C::onednn_mm" {
				gemms[k.Component] += k.N
			}
		}
		for component, want := range map[string]int{"attention.proj": 12, "moe.router": 3, "moe.shared_expert": 6, "mlp.dense": 2, "lm_head": 1} {
			if gemms[component] != 10*want {
				t.Errorf("rank %d: %d GEMMs are %s in 10 steps, want %d a step", r.Rank, gemms[component], component, want)
			}
		}
		if ns != r.Whole.SummedNs || ns-r.Whole.OverlapNs != r.Whole.BusyNs || r.Whole.BusyNs+r.Whole.IdleNs != r.Whole.SpanNs {
			t.Errorf("rank %d does not add up: components %d, summed %d, overlap %d, busy %d, idle %d, span %d", r.Rank, ns,
				r.Whole.SummedNs, r.Whole.OverlapNs, r.Whole.BusyNs, r.Whole.IdleNs, r.Whole.SpanNs)
		}
	}
	c := rep.Collectives
	if c == nil || c.Component != "allreduce" || c.Matched != 108 || c.Unmatched[0]+c.Unmatched[1] != 0 || c.TransferNs <= 0 || len(c.Others) != 1 || c.Others[0].Matched != 12 {
		t.Fatalf("collectives: %+v", c)
	}
	for i, r := range rep.Ranks {
		if got, want := c.WaitNs[i]+c.TransferNs+c.TailNs[i], r.Component("allreduce").Ns; got != want {
			t.Errorf("rank %d: wait, transfer and tail are %d ns, its all-reduces %d ns", r.Rank, got, want)
		}
	}
	text := rep.Table().Text()
	for _, want := range []string{"CPU time by component", "the file has no GPU activity", "Python and other host work"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(strings.ReplaceAll(text, "no GPU activity", ""), "GPU") {
		t.Errorf("the table speaks of a GPU:\n%s", text)
	}
}

// TestFrontEndAndEmptyRoundStayRefused: without steps that compute there is nothing to say, and that is an error as before.
func TestFrontEndAndEmptyRoundStayRefused(t *testing.T) {
	front, err := filepath.Glob(filepath.Join(cpuTraces(t), "tp1-full-autostop", "*async_llm*"))
	if err != nil || len(front) != 1 {
		t.Fatalf("%v %v", front, err)
	}
	var none *kineto.NoGPUError
	if rep, err := analyze.Files(front[0]); rep != nil || !errors.As(err, &none) {
		t.Errorf("front end: %v, %v", rep, err)
	}
}

func TestTraceOfCPUThatEndsTooEarlyIsAnalysedAsFarAsItGoes(t *testing.T) {
	rep, err := analyze.Files(filepath.Join(cpuTraces(t), "truncated.pt.trace.json.gz"))
	var cut *kineto.TruncatedError
	if !errors.As(err, &cut) || cut.CPU == 0 || strings.Contains(err.Error(), "no GPU event before") || rep == nil || rep.Ranks[0].Operators == 0 {
		t.Errorf("%v, %v", rep, err)
	}
}
