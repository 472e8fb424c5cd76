package trace

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

// mark is a step annotation as it was read.
type mark struct {
	step   Step
	proc   int32
	thread string
	detail int // of two nested annotations of one step the one that says more wins
}

// parseStep reads the step annotations of vLLM and SGLang:
//
//	execute_context_1(888_788544)_generation_0(0)             vLLM: requests(tokens[_sum of squares])
//	execute_32_context_0(sq0sk0..)_generation_32(sq32sk55086..) vLLM, detailed: sq = tokens computed
//	step[DECODE bs=32]  step[EXTEND bs=15 toks=15360]           SGLang
//
// Sources: the files of vLLM 0.24 and SGLang described in the reader's tests.
func parseStep(name string) (s Step, detail int, ok bool) {
	switch {
	case strings.HasPrefix(name, "execute_context_"):
		s.ContextTokens, s.GenerationTokens, ok = contextGeneration(name[len("execute_"):], "")
		detail = 1
	case strings.HasPrefix(name, "execute_"):
		_, rest, found := strings.Cut(name[len("execute_"):], "_")
		if !found || !strings.HasPrefix(rest, "context_") {
			return s, 0, false
		}
		s.ContextTokens, s.GenerationTokens, ok = contextGeneration(rest, "sq")
		detail = 2
	case strings.HasPrefix(name, "step["):
		s.ContextTokens, s.GenerationTokens, ok = sglangStep(strings.TrimSuffix(name[len("step["):], "]"))
	}
	switch {
	case s.ContextTokens > 0 && s.GenerationTokens > 0:
		s.Kind = Mixed
	case s.ContextTokens > 0:
		s.Kind = Prefill
	case s.GenerationTokens > 0:
		s.Kind = Decode
	default:
		s.Kind = Idle
	}
	return s, detail, ok
}

// contextGeneration reads context_N(TOKENS...)_generation_N(TOKENS...); before is what stands in front of TOKENS.
func contextGeneration(s, before string) (context, generation int, ok bool) {
	context, ok = tokensIn(s, "context_", before)
	if at := strings.Index(s, "_generation_"); ok && at >= 0 {
		generation, ok = tokensIn(s[at:], "_generation_", before)
		return context, generation, ok
	}
	return 0, 0, false
}

func tokensIn(s, prefix, before string) (int, bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	_, rest, found := strings.Cut(rest, "("+before)
	if !ok || !found {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[:end])
	return n, err == nil
}

// sglangStep reads "DECODE bs=32" and "EXTEND bs=15 toks=15360"; c_sq and g_sq, where present, say it exactly.
func sglangStep(s string) (context, generation int, ok bool) {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return 0, 0, false
	}
	value := map[string]int{}
	for _, f := range fields[1:] {
		key, text, _ := strings.Cut(f, "=")
		if n, err := strconv.Atoi(text); err == nil {
			value[key] = n
		}
	}
	c, hasContext := value["c_sq"]
	g, hasGeneration := value["g_sq"]
	switch {
	case hasContext || hasGeneration:
		return c, g, true
	case fields[0] == "DECODE":
		return 0, value["bs"], true
	case fields[0] == "EXTEND":
		return value["toks"], 0, true
	case fields[0] == "MIXED":
		return value["toks"], value["bs"], true
	}
	return 0, 0, false
}

// linkSteps makes the steps from the annotations and gives each launch its step: the last one of its process that began
// at or before it. What is launched between two annotations (sampling, the copy of the tokens) so belongs to the step before.
func (b *Builder) linkSteps() {
	slices.SortStableFunc(b.marks, func(x, y mark) int {
		return cmp.Or(cmp.Compare(x.step.CPUStart, y.step.CPUStart), cmp.Compare(y.step.CPUDur, x.step.CPUDur))
	})
	kept := b.marks[:0]
	for _, m := range b.marks {
		if n := len(kept); n > 0 && nested(kept[n-1], m) {
			if m.detail > kept[n-1].detail {
				m.step.CPUStart, m.step.CPUDur = kept[n-1].step.CPUStart, kept[n-1].step.CPUDur
				kept[n-1] = m
			}
			continue
		}
		kept = append(kept, m)
	}
	b.marks = kept
	byProc := map[int32][]int{} // process -> its steps in order
	for i, m := range b.marks {
		b.Rank.Steps = append(b.Rank.Steps, m.step)
		byProc[m.proc] = append(byProc[m.proc], i)
	}
	for i := range b.launches {
		l := &b.launches[i]
		steps := byProc[l.proc]
		after := sort.Search(len(steps), func(i int) bool { return b.marks[steps[i]].step.CPUStart > l.start })
		if after > 0 {
			l.step = int32(steps[after-1])
		}
	}
}

func nested(outer, inner mark) bool {
	return outer.proc == inner.proc && outer.thread == inner.thread &&
		inner.step.CPUStart < outer.step.CPUStart+outer.step.CPUDur
}

// finishSteps fills what follows from the kernels: extent, count, and which steps the window cut.
func finishSteps(r *Rank) {
	for _, k := range r.Kernels {
		if k.Step < 0 {
			continue
		}
		s := &r.Steps[k.Step]
		if s.Events == 0 || k.Start < s.Start {
			s.Start = k.Start
		}
		if s.Events == 0 || k.End() > s.End {
			s.End = k.End()
		}
		s.Events++
	}
	type size struct{ context, generation int }
	most := map[size]int{}
	for _, s := range r.Steps {
		key := size{s.ContextTokens, s.GenerationTokens}
		most[key] = max(most[key], s.Events)
	}
	cut := 0
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Partial = s.Kind != Idle && s.Events*10 < most[size{s.ContextTokens, s.GenerationTokens}]*9 || s.Kind != Idle && s.Events == 0
		if s.Partial {
			cut++
		}
	}
	if cut > 0 {
		r.Health = append(r.Health, diag.Diagnostic{ID: "partial_steps", Severity: diag.Warning, N: cut,
			Text: "steps with clearly fewer GPU events than others of their size",
			Hint: "compare per step only steps that are complete"})
	}
}
