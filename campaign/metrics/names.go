package metrics

import (
	"math"
	"strings"
)

// Names says what a server calls the series that a campaign watches. A name is "" when the engine has no such series;
// one that is named may still be missing from a scrape, such as a counter that nothing has raised yet.
//
// Sources: vLLM's vllm/v1/metrics/loggers.py and pull requests 24110, 29330, 32661; SGLang's
// srt/observability/metrics_collector.py; scrapes of vLLM 0.20.2, 0.24.0 and 0.32.0.
type Names struct {
	Engine           string // "vllm", "sglang", or "" for another server
	Running, Waiting string // gauges, requests
	PromptTokens     string // counter, tokens computed or found in the prefix cache; vLLM raises it with a request's first token, SGLang when a request ends
	GenerationTokens string // counter, tokens; SGLang raises it when a request ends, vLLM at every step
	Finished         string // counter, requests
	Preemptions      string // counter, requests that were taken out for lack of KV cache
	KVUsage          string // gauge of every engine, 0 to 1
	PrefixHits       string // counter, tokens
	PrefixQueries    string // counter, tokens
	Steps            string // counter, engine steps: the _count of the histogram of tokens a step
	ITL              string // histogram, seconds between two tokens of a request
	Drafts           string // counter, drafts of speculative decoding: more than 0 means that a step gives several tokens
}

// NamesOf returns the names that the server of a scrape uses. Where versions of an engine differ, the scrape decides.
func NamesOf(s Scrape) Names {
	switch engineOf(s) {
	case "vllm":
		return Names{
			Engine: "vllm", Running: "vllm:num_requests_running", Waiting: "vllm:num_requests_waiting",
			PromptTokens: "vllm:prompt_tokens_total", GenerationTokens: "vllm:generation_tokens_total", Finished: "vllm:request_success_total",
			Preemptions: "vllm:num_preemptions_total",
			KVUsage:     s.first("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), // the latter before 0.12
			PrefixHits:  s.first("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
			PrefixQueries: s.first("vllm:prefix_cache_queries_total",
				"vllm:gpu_prefix_cache_queries_total"),
			Steps:  "vllm:iteration_tokens_total_count",
			ITL:    s.first("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"), // the latter before 0.10.2
			Drafts: "vllm:spec_decode_num_drafts_total",
		}
	case "sglang":
		return Names{
			Engine: "sglang", Running: "sglang:num_running_reqs", Waiting: "sglang:num_queue_reqs",
			PromptTokens: "sglang:prompt_tokens_total", GenerationTokens: "sglang:generation_tokens_total", Finished: "sglang:num_requests_total",
			Preemptions: "sglang:num_retracted_requests_total", KVUsage: "sglang:token_usage", PrefixHits: "sglang:cached_tokens_total",
			ITL: s.first("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
		}
	}
	return Names{}
}

// Counters returns the names of what only rises, as far as the engine has it: what two scrapes are compared by.
func (n Names) Counters() []string {
	var names []string
	for _, name := range []string{n.PromptTokens, n.GenerationTokens, n.Finished, n.Preemptions, n.PrefixHits, n.PrefixQueries, n.Steps, n.Drafts} {
		if name != "" {
			names = append(names, name)
		}
	}
	if n.ITL != "" {
		names = append(names, n.ITL+"_sum", n.ITL+"_count")
	}
	return names
}

func engineOf(s Scrape) string {
	for _, f := range s.Families {
		for _, engine := range []string{"vllm", "sglang"} {
			if strings.HasPrefix(f.Name, engine+":") {
				return engine
			}
		}
	}
	return ""
}

// first returns the first name that is in the scrape, as a series or as a histogram, else the first of all.
func (s Scrape) first(names ...string) string {
	for _, name := range names {
		if len(s.Find(name)) > 0 || len(s.Find(name+"_count")) > 0 {
			return name
		}
	}
	return names[0]
}

// Traffic returns how many requests run and wait on a server, over all its engines. It is not ok when the scrape does
// not say: the server is neither vLLM nor SGLang, or was started with --disable-log-stats or without --enable-metrics.
func Traffic(s Scrape) (running, waiting int, ok bool) {
	n := NamesOf(s)
	if n.Engine == "" {
		return 0, 0, false
	}
	r, ok := s.overEngines(n.Running)
	w, _ := s.overEngines(n.Waiting)
	return int(r), int(w), ok
}

// KVUsage returns how full the KV cache of the fullest engine is, 0 to 1.
func KVUsage(s Scrape) (float64, bool) {
	fullest, found := 0.0, false
	if n := NamesOf(s); n.Engine != "" {
		for _, x := range s.Find(n.KVUsage) {
			fullest, found = max(fullest, x.Value), true
		}
	}
	return fullest, found
}

// overEngines adds a gauge over data-parallel engines. SGLang can report it from every rank of an engine: those say the
// same and count once.
func (s Scrape) overEngines(name string) (float64, bool) {
	engines := map[string]float64{}
	for _, x := range s.Find(name) {
		if math.IsNaN(x.Value) { // nobody has set it yet
			continue
		}
		var key strings.Builder
		for _, l := range x.Labels {
			if l.Name != "tp_rank" && l.Name != "pp_rank" && l.Name != "moe_ep_rank" {
				key.WriteString(l.Name + "=" + l.Value + "\n")
			}
		}
		engines[key.String()] = max(engines[key.String()], x.Value)
	}
	sum := 0.0
	for _, v := range engines { // whole numbers: their order does not matter
		sum += v
	}
	return sum, len(engines) > 0
}
