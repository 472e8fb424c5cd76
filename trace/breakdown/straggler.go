package breakdown

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
)

// Straggler is the rank for which the others waited longest, when that is clearly more than its share, and what it did where it
// arrived last: from the arrival of the first rank to its own. Before and Kernels are of these gaps; Before adds up to GapNs.
type Straggler struct {
	Rank    int        `json:"rank"` // the number of the rank
	GapNs   int64      `json:"gap_ns"`
	Before  []Activity `json:"before"`  // by ns: components, and "idle" for time in which its GPU ran nothing
	Kernels []Activity `json:"kernels"` // the five kernels with the most time there
}

// Activity is time in gaps. Of events that run beside each other, the one that began first has it.
type Activity struct {
	Name      string `json:"name"`
	Component string `json:"component,omitempty"` // of a kernel
	Ns        int64  `json:"ns"`
}

// IdleActivity is the name of an Activity in which the GPU ran nothing.
const IdleActivity = "idle"

// Skew says how far apart the ranks arrive: of each step the largest distance from the first arrival to the last one.
type Skew struct {
	Spread
	Steps []StepSkew `json:"steps,omitempty"` // as the first rank counts them
}

// StepSkew is the skew of one step.
type StepSkew struct {
	Step   int     `json:"step"`
	SkewNs int64   `json:"skew_ns"` // the largest one of its all-reduces
	WaitNs []int64 `json:"wait_ns"` // per rank, over all of them
}

// skew fills Skew.
func (m *matching) skew(c *Collectives) {
	same := make([]trace.Interval, len(m.ivs))
	at := map[int32]int{}
	for _, i := range m.matched {
		gather(same, m.ivs, m.shift, i)
		step := m.ranks[0].Kernels[m.kernels[0][i]].Step
		if step < 0 {
			continue
		}
		n, ok := at[step]
		if !ok {
			n = len(c.Skew.Steps)
			at[step] = n
			c.Skew.Steps = append(c.Skew.Steps, StepSkew{Step: int(step), WaitNs: make([]int64, len(m.ivs))})
		}
		s := &c.Skew.Steps[n]
		last := same[lastOf(same)].Start
		for r, iv := range same {
			s.WaitNs[r] += last - iv.Start
			s.SkewNs = max(s.SkewNs, last-iv.Start)
		}
	}
	slices.SortFunc(c.Skew.Steps, func(a, b StepSkew) int { return cmp.Compare(a.Step, b.Step) })
	var all []int64
	for _, s := range c.Skew.Steps {
		all = append(all, s.SkewNs)
	}
	c.Skew.Spread = spread(all)
}

// straggler fills Straggler. Nobody is one unless all wait for it half as long again as they would if each were late as often.
func (m *matching) straggler(c *Collectives) {
	late, total := 0, int64(0)
	for r, ns := range c.CausedNs {
		total += ns
		if ns > c.CausedNs[late] {
			late = r
		}
	}
	if c.CausedNs[late]*int64(len(c.CausedNs))*2 <= total*3 {
		return
	}
	t, cls := m.ranks[late], m.cls[late]
	toOwn := m.ranks[0].BaseNs - t.BaseNs // from the clock of the first rank to its own
	s := &Straggler{Rank: t.Rank, Before: []Activity{}, Kernels: []Activity{}}
	same := make([]trace.Interval, len(m.ivs))
	components, kernels := map[string]int64{}, map[[2]string]int64{}
	for _, i := range m.matched {
		gather(same, m.ivs, m.shift, i)
		if lastOf(same) != late {
			continue
		}
		gap := trace.Interval{Start: math.MaxInt64, End: same[late].Start + toOwn}
		for _, iv := range same {
			gap.Start = min(gap.Start, iv.Start+toOwn)
		}
		s.GapNs += gap.End - gap.Start
		own := i + m.shift[late]
		from := int32(0)
		if own > 0 {
			from = m.kernels[late][own-1]
		}
		idle := ranIn(t, from, m.kernels[late][own], gap, func(k int32, ns int64) {
			component := cls.Label(int(k)).Component
			components[component] += ns
			kernels[[2]string{t.Name(t.Kernels[k]), component}] += ns
		})
		components[IdleActivity] += idle
	}
	for name, ns := range components {
		if ns > 0 {
			s.Before = append(s.Before, Activity{Name: name, Ns: ns})
		}
	}
	for k, ns := range kernels {
		s.Kernels = append(s.Kernels, Activity{k[0], k[1], ns})
	}
	s.Before, s.Kernels = largest(s.Before, len(s.Before)), largest(s.Kernels, 5)
	c.Straggler = s
}

func largest(all []Activity, n int) []Activity {
	slices.SortFunc(all, func(a, b Activity) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Component, b.Component))
	})
	return all[:min(n, len(all))]
}

// ranIn tells take which of the kernels from..to (of the device of the last one, which is not counted itself) ran in a gap, and
// returns the time in which none did.
func ranIn(t *trace.Rank, from, to int32, gap trace.Interval, take func(kernel int32, ns int64)) (idle int64) {
	covered := gap.Start
	for i := from; i < to; i++ {
		k := t.Kernels[i]
		if k.Device != t.Kernels[to].Device {
			continue
		}
		start, end := max(k.Start, covered), min(k.End(), gap.End)
		if start >= end {
			continue
		}
		idle += start - covered
		take(i, end-start)
		covered = end
	}
	return idle + max(0, gap.End-covered)
}

// stragglerNotes says for each load with several ranks who arrives late, what it did before, and how far apart the ranks arrive.
func (r Report) stragglerNotes() string {
	text := ""
	for _, c := range append(r.first(), r.More...) {
		for _, other := range c.Others {
			text += "\n" + other.split()
		}
		if len(c.Ranks) < 2 || c.Matched == 0 {
			continue
		}
		if c.Straggler == nil {
			text += fmt.Sprintf("\nNo rank is the straggler: the others wait %s ms for each (by rank).", msList(c.CausedNs)) + c.Skew.words()
			continue
		}
		at := slices.IndexFunc(c.Ranks, func(i int) bool { return r.Ranks[i].Rank == c.Straggler.Rank })
		if at < 0 {
			continue
		}
		s := c.Straggler
		text += fmt.Sprintf("\nStraggler: rank %d. It is the last at %s of %s, and the others wait %s ms for it.", s.Rank,
			units.Count(int64(c.Last[at])), units.Count(int64(c.Matched)), units.Ms(c.CausedNs[at], 1))
		if len(s.Before) > 0 {
			text += " Meanwhile it is"
			for i, a := range s.Before[:min(3, len(s.Before))] {
				name := a.Name
				if name != IdleActivity {
					name = "in " + name
				}
				text += fmt.Sprintf("%s %s %s %%", map[bool]string{true: ",", false: ""}[i > 0], name, units.Percent(a.Ns, s.GapNs, 1))
			}
			text += " of the time."
		}
		if len(s.Kernels) > 0 {
			text += fmt.Sprintf(" Its %s with the most time there: %s, %s ms.", strings.ToLower(r.words().kernel), cut(s.Kernels[0].Name, 48), units.Ms(s.Kernels[0].Ns, 1))
		}
		text += c.Skew.words()
	}
	return text
}

func (s Skew) words() string {
	if s.N == 0 {
		return ""
	}
	return fmt.Sprintf(" Largest skew in a step: median %s ms, most %s ms.", units.Ms(s.P50Ns, 2), units.Ms(s.MaxNs, 2))
}
