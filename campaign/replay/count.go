package replay

// What the replay serves is counted under vLLM's names, on top of the recorded scrape. Histograms whose value the
// replay does not model (queue, prefill and decode times) stay as recorded.

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func (e *engine) countPrefill(promptTokens, requests int) {
	m := &e.metrics
	m.Add("vllm:prompt_tokens_total", float64(promptTokens))
	m.Add("vllm:prompt_tokens_by_source_total", float64(promptTokens), "source", "local_compute")
	for left := promptTokens; left > 0; left -= e.rec.batch {
		m.Observe("vllm:iteration_tokens_total", float64(min(left, e.rec.batch)), 1)
	}
	m.Add("vllm:generation_tokens_total", float64(requests))
}

func (e *engine) countFirst(r *request) {
	e.metrics.Observe("vllm:time_to_first_token_seconds", seconds(r.first-r.sent), 1)
}

func (e *engine) countDecode(gap int64, steps int) {
	m := &e.metrics
	n := len(e.running)
	m.Add("vllm:generation_tokens_total", float64(n*steps))
	m.Observe("vllm:iteration_tokens_total", float64(n), steps)
	m.Observe("vllm:inter_token_latency_seconds", seconds(gap), n*steps)
}

func (e *engine) countDone(r *request) {
	m := &e.metrics
	m.Add("vllm:request_success_total", 1, "finished_reason", "length")
	m.Observe("vllm:request_prompt_tokens", float64(r.prompt), 1)
	m.Observe("vllm:request_prefill_kv_computed_tokens", float64(r.prompt), 1)
	m.Observe("vllm:request_generation_tokens", float64(r.max), 1)
	m.Observe("vllm:request_max_num_generation_tokens", float64(r.max), 1)
	m.Observe("vllm:request_params_max_tokens", float64(r.max), 1)
	m.Observe("vllm:request_params_n", 1, 1)
	m.Observe("vllm:e2e_request_latency_seconds", seconds(e.clock-r.sent), 1)
	if r.max > 1 {
		m.Observe("vllm:request_time_per_output_token_seconds", seconds(e.clock-r.first)/float64(r.max-1), 1)
	}
}

// countAnswer counts an answered request as vLLM's HTTP instrumentation does.
func (e *engine) countAnswer(handler, method string, status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	class := string(rune('0'+status/100)) + "xx"
	e.metrics.Add("http_requests_total", 1, "handler", handler, "method", method, "status", class)
}

// scrape returns /metrics as text.
func (e *engine) scrape() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropGone()
	e.metrics.Set("vllm:num_requests_running", float64(len(e.running)))
	e.metrics.Set("vllm:num_requests_waiting", float64(len(e.waiting)))
	return e.metrics.Text()
}
