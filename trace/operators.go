package trace

import (
	"cmp"
	"slices"
	"sort"

	"github.com/rooflab/rooflab/internal/diag"
)

// HostWork names the time of a step in which no operator ran: the Kernels with this name have no Operator.
const HostWork = "Python and other host work"

// Operator is one operator, annotation or other scope that the CPU ran, in a Rank with CPU set.
type Operator struct {
	Name   int32 // index into Rank.Names
	Parent int32 // the one that it ran in, index into Rank.Operators; -1 for none
	Step   int32 // index into Rank.Steps; -1 when it began before the first step
}

// OnCPU makes of a rank without GPU work, whose Host and marked steps were read, a rank of its CPU's work: it has CPU set. Each of
// its Kernels is a piece of time in which one operator ran and none inside it, or in which a step ran none on any thread (HostWork), so
// that together they cover the annotations of the steps without a gap, and those of one thread never overlap. Streams are threads.
// The first Kernel of an operator, which may last 0 ns, is its begin; the others are Continued. It returns nil where that does not apply.
func (r *Rank) OnCPU() *Rank {
	if len(r.Kernels) > 0 || r.Host == nil || r.StepsBy != ByAnnotation {
		return nil
	}
	out := *r
	out.CPU, out.Host, out.Devices, out.Device = true, nil, []string{"CPU"}, "CPU"
	out.Names = append(slices.Clone(r.Host.Names), HostWork)
	out.Streams, out.Steps = r.Host.Threads, slices.Clone(r.Steps)
	out.Health = append(slices.Clone(r.Health), diag.Diagnostic{ID: "no_gpu_activity", Severity: diag.Warning, N: 1,
		Text: "the file has no GPU activity: times are of CPU operators, each without those inside it",
		Hint: "right for a server that computes on CPUs; on one with GPUs the profiler could not see them"})
	for thread := range int32(len(out.Streams)) {
		c := &cutter{r: &out, thread: thread}
		c.cut(r.Host.OnThread(thread), r.Host.Names)
	}
	out.Kernels = waiting(out.Kernels)
	slices.SortStableFunc(out.Kernels, func(a, b Kernel) int { return cmp.Compare(a.Start, b.Start) })
	for i := range out.Steps {
		s := &out.Steps[i]
		s.Start, s.End = s.CPUStart, s.CPUStart+s.CPUDur
	}
	for _, k := range out.Kernels {
		if k.Step >= 0 {
			out.Steps[k.Step].End = max(out.Steps[k.Step].End, k.End())
		}
	}
	noteCut(&out)
	return &out
}

// waiting takes out of the host's work the time in which an operator ran on another thread, such as a collective of gloo: the step waited for it.
func waiting(pieces []Kernel) []Kernel {
	host := map[int32]bool{}
	for _, k := range pieces {
		host[k.Stream] = host[k.Stream] || k.Kind == KindHost
	}
	var ivs []Interval
	for _, k := range pieces {
		if !host[k.Stream] {
			ivs = append(ivs, Interval{k.Start, k.End()})
		}
	}
	ivs = Union(ivs)
	if len(ivs) == 0 {
		return pieces
	}
	out := make([]Kernel, 0, len(pieces)+len(ivs))
	for _, k := range pieces {
		if k.Kind != KindHost {
			out = append(out, k)
			continue
		}
		at, end := k.Start, k.End()
		first := sort.Search(len(ivs), func(i int) bool { return ivs[i].End > at })
		for _, iv := range ivs[first:] {
			if iv.Start >= end {
				break
			}
			if iv.Start > at {
				k.Start, k.Dur = at, iv.Start-at
				out = append(out, k)
			}
			at = iv.End
		}
		if at < end {
			k.Start, k.Dur = at, end-at
			out = append(out, k)
		}
	}
	return out
}

// cutter cuts the calls of one thread into pieces.
type cutter struct {
	r      *Rank
	thread int32
	open   []scope // that have begun and not ended, the innermost last
	at     int64   // everything before it is cut
}

// scope is an open call. The operator of a step's annotation is -1.
type scope struct {
	operator int32
	end      int64
	begun    bool
}

func (c *cutter) cut(calls []Call, names []string) {
	for _, call := range calls {
		c.advance(call.Start)
		s := scope{operator: -1, end: call.End()}
		if _, _, ok := parseStep(names[call.Name]); !ok {
			s.operator = int32(len(c.r.Operators))
			step := c.step(call.Start)
			c.r.Operators = append(c.r.Operators, Operator{call.Name, c.parent(), step})
			if step >= 0 {
				c.r.Steps[step].Events++
			}
		}
		c.open = append(c.open, s)
		c.at = max(c.at, call.Start)
	}
	for len(c.open) > 0 {
		c.advance(c.open[len(c.open)-1].end)
	}
}

// parent is the innermost open operator.
func (c *cutter) parent() int32 {
	for _, s := range slices.Backward(c.open) {
		if s.operator >= 0 {
			return s.operator
		}
	}
	return -1
}

// advance gives the time until now to the open calls and closes those that have ended.
func (c *cutter) advance(now int64) {
	for n := len(c.open); n > 0; n = len(c.open) {
		c.piece(min(c.open[n-1].end, now))
		if c.open[n-1].end > now {
			return
		}
		c.open = c.open[:n-1]
	}
}

// piece gives the time until an end to the innermost call.
func (c *cutter) piece(end int64) {
	s := &c.open[len(c.open)-1]
	if end <= c.at && (s.begun || s.operator < 0) {
		return
	}
	k := Kernel{Start: c.at, Dur: max(end-c.at, 0), Name: int32(len(c.r.Names) - 1), Stream: c.thread, Step: c.step(c.at), Kind: KindHost}
	if s.operator >= 0 {
		k.Kind, k.Correlation, k.Name = KindOperator, int64(s.operator)+1, c.r.Operators[s.operator].Name
		if s.begun {
			k.Flags = Continued
		}
	}
	s.begun = true
	c.r.Kernels = append(c.r.Kernels, k)
	c.at = max(c.at, end)
}

// step is the last step that began at or before a time; -1 for none.
func (c *cutter) step(at int64) int32 {
	return int32(sort.Search(len(c.r.Steps), func(i int) bool { return c.r.Steps[i].CPUStart > at })) - 1
}
