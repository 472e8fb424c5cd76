package launch

import (
	"fmt"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// Profiler is how the server can be profiled over HTTP.
type Profiler struct {
	Kind      string // "torch" or "cuda"; "" if none is configured
	Dir       string // where traces are written, on the server
	Via       string // "flag", "env", "always available over HTTP"
	Effective bool   // false: this version ignores the setting
	WithStack string // "true" or "false" if given
	Why       string
}

// Describe returns the profiler in words.
func (p Profiler) Describe() string {
	text := "via " + p.Via
	if p.Dir != "" {
		text += ", traces in " + p.Dir
	}
	if !p.Effective {
		text += ", NOT effective: " + p.Why
	} else if p.Why != "" {
		text += "; " + p.Why
	}
	return text
}

// Profiler returns the profiler that options and environment configure, judged by Version.
// vLLM reads VLLM_TORCH_PROFILER_DIR up to 0.15 and --profiler-config from 0.13 on; SGLang needs nothing.
func (s Server) Profiler() Profiler {
	if s.Engine == "sglang" {
		return Profiler{Kind: "torch", Dir: s.Getenv("SGLANG_TORCH_PROFILER_DIR"), Via: "always available over HTTP", Effective: true}
	}
	version := vllm.ParseVersion(s.Version)
	before := func(v string) bool { return !version.AtLeast(v) } // one that is not known is before none
	if config, ok := s.Args["profiler-config"].(map[string]interface{}); ok && config["profiler"] != nil {
		p := Profiler{Kind: fmt.Sprint(config["profiler"]), Via: "flag", Effective: !before(vllm.ProfilerFlagCame)}
		if dir, ok := config["torch_profiler_dir"].(string); ok {
			p.Dir = dir
		}
		if stack, ok := config["torch_profiler_with_stack"]; ok {
			p.WithStack = fmt.Sprint(stack)
		}
		if !p.Effective {
			p.Why = "--profiler-config came with 0.13; set VLLM_TORCH_PROFILER_DIR"
		}
		return p
	}
	p := Profiler{Kind: "torch", Dir: s.Getenv("VLLM_TORCH_PROFILER_DIR"), Via: "env"}
	if p.Dir == "" {
		if s.Getenv("VLLM_TORCH_CUDA_PROFILE") != "1" {
			return Profiler{}
		}
		p.Kind = "cuda"
	}
	switch {
	case !version.Known:
		p.Effective, p.Why = true, "the version is not known: 0.16 and later ignore the variable"
	case !before(vllm.ProfilerVariableRemoved):
		p.Why = "environment variable removed in 0.16; use --profiler-config"
	case before(vllm.ProfilerStopsCleanly):
		p.Effective, p.Why = true, s.Version+" reads the variable; stopping needs a raised VLLM_RPC_TIMEOUT"
	default:
		p.Effective, p.Why = true, s.Version+" reads the variable"
	}
	return p
}
