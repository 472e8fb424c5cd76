package livevllm

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// old is the version whose expert layers need AVX-512: without it they end with "Current vLLM config is not set".
const old = "0.20.2"

func avx512() bool {
	b, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(b, []byte(" avx512f "))
}

// dense makes a model without experts from one of the Qwen3 MoE shape, with the same tokeniser.
func dense(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	name := filepath.Join(to, "config.json")
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := json.Unmarshal(b, &config); err != nil {
		return err
	}
	config["architectures"], config["model_type"] = []string{"Qwen3ForCausalLM"}, "qwen3"
	for _, key := range []string{"moe_intermediate_size", "num_experts", "num_experts_per_tok", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "router_aux_loss_coef", "output_router_logits"} {
		delete(config, key)
	}
	if b, err = json.Marshal(config); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil { // it may be read-only, as its source
		return err
	}
	return os.WriteFile(name, b, 0o644)
}
