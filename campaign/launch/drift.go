package launch

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
)

var noEnviron = diag.Diagnostic{ID: "environ_unreadable", Severity: diag.Warning, N: 1,
	Text: "the environment of the process could not be read", Hint: "read /proc/PID/environ as the user of the server"}

// HTTP is what the running server says about itself. Empty fields were not asked or not answered.
type HTTP struct {
	Version     string // GET /version
	Model       string // data[0].root of GET /v1/models
	ServedName  string // data[0].id
	MaxModelLen int64  // data[0].max_model_len
	StartedUnix int64  // process_start_time_seconds of GET /metrics
}

// Drift is one place where the unit, the process and the server's own answers differ, or a setting with a consequence
// that a reader of the figures must know.
type Drift struct {
	Item        string
	Unit        string // as the file says; "" not set
	Process     string // as it runs
	HTTP        string // as it answers
	Consequence string
	Severity    diag.Severity
}

// Drifts is a list of drifts that a cell can show.
type Drifts []Drift

// Table shows the drifts.
func (d Drifts) Table() data.Table {
	t := data.Table{ID: "drift", Title: "What the file says, what runs, what it answers",
		Columns: []data.Column{{Head: "Item"}, {Head: "File"}, {Head: "Process"}, {Head: "HTTP"}, {Head: "Severity"}, {Head: "Consequence"}}}
	if len(d) == 0 {
		t.Note = "No difference found."
	}
	for _, x := range d {
		t.Rows = append(t.Rows, data.Row{Cells: []string{x.Item, x.Unit, x.Process, x.HTTP, string(x.Severity), x.Consequence}})
	}
	return t
}

// Compare lists what differs between the file, the live process and the server's answers, options first, then
// environment, then settings of the process that change what a measurement means. The process is what is measured;
// the file is only what the next start would give.
func Compare(unit, process Server, http HTTP) Drifts {
	if process.Version == "" {
		process.Version = http.Version
	}
	process.takeConfig(unit)
	var out Drifts
	out = append(out, identity(unit, process, http)...)
	for _, name := range union(unit.ArgNames(), process.ArgNames()) {
		u, p := unit.Arg(name), process.Arg(name)
		if u != p {
			out = append(out, Drift{Item: "--" + name, Unit: u, Process: p, HTTP: answered(name, http), Consequence: optionConsequence(name), Severity: diag.Warning})
		}
	}
	for _, name := range union(envNames(unit, all), envNames(process, relevant)) {
		u, p := shown(unit, name), shown(process, name)
		if u != p && p != unknownValue && u != unknownValue {
			severity := diag.Warning
			if !relevant(name) {
				severity = diag.Info
			}
			out = append(out, Drift{Item: name, Unit: u, Process: p, Consequence: envConsequence(name), Severity: severity})
		}
	}
	for _, s := range settings(unit, process) {
		if i := slices.IndexFunc(out, func(d Drift) bool { return d.Item == s.Item }); i >= 0 {
			out[i].Consequence = s.Consequence // says more than that the values differ
			continue
		}
		out = append(out, s)
	}
	return out
}

// takeConfig puts the options of --config FILE in: the file was read with the unit, and the process names the same one.
func (s *Server) takeConfig(unit Server) {
	at := slices.Index(s.Argv, "--config")
	if unit.config == "" || at < 0 || at+1 >= len(s.Argv) || path.Base(s.Argv[at+1]) != path.Base(unit.config) {
		return
	}
	s.configWords = unit.configWords
	s.Argv = slices.Clone(s.Argv)
	s.insertConfig(at)
	s.Model = ""
	s.parse()
	s.mask()
}

// identity compares model, version and times.
func identity(unit, process Server, http HTTP) Drifts {
	var out Drifts
	if unit.Model != process.Model || http.Model != "" && http.Model != process.Model {
		out = append(out, Drift{Item: "model", Unit: unit.Model, Process: process.Model, HTTP: http.Model, Severity: diag.Warning,
			Consequence: "another model is served than the file says: shapes and floors must come from the one that runs"})
	}
	if unit.Version != "" && http.Version != "" && unit.Version != http.Version {
		out = append(out, Drift{Item: "version", Unit: unit.Version, HTTP: http.Version, Severity: diag.Warning,
			Consequence: "defaults, profiler switches and metric names follow the version that answers"})
	}
	if n, ok := process.Args["max-model-len"].(int64); ok && http.MaxModelLen != 0 && n != http.MaxModelLen {
		out = append(out, Drift{Item: "max_model_len", Unit: unit.Arg("max-model-len"), Process: strconv.FormatInt(n, 10), HTTP: strconv.FormatInt(http.MaxModelLen, 10),
			Severity: diag.Warning, Consequence: "the process and the port belong to different servers, or the server cut the length"})
	}
	started := process.StartedUnix
	if started == 0 {
		started = http.StartedUnix
	}
	if unit.ModifiedUnix != 0 && started != 0 && unit.ModifiedUnix > started {
		out = append(out, Drift{Item: "file newer than process", Severity: diag.Warning,
			Consequence: "the file was changed after the server started: the next restart brings other settings than those measured"})
	}
	return out
}

// settings names settings of the live process with consequences, whether or not the file agrees.
func settings(unit, process Server) Drifts {
	var out Drifts
	add := func(item, u, p, text string, severity diag.Severity) {
		out = append(out, Drift{Item: item, Unit: u, Process: p, Consequence: text, Severity: severity})
	}
	if proto := process.Getenv("NCCL_PROTO"); proto == "LL" {
		add("NCCL_PROTO", shown(unit, "NCCL_PROTO"), proto,
			"LL moves 4 bytes of data with 4 of flags: good for small messages, slow for large ones (many streams, prefill). Measure all-reduce without it", diag.Warning)
	}
	if process.Getenv("NCCL_P2P_DISABLE") == "1" {
		add("NCCL_P2P_DISABLE", shown(unit, "NCCL_P2P_DISABLE"), "1", "GPUs exchange through host memory", diag.Info)
	}
	if process.CUDAGraphs() == "off" {
		add("CUDA graphs", unit.CUDAGraphs(), "off", "every kernel is launched from the host: launch gaps and late ranks dominate small batches", diag.Warning)
	}
	if process.ExpertParallel() {
		add("expert parallelism", yesNo(unit.ExpertParallel()), "yes", "whole experts on ranks: expert GEMMs keep their width, tokens travel (all-to-all or all-gather)", diag.Info)
	}
	p := process.Profiler()
	switch {
	case p.Kind == "":
		add("profiler", unit.Profiler().Kind, "none", "POST /start_profile answers 404; profiling over HTTP needs a restart with --profiler-config (before 0.13: VLLM_TORCH_PROFILER_DIR)", diag.Warning)
	case !p.Effective:
		add("profiler", "", p.Kind+" via "+p.Via, p.Why, diag.Warning)
	case p.WithStack == "" && p.Via == "flag" && p.Kind == "torch" || p.WithStack == "true":
		add("profiler stacks", "", "on", "stack recording slows every step and can make the export take minutes; set torch_profiler_with_stack to false", diag.Warning)
	}
	if process.Getenv("VLLM_MARLIN_INPUT_DTYPE") == "fp8" {
		add("VLLM_MARLIN_INPUT_DTYPE", shown(unit, "VLLM_MARLIN_INPUT_DTYPE"), "fp8", "Marlin multiplies W4A8, not W4A16: the compute roof is that of fp8", diag.Warning)
	}
	return out
}

// consequences of options that differ; a prefix stands for its family.
var consequences = map[string]string{
	"tensor-parallel-size":         "every sharded shape, the weights of a rank and the all-reduce group change",
	"pipeline-parallel-size":       "layers of a rank and the step's structure change",
	"data-parallel-size":           "the tokens of a rank change",
	"decode-context-parallel-size": "the KV cache is divided over ranks, attention gets collectives of its own",
	"enable-expert-parallel":       "expert GEMM shapes and collectives change: figures of one do not hold for the other",
	"max-num-seqs":                 "the largest decode batch changes: load above it queues",
	"max-num-batched-tokens":       "the share of prefill in mixed steps changes",
	"enforce-eager":                "CUDA graphs on or off: launch gaps appear or vanish",
	"compilation-config":           "graph mode or compile passes change which kernels run",
	"cudagraph-capture-sizes":      "batches between captured sizes are padded or run without a graph",
	"attention-backend":            "another attention kernel runs",
	"kv-cache-dtype":               "KV traffic halves or doubles; attention kernels change",
	"quantization":                 "another GEMM kernel and other weight bytes",
	"disable-custom-all-reduce":    "all-reduce goes through NCCL or vLLM's own kernel",
	"speculative-config":           "a step verifies several tokens a sequence: M is no longer the number of streams",
	"profiler-config":              "profiling over HTTP may be off or slow",
	"max-model-len":                "KV cache planning changes",
	"gpu-memory-utilization":       "room for the KV cache changes: preemption may start earlier or later",
	"enable-prefix-caching":        "repeated prompts skip prefill",
	"async-scheduling":             "host gaps between steps change",
}

func optionConsequence(name string) string {
	if c, ok := consequences[name]; ok {
		return c
	}
	return "the file does not describe what runs"
}

func envConsequence(name string) string {
	switch {
	case name == "NCCL_PROTO" || name == "NCCL_ALGO":
		return "all-reduce times change with message size: a restart from this file changes the largest collective"
	case strings.HasPrefix(name, "NCCL_P2P"):
		return "the path between GPUs changes (NVLink, PCIe peer to peer, or host memory)"
	case strings.HasPrefix(name, "NCCL_"):
		return "collectives run with other settings than the file says"
	case strings.HasPrefix(name, "VLLM_TORCH_PROFILER") || strings.HasPrefix(name, "VLLM_PROFILER"):
		return "profiling over HTTP may be off; 0.16 and later ignore the variable"
	case strings.HasPrefix(name, "VLLM_MOE") || strings.HasPrefix(name, "VLLM_MARLIN"):
		return "the expert kernels or their routing differ"
	case strings.HasPrefix(name, "VLLM_") || strings.HasPrefix(name, "SGLANG_"):
		return "the server runs with another switch than the file says"
	case strings.HasPrefix(name, "CUDA_"):
		return "visible devices or launch behaviour differ"
	}
	return "set differently; no effect on speed is known"
}

// relevant reports variables that change what a server does or how fast.
func relevant(name string) bool {
	for _, p := range []string{"NCCL_", "VLLM_", "SGLANG_", "CUDA_VISIBLE", "CUDA_DEVICE", "CUDA_LAUNCH", "TORCH_", "OMP_", "HIP_VISIBLE", "RCCL_"} {
		if strings.HasPrefix(name, p) {
			return name != "NCCL_VERSION" && name != "TORCH_CUDA_ARCH_LIST" && name != "VLLM_USAGE_SOURCE" // images set these; nothing reads them at run time
		}
	}
	return false
}

func all(string) bool { return true }

func envNames(s Server, keep func(string) bool) []string {
	var names []string
	for _, v := range s.Env {
		if keep(v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

const unknownValue = "(value not known)"

func shown(s Server, name string) string {
	for _, v := range s.Env {
		if v.Name == name && v.Unknown {
			return unknownValue
		}
	}
	return s.Getenv(name)
}

func answered(option string, http HTTP) string {
	switch option {
	case "max-model-len":
		if http.MaxModelLen > 0 {
			return strconv.FormatInt(http.MaxModelLen, 10)
		}
	case "served-model-name":
		return http.ServedName
	}
	return ""
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func union(a, b []string) []string {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}
