package trace

import (
	"cmp"
	"slices"
)

// Host is what the CPU did: operators, annotations and runtime calls, and which call launched which kernel.
type Host struct {
	Names   []string // Call.Name points here
	Threads []string // "process/thread" as written; Call.Thread points here
	Calls   []Call   // by thread, then start; of equal starts the longer one first
	Launch  []Launch // Launch[i] belongs to Rank.Kernels[i]
}

// Call is one operator, annotation or runtime call on a thread.
type Call struct {
	Start, Dur   int64 // ns
	Name, Thread int32
}

// End is Start + Dur.
func (c Call) End() int64 { return c.Start + c.Dur }

// Launch is the runtime call that launched a kernel. Thread is -1 when it is not in the file.
type Launch struct {
	Start, Dur int64 // ns
	Thread     int32
}

// End is Start + Dur.
func (l Launch) End() int64 { return l.Start + l.Dur }

// OnThread returns the calls of one thread.
func (h *Host) OnThread(thread int32) []Call {
	from, _ := slices.BinarySearchFunc(h.Calls, thread, func(c Call, t int32) int { return cmp.Compare(c.Thread, t) })
	to, _ := slices.BinarySearchFunc(h.Calls, thread+1, func(c Call, t int32) int { return cmp.Compare(c.Thread, t) })
	return h.Calls[from:to]
}

// hostBuilder collects a Host.
type hostBuilder struct {
	names, threads interner
	host           *Host
}

// KeepHost makes the builder keep what Call is told. It must come first.
func (b *Builder) KeepHost() { b.host.host = &Host{} }

// Call takes one operator, annotation or runtime call of a thread; it is ignored unless KeepHost was called.
func (b *Builder) Call(process, thread, name string, start, dur int64) {
	h := b.host.host
	if h == nil {
		return
	}
	if !b.room() {
		return
	}
	h.Calls = append(h.Calls, Call{start, dur, b.intern(&b.host.names, name, &h.Names), b.thread(process, thread)})
}

// thread numbers a thread of a process; without a Host all are 0.
func (b *Builder) thread(process, thread string) int32 {
	h := b.host.host
	if h == nil {
		return 0
	}
	if t := b.host.threads; t.ids != nil && len(t.last) == len(process)+1+len(thread) &&
		t.last[:len(process)] == process && t.last[len(process)+1:] == thread {
		return t.lastID
	}
	return b.intern(&b.host.threads, process+"/"+thread, &h.Threads)
}

// finish sorts the calls.
func (h *hostBuilder) finish(r *Rank) {
	if h.host == nil {
		return
	}
	slices.SortFunc(h.host.Calls, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Start, b.Start), cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Name, b.Name))
	})
	r.Host = h.host
}
