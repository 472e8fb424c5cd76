package trace

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

// Builder collects the records of one file in any order and makes a Rank of them. The zero value is ready to use.
type Builder struct {
	Rank Rank // set File, Rank, WorldSize, Device, BaseNs, Events here

	names, streams, devices, procs interner
	launches                       []launch
	marks                          []mark
	health                         map[string]int
}

// launch is one CUDA or HIP runtime call that has a correlation id.
type launch struct {
	correlation, start int64
	proc, step         int32
	graph              bool
}

// Name interns a kernel name. The text may point into a buffer that changes later.
func (b *Builder) Name(s string) int32 { return b.names.id(s, &b.Rank.Names) }

// Stream interns a stream id.
func (b *Builder) Stream(s string) int32 { return b.streams.id(s, &b.Rank.Streams) }

// Device interns a device id.
func (b *Builder) Device(s string) int16 { return int16(b.devices.id(s, &b.Rank.Devices)) }

// Add takes one GPU event; Step, and the flags, are filled by Build.
func (b *Builder) Add(k Kernel) { b.Rank.Kernels = append(b.Rank.Kernels, k) }

// Launch takes one runtime call of a process (as written) with its correlation id. graph says that it launched a whole graph.
func (b *Builder) Launch(process string, correlation, start int64, graph bool) {
	b.launches = append(b.launches, launch{correlation, start, b.procs.id(process, nil), -1, graph})
}

// Annotate takes one CPU annotation; names that are no step names are ignored.
func (b *Builder) Annotate(process, thread, name string, start, dur int64) {
	step, rank, ok := parseStep(name)
	if !ok {
		return
	}
	step.Name = strings.Clone(name)
	step.CPUStart, step.CPUDur = start, dur
	b.marks = append(b.marks, mark{step, b.procs.id(process, nil), strings.Clone(thread), rank})
}

// Note adds n to the diagnostic with this id and keeps the text of the first one.
func (b *Builder) Note(d diag.Diagnostic) {
	if i, ok := b.health[d.ID]; ok {
		b.Rank.Health[i].N += d.N
		return
	}
	if b.health == nil {
		b.health = map[string]int{}
	}
	b.health[d.ID] = len(b.Rank.Health)
	b.Rank.Health = append(b.Rank.Health, d)
}

// Build links kernels to launches and steps, sorts everything and returns the Rank. The builder must not be used afterwards.
func (b *Builder) Build() *Rank {
	r := &b.Rank
	slices.SortFunc(r.Kernels, func(x, y Kernel) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Dur, y.Dur), strings.Compare(r.Names[x.Name], r.Names[y.Name]), cmp.Compare(x.Stream, y.Stream))
	})
	b.linkSteps()
	b.linkKernels()
	finishSteps(r)
	b.checkKernels()
	slices.SortStableFunc(r.Health, func(x, y diag.Diagnostic) int { return strings.Compare(x.ID, y.ID) })
	return r
}

// linkKernels gives each kernel the step and the graph flag of its launch.
func (b *Builder) linkKernels() {
	slices.SortFunc(b.launches, func(x, y launch) int {
		return cmp.Or(cmp.Compare(x.correlation, y.correlation), cmp.Compare(x.start, y.start))
	})
	var unlinked, outside int
	for i := range b.Rank.Kernels {
		k := &b.Rank.Kernels[i]
		k.Step = -1
		at, found := slices.BinarySearchFunc(b.launches, k.Correlation, func(l launch, c int64) int { return cmp.Compare(l.correlation, c) })
		if !found || k.Correlation == 0 {
			unlinked++
			continue
		}
		k.Flags |= Linked
		k.Step = b.launches[at].step
		for ; at < len(b.launches) && b.launches[at].correlation == k.Correlation; at++ {
			if b.launches[at].graph {
				k.Flags |= FromGraph
			}
		}
		if k.Step < 0 && len(b.Rank.Steps) > 0 {
			outside++
		}
	}
	if unlinked > 0 {
		b.Note(diag.Diagnostic{ID: "launched_before_window", Severity: diag.Info, N: unlinked,
			Text: "GPU events without a launch in the file: they count in the totals but in no step"})
	}
	if outside > 0 {
		b.Note(diag.Diagnostic{ID: "launched_before_first_step", Severity: diag.Info, N: outside,
			Text: "GPU events launched before the first step annotation: they count in the totals but in no step"})
	}
}

// checkKernels reports kernels whose times the profiler lost: their work is missing from every sum.
func (b *Builder) checkKernels() {
	zero := 0
	for _, k := range b.Rank.Kernels {
		if k.Dur == 0 && k.Kind == KindKernel {
			zero++
		}
	}
	if zero > 0 {
		b.Note(diag.Diagnostic{ID: "zero_duration", Severity: diag.Info, N: zero, Text: "kernels of duration 0"})
	}
}

// interner numbers strings in the order in which they appear.
type interner struct{ ids map[string]int32 }

// id returns the number of s, a new one when s is new. It copies s before keeping it.
func (n *interner) id(s string, list *[]string) int32 {
	if id, ok := n.ids[s]; ok {
		return id
	}
	if n.ids == nil {
		n.ids = map[string]int32{}
	}
	s = strings.Clone(s)
	id := int32(len(n.ids))
	n.ids[s] = id
	if list != nil {
		*list = append(*list, s)
	}
	return id
}
