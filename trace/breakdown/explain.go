package breakdown

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
)

// Explanation says for one kernel name what it was taken for at one kind of place, and why.
type Explanation struct {
	Name      string          `json:"name"`
	Component string          `json:"component"`
	Part      string          `json:"part,omitempty"`
	N         int             `json:"n"`
	Ns        int64           `json:"ns"`
	Reason    classify.Reason `json:"reason"`
}

// Explain returns why the kernels whose name contains text, in upper or lower case, have their components: by name, the one with the
// most time first, then by time. It is empty when no name contains text.
func Explain(t *trace.Rank, cls *classify.Result, text string) []Explanation {
	wanted := make([]bool, len(t.Names))
	for i, n := range t.Names {
		wanted[i] = strings.Contains(strings.ToLower(n), strings.ToLower(text))
	}
	type key struct {
		name  int32
		label uint16
		block classify.Block
		side  bool
	}
	at := map[key]int{}
	byName := map[string]int64{}
	var out []Explanation
	for i, k := range t.Kernels {
		if !wanted[k.Name] {
			continue
		}
		p := cls.Places[i]
		id := key{k.Name, p.Label, p.Block, p.Side}
		n, ok := at[id]
		if !ok {
			n = len(out)
			at[id] = n
			l := cls.Labels[p.Label]
			out = append(out, Explanation{Name: t.Names[k.Name], Component: l.Component, Part: l.Part, Reason: cls.Why(t, i)})
		}
		if !k.Continues() {
			out[n].N++
		}
		out[n].Ns += k.Dur
		byName[out[n].Name] += k.Dur
	}
	slices.SortStableFunc(out, func(a, b Explanation) int {
		return cmp.Or(cmp.Compare(byName[b.Name], byName[a.Name]), cmp.Compare(a.Name, b.Name), cmp.Compare(b.Ns, a.Ns))
	})
	return out
}

// ExplanationText lays explanations out for a terminal: each name once, below it its components with their reasons.
// Names longer than a line are cut unless wide is set.
func ExplanationText(list []Explanation, wide bool) string {
	var b strings.Builder
	for i, e := range list {
		if i == 0 || list[i-1].Name != e.Name {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(clip(e.Name, wide) + "\n")
		}
		what := e.Component
		if e.Part != "" {
			what += "/" + e.Part
		}
		fmt.Fprintf(&b, "  %s: %s in %s ms", what, callCount(e.N), units.Ms(e.Ns, 3))
		if e.Reason.Block != "" {
			fmt.Fprintf(&b, ", block %s, %s stream", e.Reason.Block, e.Reason.Stream)
		}
		b.WriteString("\n")
		for _, l := range strings.Split(e.Reason.String(), "\n") {
			b.WriteString(clip("    "+l, wide) + "\n")
		}
	}
	return b.String()
}

func callCount(n int) string {
	if n == 1 {
		return "1 call"
	}
	return units.Count(int64(n)) + " calls"
}

// clip cuts a text to the width of a table.
func clip(text string, wide bool) string {
	if wide {
		return text
	}
	return cut(text, width)
}
