package model

import (
	"fmt"
	"math"
)

// GEMM is a matrix product of a decode step on one rank: [M x K] times [K x N], Matrices times.
type GEMM struct {
	Component string // fixed component name, such as "moe.experts"
	Part      string // such as "w13"; may be empty
	Count     int64  // calls a step
	M, N, K   int64  // of one call; for experts M counts token-expert pairs, spread over the experts hit
	Matrices  int64  // weight matrices there are for a call: 1, the heads of a batched product, or all experts of the rank
	// Hit is how many of the matrices a call reads: Matrices, except for routed experts.
	Hit    float64
	Format string // "bfloat16", "int4 group 32", ...
	Packed int64  // bytes of one weight matrix without scales
	Scales int64  // bytes of its scales and zero points
	FLOP   int64  // of one call, 2 per multiply-add
}

// WeightBytes returns the bytes of weights that one call reads: packed elements and scales of the matrices it hits.
func (g GEMM) WeightBytes() int64 {
	return int64(math.Round(g.Hit * float64(g.Packed+g.Scales)))
}

// Rank is the model as one rank of a tensor-parallel group holds it.
type Rank struct {
	Model Model
	TP    int64
}

// Rank divides the model over tp ranks. It refuses what a server refuses: heads, widths or FP8 blocks that do not divide.
func (m Model) Rank(tp int64) (Rank, error) {
	r := Rank{Model: m, TP: tp}
	if tp < 1 {
		return r, fmt.Errorf("divide model: tensor parallel size %d; 1 or more expected", tp)
	}
	if m.Attention.Heads%tp != 0 {
		return r, fmt.Errorf("divide model: %d attention heads (num_attention_heads) do not divide by %d ranks", m.Attention.Heads, tp)
	}
	if kv := m.Attention.KVHeads; kv > 0 && kv%tp != 0 && tp%kv != 0 {
		return r, fmt.Errorf("divide model: %d KV heads (num_key_value_heads) and %d ranks do not divide each other", kv, tp)
	}
	for i := int64(0); i < m.Layers; i++ {
		for _, w := range m.layerModules(i) {
			if err := r.divides(w, m.moduleFormat(i, w)); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func (r Rank) divides(w module, f Format) error {
	size, block := w.n, f.BlockN
	switch {
	case w.split == rows:
		size, block = w.k, f.BlockK
	case w.split != cols:
		return nil
	}
	if size < w.least*r.TP { // replicated, not divided
		return nil
	}
	if size%r.TP != 0 {
		return fmt.Errorf("divide model: %s is %d wide, which does not divide by %d ranks", w.name, size, r.TP)
	}
	if block > 0 && (size/r.TP)%block != 0 {
		return fmt.Errorf("divide model: %s is %d wide on each of %d ranks, no multiple of the FP8 block of %d; use fewer ranks or expert parallelism",
			w.name, size/r.TP, r.TP, block)
	}
	return nil
}

// Gemms returns the matrix products of a decode step of the given tokens (one per sequence, without speculative decoding)
// in the order of a layer, equal ones of different layers counted. Routing is taken as uniform (ExpertsHit).
func (r Rank) Gemms(tokens int64) []GEMM {
	return r.GemmsHit(tokens, r.Model.ExpertsHit(tokens))
}

// GemmsHit is Gemms with a measured number of distinct experts that a layer hits.
func (r Rank) GemmsHit(tokens int64, hit float64) []GEMM {
	m := r.Model
	var out []GEMM
	for i := int64(0); i < m.Layers; i++ {
		for _, g := range r.layer(i, tokens, hit) {
			out = count(out, g)
		}
	}
	head := module{component: "lm_head", k: m.Hidden, n: m.Vocab, copies: 1, split: cols, plain: true}
	return append(out, r.gemm(head, Format{Bits: 8 * m.BytesPerElement()}, tokens, hit))
}

// layer returns the products of one layer, modules of the same part fused into one.
func (r Rank) layer(i, tokens int64, hit float64) []GEMM {
	var out []GEMM
	for _, w := range r.Model.layerModules(i) {
		g := r.gemm(w, r.Model.moduleFormat(i, w), tokens, hit)
		last := len(out) - 1
		if last >= 0 && out[last].Component == g.Component && out[last].Part == g.Part {
			f := &out[last]
			f.N, f.Packed, f.Scales, f.FLOP = f.N+g.N, f.Packed+g.Packed, f.Scales+g.Scales, f.FLOP+g.FLOP
			continue
		}
		out = append(out, g)
	}
	return out
}

// count adds a product to the list: equal ones are counted, new ones appended.
func count(list []GEMM, g GEMM) []GEMM {
	for i := range list {
		same := list[i]
		same.Count = g.Count
		if same == g {
			list[i].Count++
			return list
		}
	}
	return append(list, g)
}

func (r Rank) gemm(w module, f Format, tokens int64, hit float64) GEMM {
	if w.absorbed {
		f = Format{Bits: 8 * r.Model.BytesPerElement()}
	}
	k, n, matrices := w.k, w.n, w.copies
	switch w.split {
	case cols:
		n = max(ceilDiv(n, r.TP), w.least)
	case rows:
		k = ceilDiv(k, r.TP)
	case copies:
		matrices = ceilDiv(matrices, r.TP)
	}
	g := GEMM{Component: w.component, Part: w.part, Count: 1, M: tokens, N: n, K: k, Matrices: matrices, Hit: float64(matrices), Format: f.Name}
	if f.Name == "" {
		g.Format = r.Model.DType
	}
	g.Packed, g.Scales = f.Bytes(k, n)
	if w.transposed {
		g.N, g.K = k, n
	}
	g.FLOP = 2 * tokens * k * n
	switch {
	case w.component == "moe.experts":
		g.M, g.Hit = tokens*r.Model.TopK, hit
		g.FLOP *= r.Model.TopK
	default:
		g.FLOP *= matrices
	}
	return g
}

// ExpertsHit returns the expected number of distinct experts that the tokens of a layer hit when every token picks its
// TopK of them uniformly: E (1 - (1 - k/E)^tokens).
func (m Model) ExpertsHit(tokens int64) float64 {
	if m.Experts == 0 {
		return 0
	}
	e, k := float64(m.Experts), float64(m.TopK)
	return e * (1 - math.Pow(1-k/e, float64(tokens)))
}

// ExpertBytes returns the bytes of one routed expert of a layer on this rank, packed weights and scales of w13 and w2.
// It is 0 for a dense model.
func (r Rank) ExpertBytes() int64 {
	var bytes int64
	for i, k := range r.Model.kinds {
		if !k.moe {
			continue
		}
		for _, g := range r.layer(int64(i), 1, 1) {
			if g.Component == "moe.experts" {
				bytes += g.Packed + g.Scales
			}
		}
		break
	}
	return bytes
}

// ExpertFLOP returns the FLOP of the routed experts of one layer for the tokens on this rank.
func (r Rank) ExpertFLOP(tokens int64) int64 {
	return tokens * r.Model.TopK * 3 * 2 * r.Model.Hidden * ceilDiv(r.Model.ExpertWidth, r.TP)
}

// Step sums a decode step on one rank.
type Step struct {
	Tokens         int64
	ExpertsHit     float64 // a layer
	WeightBytes    int64   // read by all GEMMs
	ExpertBytes    int64   // of which routed experts
	FLOP           int64   // of all GEMMs; attention over the KV cache is not in it
	KVBytes        int64   // KV cache and latents that one token of context adds, all layers, on this rank
	AllReduces     int64   // calls: the embedding and two a layer; 0 on one rank
	AllReduceBytes int64   // of one call
}

// Step returns the totals for the tokens under uniform routing.
func (r Rank) Step(tokens int64) Step { return r.StepHit(tokens, r.Model.ExpertsHit(tokens)) }

// StepHit is Step with a measured number of distinct experts a layer.
func (r Rank) StepHit(tokens int64, hit float64) Step {
	s := Step{Tokens: tokens, ExpertsHit: hit, KVBytes: r.KVBytesPerToken(), AllReduceBytes: tokens * r.Model.Hidden * r.Model.BytesPerElement()}
	if r.TP > 1 {
		s.AllReduces = 1 + 2*r.Model.Layers
	}
	for _, g := range r.GemmsHit(tokens, hit) {
		b := g.Count * g.WeightBytes()
		s.WeightBytes += b
		s.FLOP += g.Count * g.FLOP
		if g.Component == "moe.experts" {
			s.ExpertBytes += b
		}
	}
	return s
}

// KVElements returns the cache elements that one token of context takes in one attention layer of the whole model:
// the latent for MLA, keys and values of all KV heads else.
func (m Model) KVElements() int64 {
	if m.Attention.Kind == "mla" {
		return m.Attention.KVRank + m.Attention.Rope
	}
	return 2 * m.Attention.KVHeads * m.Attention.HeadDim
}

// KVLayers returns the layers that keep a KV cache.
func (m Model) KVLayers() int64 { return m.Layers - m.Attention.Linear.Layers }

// KVBytesPerToken returns the cache bytes of one token of context over all layers of the whole model in the given dtype
// ("bfloat16", "float16", "float32" or "fp8"). Sliding-window layers count in full.
func (m Model) KVBytesPerToken(dtype string) int64 {
	return m.KVElements() * m.KVLayers() * dtypeBytes[dtype]
}

// KVBytesPerToken is the share of this rank: a latent is kept whole on every rank, KV heads are divided down to one.
func (r Rank) KVBytesPerToken() int64 {
	m := r.Model
	if m.Attention.Kind == "mla" {
		return m.KVBytesPerToken(m.KVDType)
	}
	heads := max(m.Attention.KVHeads/r.TP, 1)
	return 2 * heads * m.Attention.HeadDim * m.KVLayers() * dtypeBytes[m.KVDType]
}

// IndexerBytes returns the cache bytes of one token and layer of the sparse-attention indexer as vLLM lays it out:
// an fp8 key and one fp32 scale; 0 without indexer.
func (m Model) IndexerBytes() int64 {
	if m.Attention.IndexHeads == 0 {
		return 0
	}
	return m.Attention.IndexDim + 4
}

// RecurrentBytes returns the constant state of one sequence in the linear-attention layers, all layers of the whole model:
// fp32 state and convolution inputs in the model's dtype.
func (m Model) RecurrentBytes() (state, conv int64) {
	l := m.Attention.Linear
	state = l.Layers * l.ValueHeads * l.KeyDim * l.ValDim * 4
	conv = l.Layers * (2*l.KeyHeads*l.KeyDim + l.ValueHeads*l.ValDim) * max(l.Conv-1, 0) * m.BytesPerElement()
	return state, conv
}
