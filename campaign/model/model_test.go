package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

// expected is the part of samples/configs/*/expected.json that the keys determine.
type expected struct {
	Derived struct {
		Total  int64 `json:"total"`
		Active int64 `json:"active"`
		Bare   int64 `json:"active_without_embedding"`
		MTP    int64 `json:"mtp_unique"`
		Parts  struct {
			Embedding int64 `json:"embedding"`
			LMHead    int64 `json:"lm_head"`
			Attention int64 `json:"attention"`
			Indexer   int64 `json:"indexer"`
			Norms     int64 `json:"norms"`
			Dense     int64 `json:"dense_mlp"`
			Router    int64 `json:"router"`
			Shared    int64 `json:"shared_experts"`
			Routed    int64 `json:"routed_experts"`
		} `json:"parts"`
	} `json:"derived"`
	Layers struct {
		Total, Dense, MoE int64
		Full              int64 `json:"full_attention"`
		Linear            int64 `json:"linear_attention"`
	} `json:"layers"`
	Experts struct {
		Routed int64 `json:"routed"`
		PerTok int64 `json:"per_token"`
		Each   int64 `json:"params_each"`
	} `json:"experts"`
	KV struct {
		Elements int64 `json:"elements_per_token_per_layer"`
		Layers   int64 `json:"layers"`
		BF16     int64 `json:"bytes_per_token_bf16"`
		FP8      int64 `json:"bytes_per_token_fp8"`
		Sliding  int64 `json:"sliding_layers"`
		Indexer  struct {
			Bytes int64 `json:"bytes_per_token_per_layer"`
		} `json:"indexer_cache"`
		Recurrent struct {
			State int64 `json:"ssm_fp32"`
			Conv  int64 `json:"conv_bf16"`
		} `json:"recurrent_state_bytes_per_sequence"`
	} `json:"kv"`
	Quant struct {
		WeightBytes int64   `json:"weight_bytes"`
		Tolerance   string  `json:"weight_bytes_tolerance"`
		PerWeight   float64 `json:"bytes_per_quantised_weight"`
		RankTP8     int64   `json:"expert_bytes_per_rank_tp8"`
	} `json:"quantisation"`
}

func TestEveryKnownConfigurationGivesTheFiguresOfTheOracle(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "samples", "configs")
	configs, err := filepath.Glob(filepath.Join(dir, "*", "config.json"))
	if err != nil || len(configs) != 21 {
		t.Fatalf("found %d configurations (%v), want 21", len(configs), err)
	}
	for _, path := range configs {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			m, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			var want expected
			raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), "expected.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			compare(t, m, want)
		})
	}
}

func compare(t *testing.T, m Model, want expected) {
	t.Helper()
	p, d := m.Params(), want.Derived
	state, conv := m.RecurrentBytes()
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"total", p.Total(), d.Total}, {"active", m.ActiveParams(), d.Active}, {"active without embedding", m.ActiveParams() - p.Embedding, d.Bare},
		{"mtp", p.MTP, d.MTP}, {"embedding", p.Embedding, d.Parts.Embedding}, {"lm_head", p.LMHead, d.Parts.LMHead},
		{"attention", p.Attention, d.Parts.Attention}, {"indexer", p.Indexer, d.Parts.Indexer}, {"norms", p.Norms, d.Parts.Norms},
		{"dense mlp", p.DenseMLP, d.Parts.Dense}, {"router", p.Router, d.Parts.Router}, {"shared", p.Shared, d.Parts.Shared},
		{"routed", p.Routed, d.Parts.Routed},
		{"layers", m.Layers, want.Layers.Total}, {"dense layers", m.Dense, want.Layers.Dense}, {"MoE layers", m.MoE(), want.Layers.MoE},
		{"full attention layers", m.KVLayers(), want.Layers.Full}, {"linear layers", m.Attention.Linear.Layers, want.Layers.Linear},
		{"experts", m.Experts, want.Experts.Routed}, {"top-k", m.TopK, want.Experts.PerTok},
		{"KV elements", m.KVElements(), want.KV.Elements}, {"KV layers", m.KVLayers(), want.KV.Layers},
		{"KV bf16", m.KVBytesPerToken("bfloat16"), want.KV.BF16}, {"KV fp8", m.KVBytesPerToken("fp8"), want.KV.FP8},
		{"sliding layers", m.Attention.Sliding, want.KV.Sliding}, {"indexer cache", m.IndexerBytes(), want.KV.Indexer.Bytes},
		{"recurrent state", state, want.KV.Recurrent.State}, {"convolution state", conv, want.KV.Recurrent.Conv},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, c.got, c.want)
		}
	}
	if want.Experts.Routed > 0 && p.Routed/m.MoE()/m.Experts != want.Experts.Each {
		t.Errorf("parameters of an expert: got %d, want %d", p.Routed/m.MoE()/m.Experts, want.Experts.Each)
	}
	compareBytes(t, m, want)
}

// compareBytes checks the checkpoint's size: to the byte, or within the tolerance that the oracle gives for block-wise FP8,
// where it takes the norms and biases inside attention as quantised.
func compareBytes(t *testing.T, m Model, want expected) {
	t.Helper()
	if want.Quant.WeightBytes == 0 {
		return
	}
	got := m.WeightBytes()
	if want.Quant.Tolerance == "" && got != want.Quant.WeightBytes {
		t.Errorf("weights: got %d bytes, want %d", got, want.Quant.WeightBytes)
	}
	if off := math.Abs(float64(got)/float64(want.Quant.WeightBytes) - 1); off > 0.0005 {
		t.Errorf("weights: got %d bytes, want %d within 0.05 %%", got, want.Quant.WeightBytes)
	}
	if want.Quant.RankTP8 > 0 {
		r, err := m.Rank(8)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.ExpertBytes() * m.Experts * m.MoE(); got != want.Quant.RankTP8 {
			t.Errorf("experts of a rank at TP 8: got %d bytes, want %d", got, want.Quant.RankTP8)
		}
	}
}

// load reads one of the sample configurations.
func load(t *testing.T, name string) Model {
	t.Helper()
	m, err := Load(filepath.Join(sharedtest.Dir(t), "samples", "configs", name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCampaignModelHoldsTheShapesOfTheFullModelAtTP8(t *testing.T) {
	small, err := Load(filepath.Join(sharedtest.Dir(t), "campaign", "model", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := small.Rank(2)
	if err != nil {
		t.Fatal(err)
	}
	eight, err := load(t, "kimi-k2.5").Rank(8)
	if err != nil {
		t.Fatal(err)
	}
	a, b := two.Gemms(64), eight.Gemms(64)
	if len(a) != len(b) {
		t.Fatalf("%d GEMMs at TP 2, %d at TP 8", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("GEMM %d differs: %+v and %+v", i, a[i], b[i])
		}
	}
	if a, b := two.Step(64), eight.Step(64); a != b {
		t.Errorf("steps differ: %+v and %+v", a, b)
	}
}

func TestShapesOfKimiK25AtTP8(t *testing.T) {
	r, err := load(t, "kimi-k2.5").Rank(8)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]GEMM{}
	for _, g := range r.Gemms(64) {
		got[strings.TrimSuffix(g.Component+"/"+g.Part, "/")] = g
	}
	for _, c := range []struct {
		name                            string
		count, m, n, k, matrices, bytes int64
	}{
		{"attention.proj/qkv_a", 61, 64, 2112, 7168, 1, 2112 * 7168 * 2},
		{"attention.proj/q_b", 61, 64, 1536, 1536, 1, 1536 * 1536 * 2},
		{"attention.proj/w_uk", 61, 64, 512, 128, 8, 128 * 512 * 2},
		{"attention.proj/w_uv", 61, 64, 128, 512, 8, 128 * 512 * 2},
		{"attention.proj/o", 61, 64, 7168, 1024, 1, 7168 * 1024 * 2},
		{"moe.router", 60, 64, 384, 7168, 1, 384 * 7168 * 2},
		{"moe.experts/w13", 60, 512, 512, 7168, 384, 512 * 7168 / 2},
		{"moe.experts/w2", 60, 512, 7168, 256, 384, 7168 * 256 / 2},
		{"moe.shared_expert/gate_up", 60, 64, 512, 7168, 1, 512 * 7168 * 2},
		{"moe.shared_expert/down", 60, 64, 7168, 256, 1, 256 * 7168 * 2},
		{"mlp.dense/gate_up", 1, 64, 4608, 7168, 1, 4608 * 7168 * 2},
		{"mlp.dense/down", 1, 64, 7168, 2304, 1, 2304 * 7168 * 2},
		{"lm_head", 1, 64, 20480, 7168, 1, 20480 * 7168 * 2},
	} {
		g, ok := got[c.name]
		if !ok || g.Count != c.count || g.M != c.m || g.N != c.n || g.K != c.k || g.Matrices != c.matrices || g.Packed != c.bytes {
			t.Errorf("%s: got %+v, want %+v", c.name, g, c)
		}
	}
	if len(got) != 13 {
		t.Errorf("%d GEMMs, want 13", len(got))
	}
	if b := r.ExpertBytes(); b != 3096576 {
		t.Errorf("one expert is %d bytes, want 3096576", b)
	}
	s := r.Step(256)
	if s.AllReduces != 123 || s.AllReduceBytes != 3670016 || s.KVBytes != 70272 {
		t.Errorf("step: %+v", s)
	}
	for tokens, want := range map[int64]float64{1: 8, 64: 284.2, 256: 382.2} {
		if got := r.Model.ExpertsHit(tokens); math.Abs(got-want) > 0.05 {
			t.Errorf("%d tokens hit %.2f experts, want %.1f", tokens, got, want)
		}
	}
}

func TestQuantisationCoversWhatTheCheckpointSays(t *testing.T) {
	formats := func(name string, tp int64) map[string]string {
		r, err := load(t, name).Rank(tp)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, g := range r.Gemms(1) {
			out[g.Component+"/"+g.Part] += g.Format + ";"
		}
		return out
	}
	for _, c := range []struct {
		model      string
		tp         int64
		gemm, want string
	}{
		{"kimi-k2.5", 8, "moe.experts/w13", "int4 group 32;"},
		{"kimi-k2.5", 8, "mlp.dense/gate_up", "bfloat16;"},
		{"kimi-k2.5", 8, "moe.shared_expert/down", "bfloat16;"},
		{"kimi-k2.5", 8, "moe.router/", "bfloat16;"},
		{"glm-5-nvfp4", 8, "moe.experts/w2", "nvfp4 group 16;"},
		{"glm-5-nvfp4", 8, "mlp.dense/down", "nvfp4 group 16;"},
		{"glm-5-nvfp4", 8, "attention.proj/o", "bfloat16;"},
		{"glm-5-nvfp4", 8, "attention.proj/index_q", "bfloat16;"},
		{"gpt-oss-120b", 8, "moe.experts/w13", "mxfp4 group 32;"},
		{"gpt-oss-120b", 8, "attention.proj/qkv", "bfloat16;"},
		{"deepseek-v3", 8, "attention.proj/q_b", "fp8 block 128x128;"},
		{"deepseek-v3", 8, "attention.proj/w_uk", "bfloat16;"},
		{"minimax-m2.5", 4, "moe.router/", "bfloat16;"},
		{"minimax-m2.5", 4, "moe.experts/w13", "fp8 block 128x128;"},
	} {
		if got := formats(c.model, c.tp)[c.gemm]; got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.model, c.gemm, got, c.want)
		}
	}
	nvfp4 := load(t, "glm-5-nvfp4")
	if gb := nvfp4.WeightBytes() / 1e9; gb < 430 || gb > 450 || nvfp4.KVDType != "fp8" {
		t.Errorf("GLM-5 NVFP4: %d GB of weights, KV cache %s; want about 440 GB and fp8", gb, nvfp4.KVDType)
	}
}

func TestAWQAndGPTQStoreScalesAndZeroPoints(t *testing.T) {
	const dims = `"model_type":"llama","hidden_size":1024,"intermediate_size":2048,"num_hidden_layers":1,"num_attention_heads":8,"vocab_size":1000,"torch_dtype":"float16"`
	for _, c := range []struct {
		quant          string
		packed, scales int64 // of the 1024 x 4096 gate_up
	}{
		{`{"quant_method":"awq","bits":4,"group_size":128,"zero_point":true}`, 1024 * 4096 / 2, 8*4096*2 + 8*4096/2},
		{`{"quant_method":"gptq","bits":4,"group_size":128,"sym":true,"desc_act":false}`, 1024 * 4096 / 2, 8 * 4096 * 2},
		{`{"quant_method":"gptq","bits":8,"group_size":-1}`, 1024 * 4096, 4096 * 2},
	} {
		m, err := Parse([]byte(`{`+dims+`,"quantization_config":`+c.quant+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Rank(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range r.Gemms(1) {
			if g.Component == "mlp.dense" && g.Part == "gate_up" && (g.Packed != c.packed || g.Scales != c.scales) {
				t.Errorf("%s: packed %d scales %d, want %d and %d", c.quant, g.Packed, g.Scales, c.packed, c.scales)
			}
		}
	}
}

func TestErrorsNameTheKey(t *testing.T) {
	const ok = `"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":1,"num_attention_heads":8,"vocab_size":100`
	for _, c := range []struct{ config, want string }{
		{`{`, "not JSON"},
		{`{}`, `"model_type"`},
		{`{"model_type":"kimi_k25","text_config":{"model_type":"mamba"}}`, `"text_config.model_type"`},
		{`{"model_type":"llama","num_hidden_layers":1}`, `"hidden_size"`},
		{`{` + strings.Replace(ok, `"vocab_size":100`, `"vocab_size":"many"`, 1) + `}`, `"vocab_size"`},
		{`{` + ok + `,"torch_dtype":"int3"}`, `"torch_dtype"`},
		{`{` + ok + `,"quantization_config":{"quant_method":"magic"}}`, `"quantization_config.quant_method"`},
		{`{` + ok + `,"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":3}}}}}`, `"quantization_config.config_groups.g.weights.num_bits"`},
		{`{` + ok + `,"quantization_config":{"quant_method":"fp8","ignored_layers":["re:("]}}`, `"quantization_config.ignore"`},
	} {
		if _, err := Parse([]byte(c.config), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %s", c.config, err, c.want)
		}
	}
}

func TestDivisionsThatServersRefuseAreRefused(t *testing.T) {
	for _, c := range []struct {
		model string
		tp    int64
		want  string
	}{
		{"qwen2.5-7b", 8, "28 attention heads"},
		{"minimax-m2.5", 8, "FP8 block"},
		{"qwen3-235b-a22b-fp8", 8, "FP8 block"},
		{"kimi-k2.5", 0, "tensor parallel size 0"},
	} {
		if _, err := load(t, c.model).Rank(c.tp); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %d ranks: got %v, want %q", c.model, c.tp, err, c.want)
		}
	}
	r, err := load(t, "qwen3-30b-a3b").Rank(8) // 4 KV heads on 8 ranks are replicated
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.KVBytesPerToken(), int64(2*128*48*2); got != want {
		t.Errorf("KV bytes of a rank: got %d, want %d", got, want)
	}
}

func TestTablesShowEveryProduct(t *testing.T) {
	m := load(t, "kimi-k2.5")
	shapes, err := m.Shapes(8, 64)
	if err != nil {
		t.Fatal(err)
	}
	if text := shapes.Text(); len(shapes.Rows) != 13 || !strings.Contains(text, "284.2 of 384") {
		t.Errorf("shapes:\n%s", text)
	}
	step, err := m.StepTable(8, 1, 64, 256)
	if err != nil {
		t.Fatal(err)
	}
	if text := step.Text(); !strings.Contains(text, "123") || len(step.Columns) != 5 {
		t.Errorf("step:\n%s", text)
	}
	if text := m.ParamTable().Text(); !strings.Contains(text, "1\u202f026\u202f408\u202f232\u202f448") {
		t.Errorf("parameters:\n%s", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":1,"num_attention_heads":8,"vocab_size":100}`,
		`{"text_config":{"model_type":"kimi_k2","hidden_size":64,"num_hidden_layers":2,"n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8,"kv_lora_rank":8}}`,
		`{"model_type":"qwen3_5_moe_text","layer_types":["linear_attention"]}`,
	} {
		f.Add([]byte(s), []byte(`{"quantization":{"quant_algo":"NVFP4","exclude_modules":["a*"]}}`))
	}
	f.Fuzz(func(t *testing.T, config, quant []byte) {
		m, err := Parse(config, quant)
		if err != nil || m.Layers > 100 {
			return
		}
		if r, err := m.Rank(2); err == nil {
			r.Shapes(3)
		}
	})
}

func TestEveryModelOfTheTableIsReadable(t *testing.T) {
	for _, name := range data.ModelNames() {
		if m, err := Known(name); err != nil || m.Params().Total() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
