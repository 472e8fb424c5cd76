package classify

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/rooflab/rooflab/trace"
)

// HostComponent is the time of the CPU outside of operators; only a rank of its CPU's work has it.
const HostComponent = "host"

//go:embed operators.txt
var operatorsText string

// operatorRules parses the embedded file once; a test proves that it parses.
var operatorRules = sync.OnceValue(func() *ruleSet {
	set, err := parseRules(operatorsText)
	if err != nil {
		panic(err)
	}
	return set
})

// anywhere is the priority from which on a rule holds for an operator inside another one too.
const anywhere = 900

// operators classifies the pieces of CPU time of a rank. An operator inside another one counts with it unless its own name says
// more; GEMMs get their meaning from their place between the norms of a layer, where that can be told.
func operators(r *trace.Rank) *Result {
	o := &operatorRun{run: run{rank: r, rules: operatorRules(), ids: map[Label]uint16{}, out: &Result{Places: make([]Place, len(r.Kernels))}}}
	o.names()
	o.places()
	labels, inner := make([]uint16, len(r.Operators)), make([]Inner, len(r.Operators))
	for i, op := range r.Operators {
		l := o.labelOf(i, labels)
		labels[i] = o.id(l)
		switch {
		case l.Part == "launch" && o.gloo:
			inner[i] = OtherPart // gloo's own scope is the call
		case op.Parent < 0:
		case labels[op.Parent] == labels[i]:
			inner[i] = SamePart
		case o.out.Labels[labels[op.Parent]].Component == l.Component:
			inner[i] = OtherPart
		}
	}
	host := o.id(Label{Component: HostComponent})
	for i, k := range r.Kernels {
		p := Place{Label: host, Layer: -1}
		if k.Kind == trace.KindOperator {
			at := k.Correlation - 1
			p = o.place[at]
			p.Label, p.Inner, p.Side = labels[at], inner[at], false
		}
		o.out.Places[i] = p
	}
	o.between()
	return o.out
}

// between gives the host's time between two operators of one layer to that layer.
func (o *operatorRun) between() {
	type last struct {
		layer int16
		step  int32
		since []int // pieces of the host since then
	}
	threads := make([]last, len(o.rank.Streams))
	for i, k := range o.rank.Kernels {
		t := &threads[k.Stream]
		if k.Kind == trace.KindHost {
			t.since = append(t.since, i)
			continue
		}
		layer := o.out.Places[i].Layer
		if layer == t.layer && k.Step == t.step {
			for _, piece := range t.since {
				o.out.Places[piece].Layer = layer
			}
		}
		t.layer, t.step, t.since = layer, k.Step, t.since[:0]
	}
}

// operatorRun is the state of one classification of operators.
type operatorRun struct {
	run
	gloo   bool    // collectives run on threads of gloo, in scopes of theirs
	byName []Label // by Operator.Name, wherever it stands; empty where the place decides
	marks  []mark  // by Operator.Name
	place  []Place // by operator: block and layer
}

// mark says what an operator shows about the place that it stands at.
type mark struct{ gemm, norm, attention, moe, embed bool }

func (o *operatorRun) names() {
	o.known = make([]uint16, len(o.rank.Names)*int(BlockOther+1))
	o.byName, o.marks = make([]Label, len(o.rank.Names)), make([]mark, len(o.rank.Names))
	for i, name := range o.rank.Names {
		o.gloo = o.gloo || strings.HasPrefix(name, "gloo:")
		if r := o.rules.find(name, name, BlockAny, false); r != nil && r.priority >= anywhere {
			o.byName[i] = Label{r.component, r.part}
		}
		c := o.byName[i].Component
		o.marks[i] = mark{gemm: c == "" && matches(o.rules.gemm, name), norm: c == "" && matches(o.rules.norm, name),
			attention: c == Core, moe: c == Experts, embed: c == "embedding"}
	}
}

func matches(p *regexp.Regexp, name string) bool { return p.MatchString(name) }

// labelOf labels one operator; those that it runs in are labelled already.
func (o *operatorRun) labelOf(i int, labels []uint16) Label {
	op := o.rank.Operators[i]
	if l := o.byName[op.Name]; l.Component != "" {
		return l
	}
	if op.Parent >= 0 {
		if l := o.out.Labels[labels[op.Parent]]; l.Component != HostComponent {
			return l
		}
	}
	p := o.place[i]
	at := int(op.Name)*int(BlockOther+1) + int(p.Block)
	if o.known[at] == 0 {
		name := o.rank.Names[op.Name]
		component, part := o.rules.match(name, name, p.Block, false)
		o.known[at] = o.id(Label{component, part}) + 1
	}
	l := o.out.Labels[o.known[at]-1]
	if l.Component == "moe.router" && p.Side { // not the first GEMM of its block
		l.Component = Shared
	}
	return l
}

// places finds the block and the layer of each operator, step by step.
func (o *operatorRun) places() {
	o.place = make([]Place, len(o.rank.Operators))
	from := 0
	for i := range o.rank.Operators {
		o.place[i].Layer = -1
		if next := i + 1; next == len(o.rank.Operators) || o.rank.Operators[next].Step != o.rank.Operators[i].Step {
			o.step(from, next)
			from = next
		}
	}
}

// stretch is what lies between two norms that have work between them.
type stretch struct {
	from, to             int
	gemm, attention, moe bool
	block                Block
	layer                int16
}

// step finds the places of the operators of one step. A stretch with an attention operator is one, and so is the one of the GEMMs before it;
// the next one is the MLP of the layer; the GEMMs after the last MLP are the head.
func (o *operatorRun) step(from, to int) {
	stretches := o.stretches(from, to)
	layer, mlp := int16(-1), false // the MLP of the layer comes next
	for i := range stretches {
		s := &stretches[i]
		s.layer = -1
		switch {
		case s.attention && s.moe: // one norm for both: which GEMM is whose cannot be told
			layer++
			s.layer = layer
		case s.attention, s.gemm && !mlp && attentionFollows(stretches[i+1:]):
			if !mlp && (i == 0 || stretches[i-1].block != BlockAttention) {
				layer++
			}
			s.block, s.layer, mlp = BlockAttention, layer, s.attention
		case s.moe:
			s.block, s.layer, mlp = BlockMoE, layer, false
		case s.gemm && mlp:
			s.block, s.layer, mlp = BlockDense, layer, false
		case s.gemm && layer >= 0:
			s.block = BlockHead
		}
		o.fill(*s)
	}
	o.out.Layers = max(o.out.Layers, int(layer)+1)
}

func attentionFollows(rest []stretch) bool {
	for _, s := range rest {
		if s.attention {
			return true
		}
	}
	return false
}

// stretches cuts a step at its norms.
func (o *operatorRun) stretches(from, to int) []stretch {
	out := []stretch{{from: from, to: to}}
	work := true // the embedding, before the first norm
	for i := from; i < to; i++ {
		m := o.marks[o.rank.Operators[i].Name]
		s := &out[len(out)-1]
		if m.norm && work {
			s.to, work = i, false
			out = append(out, stretch{from: i, to: to})
			continue
		}
		s.gemm, s.attention, s.moe = s.gemm || m.gemm, s.attention || m.attention, s.moe || m.moe
		work = work || m.gemm || m.attention || m.moe
	}
	return out
}

// fill gives the operators of a stretch its place. In a block of experts Side marks the GEMMs after the first one, the router's.
func (o *operatorRun) fill(s stretch) {
	router := false
	for i := s.from; i < s.to; i++ {
		o.place[i].Block, o.place[i].Layer = s.block, s.layer
		if s.block == BlockMoE && o.marks[o.rank.Operators[i].Name].gemm {
			o.place[i].Side = router
			router = true
		}
	}
}
