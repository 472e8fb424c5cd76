package launch

import "strings"

// kind says how an option of the server takes its value.
type kind int

const (
	value    kind = iota // one word; numbers are numbers
	toggle               // no word; --no-NAME is false
	optional             // one word or none
	each                 // one word; given again it adds to the list
	list                 // several words
	object               // one word of JSON
	count                // a length or count: 32k is 32000, 32K is 32768
)

// vllmFlags are the options of `vllm serve` with their kinds. An option that is not in the table is taken as a switch
// when no value follows.
// Source: vllm/engine/arg_utils.py and vllm/entrypoints/openai/cli_args.py of 0.6 to 0.28.
var vllmFlags = flagTable(map[kind]string{
	toggle: `enable-expert-parallel enforce-eager trust-remote-code enable-prefix-caching enable-chunked-prefill disable-custom-all-reduce
		disable-log-requests disable-log-stats enable-log-requests enable-log-outputs async-scheduling enable-auto-tool-choice enable-sleep-mode enable-lora
		enable-eplb enable-dbo enable-elastic-ep headless language-model-only skip-mm-profiling disable-sliding-window disable-cascade-attn
		calculate-kv-scales disable-hybrid-kv-cache-manager disable-frontend-multiprocessing disable-uvicorn-access-log
		enable-server-load-tracking enable-prompt-tokens-details enable-force-include-usage allow-credentials return-tokens-as-token-ids
		disable-fastapi-docs enable-request-id-headers use-v2-block-manager enable-prompt-adapter kv-cache-metrics cudagraph-metrics
		enable-layerwise-nvtx-tracing data-parallel-hybrid-lb data-parallel-external-lb ray-workers-use-nsight fully-sharded-loras
		enable-prompt-embeds enable-mm-embeds interleave-mm-strings use-tqdm-on-load disable-chunked-mm-input skip-tokenizer-init
		enable-tokenizer-info-endpoint enable-log-deltas trust-request-chat-template exclude-tools-when-tool-choice-none
		disable-nccl-for-dp-synchronization enable-reasoning engine-use-ray worker-use-ray enable-mfu-metrics
		scheduler-reserve-full-isl disable-async-output-proc kv-sharing-fast-prefill mm-encoder-only
		grpc log-error-stack tokens-only enable-ssl-refresh enable-offline-docs enable-flash-late-interaction
		allow-deprecated-quantization enable-return-routed-experts enable-mamba-cache-stochastic-rounding numa-bind
		enable-ep-weight-filter enable-tower-connector-lora specialize-active-lora enable-logging-iteration-details
		enable-flashinfer-autotune aggregate-engine-logging fail-on-environ-validation
		cohere-is-reasoning-model data-parallel-multi-port-external-lb dcp-q-replicate enable-batch-sharded-sampling
		enable-cumem-allocator enable-fault-tolerance enable-hc-sp enable-mamba-shared-prefix-checkpoint
		enable-mixed-moe-lora-format enable-moe-shared-loras enable-nccl-comm-suspend enable-per-request-metrics
		enable-scale-out enable-shm-tensor-arena enable-trace-replay jit-monitor-verbose
		long-prefill-token-threshold-adaptive mm-device-do-normalize return-sampling-mask sleep-mode-offload-cudagraph
		swa-bounded-replay trust-request-mm-kwargs use-fp64-gumbel use-replayssm`,
	optional: `hf-token`,
	each:     `middleware`,
	list: `served-model-name cudagraph-capture-sizes cuda-graph-sizes api-key lora-modules prompt-adapters collect-detailed-traces
		allowed-media-domains logits-processors ignore-patterns numa-bind-nodes numa-bind-cpus kv-cache-dtype-skip-layers
		cpu-offload-params offload-params lora-target-modules sleep-preserve-parameter-names`,
	object: `compilation-config speculative-config kv-transfer-config limit-mm-per-prompt profiler-config hf-overrides
		override-generation-config model-loader-extra-config rope-scaling structured-outputs-config additional-config kv-events-config
		eplb-config attention-config pooler-config override-pooler-config mm-processor-kwargs media-io-kwargs default-chat-template-kwargs
		kernel-config ec-transfer-config guided-decoding-config allowed-origins allowed-methods allowed-headers
		default-mm-loras ir-op-priority reasoning-config weight-transfer-config aux-output-config diffusion-config
		ec-manager-config engram-config fault-tolerance-config logging-config quantization-config watermark-config`,
	count: `max-model-len max-num-batched-tokens max-num-seqs max-seq-len-to-capture long-prefill-token-threshold max-num-partial-prefills
		max-long-partial-prefills num-gpu-blocks-override kv-cache-memory-bytes max-cudagraph-capture-size block-size`,
	value: `model tokenizer tokenizer-mode revision code-revision tokenizer-revision config config-format load-format download-dir dtype
		quantization kv-cache-dtype tensor-parallel-size pipeline-parallel-size data-parallel-size data-parallel-size-local
		data-parallel-start-rank data-parallel-rank data-parallel-address data-parallel-rpc-port data-parallel-backend
		decode-context-parallel-size prefill-context-parallel-size gpu-memory-utilization swap-space cpu-offload-gb attention-backend
		all2all-backend distributed-executor-backend host port uds root-path uvicorn-log-level chat-template chat-template-content-format
		response-role tool-call-parser tool-parser-plugin reasoning-parser reasoning-parser-plugin hf-token hf-config-path seed max-logprobs
		logprobs-mode num-scheduler-steps scheduling-policy scheduler-cls optimization-level api-server-count nnodes node-rank master-addr
		master-port runner convert task generation-config guided-decoding-backend mm-encoder-tp-mode mm-processor-cache-gb max-loras
		max-lora-rank lora-dtype device ssl-keyfile ssl-certfile ssl-ca-certs log-config-file max-log-len moe-backend
		prefix-caching-hash-algo mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode rope-theta otlp-traces-endpoint
		speculative-model num-speculative-tokens worker-cls worker-extension-cls expert-placement-strategy ubatch-size stream-interval
		dcp-kv-cache-interleave-size cp-kv-cache-interleave-size performance-mode kv-offloading-size kv-offloading-backend
		tool-server disable-access-log-for-endpoints ssl-cert-reqs ssl-ciphers h11-max-incomplete-event-size
		h11-max-header-count allowed-local-media-path model-impl override-attention-dtype io-processor-plugin
		renderer-num-workers safetensors-load-strategy pt-load-map-location mamba-backend mamba-cache-philox-rounds
		distributed-timeout-seconds dcp-comm-backend dbo-decode-token-threshold dbo-prefill-token-threshold
		max-parallel-loading-workers offload-backend offload-group-size offload-num-in-group offload-prefetch-step
		mm-processor-cache-type mm-shm-cache-max-object-size-mb mm-encoder-attn-backend video-pruning-rate mm-tensor-ipc
		max-cpu-loras show-hidden-metrics-for-version kv-cache-metrics-sample shutdown-timeout gdn-prefill-backend
		` + newest,
})

// newest are options that 0.20 does not have and 0.32 has; gone those that 0.20 has no more. Both matter for abbreviations only.
// Source: the parsers of 0.20.2 and 0.32.0.
const (
	newest = `anthropic-disabled-thinking-effort cohere-format cpu-distributed-timeout-seconds custom-histogram-buckets
		data-parallel-supervisor-port device-ids device-memory-utilization dp-supervisor-probe-failure-threshold
		dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval elastic-ep-max-dp-size fingerprint-mode
		fingerprint-value grpc-port jit-monitor-mode kda-decode-backend kda-prefill-backend linear-backend log-level
		mamba-ssu-algorithm max-lora-cls-labels max-num-active-seqs max-num-queued-reqs max-num-queued-tokens
		max-num-scheduled-tokens mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin
		mm-encoder-fp8-scale-save-path mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-device model-class-overrides
		per-request-spec-decode-metrics prefill-schedule-interval prefix-cache-retention-interval prefix-match-unit
		replayssm-buffer-len safetensors-prefetch-block-size safetensors-prefetch-num-threads sparse-indexer-topk-backend
		spec-method spec-model spec-tokens sse-keep-alive-interval tool-strict-level video-pruning-method watermark`
	gone = `disable-log-requests disable-frontend-multiprocessing use-v2-block-manager enable-prompt-adapter enable-reasoning
		engine-use-ray worker-use-ray disable-async-output-proc cuda-graph-sizes prompt-adapters rope-scaling
		override-pooler-config guided-decoding-config max-seq-len-to-capture swap-space num-scheduler-steps task
		guided-decoding-backend device rope-theta speculative-model num-speculative-tokens`
)

// vllmShort are the short forms. A form with a dot (-cc.mode) stands for the long one with the dot.
var vllmShort = map[string]string{"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
	"dpl": "data-parallel-size-local", "dpa": "data-parallel-address", "dpp": "data-parallel-rpc-port", "dpr": "data-parallel-start-rank",
	"dcp": "decode-context-parallel-size", "pcp": "prefill-context-parallel-size", "dpb": "data-parallel-backend", "dpn": "data-parallel-rank",
	"ep": "enable-expert-parallel", "q": "quantization", "cc": "compilation-config", "sc": "speculative-config", "ac": "attention-config",
	"asc": "api-server-count", "n": "nnodes", "r": "node-rank", "dpe": "data-parallel-external-lb", "dph": "data-parallel-hybrid-lb",
	"dpm": "data-parallel-multi-port-external-lb", "dc": "diffusion-config"}

// sglangFlags are the options that are read here; others follow the rule for options outside the table.
var sglangFlags = flagTable(map[kind]string{
	toggle: `disable-shared-experts-fusion disable-cuda-graph trust-remote-code enable-dp-attention enable-deepep-moe disable-radix-cache
		disable-overlap-schedule enable-metrics enable-torch-compile disable-custom-all-reduce enable-mixed-chunk skip-server-warmup
		enable-dp-lm-head enable-two-batch-overlap enable-eplb disable-cuda-graph-padding enable-nccl-nvls log-requests show-time-cost`,
	list:   `cuda-graph-bs`,
	object: `json-model-override-args model-loader-extra-config`,
	value: `model-path tokenizer-path tp-size ep-size dp-size pp-size attention-backend max-running-requests cuda-graph-max-bs
		mem-fraction-static speculative-algorithm speculative-num-steps speculative-eagle-topk speculative-num-draft-tokens port host
		quantization kv-cache-dtype context-length chunked-prefill-size served-model-name api-key dist-init-addr nnodes node-rank
		moe-runner-backend moe-a2a-backend tool-call-parser reasoning-parser load-format dtype`,
})

// sglangAlias are names of one option.
var sglangAlias = map[string]string{"model": "model-path", "tp": "tp-size", "tensor-parallel-size": "tp-size", "ep": "ep-size",
	"expert-parallel-size": "ep-size", "dp": "dp-size", "data-parallel-size": "dp-size", "pp": "pp-size", "pipeline-parallel-size": "pp-size"}

var wasGone, isNewest = nameSet(gone), nameSet(newest)

func nameSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

func flagTable(names map[kind]string) map[string]kind {
	table := map[string]kind{}
	for k, text := range names {
		for _, n := range strings.Fields(text) {
			table[n] = k
		}
	}
	return table
}
