package trace

import (
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
			b.Launch("1", id, at+1, false)
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
		b.Launch("1", id, at, id == 5)
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
	b.Launch("1", 1, 120, false)
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
