package vllm

// What differs between versions of vLLM's profiling API is in this file.
// Sources: vLLM pull requests 7451 (variable), 21803 (its switches), 29912 (--profiler-config), 33536 and 33722 (variables removed).

// The versions in which the way to configure the profiler changed.
const (
	ProfilerStopsCleanly    = "0.8.0"  // before, stopping needs a raised VLLM_RPC_TIMEOUT
	ProfilerHasSwitches     = "0.10.1" // VLLM_TORCH_PROFILER_WITH_STACK and its like
	ProfilerFlagCame        = "0.13.0" // --profiler-config
	ProfilerVariableRemoved = "0.16.0" // VLLM_TORCH_PROFILER_DIR is not read any more
)

// ProfilerHint says how a server of this version is started so that /start_profile exists.
func ProfilerHint(version string) string {
	v := ParseVersion(version)
	switch {
	case !v.AtLeast(ProfilerHasSwitches):
		return "start the server with the environment variable VLLM_TORCH_PROFILER_DIR=/absolute/dir"
	case !v.AtLeast(ProfilerFlagCame):
		return "start the server with the environment variables VLLM_TORCH_PROFILER_DIR=/absolute/dir VLLM_TORCH_PROFILER_WITH_STACK=0"
	case !v.AtLeast(ProfilerVariableRemoved):
		return "start the server with " + profilerFlag
	}
	return "start the server with " + profilerFlag + " (this version does not read VLLM_TORCH_PROFILER_DIR any more)"
}

// profilerFlag holds only keys that every version since 0.13 knows: unknown ones abort the start of the server.
// Stacks, shapes and the front end's trace are off because they make stopping slow and traces large.
const profilerFlag = `--profiler-config '{"profiler":"torch","torch_profiler_dir":"/absolute/dir","torch_profiler_with_stack":false,"torch_profiler_use_gzip":true,"torch_profiler_dump_cuda_time_total":false,"ignore_frontend":true}'`
