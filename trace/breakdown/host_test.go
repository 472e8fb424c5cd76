package breakdown_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

// hosted makes a rank of five kernels and what the CPU did before them.
//
//	GPU   0-10 unlinked, 100-110 launched at 80, 200-210 and 215-220 by a graph launched at 120, 300-310 unlinked
//	CPU   aten::mm 5-95, in it aten::empty 20-50 and cudaLaunchKernel 80-90; cudaGraphLaunch 120-130; another thread works all along
func hosted() *trace.Rank {
	var b trace.Builder
	b.KeepHost()
	call := func(thread, name string, start, dur int64) { b.Call("9", thread, name, start, dur) }
	call("2", "aten::busy", 0, 1000)
	call("1", "aten::mm", 5, 90)
	call("1", "aten::empty", 20, 30)
	call("1", "cudaLaunchKernel", 80, 10)
	call("1", "cudaGraphLaunch", 120, 10)
	b.Launch("9", "1", 1, 80, 10, trace.LaunchKernel)
	b.Launch("9", "1", 2, 120, 10, trace.LaunchGraph)
	for _, k := range []trace.Kernel{{Start: 0, Dur: 10}, {Start: 100, Dur: 10, Correlation: 1}, {Start: 200, Dur: 10, Correlation: 2}, {Start: 215, Dur: 5, Correlation: 2}, {Start: 300, Dur: 10}} {
		k.Name, k.Stream, k.Device = b.Name("triton_poi_a"), b.Stream("7"), b.Device("0")
		b.Add(k)
	}
	return b.Build()
}

func TestIdleTimeBelongsToWhatTheHostDid(t *testing.T) {
	r := of(hosted())
	want := &breakdown.Host{LaunchGap: breakdown.Spread{N: 2, P50Ns: 20, MaxNs: 80}, Idle: []breakdown.IdleCause{
		{breakdown.Queued, "launched, not begun", 2, 80},                      // 90-100, 130-200
		{breakdown.NotInFile, "launch not in the file", 1, 80},                // 220-300
		{breakdown.OnHost, "aten::mm", 1, 40},                                 // 10-20, 50-80
		{breakdown.OnHost, "aten::empty", 1, 30},                              // 20-50
		{breakdown.OnHost, "cudaGraphLaunch", 1, 10},                          // 120-130
		{breakdown.OnHost, "cudaLaunchKernel", 1, 10},                         // 80-90
		{breakdown.NoCall, "no operator or call (Python, or waiting)", 1, 10}, // 110-120
		{breakdown.InGraph, "between kernels of a graph", 1, 5},               // 210-215
	}}
	if d := cmp.Diff(want, r.Host); d != "" {
		t.Error(d)
	}
	if r.IdleNs != 265 {
		t.Errorf("idle %d", r.IdleNs)
	}
}

// TestHostOfTheCampaign: idle times were computed apart, in Python, by trying every call for every gap.
func TestHostOfTheCampaign(t *testing.T) {
	for file, want := range map[string]map[string]int64{
		"hostmem-graph-uniform/c64_rank0": {"between kernels of a graph": 13952294, "execute_context_0(0)_generation_64(64)": 1548192, "launched, not begun": 1180170, "cudaLaunchKernel": 147591, "aten::slice": 140027, "cudaMemcpyAsync": 118785},
		"hostmem-graph-uniform/c1_rank0":  {"between kernels of a graph": 34399500, "launched, not begun": 2895108, "execute_context_0(0)_generation_1(1)": 1294926, "aten::slice": 173833},
		"hostmem-eager/c64_rank0":         nil,
	} {
		raw, err := kineto.Options{Host: true}.ReadFile(filepath.Join(sharedtest.Dir(t), "campaign", file+".pt.trace.json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		r := of(raw)
		sum := int64(0)
		got := map[string]int64{}
		for _, c := range r.Host.Idle {
			sum += c.Ns
			got[c.Cause] = c.Ns
		}
		if sum != r.IdleNs {
			t.Errorf("%s: causes add up to %d of %d", file, sum, r.IdleNs)
		}
		for cause, ns := range want {
			if got[cause] != ns {
				t.Errorf("%s: %s %d ns, want %d", file, cause, got[cause], ns)
			}
		}
		table, err := breakdown.Report{Ranks: []breakdown.Rank{r}}.View("host", 5, false)
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]string{"hostmem-eager/c64_rank0": "2 147 kernels and 0 graphs (medians).", "hostmem-graph-uniform/c64_rank0": "21 kernels and 1 graph (medians). Graphs launched 2 186 GPU events of a step"}[file]
		if !strings.Contains(strings.ReplaceAll(table.Note, units.ThinSpace, " "), words) {
			t.Errorf("%s: %s", file, table.Note)
		}
	}
}

func TestHostIsNotShownWhenItWasNotRead(t *testing.T) {
	if _, err := (breakdown.Report{Ranks: []breakdown.Rank{of(rank())}}).View("host", 0, false); err == nil || !strings.Contains(err.Error(), "was not read") {
		t.Error(err)
	}
}

// TestHostOfOneStep: the gaps of one step are divided as they are in the whole.
func TestHostOfOneStep(t *testing.T) {
	raw, err := kineto.Options{Host: true}.ReadFile(filepath.Join(sharedtest.Dir(t), "campaign/hostmem-eager/c64_rank0.pt.trace.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	one, cls, err := breakdown.OneStep(raw, classify.Run(raw), 1)
	if err != nil {
		t.Fatal(err)
	}
	r := breakdown.Of(one, cls)
	sum := int64(0)
	for _, c := range r.Host.Idle {
		sum += c.Ns
	}
	if sum != r.IdleNs || sum == 0 {
		t.Errorf("%d of %d", sum, r.IdleNs)
	}
}
