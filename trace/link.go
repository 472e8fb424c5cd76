package trace

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

// linkKernels gives each kernel the step and the graph flag of its launch, and counts the launches of the steps.
func (b *Builder) linkKernels() {
	slices.SortFunc(b.launches, func(x, y launch) int {
		return cmp.Or(cmp.Compare(x.correlation, y.correlation), cmp.Compare(x.start, y.start), cmp.Compare(x.proc, y.proc))
	})
	b.groupAll()
	b.countLaunches()
	h := b.host.host
	if h != nil {
		h.Launch = make([]Launch, len(b.Rank.Kernels))
	}
	var unlinked, outside int
	var last Kernel // the kernels of a graph follow one another and share their launch
	var from Launch
	for i := range b.Rank.Kernels {
		k := &b.Rank.Kernels[i]
		if i == 0 || k.Correlation != last.Correlation || k.Device != last.Device {
			last.Correlation, last.Device, last.Step, last.Flags, from = k.Correlation, k.Device, -1, 0, Launch{Thread: -1}
			if l, graph := b.launchOf(*k); l != nil {
				last.Step, last.Flags, from = b.stepAt(l.proc, l.start), Linked, Launch{l.start, int64(l.dur), l.thread}
				if graph {
					last.Flags |= FromGraph
				}
			}
		}
		if h != nil {
			h.Launch[i] = from
		}
		k.Step = last.Step
		k.Flags |= last.Flags
		if k.Flags&Linked == 0 {
			unlinked++
			continue
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

// countLaunches counts what was launched in each step.
func (b *Builder) countLaunches() {
	for _, l := range b.launches {
		if step := b.stepAt(l.proc, l.start); step >= 0 {
			switch l.call {
			case LaunchKernel:
				b.Rank.Steps[step].Launches++
			case LaunchGraph:
				b.Rank.Steps[step].GraphLaunches++
			}
		}
	}
}

// stepAt is the last step of a process that began at or before a time; -1 when there is none.
func (b *Builder) stepAt(proc int32, at int64) int32 {
	steps := b.stepsOf[proc]
	after := sort.Search(len(steps), func(i int) bool { return b.Rank.Steps[steps[i]].CPUStart > at })
	if after == 0 {
		return -1
	}
	return steps[after-1]
}

// launchOf finds the launch with the id of a kernel, and says whether it launched a graph. The launches are sorted. Ids repeat
// between the processes of a merged file: then the one of the kernel's own group counts, and among several of it the last one
// that began before the kernel did.
func (b *Builder) launchOf(k Kernel) (l *launch, graph bool) {
	if k.Correlation == 0 {
		return nil, false
	}
	at, _ := slices.BinarySearchFunc(b.launches, k.Correlation, func(l launch, c int64) int { return cmp.Compare(l.correlation, c) })
	group := b.groups[k.Device]
	for ; at < len(b.launches) && b.launches[at].correlation == k.Correlation; at++ {
		next := &b.launches[at]
		if b.groups[len(b.Rank.Devices)+int(next.proc)] != group {
			continue
		}
		if l == nil || next.proc != l.proc && next.start <= k.Start {
			l, graph = next, false
		}
		graph = graph || next.proc == l.proc && next.call == LaunchGraph
	}
	return l, graph
}

// groupAll numbers the groups of devices, then of processes. Tools that merge the files of several ranks write a prefix in
// brackets before each process and device ("[TP00-EP03] 0"): equal prefixes are one group, and so are all without one.
func (b *Builder) groupAll() {
	var groups interner
	names := slices.Clone(b.Rank.Devices)
	for range b.procs.ids {
		names = append(names, "")
	}
	for name, id := range b.procs.ids {
		names[len(b.Rank.Devices)+int(id)] = name
	}
	b.groups = make([]int32, len(names))
	for i, name := range names {
		b.groups[i] = groups.id(Merged(name), nil)
	}
}

// Merged is the prefix in brackets that a tool wrote before a process or device when it merged files; else empty.
func Merged(name string) string {
	if end := strings.IndexByte(name, ']'); end > 0 && name[0] == '[' {
		return name[:end+1]
	}
	return ""
}
