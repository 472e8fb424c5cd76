package trace

import (
	"regexp"
	"strconv"
	"strings"
)

// How much a step annotation says. Of two nested ones of one step the one that says more wins; marks of a training loop count only
// where no engine marked its steps.
const (
	saysStep = iota // that there is a step
	saysSize        // what it computes
	saysMore        // that, and how long the sequences are
)

// loopStep is a step of torch.profiler's schedule ("ProfilerStep#12") or of a loop that marks its steps ("decode_step#4").
var loopStep = regexp.MustCompile(`^\w*[sS]tep ?#\d{1,18}$`)

// parseStep reads the step annotations of vLLM, SGLang and ATOM, and the numbered steps of loops:
//
//	execute_new_2_cached_30                                     vLLM until 0.11: requests, tokens are not said
//	execute_context_1(888_788544)_generation_0(0)               vLLM: requests(tokens[_sum of squares])
//	execute_32_context_0(sq0sk0..)_generation_32(sq32sk55086..) vLLM, detailed: sq = tokens computed
//	step[DECODE bs=32]  step[EXTEND bs=15 toks=15360]           SGLang; also MIXED, IDLE, TARGET_VERIFY and the small letters of its first version
//	decode[bs=117/128 ..]  prefill[..]                          ATOM: requests/graph size
//	ProfilerStep#12  decode_step#4                              loops
//
// Sources: vllm-project/vllm#22496 and vllm/v1/worker/gpu_worker.py, sgl-project/sglang#23419 and #24911, ROCm/ATOM#477.
func parseStep(name string) (s Step, detail int, ok bool) {
	detail = saysSize
	switch {
	case strings.HasPrefix(name, "execute_context_"):
		s.ContextTokens, s.GenerationTokens, ok = contextGeneration(name[len("execute_"):], "")
		s.Kind = kindOf(s.ContextTokens, s.GenerationTokens)
	case strings.HasPrefix(name, "execute_new_"):
		s, ok = newCached(name[len("execute_new_"):])
	case strings.HasPrefix(name, "execute_"):
		_, rest, found := strings.Cut(name[len("execute_"):], "_")
		if !found || !strings.HasPrefix(rest, "context_") {
			return s, 0, false
		}
		s.ContextTokens, s.GenerationTokens, ok = contextGeneration(rest, "sq")
		s.Kind, detail = kindOf(s.ContextTokens, s.GenerationTokens), saysMore
	case strings.HasPrefix(name, "step["):
		s, ok = bracketStep(name[len("step["):])
	case strings.HasPrefix(name, "decode["), strings.HasPrefix(name, "prefill["):
		s, ok = bracketStep(strings.Replace(name, "[", " ", 1))
	case loopStep.MatchString(name):
		s.Kind, detail, ok = loopKind(name), saysStep, true
	}
	return s, detail, ok
}

// kindOf says what a step with so many tokens is.
func kindOf(context, generation int) StepKind {
	switch {
	case context > 0 && generation > 0:
		return Mixed
	case context > 0:
		return Prefill
	case generation > 0:
		return Decode
	}
	return Idle
}

func loopKind(name string) StepKind {
	name = strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "decode"):
		return Decode
	case strings.HasPrefix(name, "prefill"):
		return Prefill
	}
	return Unmarked
}

// contextGeneration reads context_N(TOKENS...)_generation_N(TOKENS...); before is what stands in front of TOKENS.
func contextGeneration(s, before string) (context, generation int, ok bool) {
	context, ok = tokensIn(s, "context_", before)
	if at := strings.Index(s, "_generation_"); ok && at >= 0 {
		generation, ok = tokensIn(s[at:], "_generation_", before)
		return context, generation, ok
	}
	return 0, 0, false
}

func tokensIn(s, prefix, before string) (int, bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	_, rest, found := strings.Cut(rest, "("+before)
	if !ok || !found {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.ParseUint(rest[:end], 10, 31)
	return int(n), err == nil
}

// newCached reads "2_cached_30": requests that are new, and that were begun before. New ones compute their prompts, the others
// decode, or go on with a long prompt, which is not said; so a step without new ones is a decode step of that many tokens.
func newCached(s string) (step Step, ok bool) {
	a, b, found := strings.Cut(s, "_cached_")
	fresh, errA := strconv.ParseUint(a, 10, 31)
	cached, errB := strconv.ParseUint(b, 10, 31)
	if !found || errA != nil || errB != nil {
		return Step{}, false
	}
	return Step{Kind: kindOf(int(fresh), int(cached)), GenerationTokens: int(cached)}, true
}

// bracketStep reads "DECODE bs=32]" and "EXTEND bs=15 toks=15360]"; c_sq and g_sq, where present, say the tokens exactly.
// Steps of a draft model, and modes nobody knows, are no steps of the engine: their work belongs to the step before.
func bracketStep(text string) (s Step, ok bool) {
	fields := strings.Fields(strings.TrimSuffix(text, "]"))
	if len(fields) == 0 {
		return s, false
	}
	value := map[string]int{}
	for _, f := range fields[1:] {
		key, text, _ := strings.Cut(f, "=")
		text, _, _ = strings.Cut(text, "/") // ATOM: requests/size of the graph
		if n, err := strconv.ParseUint(text, 10, 31); err == nil {
			value[key] = int(n)
		}
	}
	c, hasContext := value["c_sq"]
	g, hasGeneration := value["g_sq"]
	exact := hasContext || hasGeneration
	switch strings.ToUpper(fields[0]) {
	case "DECODE", "TARGET_VERIFY":
		s = Step{Kind: Decode, GenerationTokens: value["bs"]}
	case "EXTEND", "PREFILL", "SPLIT_PREFILL":
		s = Step{Kind: Prefill, ContextTokens: max(value["toks"], value["tok"])}
	case "MIXED":
		s = Step{Kind: Mixed, ContextTokens: max(value["toks"], value["ext"]), GenerationTokens: max(value["dec"], value["g"])}
	case "IDLE":
		return Step{Kind: Idle}, true
	default:
		if !exact {
			return s, false
		}
	}
	if exact {
		s.Kind, s.ContextTokens, s.GenerationTokens = kindOf(c, g), c, g
	}
	return s, true
}
