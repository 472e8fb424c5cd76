// Package classify says what each GPU event of a rank is for: a component ("moe.experts"), a part of it ("w13"), a layer.
// Names decide where they can (rules.txt, data); GEMMs get their meaning from their place between the collectives, because one
// library kernel multiplies queries, expert weights and logits alike. Every event gets exactly one component; what no rule knows
// is "unknown". It computes no sums and reads no files.
package classify

import "github.com/rooflab/rooflab/trace"

// Components with a meaning for the code; the full list is in rules.txt and in package data.
const (
	Unknown   = "unknown"
	AllReduce = "allreduce"
	Memory    = "memory"
	Experts   = "moe.experts"
	Shared    = "moe.shared_expert"
	Dense     = "mlp.dense"
	Core      = "attention.core"
	KVWrite   = "attention.kv_write"
	Proj      = "attention.proj"
)

// Block is the kind of a segment: the work between two collectives of a step.
type Block uint8

// The blocks. BlockAny stands for "place unknown".
const (
	BlockAny Block = iota
	BlockEmbed
	BlockAttention
	BlockMoE
	BlockDense
	BlockHead
	BlockOther
)

var blockNames = []string{"", "embed", "attention", "moe", "dense", "head", "other"}

// String gives the word that rules.txt uses.
func (b Block) String() string { return blockNames[b] }

func blockNamed(s string) Block {
	for i, n := range blockNames {
		if n == s {
			return Block(i)
		}
	}
	return BlockAny
}

// Place is what is known about one GPU event. There is one for each event, so it is small.
type Place struct {
	Label uint16 // index into Result.Labels
	Layer int16  // from 0 within its step; -1 outside the layers
	Block Block
	Side  bool // runs beside the main stream of its block
	Inner Inner
}

// Inner says whether a CPU operator runs inside a call that is counted already; GPU events never do.
type Inner uint8

// How far a call is counted already.
const (
	Outer     Inner = iota // it is a call of its own
	OtherPart              // inside a call of the same component: a call of its part only
	SamePart               // inside a call of the same component and part
)

// Label names what an event is for.
type Label struct{ Component, Part string }

// Result is the classification of one rank: Places[i] belongs to rank.Kernels[i].
type Result struct {
	Places []Place
	Labels []Label // each one once
	Layers int     // layers of a step, the largest number seen
}

// Label gives component and part of the i-th GPU event.
func (r *Result) Label(i int) Label { return r.Labels[r.Places[i].Label] }

// Name classifies a kernel by its name alone, as far as that goes: a GEMM without its place is "unknown", part "gemm".
func Name(name string) (component, part string) {
	return rules().match(name, function(name), BlockAny, false)
}

// Collective says whether a component is communication between ranks.
func Collective(component string) bool {
	switch component {
	case AllReduce, "allgather", "reduce_scatter", "all_to_all", "p2p":
		return true
	}
	return false
}

// Run classifies all GPU events of a rank, or the operators of its CPU where it has no GPU work.
func Run(r *trace.Rank) *Result {
	if r.CPU {
		return operators(r)
	}
	c := &run{rank: r, rules: rules(), ids: map[Label]uint16{}}
	c.out = &Result{Places: make([]Place, len(r.Kernels))}
	c.names = make([]nameInfo, len(r.Names))
	for i, n := range r.Names {
		c.names[i] = c.describe(n)
	}
	c.known = make([]uint16, len(r.Names)*places)
	c.streamNs, c.gemmOf = make([]int64, len(r.Streams)), make([]tail, len(r.Streams))
	for _, group := range c.groups() {
		c.group(group)
	}
	return c.out
}

// run is the state of one classification.
type run struct {
	rank     *trace.Rank
	rules    *ruleSet
	names    []nameInfo // by Kernel.Name
	known    []uint16   // label + 1 of a name at each of the places it can stand; 0 is not looked up yet
	ids      map[Label]uint16
	streamNs []int64   // by Kernel.Stream; zeros outside blockOf
	streams  []int32   // scratch of blockOf
	gemmOf   []tail    // by Kernel.Stream; scratch of splitKTails
	segments int32     // number of the segment that is placed
	segs     []segment // scratch of cut
	out      *Result
}

// places is how many places a name can stand at: blocks, on the main stream or beside it.
const places = 2 * (int(BlockOther) + 1)

// nameInfo is what a name says without its place.
type nameInfo struct {
	function, component                        string
	collective, gemm, splitK, activation, norm bool
}

func (c *run) describe(name string) nameInfo {
	f := function(name)
	comp, part := c.rules.match(name, f, BlockAny, false)
	n := nameInfo{function: f, component: comp}
	n.collective, n.norm = Collective(comp), comp == "norm"
	n.gemm = comp == Unknown && part == "gemm" || comp == "moe.router"
	n.splitK = splitKTail(f)
	n.activation = !n.norm && c.rules.activation.MatchString(f)
	return n
}

// label finds component and part of a name at a place; each combination is looked up once.
func (c *run) label(k trace.Kernel, block Block, side bool) uint16 {
	at := int(k.Name)*places + 2*int(block)
	switch {
	case k.Kind == trace.KindMemcpy: // the same everywhere: the two entries of BlockAny, where no segment is
		at = int(k.Name) * places
	case k.Kind == trace.KindMemset:
		at = int(k.Name)*places + 1
	case side:
		at++
	}
	if c.known[at] == 0 {
		var l Label
		name := c.rank.Names[k.Name]
		switch k.Kind {
		case trace.KindMemset:
			l = Label{Memory, "memset"}
		case trace.KindMemcpy:
			l = Label{Memory, copyDirection(name)}
		default:
			l.Component, l.Part = c.rules.match(name, c.names[k.Name].function, block, side)
		}
		c.known[at] = c.id(l) + 1
	}
	return c.known[at] - 1
}

// id returns the number of a label.
func (c *run) id(l Label) uint16 {
	id, ok := c.ids[l]
	if !ok {
		if len(c.out.Labels) > maxLabels { // parts come from names of copies
			l.Part = ""
			if id, ok = c.ids[l]; ok {
				return id
			}
		}
		id = uint16(len(c.out.Labels))
		c.out.Labels = append(c.out.Labels, l)
		c.ids[l] = id
	}
	return id
}

// maxLabels leaves room below 65,535 for every component without a part.
const maxLabels = 60_000

// set gives the i-th GPU event another component and part.
func (c *run) set(i int32, component, part string) {
	c.out.Places[i].Label = c.id(Label{component, part})
}

// setPart gives the i-th GPU event another part.
func (c *run) setPart(i int32, part string) { c.set(i, c.component(i), part) }

func (c *run) component(i int32) string { return c.out.Label(int(i)).Component }
