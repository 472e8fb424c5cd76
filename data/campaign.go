// Package data holds what rooflab keeps on disk and shows in cells: campaigns, runs, measurements, environments,
// and the records (verdict, bottleneck table, findings, tiers) from which pages are built.
// It uses the standard library only and does not read traces, talk to servers or draw.
package data

// SchemaVersion is the version of the archive format; readers refuse newer ones.
const SchemaVersion = 1

// ManifestFile is the name of a campaign's manifest inside its folder.
const ManifestFile = "manifest.json"

// Campaign is the manifest of one campaign folder.
//
//	manifest.json          this record
//	baseline.json          what an earlier campaign found (optional)
//	model/config.json      the served model
//	host/...               nvidia-smi and the like, redacted
//	runs/<run>/...         one folder a server start: run.json, launch and log files, metrics, load.json, traces,
//	                       cN_{before,profiled,after}.jsonl.gz with the time of every token of a live load
//	                       (load.ReadSamples reads them); old_cN_* while another round of the load is being measured
//	micro/...              micro-benchmarks
//	results/...            what the notebooks measured and computed
//	notebooks/*.ipynb      the executed notebooks
type Campaign struct {
	Schema   int      `json:"schema"`
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Measured string   `json:"measured"` // date, YYYY-MM-DD
	Model    Model    `json:"model"`
	Hardware Hardware `json:"hardware"`
	Main     string   `json:"main"` // the run that answers for the campaign
	Runs     []RunRef `json:"runs"`
	Notes    []string `json:"notes,omitempty"` // what was not measured, what to keep in mind
	Files    []File   `json:"files"`           // every file of the folder but the manifest
}

// Model names what was served.
type Model struct {
	Name         string `json:"name"`
	Served       string `json:"served"` // the name the server answers to
	Config       string `json:"config"` // path of config.json inside the folder
	Quantisation string `json:"quantisation"`
	Weights      string `json:"weights"` // "random", "published"
}

// Hardware says what it ran on.
type Hardware struct {
	GPU     string `json:"gpu"`
	Count   int    `json:"count"`
	Network string `json:"network"`
	Engine  string `json:"engine,omitempty"` // the server's software: "vLLM 0.24.0"
	Driver  string `json:"driver,omitempty"`
	CUDA    string `json:"cuda,omitempty"`
	NCCL    string `json:"nccl,omitempty"`
	Torch   string `json:"torch,omitempty"`
}

// RunRef introduces a run of the campaign.
type RunRef struct {
	Name string `json:"name"`
	What string `json:"what"` // what differs from the main run, in words
}

// File is a file of the campaign with its hash, so that a number can be traced to the bytes it came from.
type File struct {
	Path   string `json:"path"` // slash-separated, inside the campaign folder
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Run is one server start with everything measured on it: runs/<name>/run.json.
type Run struct {
	Schema      int         `json:"schema"`
	Name        string      `json:"name"`
	What        string      `json:"what,omitempty"`
	Environment Environment `json:"environment"`
	Rounds      []Round     `json:"rounds"`
	TooLarge    *TooLarge   `json:"too_large,omitempty"`
}

// TooLarge are traces that were above the limit and not taken.
type TooLarge struct {
	Server      int64 `json:"server_started,omitempty"` // the process that wrote them, as Round has it
	WindowSteps int   `json:"window_steps"`
	Bytes       int64 `json:"bytes"` // of all ranks together
}

// Environment is how the server ran. Secrets are masked before it is filled.
type Environment struct {
	Engine  string            `json:"engine"`  // "vllm"
	Version string            `json:"version"` // as /version says
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	TP      int               `json:"tp,omitempty"`
	Graphs  string            `json:"graphs,omitempty"` // "full and piecewise", "none"
	Routing string            `json:"routing,omitempty"`
}

// Round is one load: a pass without profiler, a profiled window, and the pass without profiler again. Zero means not measured.
type Round struct {
	Streams     int         `json:"streams"`
	InputTokens int         `json:"input_tokens,omitempty"`
	OutTokens   int         `json:"output_tokens,omitempty"`
	WindowSteps int         `json:"window_steps,omitempty"` // decode steps that the profiled window was to hold
	Unprofiled  *LoadResult `json:"unprofiled,omitempty"`
	Profiled    *LoadResult `json:"profiled,omitempty"`       // the pass during which the window was taken
	After       *LoadResult `json:"after,omitempty"`          // the first pass again, after the profile: what the profiler left behind
	Metrics     []Delta     `json:"metrics,omitempty"`        // what the server's counters did over the unprofiled pass
	Server      int64       `json:"server_started,omitempty"` // of a live server: when its process started, in s since the epoch
	StartNs     int64       `json:"start_ns,omitempty"`       // how long the server took to start the profiler; it stands still meanwhile
	StopNs      int64       `json:"stop_ns,omitempty"`        // how long it took to stop it and to write the traces; it stands still meanwhile
	Traces      []TraceFile `json:"traces,omitempty"`
	RanksKept   []int       `json:"ranks_kept,omitempty"`
	WorldSize   int         `json:"world_size,omitempty"`
	Notes       []string    `json:"notes,omitempty"`
}

// LoadResult is what a load generator saw. Latencies are in ns; a percentile that was not recorded is 0.
type LoadResult struct {
	Requests      int     `json:"requests"`
	Failed        int     `json:"failed,omitempty"`
	InputTokens   int64   `json:"input_tokens"`
	OutputTokens  int64   `json:"output_tokens"`
	WallNs        int64   `json:"wall_ns"`
	OutputTokS    float64 `json:"output_tok_s"`
	SteadyITLNs   int64   `json:"steady_itl_ns"` // median gap between tokens while all streams decode
	ITLp50Ns      int64   `json:"itl_p50_ns"`
	ITLp90Ns      int64   `json:"itl_p90_ns"`
	ITLp99Ns      int64   `json:"itl_p99_ns"`
	TTFTp50Ns     int64   `json:"ttft_p50_ns"`
	TTFTp99Ns     int64   `json:"ttft_p99_ns"`
	TPOTp50Ns     int64   `json:"tpot_p50_ns,omitempty"`
	SteadySamples int     `json:"steady_samples,omitempty"`
	KVCachePeak   float64 `json:"kv_cache_peak,omitempty"` // how full the server's KV cache was at most, 0 to 1, when it was asked: about once a second
	Recorded      bool    `json:"recorded,omitempty"`      // percentiles come from the recording, not from this pass
}

// Delta is a server metric before and after.
type Delta struct {
	Name   string  `json:"name"` // as the server spells it, with labels that matter
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// TraceFile is one rank's profile, stored beside run.json.
type TraceFile struct {
	File
	Rank int `json:"rank"`
}

// Baseline is what an earlier campaign found, to be compared and not to be believed blindly.
type Baseline struct {
	Title  string          `json:"title"`
	Model  string          `json:"model"`
	Source string          `json:"source"`
	Shares []BaselineShare `json:"shares"`
}

// BaselineShare is a share of GPU time in percent; a range has two ends, a single value equal ones.
type BaselineShare struct {
	Component string  `json:"component"` // fixed component name
	Label     string  `json:"label"`
	LowPct    float64 `json:"low_pct"`
	HighPct   float64 `json:"high_pct"`
	Kernel    string  `json:"kernel,omitempty"` // the kernel that took it
}
