package model

import "strconv"

// split says how tensor parallelism divides a weight matrix.
type split int

const (
	whole  split = iota // every rank holds all of it
	cols                // N is divided
	rows                // K is divided, an all-reduce follows
	copies              // the matrices are divided (heads of a batched product)
)

// module is one weight of a layer, or several of the same shape.
type module struct {
	name            string // below the layer, as checkpoints spell it; decides the format
	component, part string // fixed component names; modules of one part are one GEMM
	k, n            int64
	copies          int64 // matrices of this shape: experts, or heads of a batched product
	bias            int64
	split           split
	least           int64 // the smallest N a rank can hold: a KV head is not divided further
	plain           bool  // never quantised
	absorbed        bool  // decoding multiplies with a copy in the model's dtype
	transposed      bool  // decoding multiplies the other way round
}

func (w module) params() int64 { return (w.k*w.n + w.bias) * w.copies }

// layerModules returns the weight matrices of layer i with the names of its family.
func (m Model) layerModules(i int64) []module {
	k := m.kinds[i]
	var list []module
	switch {
	case k.linear:
		list = m.linearAttention()
	case m.Attention.Kind == "mla":
		list = m.mla()
	default:
		list = m.gqa()
	}
	if !k.moe {
		return append(list, mlp("mlp", "mlp.dense", m.Hidden, m.DenseWidth)...)
	}
	return append(list, m.moe()...)
}

func (m Model) mla() []module {
	a, h, c := m.Attention, m.Hidden, "attention.proj"
	head := a.Nope + a.Rope
	list := []module{
		{name: "self_attn.q_a_proj", component: c, part: "qkv_a", k: h, n: a.QRank, copies: 1},
		{name: "self_attn.kv_a_proj_with_mqa", component: c, part: "qkv_a", k: h, n: a.KVRank + a.Rope, copies: 1},
		{name: "self_attn.q_b_proj", component: c, part: "q_b", k: a.QRank, n: a.Heads * head, copies: 1, split: cols},
		{name: "self_attn.kv_b_proj", component: c, part: "w_uk", k: a.KVRank, n: a.Nope, copies: a.Heads, split: copies, absorbed: true, transposed: true},
		{name: "self_attn.kv_b_proj", component: c, part: "w_uv", k: a.KVRank, n: a.V, copies: a.Heads, split: copies, absorbed: true},
		{name: "self_attn.o_proj", component: c, part: "o", k: a.Heads * a.V, n: h, copies: 1, split: rows},
	}
	if a.QRank == 0 { // one direct projection, no q_a
		list = list[1:]
		list[1].name, list[1].k = "self_attn.q_proj", h
	}
	if a.IndexHeads > 0 {
		list = append(list,
			module{name: "self_attn.indexer.wq_b", component: c, part: "index_q", k: a.QRank, n: a.IndexHeads * a.IndexDim, copies: 1},
			module{name: "self_attn.indexer.wk", component: c, part: "index_k", k: h, n: a.IndexDim, copies: 1},
			module{name: "self_attn.indexer.weights_proj", component: c, part: "index_w", k: h, n: a.IndexHeads, copies: 1})
	}
	return list
}

func (m Model) gqa() []module {
	a, h, c := m.Attention, m.Hidden, "attention.proj"
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	if a.Gate {
		q *= 2
	}
	list := []module{
		{name: "self_attn.q_proj", component: c, part: "qkv", k: h, n: q, copies: 1, split: cols},
		{name: "self_attn.k_proj", component: c, part: "qkv", k: h, n: kv, copies: 1, split: cols, least: a.HeadDim},
		{name: "self_attn.v_proj", component: c, part: "qkv", k: h, n: kv, copies: 1, split: cols, least: a.HeadDim},
		{name: "self_attn.o_proj", component: c, part: "o", k: a.Heads * a.HeadDim, n: h, copies: 1, split: rows},
	}
	for i := range list {
		if i < 3 && m.family.qkvBias || i == 3 && m.family.outBias {
			list[i].bias = list[i].n
		}
	}
	return list
}

func (m Model) linearAttention() []module {
	l, h, c := m.Attention.Linear, m.Hidden, "attention.proj"
	k, v := l.KeyHeads*l.KeyDim, l.ValueHeads*l.ValDim
	return []module{
		{name: "linear_attn.in_proj_qkv", component: c, part: "qkv", k: h, n: 2*k + v, copies: 1, split: cols},
		{name: "linear_attn.in_proj_z", component: c, part: "qkv", k: h, n: v, copies: 1, split: cols},
		{name: "linear_attn.in_proj_b", component: c, part: "beta_decay", k: h, n: l.ValueHeads, copies: 1, split: cols},
		{name: "linear_attn.in_proj_a", component: c, part: "beta_decay", k: h, n: l.ValueHeads, copies: 1, split: cols},
		{name: "linear_attn.out_proj", component: c, part: "o", k: v, n: h, copies: 1, split: rows},
	}
}

func mlp(name, component string, hidden, width int64) []module {
	return []module{
		{name: name + ".gate_proj", component: component, part: "gate_up", k: hidden, n: width, copies: 1, split: cols},
		{name: name + ".up_proj", component: component, part: "gate_up", k: hidden, n: width, copies: 1, split: cols},
		{name: name + ".down_proj", component: component, part: "down", k: width, n: hidden, copies: 1, split: rows},
	}
}

func (m Model) moe() []module {
	block := m.family.moe
	if block == "" {
		block = "mlp"
	}
	router := module{name: block + ".gate", component: "moe.router", k: m.Hidden, n: m.Experts, copies: 1, plain: true}
	if m.family.routerBias {
		router.bias = m.Experts
	}
	experts := mlp(block+".experts.0", "moe.experts", m.Hidden, m.ExpertWidth)
	for i := range experts {
		e := &experts[i]
		e.copies = m.Experts
		e.part = map[string]string{"gate_up": "w13", "down": "w2"}[e.part]
		if m.family.expertBias {
			e.bias = e.n
		}
	}
	list := append([]module{router}, experts...)
	if m.SharedWidth > 0 {
		shared := mlp(block+".shared_experts", "moe.shared_expert", m.Hidden, m.SharedWidth)
		if m.family.sharedGate {
			shared = append(shared, module{name: block + ".shared_expert_gate", component: "moe.shared_expert", part: "gate",
				k: m.Hidden, n: 1, copies: 1, plain: true})
		}
		list = append(list, shared...)
	}
	return list
}

// extras returns the parameters of attention in layer i that are in no matrix: norms on latents and heads, sinks,
// convolution and decay, and the norm of the indexer.
func (m Model) extras(i int64) (attention, indexer int64) {
	a := m.Attention
	switch {
	case m.kinds[i].linear:
		l := a.Linear
		return (2*l.KeyHeads*l.KeyDim+l.ValueHeads*l.ValDim)*l.Conv + 2*l.ValueHeads + l.ValDim, 0
	case a.Kind == "mla":
		if a.IndexHeads > 0 {
			indexer = 2 * a.IndexDim
		}
		return a.QRank + a.KVRank, indexer
	}
	switch m.family.qkNorm {
	case "head":
		attention = 2 * a.HeadDim
	case "layer":
		attention = (a.Heads + a.KVHeads) * a.HeadDim
	}
	if m.family.sinks {
		attention += a.Heads
	}
	return attention, 0
}

// moduleFormat returns how the weights of a module of layer i are stored in the checkpoint.
func (m Model) moduleFormat(i int64, w module) Format {
	if w.plain {
		return Format{Bits: 8 * m.BytesPerElement()}
	}
	return m.format("model.layers." + strconv.FormatInt(i, 10) + "." + w.name)
}
