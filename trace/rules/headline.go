package rules

import (
	"fmt"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// subjects are the rows of the bottleneck table inside a sentence.
var subjects = map[string]string{
	"allreduce": "all-reduce", "moe.experts": "the expert GEMMs", "attention.core": "attention",
	"attention.proj": "the attention projections", "moe.routing": "expert routing", "allgather": "all-gather",
	"reduce_scatter": "reduce-scatter", "all_to_all": "all-to-all", "p2p": "point-to-point transfer",
	"moe.shared_expert": "the shared expert", "norm": "norms and small kernels", "cast_copy": "casts and copies",
	"moe.router": "the router", "mlp.dense": "the dense MLP", "host": "Python and other host work", "unknown": "unrecognised work",
}

func subject(row data.BottleneckRow) string {
	if s, ok := subjects[row.Components[0]]; ok {
		return s
	}
	return row.Label
}

func subjectOf(component string) string {
	return subject(data.BottleneckRow{Label: data.ComponentLabel(component), Components: []string{component}})
}

// plural says whether a subject takes a plural verb: "the expert GEMMs", "casts and copies".
func plural(subject string) bool { return strings.HasSuffix(subject, "s") }

// Headline says what dominates at the highest load, by how much, and where the leader changes on the way there.
func Headline(b data.Bottlenecks) string {
	last := len(b.Loads) - 1
	if last < 0 || len(b.Rows) == 0 {
		return "Nothing was measured yet"
	}
	first, second := leaders(b, last)
	share := func(row, load int) string { return units.Percent(b.Rows[row].Ns[load], b.Loads[load].SummedNs, 1) }
	takes, leads := "takes", "it leads"
	if plural(subject(b.Rows[first])) {
		takes, leads = "take", "they lead"
	}
	s := fmt.Sprintf("At %s %s %s %s of %s time", streams(b.Loads[last].Streams), subject(b.Rows[first]), takes, percent(share(first, last)), map[bool]string{false: "GPU", true: "CPU"}[b.CPU])
	if second >= 0 && b.Rows[second].Ns[last] > 0 {
		s += fmt.Sprintf(", %s %s (%s)", times(b.Rows[first].Ns[last], b.Rows[second].Ns[last]), subject(b.Rows[second]), percent(share(second, last)))
	}
	for i := last - 1; i >= 0; i-- {
		was, _ := leaders(b, i)
		if was != first {
			return s + fmt.Sprintf("; at %s %s still led, %s to %s", streams(b.Loads[i].Streams), subject(b.Rows[was]), share(was, i), percent(share(first, i)))
		}
	}
	if last > 0 {
		s += "; " + leads + " at every load measured"
	}
	return s
}

// Leading are the components of the two largest rows at the highest load; of a table with one row, that one and "unknown".
func Leading(b data.Bottlenecks) []string {
	var out []string
	if last := len(b.Loads) - 1; last >= 0 {
		first, second := leaders(b, last)
		for _, row := range []int{first, second} {
			component := data.Unknown
			if row >= 0 {
				component = b.Rows[row].Components[0]
			}
			out = append(out, component)
		}
	}
	return out
}

// CannotSay names what a macro profile leaves open, and which phase answers it.
func CannotSay() data.Fact {
	return data.Fact{Head: "What a profile cannot say", Text: "How far a kernel is from its floor (phase 2), what happens inside CUDA graphs (phase 3), and which change would pay (phase 4)."}
}

// leaders returns the rows with the most and the second most time at a load.
func leaders(b data.Bottlenecks, load int) (first, second int) {
	first, second = -1, -1
	for i, r := range b.Rows {
		switch {
		case first < 0 || r.Ns[load] > b.Rows[first].Ns[load]:
			first, second = i, first
		case second < 0 || r.Ns[load] > b.Rows[second].Ns[load]:
			second = i
		}
	}
	return first, second
}

func streams(n int) string {
	if n == 1 {
		return "one stream"
	}
	return fmt.Sprintf("%d streams", n)
}

// times puts a ratio into words: "twice", "1.4 times", "as much as".
func times(a, b int64) string {
	switch tenths := (20*a + b) / (2 * b); {
	case tenths <= 10:
		return "as much as"
	case tenths >= 19 && tenths <= 21:
		return "twice"
	case tenths >= 29 && tenths <= 31:
		return "three times"
	}
	return units.Ratio(a, b, 1) + " times"
}

// mechanisms explain, in plain words, why a component grows.
var mechanisms = map[string]string{
	"allreduce":      "All-reduce is the exchange of partial results between the GPUs, twice a layer. Its messages grow with the streams.",
	"moe.experts":    "The expert GEMMs read the weights of every expert that some token chose. Once all experts are hit, more streams add little.",
	"attention.core": "Attention reads the cached keys and values of every stream, so its time grows with the streams and their context.",
	"attention.proj": "The attention projections read their weights once a step, however many streams there are.",
	"host":           "Python and other host work is what a step does between its operators: preparing inputs, walking the model, calling the next operator.",
	"cast_copy":      "Casts and copies move tensors without computing anything; they grow with the tokens.",
}

// Lede explains the leader of the highest load. Growth is a sentence about what the loads changed, or "".
func Lede(b data.Bottlenecks, growth string) string {
	last := len(b.Loads) - 1
	if last < 0 || len(b.Rows) < 2 {
		return ""
	}
	var parts []string
	if b.CPU {
		parts = append(parts, "The traces have no GPU activity, as of a server that computes on CPUs: these are steps, CPU operators and collectives, not GPU kernels.")
	}
	first, _ := leaders(b, last)
	if m, ok := mechanisms[b.Rows[first].Components[0]]; ok {
		if b.CPU {
			m = strings.ReplaceAll(m, "the GPUs", "the ranks")
		}
		parts = append(parts, m)
	}
	if growth != "" {
		parts = append(parts, growth)
	}
	if c1, c2 := leaders(b, 0); last > 0 && c2 >= 0 && b.Rows[c1].Ns[0]*3 < b.Loads[0].SummedNs {
		parts = append(parts, fmt.Sprintf("At %s nothing dominates.", streams(b.Loads[0].Streams)))
	}
	return strings.Join(parts, " ")
}

// HowSure says how many steps were counted, how far the leaders' shares moved between steps, how far another rank
// differs, and what profiling cost.
func HowSure(ws []Window, components ...string) data.Fact {
	var steps, loads, cost []string
	spread := 0.0
	for _, w := range ws {
		steps, loads = append(steps, fmt.Sprint(w.Steps)), append(loads, fmt.Sprint(w.Streams))
		for _, c := range components {
			low, high := w.StepShares(c)
			spread = max(spread, high-low)
		}
		if t, ok := w.Perturbation(); ok {
			cost = append(cost, units.Fixed(t, 10, 1))
		}
	}
	text := fmt.Sprintf("%s steps at C = %s. No leading share moved by more than %s points between steps.",
		list(steps), list(loads), units.Float(spread, 1))
	for _, w := range ws {
		if len(w.OtherRanks) > 2 {
			text += w.otherRanks()
			continue
		}
		for _, o := range w.OtherRanks {
			text += fmt.Sprintf(" At %s %s of rank %d differs by %s.", w.Label(), subjectOf(o.Name), o.Rank, percent(difference(o.Ns, w.Sum(o.Name))))
		}
	}
	text += alsoHolds(ws)
	if len(cost) > 0 {
		text += fmt.Sprintf(" Profiling made a step %s longer.", percent(list(cost)))
	}
	return data.Fact{Head: "How sure", Text: text}
}

// otherRanks says between which shares the all-reduce of many further ranks differs.
func (w Window) otherRanks() string {
	off := func(o OtherRank) int64 {
		d := o.Ns - w.Sum(o.Name)
		return max(d, -d)
	}
	low, high := w.OtherRanks[0], w.OtherRanks[0]
	for _, o := range w.OtherRanks {
		if off(o) < off(low) {
			low = o
		}
		if off(o) > off(high) {
			high = o
		}
	}
	return fmt.Sprintf(" At %s %s of %d further ranks differs by %s to %s.", w.Label(), subjectOf(low.Name), len(w.OtherRanks),
		difference(low.Ns, w.Sum(low.Name)), percent(difference(high.Ns, w.Sum(high.Name))))
}

// alsoHolds tells of windows that hold more than whole decode steps, or is "".
func alsoHolds(ws []Window) string {
	text := ""
	for _, w := range ws {
		if len(w.OtherSteps) > 0 {
			text += fmt.Sprintf(" At %s the window also holds %s; shares are of all GPU time in it.", w.Label(), list(w.OtherSteps))
		}
	}
	return text
}

// difference formats |a-b| in percent of b.
func difference(a, b int64) string {
	if a < b {
		return units.Percent(b-a, b, 1)
	}
	return units.Percent(a-b, b, 1)
}

// list joins words: "27, 10 and 5".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
