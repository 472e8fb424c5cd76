package breakdown

import (
	"cmp"
	"slices"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// tally sums events by label.
type tally struct {
	cls  *classify.Result
	sums []labelSum // by label
}

type labelSum struct {
	n, inPart   int // calls of the component, of the part
	ns, overlap int64
}

func newTally(cls *classify.Result) *tally { return &tally{cls, make([]labelSum, len(cls.Labels))} }

// add takes kernels of one device, by start, and charges the time that they share.
func (t *tally) add(r *trace.Rank, kernels []int32) {
	for _, i := range kernels {
		s := &t.sums[t.cls.Places[i].Label]
		n, inPart := calls(r, t.cls, i)
		s.n += n
		s.inPart += inPart
		s.ns += r.Kernels[i].Dur
	}
	charge(r, t.cls, kernels, func(i int32, ns int64) { t.sums[t.cls.Places[i].Label].overlap += ns })
}

// components returns the sums by component, largest first; equal ones by name. Parts likewise. The tally is empty afterwards.
func (t *tally) components(parts bool) []Component {
	out := []Component{}
	for i, s := range t.sums {
		if s.inPart == 0 && s.ns == 0 {
			continue
		}
		l := t.cls.Labels[i]
		at := slices.IndexFunc(out, func(c Component) bool { return c.Name == l.Component })
		if at < 0 {
			at = len(out)
			out = append(out, Component{Name: l.Component})
		}
		c := &out[at]
		c.N += s.n
		c.Ns += s.ns
		c.OverlapNs += s.overlap
		if parts && l.Part != "" {
			c.Parts = append(c.Parts, Part{l.Part, s.inPart, s.ns})
		}
		t.sums[i] = labelSum{}
	}
	for _, c := range out {
		slices.SortFunc(c.Parts, func(a, b Part) int { return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name)) })
	}
	slices.SortFunc(out, func(a, b Component) int { return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name)) })
	return out
}
