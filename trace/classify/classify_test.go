package classify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/golden"
	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

// TestNamesAlone classifies a list of names without any place: one line "component/part<TAB>name" each.
func TestNamesAlone(t *testing.T) {
	list, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		c, part := classify.Name(name)
		fmt.Fprintf(&b, "%s\t%s\n", join(c, part), name)
	}
	golden.Check(t, "names.golden", b.String())
}

func join(component, part string) string {
	if part == "" {
		return component
	}
	return component + "/" + part
}

// ranks are read once for all tests.
var ranks = map[string]*trace.Rank{}

func campaign(t *testing.T) map[string]*trace.Rank {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(sharedtest.Dir(t), "campaign/*/c*.pt.trace.json.gz"))
	if len(files) != 14 {
		t.Fatalf("found %d campaign traces, expected 14", len(files))
	}
	if len(ranks) > 0 {
		return ranks
	}
	for _, f := range files {
		r, err := kineto.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		ranks[filepath.Base(filepath.Dir(f))+"/"+strings.TrimSuffix(filepath.Base(f), ".pt.trace.json.gz")] = r
	}
	return ranks
}

// TestPlacesOfCampaign writes, for every trace, which kernel got which component at which place, with counts.
func TestPlacesOfCampaign(t *testing.T) {
	lines := map[string]bool{}
	for name, r := range campaign(t) {
		res := classify.Run(r)
		if len(res.Places) != len(r.Kernels) {
			t.Fatalf("%s: %d places for %d kernels", name, len(res.Places), len(r.Kernels))
		}
		if res.Layers != 61 {
			t.Errorf("%s: %d layers, the model has 61", name, res.Layers)
		}
		var sum, unknown int64
		for i, p := range res.Places {
			sum += r.Kernels[i].Dur
			l := res.Label(i)
			if l.Component == classify.Unknown {
				unknown += r.Kernels[i].Dur
			}
			short := r.Name(r.Kernels[i])
			lines[fmt.Sprintf("%s\t%s\tside=%v\t%.160s", join(l.Component, l.Part), p.Block, p.Side, short)] = true
		}
		if unknown*100 >= sum {
			t.Errorf("%s: unknown is %d of %d ns, 1 %% or more", name, unknown, sum)
		}
	}
	var sorted []string
	for l := range lines {
		sorted = append(sorted, l)
	}
	slices.Sort(sorted)
	golden.Check(t, "campaign.golden", strings.Join(sorted, "\n")+"\n")
}

// launchesPerStep are the counts every decode step of the model has (61 layers, the first one dense).
var launchesPerStep = map[string]int{
	"allreduce": 123, "allgather": 1, "moe.experts/w13": 60, "moe.experts/w2": 60, "attention.kv_write": 61,
	"attention.proj/w_uk": 61, "attention.proj/w_uv": 61, "lm_head": 1, "moe.shared_expert/down": 60, "moe.activation": 60,
}

func TestDecodeStepHasTheLaunchesOfTheModel(t *testing.T) {
	for name, r := range campaign(t) {
		if strings.Contains(name, "prefill") {
			continue
		}
		res := classify.Run(r)
		count := map[string]int{}
		for i := range res.Places {
			p, n := res.Label(i), r.Name(r.Kernels[i])
			if !strings.Contains(n, "splitKreduce") {
				count[p.Component]++
				if p.Part != "" {
					count[join(p.Component, p.Part)]++
				}
			}
		}
		for comp, want := range launchesPerStep {
			if got := count[comp]; got != want*len(r.Steps) {
				t.Errorf("%s: %s: %d launches in %d steps, expected %d a step", name, comp, got, len(r.Steps), want)
			}
		}
	}
}
