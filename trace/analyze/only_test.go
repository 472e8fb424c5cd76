package analyze

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// TestOneStepOfOneRank: figures of a step, its place in the file, and the share of a rank in the all-reduces of that step.
func TestOneStepOfOneRank(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "campaign/hostmem-graph-uniform")
	paths := []string{filepath.Join(dir, "c64_rank1.pt.trace.json.gz"), filepath.Join(dir, "c64_rank0.pt.trace.json.gz")}
	step := 3
	var read atomic.Int64
	both, err := Options{Step: &step, Progress: func(n int) { read.Add(int64(n)) }}.Analyze(paths...)
	if err != nil {
		t.Fatal(err)
	}
	if read.Load() != 654035+651249 {
		t.Errorf("%d bytes read", read.Load())
	}
	one, err := both.Only(1)
	if err != nil {
		t.Fatal(err)
	}
	r := one.Report.Ranks[0]
	if len(one.Report.Ranks) != 1 || r.Rank != 1 || *r.Step != 3 || r.GPUEvents != 2218 || len(one.Traces[0].Kernels) != 2218 || one.Traces[0].Rank != 1 || len(one.Classes) != 1 {
		t.Errorf("%+v", r.StepTable)
	}
	c, all := one.Report.Collectives, both.Report.Collectives
	if c.Matched != 123 || c.WaitNs[0] != all.WaitNs[1] || c.WaitNs[0]+c.TransferNs+c.TailNs[0] != r.Component("allreduce").Ns {
		t.Errorf("%+v of %+v", c, all)
	}
	if zero := both.Report.Ranks[0].StepTable[0]; zero.Index != 3 || zero.StartNs != 135955088 {
		t.Errorf("%+v", zero)
	}
	if _, err := both.Only(2); err == nil || !strings.Contains(err.Error(), "the ranks are 0, 1") {
		t.Error(err)
	}
	step = 99
	if a, err := (Options{Step: &step}).Analyze(paths...); a != nil || err == nil || !strings.Contains(err.Error(), "10 steps, 0 to 9") {
		t.Error(err)
	}
}
