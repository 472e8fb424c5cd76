package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Floor is the shortest time that measured ceilings or a measured alternative allow for some components, per step.
type Floor struct {
	Label      string   `json:"label"`
	Components []string `json:"components"`
	Ns         []int64  `json:"ns"`  // one a load; 0 = no floor is known
	Why        string   `json:"why"` // how the floor was made
}

// Micro is what the micro-benchmarks say about each load: notebook 20 saves it, notebook 40 judges with it.
type Micro struct {
	Loads       []int         `json:"loads"`
	Served      NCCL          `json:"served"`       // what the micro-benchmark of the server's setting prescribed
	Setting     []Alternative `json:"setting"`      // all-reduce as the server is set, against NCCL's own choice
	Peer        []Alternative `json:"peer"`         // the same, against a direct link between the GPUs
	Roof        []RoofPoint   `json:"roof"`         // the expert GEMMs under their measured roof
	Ridge       float64       `json:"ridge"`        // FLOP/byte
	Experts     int64         `json:"experts"`      // of a layer
	ExpertsHit  []float64     `json:"experts_hit"`  // distinct experts that a layer's tokens choose
	ExpertBytes []int64       `json:"expert_bytes"` // of weights that a layer reads for them
	ExpertNs    []int64       `json:"expert_ns"`    // of a layer's expert GEMMs, measured alone
	Floors      []Floor       `json:"floors"`
}

// For returns the figures in the order of the windows, matched by streams. A load that was not measured alone has zero
// figures, and a saving from it stays open. Rules take figures by position, so that they get them through here.
func (m Micro) For(ws []Window) Micro {
	out := Micro{Served: m.Served, Ridge: m.Ridge, Experts: m.Experts}
	for _, f := range m.Floors {
		f.Ns = nil
		out.Floors = append(out.Floors, f)
	}
	for _, w := range ws {
		i := slices.Index(m.Loads, w.Streams) // -1 when this load was not measured
		out.Loads = append(out.Loads, w.Streams)
		out.Setting = append(out.Setting, at(m.Setting, i))
		out.Peer = append(out.Peer, at(m.Peer, i))
		out.Roof = append(out.Roof, at(m.Roof, i))
		out.ExpertsHit = append(out.ExpertsHit, at(m.ExpertsHit, i))
		out.ExpertBytes = append(out.ExpertBytes, at(m.ExpertBytes, i))
		out.ExpertNs = append(out.ExpertNs, at(m.ExpertNs, i))
		for k, f := range m.Floors {
			out.Floors[k].Ns = append(out.Floors[k].Ns, at(f.Ns, i))
		}
	}
	return out
}

// at returns a figure of a load; a zero one when there is none.
func at[T any](list []T, i int) T {
	if i >= 0 && i < len(list) {
		return list[i]
	}
	var none T
	return none
}

// Floor returns the floor of a component; one without times when none is known.
func (m Micro) Floor(component string) Floor {
	for _, f := range m.Floors {
		if len(f.Components) == 1 && f.Components[0] == component {
			return f
		}
	}
	return Floor{Label: data.ComponentLabel(component), Components: []string{component}}
}

// Growth says what the last two loads changed for messages and for expert weights, or "" with fewer loads.
func (m Micro) Growth() string {
	n := len(m.Loads)
	if n < 2 || len(m.ExpertsHit) < n || m.ExpertsHit[n-2] == 0 || m.ExpertsHit[n-1] == 0 {
		return ""
	}
	a, b := m.Loads[n-2], m.Loads[n-1]
	return fmt.Sprintf("%s times the streams make each exchange as many times as large, while the experts’ weights are read once however many tokens want them: %s of %d experts a layer at %s, %s at %d.",
		factor(int64(b), int64(a)), units.Float(m.ExpertsHit[n-2], 0), m.Experts, streams(a), units.Float(m.ExpertsHit[n-1], 0), b)
}

// factor starts a sentence with a ratio: "Four", or "3.8" when it is no small whole number.
func factor(a, b int64) string {
	words := []string{"", "", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"}
	if b == 0 || a%b != 0 || a <= b {
		return units.Ratio(a, b, 1)
	}
	if a/b < int64(len(words)) {
		return words[a/b]
	}
	return units.Count(a / b)
}

// ReadTogether sets the growth of messages beside that of expert weights between the last two loads.
func (m Micro) ReadTogether() string {
	n := len(m.Loads)
	if n < 2 || len(m.Setting) < n || len(m.ExpertBytes) < n || len(m.ExpertNs) < n {
		return ""
	}
	for i := n - 2; i < n; i++ {
		if m.Setting[i].ServedNs == 0 || m.ExpertNs[i] == 0 || m.ExpertBytes[i] == 0 {
			return ""
		}
	}
	return fmt.Sprintf("Read together: from %d to %d tokens a message grows %s times and its time as served %s times. The experts’ bytes grow %s times, and their time %s times.",
		m.Loads[n-2], m.Loads[n-1], units.Ratio(int64(m.Loads[n-1]), int64(m.Loads[n-2]), 1), units.Ratio(m.Setting[n-1].ServedNs, m.Setting[n-2].ServedNs, 1),
		units.Ratio(m.ExpertBytes[n-1], m.ExpertBytes[n-2], 2), units.Ratio(m.ExpertNs[n-1], m.ExpertNs[n-2], 2))
}

// Floors makes the table of distances: measured time divided by the floor.
func Floors(ws []Window, floors []Floor) data.Table {
	t := data.Table{ID: "floors", Title: "Distance to the floor: measured time ÷ shortest time that this GPU or path allows",
		Columns: []data.Column{{Head: "Component"}}}
	if len(ws) == 0 {
		return t
	}
	last := len(ws) - 1
	t.Columns = append(t.Columns, data.Column{Head: "floor at " + ws[last].Label(), Unit: "ms", Numeric: true})
	for _, w := range ws {
		t.Columns = append(t.Columns, data.Column{Head: w.Label(), Unit: "×", Numeric: true})
	}
	for _, f := range floors {
		row := data.Row{Cells: []string{f.Label, openIfZero(at(f.Ns, last), units.Ms(at(f.Ns, last), 2))}, Component: f.Components[0], Note: f.Why}
		for i, w := range ws {
			row.Cells = append(row.Cells, openIfZero(at(f.Ns, i), units.Ratio(w.PerStepNs(f.Components...), at(f.Ns, i), 1)))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(floors) == 0 {
		t.Note = "No floor is known: it takes the micro-benchmarks of phase 2."
		return t
	}
	t.Note = "A floor counts what must be read, computed or exchanged. Below 1: the work is quicker inside the server than the measurement that made the floor."
	return t
}

func openIfZero(v int64, text string) string {
	if v == 0 {
		return "open"
	}
	return text
}

// Saving is a change and how much of a step it would save at each load.
type Saving struct {
	Kind       string // "Tier 0, configuration"
	Change     string
	Detail     string   // effort; what would have to be true; how to test it
	Components []string // what the change works on; the bound is a step without them
	Ns         []int64  // saved per step, one a load; negative = not measured
	Ref        data.Ref
}

// Tiers makes the decision table. The bound of a tier is Amdahl's: the step if its components cost nothing.
func Tiers(ws []Window, savings []Saving) data.Tiers {
	t := data.Tiers{Heading: "What to do, and what it can bring at most", Loads: labels(ws),
		Note: "From measured nanoseconds a step, not from shares rounded for print. What was not measured is not claimed."}
	if base(ws) == "CPU time" {
		t.Note = "The changes that are known here are for servers with GPUs; none is judged by CPU operators."
		return t
	}
	for _, s := range savings {
		tier := data.Tier{Kind: s.Kind, Change: s.Change, Detail: s.Detail, Ref: s.Ref}
		for i, w := range ws {
			tier.Gains = append(tier.Gains, s.gain(i, w))
		}
		t.Items = append(t.Items, tier)
	}
	return t
}

func (s Saving) gain(i int, w Window) data.Gain {
	g := data.Gain{StepNs: w.StepNs()}
	if len(s.Components) > 0 {
		g.FloorNs = max(w.StepNs()-w.ExposedNs(s.Components...), 0)
	}
	if i < len(s.Ns) && s.Ns[i] >= 0 {
		g.AfterNs = w.StepNs() - s.Ns[i]
	}
	return g
}

// capped keeps a saving of components between nothing and what they can bring.
func (w Window) capped(ns int64, components ...string) int64 {
	return min(max(ns, 0), w.ExposedNs(components...))
}

// Together adds a sum row: the savings of several tiers taken once each. Tiers that exclude each other must not be given together.
func Together(t data.Tiers, ws []Window, change, detail string, savings ...Saving) data.Tiers {
	tier := data.Tier{Change: change, Detail: detail, Total: true}
	for i, w := range ws {
		g := data.Gain{StepNs: w.StepNs(), AfterNs: w.StepNs()}
		for _, s := range savings {
			if i >= len(s.Ns) || s.Ns[i] < 0 {
				g.AfterNs = 0
				break
			}
			g.AfterNs -= s.Ns[i]
		}
		tier.Gains = append(tier.Gains, g)
	}
	t.Items = append(t.Items, tier)
	return t
}

// FromRatio turns a measured alternative into savings: the component's time shrinks as the call did when measured alone.
// An alternative that is slower saves nothing; one that was not measured stays open (-1).
func FromRatio(ws []Window, component string, alts []Alternative) []int64 {
	var out []int64
	for i, w := range ws {
		a := at(alts, i)
		switch {
		case a.ServedNs == 0 || a.OtherNs == 0:
			out = append(out, -1)
		case a.OtherNs >= a.ServedNs:
			out = append(out, 0)
		default:
			ns := w.PerStepNs(component)
			out = append(out, w.capped(ns-ns*a.OtherNs/a.ServedNs, component))
		}
	}
	return out
}

// ToFloor turns a floor into savings: the components get as quick as the floor. No known floor stays open (-1).
func ToFloor(ws []Window, f Floor) []int64 {
	var out []int64
	for i, w := range ws {
		switch {
		case at(f.Ns, i) == 0:
			out = append(out, -1)
		default:
			out = append(out, w.capped(w.PerStepNs(f.Components...)-at(f.Ns, i), f.Components...))
		}
	}
	return out
}

// All turns components into savings: they go away. With it the bound and the alternative are the same.
// Only time that passes beside no other work can be saved; the rest hides behind that work and is none of the step.
func All(ws []Window, components ...string) []int64 {
	var out []int64
	for _, w := range ws {
		out = append(out, w.ExposedNs(components...))
	}
	return out
}

// best is the first tier, cheapest first, that makes a step at the highest load 2 % faster or more; -1 when none does.
func best(t data.Tiers) int {
	for i, it := range t.Items {
		if n := len(it.Gains); n > 0 && !it.Total && it.Gains[n-1].AfterNs > 0 && it.Gains[n-1].StepNs*100 >= it.Gains[n-1].AfterNs*102 {
			return i
		}
	}
	return -1
}

// DoNext names the cheapest tier that pays at the highest load.
func DoNext(t data.Tiers) data.Fact {
	f := data.Fact{Head: "Do next", Text: "Measure an alternative: nothing that was measured pays at the highest load."}
	if len(t.Items) == 0 {
		f.Text = "Measure where the model is to be served: no change was judged here."
	}
	if i := best(t); i >= 0 {
		effort, _, _ := strings.Cut(t.Items[i].Detail, ".")
		f.Text = t.Items[i].Change + ". " + effort + ", then measure the highest loads again."
	}
	return f
}

// WhatItCouldBring puts the tier of DoNext into words, highest load first.
func WhatItCouldBring(t data.Tiers) data.Fact {
	f := data.Fact{Head: "What it could bring"}
	i := best(t)
	if i < 0 {
		f.Text = "Open: no alternative was measured that would tell."
		return f
	}
	gains := t.Items[i].Gains
	for i := len(gains) - 1; i >= 0; i-- {
		g := gains[i]
		switch {
		case g.AfterNs == 0:
			f.Text += fmt.Sprintf("%s: open. ", t.Loads[i])
		case g.StepNs*1000 < g.AfterNs*1005:
			f.Text += fmt.Sprintf("%s: nothing. ", t.Loads[i])
		case i == len(gains)-1:
			f.Text += fmt.Sprintf("%s: %s to %s ms a step, %s×. ", t.Loads[i], units.Ms(g.StepNs, 1), units.Ms(g.AfterNs, 1), g.Factor())
		default:
			f.Text += fmt.Sprintf("%s: %s×. ", t.Loads[i], g.Factor())
		}
	}
	if g := gains[len(gains)-1]; g.FloorNs > 0 {
		f.Text += fmt.Sprintf("No work on this component alone can bring more than %s×.", units.Ratio(g.StepNs, g.FloorNs, 2))
	}
	return f
}
