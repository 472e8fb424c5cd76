package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/tidwall/gjson"
)

// Load reads config.json at path and, when it stands beside it, hf_quant_config.json (ModelOpt writes its scheme there).
func Load(path string) (Model, error) {
	config, err := os.ReadFile(path)
	if err != nil {
		return Model{}, fmt.Errorf("read model configuration: %w", err)
	}
	quant, err := os.ReadFile(filepath.Join(filepath.Dir(path), "hf_quant_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Model{}, fmt.Errorf("read quantisation of the model: %w", err)
	}
	m, err := Parse(config, quant)
	if err != nil {
		return Model{}, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return m, nil
}

// Parse reads the contents of config.json and, if there is one, of hf_quant_config.json (else nil).
// Errors name the key.
func Parse(config, hfQuant []byte) (Model, error) {
	if !gjson.ValidBytes(config) {
		return Model{}, errors.New("model configuration is not JSON")
	}
	if len(hfQuant) > 0 && !gjson.ValidBytes(hfQuant) {
		return Model{}, errors.New("hf_quant_config.json is not JSON")
	}
	top := gjson.ParseBytes(config)
	c := reader{text: top}
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		if t := top.Get(key); t.IsObject() {
			c = reader{text: t, prefix: key + "."}
			break
		}
	}
	m := c.model()
	if top.Get("vision_config").Exists() {
		m.Notes = append(m.Notes, "the vision tower is not counted")
	}
	quant := c.text.Get("quantization_config")
	if !quant.Exists() {
		quant = top.Get("quantization_config")
	}
	if c.err == nil {
		m.Quant, c.err = readQuant(quant, gjson.ParseBytes(hfQuant))
	}
	if c.err != nil {
		return Model{}, c.err
	}
	m.KVDType = m.DType
	if m.Quant.KVFP8 {
		m.KVDType = "fp8"
	}
	return m, nil
}

// reader looks up keys and keeps the first error.
type reader struct {
	text   gjson.Result
	prefix string // "text_config." for error messages
	err    error
}

func (c *reader) fail(key, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("key %q: %s", c.prefix+key, fmt.Sprintf(format, args...))
	}
}

// opt returns the whole number at key, or def where the key is absent or null.
func (c *reader) opt(key string, def int64) int64 {
	v := c.text.Get(key)
	if !v.Exists() || v.Type == gjson.Null {
		return def
	}
	if v.Type != gjson.Number || v.Num != float64(v.Int()) || v.Num < 0 || v.Num > 1<<40 {
		c.fail(key, "%s is not a count", v.Raw)
		return def
	}
	return v.Int()
}

// need returns the positive whole number at key.
func (c *reader) need(key string) int64 {
	v := c.opt(key, 0)
	if v == 0 {
		c.fail(key, "missing or zero; a dimension of the model is expected")
	}
	return v
}

// first returns the number at the first of the keys that is there, or 0.
func (c *reader) first(keys ...string) int64 {
	for _, k := range keys {
		if v := c.opt(k, 0); v != 0 {
			return v
		}
	}
	return 0
}

func (c *reader) ints(key string) []int64 {
	var list []int64
	for _, v := range c.text.Get(key).Array() {
		list = append(list, v.Int())
	}
	return list
}

func (c *reader) model() Model {
	m := Model{Type: c.text.Get("model_type").String(), Tied: c.text.Get("tie_word_embeddings").Bool()}
	fam, ok := families[m.Type]
	if !ok {
		known := make([]string, 0, len(families))
		for t := range families {
			known = append(known, t)
		}
		slices.Sort(known)
		c.fail("model_type", "%q is not known, its shapes cannot be derived; known: %s", m.Type, strings.Join(known, ", "))
		return m
	}
	m.family = fam
	m.Hidden, m.Layers, m.Vocab = c.need("hidden_size"), c.need("num_hidden_layers"), c.need("vocab_size")
	if m.Layers > 10000 {
		c.fail("num_hidden_layers", "%d layers is more than any known model has", m.Layers)
		return m
	}
	c.dtype(&m)
	c.layers(&m)
	c.attention(&m)
	m.family.resolve(c)
	m.MTP = c.first("num_nextn_predict_layers", "mtp_num_hidden_layers")
	if m.MTP > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%d multi-token-prediction layer(s) are not counted", m.MTP))
	}
	return m
}

func (c *reader) dtype(m *Model) {
	m.DType = "bfloat16"
	for _, key := range []string{"dtype", "torch_dtype"} {
		v := c.text.Get(key)
		if !v.Exists() || v.Type == gjson.Null {
			continue
		}
		m.DType = strings.TrimPrefix(v.String(), "torch.")
		if dtypeBytes[m.DType] == 0 || m.DType == "fp8" {
			c.fail(key, "%q is not bfloat16, float16 or float32", v.String())
		}
		return
	}
	m.Notes = append(m.Notes, "the configuration names no dtype; bfloat16 is assumed")
}

// layers finds which layers have experts and how wide their MLPs are.
func (c *reader) layers(m *Model) {
	m.kinds = make([]layerKind, m.Layers)
	m.Experts = c.first("n_routed_experts", "num_experts", "num_local_experts")
	width := c.opt("intermediate_size", 0)
	if m.Experts == 0 {
		m.Dense, m.DenseWidth = m.Layers, c.need("intermediate_size")
		return
	}
	m.TopK = c.first("num_experts_per_tok", "experts_per_token")
	if m.TopK == 0 || m.TopK > m.Experts {
		c.fail("num_experts_per_tok", "%d of %d experts a token is not possible", m.TopK, m.Experts)
	}
	m.ExpertWidth = c.opt("moe_intermediate_size", width)
	if m.ExpertWidth == 0 {
		c.fail("moe_intermediate_size", "missing, and there is no intermediate_size")
	}
	if n := c.opt("n_shared_experts", 0); n > 0 {
		m.SharedWidth = n * m.ExpertWidth
	} else {
		m.SharedWidth = c.opt("shared_expert_intermediate_size", 0)
	}
	if m.Type == "llama4_text" { // one shared expert as wide as a routed one, in every MoE layer
		m.SharedWidth = m.ExpertWidth
		width = c.opt("intermediate_size_mlp", width)
	}
	isMoE := c.moeRule(m)
	for i := range m.kinds {
		m.kinds[i].moe = isMoE(int64(i))
		if !m.kinds[i].moe {
			m.Dense++
		}
	}
	if m.Dense > 0 {
		m.DenseWidth = width
		if width == 0 {
			c.fail("intermediate_size", "missing, and %d layers have a dense MLP", m.Dense)
		}
	}
}

// moeRule returns which layers have experts. Families say it with different keys.
func (c *reader) moeRule(m *Model) func(layer int64) bool {
	if m.family.allMoE {
		return func(int64) bool { return true }
	}
	if freq := c.text.Get("moe_layer_freq"); freq.IsArray() { // one flag a layer
		flags := c.ints("moe_layer_freq")
		return func(i int64) bool { return i < int64(len(flags)) && flags[i] != 0 }
	}
	if m.Type == "llama4_text" {
		step := max(c.opt("interleave_moe_layer_step", 1), 1)
		return func(i int64) bool { return (i+1)%step == 0 }
	}
	if strings.HasPrefix(m.Type, "qwen3") {
		step, dense := max(c.opt("decoder_sparse_step", 1), 1), c.ints("mlp_only_layers")
		return func(i int64) bool { return (i+1)%step == 0 && !slices.Contains(dense, i) }
	}
	first, step := c.opt("first_k_dense_replace", 0), max(c.opt("moe_layer_freq", 1), 1)
	return func(i int64) bool { return i >= first && i%step == 0 }
}

func (c *reader) attention(m *Model) {
	a := &m.Attention
	a.Heads = c.need("num_attention_heads")
	if c.opt("kv_lora_rank", 0) > 0 {
		a.Kind = "mla"
		a.QRank, a.KVRank = c.opt("q_lora_rank", 0), c.need("kv_lora_rank")
		a.Nope, a.Rope, a.V = c.need("qk_nope_head_dim"), c.need("qk_rope_head_dim"), c.need("v_head_dim")
		if a.IndexTopK = c.opt("index_topk", 0); a.IndexTopK > 0 {
			a.IndexHeads, a.IndexDim = c.need("index_n_heads"), c.need("index_head_dim")
		}
		return
	}
	a.Kind = "gqa"
	a.KVHeads = c.opt("num_key_value_heads", a.Heads)
	a.HeadDim = c.opt("head_dim", 0)
	if a.HeadDim == 0 && a.Heads > 0 {
		a.HeadDim = m.Hidden / a.Heads
	}
	if a.KVHeads == 0 || a.Heads%max(a.KVHeads, 1) != 0 {
		c.fail("num_key_value_heads", "%d does not divide the %d attention heads", a.KVHeads, a.Heads)
	}
	a.Gate = c.text.Get("attn_output_gate").Bool()
	for i, t := range c.text.Get("layer_types").Array() {
		switch {
		case i >= len(m.kinds):
			c.fail("layer_types", "has more entries than the %d layers", m.Layers)
			return
		case t.String() == "sliding_attention":
			a.Sliding++
		case t.String() == "linear_attention":
			m.kinds[i].linear = true
			a.Linear.Layers++
		}
	}
	if a.Sliding > 0 {
		a.Window = c.need("sliding_window")
	}
	if l := &a.Linear; l.Layers > 0 {
		l.KeyHeads, l.KeyDim = c.need("linear_num_key_heads"), c.need("linear_key_head_dim")
		l.ValueHeads, l.ValDim = c.need("linear_num_value_heads"), c.need("linear_value_head_dim")
		l.Conv = c.need("linear_conv_kernel_dim")
	}
}

// resolve settles the facts that depend on a key of the configuration.
func (f *family) resolve(c *reader) {
	if !f.alwaysBias && !c.text.Get("attention_bias").Bool() {
		f.qkvBias, f.outBias = false, false
	}
	if c.text.Get("topk_method").String() == "noaux_tc" { // a correction bias an expert steers the selection
		f.routerBias = true
	}
	if f.qkNorm == "key" {
		f.qkNorm = ""
		if c.text.Get("use_qk_norm").Bool() {
			f.qkNorm = "head"
		}
	}
}

// Known returns a model of the embedded table, such as "kimi-k2.5".
func Known(name string) (Model, error) {
	raw, err := data.ModelConfig(name)
	if err != nil {
		return Model{}, err
	}
	return Parse(raw, nil)
}
