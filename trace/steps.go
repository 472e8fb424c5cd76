package trace

import (
	"cmp"
	"slices"

	"github.com/rooflab/rooflab/internal/diag"
)

// mark is a step annotation as it was read.
type mark struct {
	step   Step
	proc   int32
	thread string
	detail int // how much it says
}

// makeSteps makes the steps from the annotations. A launch belongs to the last one of its process that began at or before it:
// what is launched between two annotations (sampling, the copy of the tokens) so belongs to the step before.
func (b *Builder) makeSteps() {
	if slices.ContainsFunc(b.marks, func(m mark) bool { return m.detail > saysStep }) {
		b.marks = slices.DeleteFunc(b.marks, func(m mark) bool { return m.detail == saysStep })
	}
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
	b.stepsOf = map[int32][]int32{}
	for i, m := range kept {
		b.Rank.Steps = append(b.Rank.Steps, m.step)
		b.stepsOf[m.proc] = append(b.stepsOf[m.proc], int32(i))
	}
	b.marks = nil
	if len(b.stepsOf) > 1 {
		b.Note(diag.Diagnostic{ID: "several_processes", Severity: diag.Warning, N: len(b.stepsOf),
			Text: "processes mark steps in this file: it holds several ranks, and the figures are over all of them", Hint: "give the file of each rank"})
	}
	if len(kept) > 0 {
		b.Rank.StepsBy = ByAnnotation
	}
}

func nested(outer, inner mark) bool {
	return outer.proc == inner.proc && outer.thread == inner.thread &&
		inner.step.CPUStart < outer.step.CPUStart+outer.step.CPUDur
}

// finishSteps fills what follows from the kernels: extent, counts, and which steps the window cut.
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
		if k.Graph() {
			s.GraphEvents++
		}
	}
	if len(r.Kernels) > 0 {
		noteCut(r)
	}
}

// noteCut marks the steps that the window cut and says how many there are.
func noteCut(r *Rank) {
	cut, what := markPartial(r.Steps), "GPU events"
	if r.CPU {
		what = "operators"
	}
	if cut > 0 {
		r.Health = append(r.Health, diag.Diagnostic{ID: "partial_steps", Severity: diag.Warning, N: cut,
			Text: "steps with clearly fewer " + what + " than others of their size",
			Hint: "compare per step only steps that are complete"})
	}
}

// markPartial marks steps that have less than nine tenths of the events of the largest step of their kind and size, and
// decode steps of a size that occurs once with less than half of those of any decode step. It returns how many are marked.
func markPartial(steps []Step) (cut int) {
	type size struct {
		kind                StepKind
		context, generation int
	}
	most, n := map[size]int{}, map[size]int{}
	decode := 0
	for _, s := range steps {
		key := size{s.Kind, s.ContextTokens, s.GenerationTokens}
		most[key] = max(most[key], s.Events)
		n[key]++
		if s.Kind == Decode {
			decode = max(decode, s.Events)
		}
	}
	for i := range steps {
		s := &steps[i]
		key := size{s.Kind, s.ContextTokens, s.GenerationTokens}
		switch {
		case s.Kind == Idle:
		case s.Events == 0, s.Events*10 < most[key]*9, s.Kind == Decode && n[key] == 1 && s.Events*2 < decode:
			s.Partial = true
		}
		if s.Partial {
			cut++
		}
	}
	return cut
}
