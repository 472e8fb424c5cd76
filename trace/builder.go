package trace

import (
	"fmt"
	"math"
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
	stepsOf                        map[int32][]int32 // process -> its steps, in order
	groups                         []int32           // by device and process: see group
	host                           hostBuilder
	health                         map[string]int
	text                           int    // bytes of names and ids kept
	full                           string // the limit that was passed
}

// Limits of one file. They are far above what a profiler writes in minutes and keep a Rank and its analysis under 512 MB.
const (
	maxRecords = 6_000_000 // GPU events and launches
	maxSteps   = 100_000
	maxDevices = 1024
	maxText    = 16 << 20 // bytes of different names and ids
)

// Full names the limit that the file passes; it is empty while there is none. What comes afterwards is not kept.
func (b *Builder) Full() string { return b.full }

// refuse notes the first limit that is passed.
func (b *Builder) refuse(limit int, what string) {
	if b.full == "" {
		b.full = fmt.Sprintf("it has more than %d %s, the most that is read; profile a shorter window", limit, what)
	}
}

// launch is one CUDA or HIP runtime call that has a correlation id.
type launch struct {
	correlation, start int64
	proc, thread       int32
	dur                int32 // ns; the longest call is 2 s
	call               LaunchKind
}

// LaunchKind says what a runtime call launches.
type LaunchKind uint8

// The kinds of runtime calls.
const (
	LaunchOther  LaunchKind = iota // a copy, a fill, or nothing
	LaunchKernel                   // one kernel
	LaunchGraph                    // a whole graph
)

// Name interns a kernel name. The text may point into a buffer that changes later.
func (b *Builder) Name(s string) int32 { return b.intern(&b.names, s, &b.Rank.Names) }

// Stream interns a stream id.
func (b *Builder) Stream(s string) int32 { return b.intern(&b.streams, s, &b.Rank.Streams) }

// Device interns a device id.
func (b *Builder) Device(s string) int16 {
	id := b.intern(&b.devices, s, &b.Rank.Devices)
	if id >= maxDevices {
		b.refuse(maxDevices, "devices")
		return 0
	}
	return int16(id)
}

// intern numbers s and counts what it takes to keep it.
func (b *Builder) intern(n *interner, s string, list *[]string) int32 {
	if s == n.last && n.ids != nil {
		return n.lastID
	}
	known := len(n.ids)
	id := n.id(s, list)
	if len(n.ids) > known {
		if b.text += len(s) + 64; b.text > maxText {
			b.refuse(maxText, "bytes of different names")
		}
	}
	return id
}

// Reserve makes room for n GPU events in all.
func (b *Builder) Reserve(n int) {
	if n = min(n, maxRecords+1); n > cap(b.Rank.Kernels) {
		b.Rank.Kernels = append(make([]Kernel, 0, n), b.Rank.Kernels...)
	}
}

// ReserveLaunches makes room for n launches in all.
func (b *Builder) ReserveLaunches(n int) {
	if n = min(n, maxRecords+1); n > cap(b.launches) {
		b.launches = append(make([]launch, 0, n), b.launches...)
	}
}

// Launches says how many launches there are, and for how many there is room.
func (b *Builder) Launches() (n, room int) { return len(b.launches), cap(b.launches) }

// Add takes one GPU event; Step, and the flags, are filled by Build.
func (b *Builder) Add(k Kernel) {
	if !b.room() {
		return
	}
	b.Rank.Kernels = append(b.Rank.Kernels, k)
}

// room says whether one more record may be kept.
func (b *Builder) room() bool {
	n := len(b.Rank.Kernels) + len(b.launches)
	if b.host.host != nil {
		n += len(b.host.host.Calls)
	}
	if n >= maxRecords {
		b.refuse(maxRecords, "GPU events and launches")
	}
	return n < maxRecords
}

// Launch takes one runtime call of a thread (process and thread as written) with its correlation id.
func (b *Builder) Launch(process, thread string, correlation, start, dur int64, kind LaunchKind) {
	if !b.room() {
		return
	}
	b.launches = append(b.launches, launch{correlation, start, b.intern(&b.procs, process, nil), b.thread(process, thread), int32(min(max(dur, 0), math.MaxInt32)), kind})
}

// Annotate takes one CPU annotation; names that are no step names are ignored.
func (b *Builder) Annotate(process, thread, name string, start, dur int64) {
	step, rank, ok := parseStep(name)
	if !ok {
		return
	}
	if len(b.marks) >= maxSteps {
		b.refuse(maxSteps, "steps")
		return
	}
	if b.text += len(name) + len(thread); b.text > maxText {
		b.refuse(maxText, "bytes of different names")
	}
	step.Name = strings.Clone(name)
	step.CPUStart, step.CPUDur = start, dur
	b.marks = append(b.marks, mark{step, b.intern(&b.procs, process, nil), strings.Clone(thread), rank})
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
	sortKernels(r.Kernels, r.Names)
	b.makeSteps()
	b.linkKernels()
	if len(r.Steps) == 0 {
		b.repeatedSteps()
	}
	finishSteps(r)
	b.checkKernels()
	b.host.finish(r)
	slices.SortStableFunc(r.Health, func(x, y diag.Diagnostic) int { return strings.Compare(x.ID, y.ID) })
	return r
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
type interner struct {
	ids    map[string]int32
	last   string // the one asked for last: ids repeat
	lastID int32
}

// id returns the number of s, a new one when s is new. It copies s before keeping it.
func (n *interner) id(s string, list *[]string) int32 {
	id, ok := n.ids[s]
	if !ok {
		if n.ids == nil {
			n.ids = map[string]int32{}
		}
		s = strings.Clone(s)
		id = int32(len(n.ids))
		n.ids[s] = id
		if list != nil {
			*list = append(*list, s)
		}
	} else if list != nil {
		s = (*list)[id]
	} else {
		return id
	}
	n.last, n.lastID = s, id
	return id
}
