// Package model turns a Hugging Face config.json into the arithmetic of a decode step: every GEMM with its shape on one
// rank, the bytes of weights and KV cache that it reads, its FLOP, and the collectives that tie the ranks together.
//
// It reads keys only. It does not open weight files, does not ask a hub or a server, and refuses model types whose layout
// it does not know, because a guessed shape would look like a fact. Vision towers and multi-token-prediction layers are
// named in Notes and left out of every sum.
package model

import (
	"fmt"
	"strings"
)

// Model is what config.json says about the text model. Counts are of elements unless a name says bytes.
type Model struct {
	Type   string // model_type of the text model, such as "kimi_k2"
	DType  string // of everything that is not quantised: "bfloat16", "float16", "float32"
	Hidden int64
	Layers int64
	Vocab  int64
	Tied   bool // lm_head shares the embedding's weights

	Dense      int64 // layers with a dense MLP
	DenseWidth int64 // intermediate size of the dense MLP; 0 without dense layers

	Experts     int64 // routed experts of an MoE layer; 0 for a dense model
	TopK        int64 // routed experts a token uses
	ExpertWidth int64 // intermediate size of one routed expert
	SharedWidth int64 // intermediate size of all shared experts together; 0 without

	Attention Attention
	MTP       int64 // multi-token-prediction layers the checkpoint carries beside Layers

	Quant   Quant
	KVDType string // "fp8" when the checkpoint asks for it, else DType

	Notes []string // what was assumed or left out, for people

	kinds  []layerKind
	family family
}

// MoE returns the number of layers with routed experts.
func (m Model) MoE() int64 { return m.Layers - m.Dense }

// Attention holds the dimensions of the attention layers.
type Attention struct {
	Kind  string // "mla" or "gqa"
	Heads int64

	// Multi-head latent attention. QRank 0: one direct q projection.
	QRank, KVRank, Nope, Rope, V int64
	// The sparse-attention indexer of DeepSeek-V3.2 and GLM-5; 0 heads without.
	IndexHeads, IndexDim, IndexTopK int64

	// Grouped-query attention.
	KVHeads, HeadDim int64
	Gate             bool // q_proj is twice as wide: an output gate

	// Layers of other kinds among the Layers of the model.
	Sliding, Window int64 // layers that see only Window tokens
	Linear          LinearAttention
}

// LinearAttention holds the dimensions of Gated DeltaNet layers; zero without.
type LinearAttention struct {
	Layers             int64
	KeyHeads, KeyDim   int64
	ValueHeads, ValDim int64
	Conv               int64 // kernel width of the convolution
}

// layerKind is what differs from layer to layer.
type layerKind struct{ moe, linear bool }

// family holds what a model type implies and no key says.
// Sources: the modelling code of transformers and vLLM for each type; sums checked against published counts.
type family struct {
	qkvBias, outBias bool   // biases that attention_bias announces (or, for qwen2, nothing does)
	alwaysBias       bool   // the biases are there without the key
	qkNorm           string // "head": one weight vector a head dim; "layer": over all heads; "key": per head if use_qk_norm
	sinks            bool   // one attention sink a head
	routerBias       bool   // a bias or correction bias an expert
	expertBias       bool   // biases in the routed experts
	sharedGate       bool   // the shared expert has a gate (hidden x 1)
	allMoE           bool   // every layer has experts, intermediate_size is their width
	moe              string // name of the MoE block in checkpoints; "mlp" if empty
}

var families = map[string]family{
	"deepseek_v2":      {},
	"deepseek_v3":      {},
	"deepseek_v32":     {},
	"kimi_k2":          {},
	"glm_moe_dsa":      {},
	"glm4_moe":         {qkvBias: true, qkNorm: "key", routerBias: true},
	"gpt_oss":          {qkvBias: true, outBias: true, sinks: true, routerBias: true, expertBias: true, allMoE: true},
	"llama":            {qkvBias: true, outBias: true},
	"llama4_text":      {},
	"minimax_m2":       {qkNorm: "layer", routerBias: true, allMoE: true, moe: "block_sparse_moe"},
	"mixtral":          {allMoE: true, moe: "block_sparse_moe"},
	"qwen2":            {qkvBias: true, alwaysBias: true},
	"qwen3":            {qkvBias: true, outBias: true, qkNorm: "head"},
	"qwen3_moe":        {qkvBias: true, outBias: true, qkNorm: "head"},
	"qwen3_5_moe_text": {qkNorm: "head", sharedGate: true},
}

// BytesPerElement returns the size of an element of DType.
func (m Model) BytesPerElement() int64 { return dtypeBytes[m.DType] }

var dtypeBytes = map[string]int64{"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1}

// Describe returns the model in one line, such as
// "kimi_k2: 61 layers (1 dense), 384 experts top-8, MLA, int4 group 32".
func (m Model) Describe() string {
	parts := []string{fmt.Sprintf("%d layers", m.Layers)}
	if m.Experts > 0 {
		if m.Dense > 0 {
			parts[0] += fmt.Sprintf(" (%d dense)", m.Dense)
		}
		parts = append(parts, fmt.Sprintf("%d experts top-%d", m.Experts, m.TopK))
	}
	parts = append(parts, strings.ToUpper(m.Attention.Kind), m.Quant.Describe(m.DType))
	return m.Type + ": " + strings.Join(parts, ", ")
}
