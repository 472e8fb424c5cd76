package campaign

import (
	"fmt"
	"os/exec"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Costs says what each phase would send and disturb at the given loads, before anything is sent.
func Costs(loads []int, inputTokens, outputTokens int) data.Table {
	t := data.Table{ID: "costs", Title: "What each phase costs the server", Columns: []data.Column{
		{Head: "Phase"}, {Head: "Sends"}, {Head: "Disturbs"}, {Head: "Restart"}}}
	requests := 0
	for _, c := range loads {
		requests += 2 * c
	}
	tokens := int64(requests) * int64(inputTokens+outputTokens)
	t.Rows = []data.Row{
		{Cells: []string{"0 preflight", "a few GET requests", "nothing", "no"}},
		{Cells: []string{"1 macro", fmt.Sprintf("%s requests, %s tokens in and out; %d profile windows", units.Count(int64(requests)), units.Count(tokens), len(loads)),
			"other users share the GPU with the load; a profiled step is a few percent slower", "no"}},
		{Cells: []string{"2 micro", "nothing; the micro-benchmarks run beside the server or on another GPU of the same kind", "memory and bandwidth of the GPU they run on", "no"}},
		{Cells: []string{"3 nsys", "the same load at 1 and 64 streams", "everybody: the server is away while the model loads", "twice, only when its owner agrees"}},
		{Cells: []string{"4 findings", "nothing", "nothing", "no"}},
	}
	t.Note = "Phase 1 counts two passes a load; a live server is warmed up before with a few output tokens a stream, and gets longer answers in the profiled pass, so that decoding does not end while the profiler starts."
	return t
}

// Tools says which profilers are within reach: the server's own over HTTP, and the programs on this machine.
// A replay has no machine to look at.
func (i ServerInfo) Tools() data.Table {
	t := data.Table{ID: "tools", Title: "Profilers within reach", Columns: []data.Column{{Head: "Tool"}, {Head: "Here"}, {Head: "Needed for"}}}
	t.Rows = append(t.Rows, data.Row{Cells: []string{"torch.profiler over HTTP", join(": ", i.Profiler, i.ProfilerWhy), "phase 1"}})
	for _, tool := range []struct{ name, need string }{
		{"nsys", "phase 3, nodes of CUDA graphs and host gaps"},
		{"ncu", "phase 2, counters of single kernels; needs permission for GPU counters"},
		{"nvidia-smi", "clocks, driver, other processes on the GPUs"},
	} {
		here := "not recorded"
		if !i.Replay {
			here = "no"
			if _, err := exec.LookPath(tool.name); err == nil {
				here = "yes"
			}
		}
		t.Rows = append(t.Rows, data.Row{Cells: []string{tool.name, here, tool.need}})
	}
	t.Note = "Programs are looked for on the machine that runs this notebook; in a container look where the server runs."
	return t
}
