package vllm

// What differs between versions of vLLM's profiling API is in this file.
// Sources: vLLM pull requests 7451 (variable), 21803 and 28987 (its switches), 29912 (--profiler-config), 33536 and 33722
// (variables removed), 57875 (options of a start, 409; proposed after 0.28.0); running servers of 0.20.2 and 0.32.0.

// The versions in which profiling changed. A pre-release counts as older than its release: what is said about it then
// holds for both sides of the change.
const (
	ProfilerCame            = "0.5.5"  // VLLM_TORCH_PROFILER_DIR
	ProfilerStopsCleanly    = "0.8.0"  // before, stopping needs a raised VLLM_RPC_TIMEOUT
	ProfilerHasSwitches     = "0.10.1" // VLLM_TORCH_PROFILER_WITH_STACK and its like
	ProfilerFrontendOff     = "0.12.0" // VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM, VLLM_TORCH_PROFILER_DUMP_CUDA_TIME_TOTAL; a second start is ignored
	ProfilerFlagCame        = "0.13.0" // --profiler-config
	ProfilerVariableRemoved = "0.16.0" // VLLM_TORCH_PROFILER_DIR is not read any more
	ProfilerStartHasOptions = "0.32.0" // the body of /start_profile is read, and a second start is refused; 0.28.0 does neither
)

// ProfilerHint says how a server of this version is started so that /start_profile exists. It names nothing that the
// version does not know: an unknown key of --profiler-config keeps the server from starting.
func ProfilerHint(version string) string {
	const variable = "VLLM_TORCH_PROFILER_DIR=/absolute/dir"
	v := ParseVersion(version)
	switch {
	case !v.Known:
		return "start the server with " + profilerFlag + " (before 0.13: with the environment variable " + variable + ")"
	case !v.AtLeast(ProfilerCame):
		return "this version cannot be profiled over HTTP; vLLM 0.5.5 and later can"
	case !v.AtLeast(ProfilerStopsCleanly):
		return "start the server with the environment variables " + variable + " " + rpcTimeout
	case !v.AtLeast(ProfilerHasSwitches):
		return "start the server with the environment variable " + variable
	case !v.AtLeast(ProfilerFrontendOff):
		return "start the server with the environment variables " + variable + " VLLM_TORCH_PROFILER_WITH_STACK=0"
	case !v.AtLeast(ProfilerFlagCame):
		return "start the server with the environment variables " + variable + " VLLM_TORCH_PROFILER_WITH_STACK=0 VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM=1 VLLM_TORCH_PROFILER_DUMP_CUDA_TIME_TOTAL=0"
	case !v.AtLeast(ProfilerVariableRemoved):
		return "start the server with " + profilerFlag
	}
	return "start the server with " + profilerFlag + " (this version does not read VLLM_TORCH_PROFILER_DIR any more)"
}

// profilerFlag holds only keys that every version since 0.13 knows.
// Stacks, shapes and the front end's trace are off because they make stopping slow and traces large.
const profilerFlag = `--profiler-config '{"profiler":"torch","torch_profiler_dir":"/absolute/dir","torch_profiler_with_stack":false,"torch_profiler_use_gzip":true,"torch_profiler_dump_cuda_time_total":false,"ignore_frontend":true}'`

// rpcTimeout is in ms: half an hour.
const rpcTimeout = "VLLM_RPC_TIMEOUT=1800000"

// StartReadsOptions says that /start_profile of this version is known to read the options in its body.
func StartReadsOptions(version string) bool {
	v := ParseVersion(version)
	return v.Known && v.AtLeast(ProfilerStartHasOptions)
}

// StartTellsOpen says that a server of this version is known to refuse a start while a profile is open (see
// ErrAlreadyProfiling), as long as it has one API server process. From 0.12 on older versions answer 200 and keep the
// profile that was open, so a start of theirs may have joined somebody else's: only trace files that hold more than the
// own window show it. Before 0.12 a second start is expected to fail with 500.
func StartTellsOpen(version string) bool { return StartReadsOptions(version) }
