package trace

import (
	"slices"
	"testing"
	"unsafe"
)

func TestStepNames(t *testing.T) {
	for _, c := range []struct {
		name                string
		kind                StepKind
		context, generation int
		ok                  bool
	}{
		{"execute_context_0(0)_generation_64(64)", Decode, 0, 64, true},
		{"execute_context_1(888_788544)_generation_0(0)", Prefill, 888, 0, true},
		{"execute_context_7(224)_generation_1(1)", Mixed, 224, 1, true},
		{"execute_context_0(0)_generation_0(0)", Idle, 0, 0, true},
		{"execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)", Decode, 0, 32, true},
		{"execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)", Mixed, 8155, 37, true},
		{"step[DECODE bs=32]", Decode, 0, 32, true},
		{"step[EXTEND bs=15 toks=15360]", Prefill, 15360, 0, true},
		{"step[MIXED bs=9 c_sq=100 g_sq=8]", Mixed, 100, 8, true},
		{"step[MIXED bs=9 c=1 g=8 c_sq=100 c_sk=100 c_sqsq=10000 c_sqsk=10000 g_sq=8 g_sk=900 g_sqsq=8 g_sqsk=900]", Mixed, 100, 8, true},
		{"step[EXTEND bs=15 toks=15360 c_sqsq=1 c_sqsk=1 c_sk=15360]", Prefill, 15360, 0, true},
		{"step[MIXED bs=9]", Mixed, 0, 0, true}, // the tokens are not said
		{"step[mixed bs=9 ext=100 dec=8]", Mixed, 100, 8, true},
		{"step[decode bs=7]", Decode, 0, 7, true},
		{"step[prefill bs=2 toks=512]", Prefill, 512, 0, true},
		{"step[idle]", Idle, 0, 0, true},
		{"step[IDLE bs=0]", Idle, 0, 0, true},
		{"step[TARGET_VERIFY bs=4]", Decode, 0, 4, true},
		{"step[DRAFT_EXTEND_V2 bs=4]", Idle, 0, 0, false}, // of the draft model: part of the step before
		{"execute_new_0_cached_64", Decode, 0, 64, true},
		{"execute_new_2_cached_30", Mixed, 0, 30, true},
		{"execute_new_2_cached_0", Prefill, 0, 0, true},
		{"execute_new_0_cached_0", Idle, 0, 0, true},
		{"decode[bs=117/128 tok=117]", Decode, 0, 117, true},
		{"prefill[bs=2 tok=4096]", Prefill, 4096, 0, true},
		{"ProfilerStep#12", Unmarked, 0, 0, true},
		{"ProfilerStep# 12", Idle, 0, 0, false},
		{"decode_step#4", Decode, 0, 0, true},
		{"Optimizer.step#SGD.step", Idle, 0, 0, false},
		{"execute_new_form", Idle, 0, 0, false},
		{"execute_context_x(1)_generation_1(1)", Mixed, 1, 1, true},
		{"execute_context_1(x)_generation_1(1)", Idle, 0, 0, false},
		{"execute_context_1(1)", Idle, 0, 0, false},
		{"step[]", Idle, 0, 0, false},
		{"step[SPLIT bs=1]", Idle, 0, 0, false},
		{"capture_32_DECODE", Idle, 0, 0, false},
		{"nccl:_all_gather_base", Idle, 0, 0, false},
	} {
		s, _, ok := parseStep(c.name)
		if ok != c.ok || ok && (s.Kind != c.kind || s.ContextTokens != c.context || s.GenerationTokens != c.generation) {
			t.Errorf("%s: %v %d %d %v", c.name, s.Kind, s.ContextTokens, s.GenerationTokens, ok)
		}
	}
}

func FuzzStepName(f *testing.F) {
	f.Add("execute_context_1(888_788544)_generation_0(0)")
	f.Add("step[DECODE bs=32]")
	f.Fuzz(func(t *testing.T, name string) {
		if s, _, ok := parseStep(name); ok && (s.ContextTokens < 0 || s.GenerationTokens < 0) {
			t.Errorf("negative tokens in %+v", s)
		}
	})
}

// build makes a rank of decode steps with the given numbers of kernels, each launched in its step.
func build(kernels ...int) *Rank {
	var b Builder
	id := int64(1)
	for s, n := range kernels {
		at := int64(s) * 1000
		b.Annotate("1", "1", "execute_context_0(0)_generation_4(4)", at, 100)
		for range n {
			b.Launch("1", "1", id, at+1, 0, LaunchKernel)
			b.Add(Kernel{Start: at + 500 + id, Dur: 1, Correlation: id, Name: b.Name("k"), Stream: b.Stream("7"), Device: b.Device("0")})
			id++
		}
	}
	return b.Build()
}

func TestStepWithFewKernelsIsPartial(t *testing.T) {
	r := build(20, 20, 11)
	for i, want := range []bool{false, false, true} {
		if r.Steps[i].Partial != want {
			t.Errorf("step %d: partial = %v", i, r.Steps[i].Partial)
		}
	}
	if len(r.Health) != 1 || r.Health[0].ID != "partial_steps" || r.Health[0].N != 1 {
		t.Errorf("health %v", r.Health)
	}
	if s := r.Steps[1]; s.Start != 1521 || s.End != 1541 || s.Events != 20 {
		t.Errorf("step 1: %+v", s)
	}
}

func TestLaunchAfterAnnotationBelongsToIt(t *testing.T) {
	var b Builder
	b.Annotate("1", "1", "execute_context_0(0)_generation_4(4)", 100, 50)
	b.Annotate("1", "1", "execute_context_0(0)_generation_4(4)", 300, 50)
	b.Annotate("2", "2", "execute_context_0(0)_generation_4(4)", 400, 50) // another process
	for id, at := range map[int64]int64{1: 90, 2: 100, 3: 299, 4: 300, 5: 1000} {
		b.Launch("1", "1", id, at, 0, map[bool]LaunchKind{true: LaunchGraph}[id == 5])
		b.Add(Kernel{Start: at, Dur: 1, Correlation: id, Name: b.Name("k")})
	}
	r := b.Build()
	for i, want := range []int32{-1, 0, 0, 1, 1} {
		if k := r.Kernels[i]; k.Step != want || k.Graph() != (i == 4) {
			t.Errorf("kernel %d: %+v, want step %d", i, k, want)
		}
	}
	if r.Health[0].ID != "launched_before_first_step" {
		t.Errorf("health %v", r.Health)
	}
}

func TestNestedAnnotationsAreOneStep(t *testing.T) {
	var b Builder
	b.Annotate("1", "1", "step[DECODE bs=32]", 100, 500)
	b.Annotate("1", "1", "execute_32_context_0(sq0sk0)_generation_32(sq32sk55)", 150, 400)
	b.Launch("1", "1", 1, 120, 0, LaunchKernel)
	b.Add(Kernel{Start: 130, Dur: 1, Correlation: 1, Name: b.Name("k")})
	r := b.Build()
	if len(r.Steps) != 1 || r.Steps[0].GenerationTokens != 32 || r.Steps[0].CPUStart != 100 || r.Kernels[0].Step != 0 {
		t.Errorf("%+v %+v", r.Steps, r.Kernels)
	}
}

func TestKernelIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Kernel{}); size > 48 {
		t.Errorf("a kernel takes %d bytes, 48 are allowed", size)
	}
}

func TestMarksOfALoopCountOnlyWithoutThoseOfAnEngine(t *testing.T) {
	for _, engine := range []bool{false, true} {
		var b Builder
		b.Annotate("1", "1", "ProfilerStep#1", 100, 100)
		b.Annotate("1", "1", "ProfilerStep#2", 200, 100)
		want := []StepKind{Unmarked, Unmarked}
		if engine {
			b.Annotate("1", "1", "execute_new_0_cached_4", 150, 10)
			want = []StepKind{Decode}
		}
		r := b.Build()
		if len(r.Steps) != len(want) || r.Steps[0].Kind != want[0] || r.StepsBy != ByAnnotation {
			t.Errorf("%+v", r.Steps)
		}
	}
}

// TestALastStepOfItsOwnSizeMayBePartial: 8 requests decode, then 7, in a step that the window cut in half.
func TestALastStepOfItsOwnSizeMayBePartial(t *testing.T) {
	steps := []Step{{Kind: Decode, GenerationTokens: 8, Events: 100}, {Kind: Decode, GenerationTokens: 8, Events: 100}, {Kind: Decode, GenerationTokens: 7, Events: 49}, {Kind: Idle}}
	if n := markPartial(steps); n != 1 || !steps[2].Partial {
		t.Errorf("%d: %+v", n, steps)
	}
	steps[2] = Step{Kind: Decode, GenerationTokens: 7, Events: 51}
	if n := markPartial(steps); n != 0 {
		t.Errorf("%d: %+v", n, steps)
	}
}

// TestLaunchesAreCountedByStep: two kernels and a graph of three in one step.
func TestLaunchesAreCountedByStep(t *testing.T) {
	var b Builder
	b.Annotate("1", "1", "step[DECODE bs=2]", 0, 100)
	for i, call := range []LaunchKind{LaunchKernel, LaunchKernel, LaunchGraph, LaunchOther} {
		b.Launch("1", "1", int64(i+1), int64(10*i), 5, call)
	}
	for i, id := range []int64{1, 2, 3, 3, 3, 4} {
		b.Add(Kernel{Start: int64(200 + i), Dur: 1, Correlation: id, Name: b.Name("k"), Stream: b.Stream("7"), Device: b.Device("0")})
	}
	if s := b.Build().Steps[0]; s.Launches != 2 || s.GraphLaunches != 1 || s.GraphEvents != 3 || s.Events != 6 {
		t.Errorf("%+v", s)
	}
}

// TestIdsOfMergedFilesStayApart: two ranks in one file use the same correlation ids.
func TestIdsOfMergedFilesStayApart(t *testing.T) {
	var b Builder
	for _, rank := range []string{"[TP00] ", "[TP01] "} {
		b.Annotate(rank+"9", "9", "step[DECODE bs=2]", 0, 100)
		b.Launch(rank+"9", "9", 5, 10, 1, LaunchKernel)
		b.Add(Kernel{Start: 50, Dur: 1, Correlation: 5, Name: b.Name("k"), Stream: b.Stream("7"), Device: b.Device(rank + "0")})
	}
	r := b.Build()
	if len(r.Steps) != 2 || r.Kernels[0].Step == r.Kernels[1].Step || r.Steps[0].Events != 1 || r.Steps[1].Events != 1 {
		t.Errorf("%+v %+v", r.Kernels, r.Steps)
	}
}

// loop makes the kernels of a model: before, then the named ones of a step n times, then after.
func loop(n int, before, step, after []string) *Rank {
	var b Builder
	at := int64(0)
	add := func(names []string) {
		for _, name := range names {
			b.Add(Kernel{Start: at, Dur: 5, Name: b.Name(name), Stream: b.Stream("7"), Device: b.Device("0")})
			at += 6
		}
		at += 100 // the host prepares the next step
	}
	add(before)
	for range n {
		add(step)
	}
	add(after)
	return b.Build()
}

// layers are n layers of four kernels between an embedding and the logits.
func layers(n int) []string {
	names := []string{"embed"}
	for range n {
		names = append(names, "norm", "gemm", "attention", "gemm")
	}
	return append(names, "norm", "logits", "sample")
}

func TestStepsByRepetition(t *testing.T) {
	step := layers(6)
	for _, c := range []struct {
		name                string
		n                   int
		before, step, after []string
		events              []int // of the steps
		outside             int
	}{
		{"whole steps", 4, nil, step, nil, []int{28, 28, 28, 28}, 0},
		{"cut at both ends", 3, step[20:], step, step[:9], []int{8, 28, 28, 28, 9}, 0},
		{"other work before", 3, []string{"warm", "up", "copy"}, step, nil, []int{28, 28, 28}, 3},
		{"one pass is no loop", 1, nil, layers(30), nil, nil, 124},
		{"too few", 2, nil, step, nil, nil, 56},
	} {
		r := loop(c.n, c.before, c.step, c.after)
		var got []int
		outside := len(r.Kernels)
		for _, s := range r.Steps {
			got = append(got, s.Events)
			outside -= s.Events
		}
		if !slices.Equal(got, c.events) || outside != c.outside || (r.StepsBy == ByRepetition) != (c.events != nil) {
			t.Errorf("%s: steps of %v, %d outside, by %q; want %v, %d", c.name, got, outside, r.StepsBy, c.events, c.outside)
		}
	}
}
