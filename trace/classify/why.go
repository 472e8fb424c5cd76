package classify

import (
	"fmt"

	"github.com/rooflab/rooflab/trace"
)

// Reason says why a GPU event has its component and part.
type Reason struct {
	Block  string `json:"block,omitempty"`  // where it ran: "attention", "moe", ...; empty for copies
	Stream string `json:"stream,omitempty"` // "main", or "side": beside the main stream of the block
	Line   int    `json:"line,omitempty"`   // of rules.txt; 0 when no rule has a say
	Rule   string `json:"rule,omitempty"`   // that line
	Match  string `json:"match,omitempty"`  // what of the name its pattern found; empty when the pattern takes any name
	Order  string `json:"order,omitempty"`  // what the order of the kernels in the block adds to the rule, or has instead of it
}

// String is one or two sentences.
func (r Reason) String() string {
	text := "no rule knows the name"
	if r.Line > 0 {
		text = fmt.Sprintf("rules.txt:%d: %s", r.Line, r.Rule)
		if r.Match != "" {
			text = fmt.Sprintf("rules.txt:%d, by %q: %s", r.Line, r.Match, r.Rule)
		}
	}
	switch {
	case r.Order != "" && r.Line > 0:
		return text + "\nthen by order: " + r.Order
	case r.Order != "":
		return r.Order
	}
	return text
}

// Why explains the i-th GPU event of a rank that Run has classified as r.
func (r *Result) Why(t *trace.Rank, i int) Reason {
	k, p, l := t.Kernels[i], r.Places[i], r.Label(i)
	switch k.Kind {
	case trace.KindMemset:
		return Reason{Order: "a fill by the driver: the kind of the event decides"}
	case trace.KindMemcpy:
		return Reason{Order: "a copy by the driver: the kind of the event decides, the name tells the direction"}
	}
	why := Reason{Block: p.Block.String(), Stream: "main"}
	if p.Side {
		why.Stream = "side"
	}
	name := t.Names[k.Name]
	f := function(name)
	by := Label{Component: Unknown}
	if rule := rules().find(name, f, p.Block, p.Side); rule != nil {
		by = Label{rule.component, rule.part}
		why.Line, why.Rule, why.Match = rule.line, rule.written, rule.found(name, f)
	}
	if by != l {
		why.Order = order(f, by, l)
	}
	return why
}

// order says what the order of kernels made of the label that a rule gave.
func order(function string, by, is Label) string {
	switch {
	case splitKTail(function):
		return "it ends the split-K GEMM before it on its stream and counts with it"
	case is.Component != by.Component:
		return "GEMM, activation, GEMM outside the pair of expert GEMMs: the shared expert"
	case is.Component == Proj:
		return "qkv_a, q_b | cache write | w_uk or kv_b | attention | w_uv, o; else qkv | o"
	case is.Component == Experts:
		return "expert GEMMs come in pairs, w13 (gate and up) and w2 (down)"
	}
	return "the GEMMs of an MLP are gate_up and down, the activation stands between"
}
