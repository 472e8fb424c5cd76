package campaign

import (
	"os/exec"

	"github.com/rooflab/rooflab/data"
)

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
