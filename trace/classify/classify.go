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

// Place is what is known about one GPU event.
type Place struct {
	Component, Part string
	Block           Block
	Layer           int  // from 0 within its step; -1 outside the layers
	Side            bool // runs beside the main stream of its block
}

// Result is the classification of one rank: Places[i] belongs to rank.Kernels[i].
type Result struct {
	Places []Place
	Layers int // layers of a step, the largest number seen
}

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

// Run classifies all GPU events of a rank.
func Run(r *trace.Rank) *Result {
	c := &run{rank: r, rules: rules(), labels: map[labelKey]label{}}
	c.out = &Result{Places: make([]Place, len(r.Kernels))}
	c.names = make([]nameInfo, len(r.Names))
	for i, n := range r.Names {
		c.names[i] = c.describe(n)
	}
	for _, group := range c.groups() {
		c.group(group)
	}
	return c.out
}

// run is the state of one classification.
type run struct {
	rank   *trace.Rank
	rules  *ruleSet
	names  []nameInfo // by Kernel.Name
	labels map[labelKey]label
	out    *Result
}

// nameInfo is what a name says without its place.
type nameInfo struct {
	function, component                        string
	collective, gemm, splitK, activation, norm bool
}

type labelKey struct {
	name  int32
	block Block
	side  bool
}

type label struct{ component, part string }

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
func (c *run) label(k trace.Kernel, block Block, side bool) label {
	switch k.Kind {
	case trace.KindMemset:
		return label{Memory, "memset"}
	case trace.KindMemcpy:
		return label{Memory, copyDirection(c.rank.Names[k.Name])}
	}
	key := labelKey{k.Name, block, side}
	l, ok := c.labels[key]
	if !ok {
		l.component, l.part = c.rules.match(c.rank.Names[k.Name], c.names[k.Name].function, block, side)
		c.labels[key] = l
	}
	return l
}
