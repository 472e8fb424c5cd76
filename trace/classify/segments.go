package classify

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/trace"
)

// groups returns the indices of the kernels of each device and step, in order of start. Kernels of no step are a group of their own.
func (c *run) groups() [][]int32 {
	type key struct {
		device int16
		step   int32
	}
	at := map[key]int{}
	var sizes []int
	each := func(take func(i, group int)) {
		var last key
		g, known := 0, false
		for i, k := range c.rank.Kernels {
			if id := (key{k.Device, k.Step}); !known || id != last {
				if g, known = at[id]; !known {
					g, known = len(sizes), true
					at[id] = g
					sizes = append(sizes, 0)
				}
				last = id
			}
			take(i, g)
		}
	}
	each(func(_, g int) { sizes[g]++ })
	all := make([]int32, len(c.rank.Kernels))
	groups := make([][]int32, len(sizes))
	for g, n := range sizes {
		groups[g], all = all[:0:n], all[n:]
	}
	each(func(i, g int) { groups[g] = append(groups[g], int32(i)) })
	return groups
}

// segment is a run of kernels that ends with a collective, or where a block ends without one.
type segment struct {
	kernels    []int32
	collective string // component of the collective that ends it; "" for none
	block      Block
	layer      int
	main       int32 // stream that carries the block
}

// group classifies the kernels of one step on one device.
func (c *run) group(kernels []int32) {
	segs := c.cut(kernels)
	for i := range segs {
		segs[i].block = c.blockOf(&segs[i])
	}
	c.refine(segs)
	layer, layers := -1, 0
	for i := range segs {
		s := &segs[i]
		s.layer = -1
		switch s.block {
		case BlockAttention:
			layer++
			s.layer = layer
			layers++
		case BlockMoE, BlockDense:
			s.layer = max(layer, 0)
		}
		c.place(s)
	}
	c.out.Layers = max(c.out.Layers, layers)
}

// cut makes segments, which are valid until the next call. Collectives end one. A step without collectives is cut where a norm begins the next block.
func (c *run) cut(kernels []int32) []segment {
	segs := c.segs[:0]
	from := 0
	var sawCore, sawAfterCore, sawMLP bool
	flush := func(to int, collective string) {
		if to > from {
			segs = append(segs, segment{kernels: kernels[from:to], collective: collective})
		}
		from, sawCore, sawAfterCore, sawMLP = to, false, false, false
	}
	for at, i := range kernels {
		k := c.rank.Kernels[i]
		n := &c.names[k.Name]
		if k.Kind == trace.KindKernel && n.norm && (sawAfterCore || sawMLP && !sawCore) {
			flush(at, "")
		}
		if k.Kind != trace.KindKernel {
			continue
		}
		switch {
		case n.collective:
			flush(at+1, n.component)
		case n.component == Core:
			sawCore = true
		case n.component == Experts || n.activation:
			sawMLP = true
		case n.gemm && sawCore:
			sawAfterCore = true
		}
	}
	flush(len(kernels), "")
	c.segs = segs
	return segs
}

// blockOf says what a segment computes from what is in it.
func (c *run) blockOf(s *segment) Block {
	c.streams = c.streams[:0]
	var core, experts, gemm bool
	var coreStream, expertStream int32
	for _, i := range s.kernels {
		k := c.rank.Kernels[i]
		n := &c.names[k.Name]
		if k.Kind != trace.KindKernel || n.collective {
			continue
		}
		if c.streamNs[k.Stream] == 0 {
			c.streams = append(c.streams, k.Stream)
		}
		c.streamNs[k.Stream] += k.Dur
		switch {
		case n.component == Core:
			core, coreStream = true, k.Stream
		case n.component == Experts:
			experts, expertStream = true, k.Stream
		case n.gemm:
			gemm = true
		}
	}
	s.main = c.busiest()
	switch {
	case experts:
		s.main = expertStream
		return BlockMoE
	case core && gemm: // without a GEMM it only plans the attention of the step
		s.main = coreStream
		return BlockAttention
	case gemm:
		return BlockDense
	}
	return BlockOther
}

// busiest returns the stream with the most time, of equal ones the first, and clears the times.
func (c *run) busiest() int32 {
	best, most := int32(-1), int64(-1)
	for _, s := range c.streams {
		if ns := c.streamNs[s]; ns > most || ns == most && s < best {
			best, most = s, ns
		}
	}
	for _, s := range c.streams {
		c.streamNs[s] = 0
	}
	return best
}

// refine uses the order of the segments: before the first attention block stands the embedding; a GEMM that no all-reduce
// follows, after the last layer, is the lm_head.
func (c *run) refine(segs []segment) {
	first, last := -1, -1
	for i, s := range segs {
		if s.block == BlockAttention || s.block == BlockMoE {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	for i := range segs {
		s := &segs[i]
		switch {
		case i < first:
			s.block = BlockEmbed
		case s.block == BlockDense && s.collective == "allgather",
			s.block == BlockDense && first >= 0 && i > last && s.collective == "" && !c.hasActivation(s):
			s.block = BlockHead
		}
	}
}

func (c *run) hasActivation(s *segment) bool {
	return slices.ContainsFunc(s.kernels, func(i int32) bool { return c.names[c.rank.Kernels[i].Name].activation })
}

// place labels the kernels of a segment and then names the parts that only their order tells.
func (c *run) place(s *segment) {
	for _, i := range s.kernels {
		k := c.rank.Kernels[i]
		side := k.Stream != s.main && s.main >= 0 && !(k.Kind == trace.KindKernel && c.names[k.Name].collective)
		c.out.Places[i] = Place{c.label(k, s.block, side), int16(min(s.layer, math.MaxInt16)), s.block, side, Outer}
	}
	switch s.block {
	case BlockAttention:
		c.projections(s)
	case BlockMoE:
		c.expertParts(s)
		c.sharedOnMain(s)
		c.mlpParts(s, Shared)
	case BlockDense:
		c.mlpParts(s, Dense)
	}
	c.splitKTails(s)
}

// gemms returns the GEMMs of a component in a segment, by start, without the tails of split-K GEMMs.
func (c *run) gemms(s *segment, component string) []int32 {
	var out []int32
	for _, i := range s.kernels {
		n := &c.names[c.rank.Kernels[i].Name]
		if c.component(i) == component && n.gemm && !n.splitK {
			out = append(out, i)
		}
	}
	return out
}

// projections names the GEMMs of an attention block by their place between cache write and attention kernels.
// MLA, decode: qkv_a, q_b | write | w_uk | attention | w_uv, o. Prefill expands keys and values by kv_b instead of absorbing
// w_uk and w_uv into the queries; a mixed step does both. Without a latent cache: qkv | write | attention | o.
func (c *run) projections(s *segment) {
	write, lastCore := -1, -1
	for at, i := range s.kernels {
		switch c.component(i) {
		case KVWrite:
			if write < 0 {
				write = at
			}
		case Core:
			lastCore = at
		}
	}
	var before, between, after []int32
	gemms := c.gemms(s, Proj)
	for _, i := range gemms {
		at, _ := slices.BinarySearch(s.kernels, i)
		switch {
		case at > lastCore:
			after = append(after, i)
		case write >= 0 && at > write:
			between = append(between, i)
		default:
			before = append(before, i)
		}
	}
	c.name(before, map[int][]string{1: {"qkv"}, 2: {"qkv_a", "q_b"}}[len(before)])
	c.name(after, map[int][]string{1: {"o"}, 2: {"w_uv", "o"}}[len(after)])
	for n, i := range between {
		part := "kv_b"
		if n == len(between)-1 && len(after) == 2 {
			part = "w_uk"
		}
		c.setPart(i, part)
	}
}

// name gives the kernels their parts; nil parts (an order nobody knows) leave them without.
func (c *run) name(kernels []int32, parts []string) {
	for n, part := range parts {
		c.setPart(kernels[n], part)
	}
}

// expertParts names the grouped GEMMs: each pair is gate and up (w13), then down (w2).
func (c *run) expertParts(s *segment) {
	var experts []int32
	for _, i := range s.kernels {
		if c.component(i) == Experts {
			experts = append(experts, i)
		}
	}
	if len(experts)%2 != 0 {
		return
	}
	for n, i := range experts {
		c.setPart(i, []string{"w13", "w2"}[n%2])
	}
}

// sharedOnMain finds the shared expert of a large batch, which runs on the main stream: an activation that does not stand
// between the two expert GEMMs, with the GEMM before and the GEMM after it.
func (c *run) sharedOnMain(s *segment) {
	up := int32(-1) // last router-like GEMM
	var act int32
	for _, i := range s.kernels {
		p, n := &c.out.Places[i], &c.names[c.rank.Kernels[i].Name]
		switch {
		case p.Side:
		case c.component(i) == Experts:
			up, act = -1, 0
		case n.gemm && !n.splitK && act > 0:
			for _, j := range []int32{up, act, i} {
				c.set(j, Shared, "")
			}
			return
		case n.gemm && !n.splitK:
			up = i
		case n.activation && up >= 0:
			act = i
		}
	}
}

// mlpParts names the two GEMMs of a dense MLP or of the shared expert, and what stands between them.
func (c *run) mlpParts(s *segment, component string) {
	if gemms := c.gemms(s, component); len(gemms) == 2 {
		c.name(gemms, []string{"gate_up", "down"})
	}
	for _, i := range s.kernels {
		if c.out.Label(int(i)) == (Label{component, ""}) && c.names[c.rank.Kernels[i].Name].activation {
			c.setPart(i, "act")
		}
	}
}

// tail is the last GEMM on a stream, in the segment with that number.
type tail struct{ gemm, segment int32 }

// splitKTails gives the reduction that ends a split-K GEMM the part of that GEMM: the one before it on its stream.
func (c *run) splitKTails(s *segment) {
	c.segments++
	for _, i := range s.kernels {
		k := c.rank.Kernels[i]
		n := &c.names[k.Name]
		if last := c.gemmOf[k.Stream]; n.splitK && last.segment == c.segments {
			c.out.Places[i].Label = c.out.Places[last.gemm].Label
		} else if n.gemm {
			c.gemmOf[k.Stream] = tail{i, c.segments}
		}
	}
}

func splitKTail(function string) bool {
	return strings.Contains(strings.ToLower(function), "splitkreduce")
}

// copyDirection gives "HtoD" for "Memcpy HtoD (Pinned -> Device)".
func copyDirection(name string) string {
	f := strings.Fields(name)
	return cmp.Or(strings.Join(f[min(1, len(f)):min(2, len(f))], ""), "copy")
}
