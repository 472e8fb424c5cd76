package analyze_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/kineto"
)

func path(t testing.TB, file string) string {
	return filepath.Join(sharedtest.Dir(t), "campaign", file+".pt.trace.json.gz")
}

func TestTwoFilesOfOneRankAreRefused(t *testing.T) {
	_, err := analyze.Files(path(t, "hostmem-graph/c64_rank0"), path(t, "nvlink-graph/c64_rank0"))
	if err == nil || !strings.Contains(err.Error(), "are both rank 0 at the same load (decode, 64 tokens)") {
		t.Errorf("got %v", err)
	}
}

func TestLoadsAndRanksAreOrdered(t *testing.T) {
	r, err := analyze.Files(path(t, "hostmem-eager/c64_rank1"), path(t, "hostmem-eager/c1_rank0"), path(t, "hostmem-eager/c64_rank0"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range r.Ranks {
		got = append(got, k.File)
	}
	if s := strings.Join(got, " "); s != "c1_rank0.pt.trace.json.gz c64_rank0.pt.trace.json.gz c64_rank1.pt.trace.json.gz" {
		t.Error(s)
	}
	// The eager run: rank 1 waits 894 ms inside the all-reduce for rank 0.
	c := r.Collectives
	if c == nil || len(c.Ranks) != 2 || c.Ranks[0] != 1 || c.Ranks[1] != 2 || c.WaitNs[1] < 890e6 || c.WaitNs[1] > 900e6 {
		t.Errorf("collectives %+v", c)
	}
}

func TestNothingGoodWithoutFiles(t *testing.T) {
	if r, err := analyze.Files(); r != nil || err == nil {
		t.Errorf("%v %v", r, err)
	}
	if r, err := analyze.Ranks(filepath.Join(t.TempDir(), "none.json")); r != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v %v", r, err)
	}
}

func TestTruncatedFileComesWithReportAndError(t *testing.T) {
	whole, err := os.ReadFile(path(t, "hostmem-eager/c64_rank1"))
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "rank1.json.gz")
	if err := os.WriteFile(cut, whole[:len(whole)*3/4], 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := analyze.Files(path(t, "hostmem-eager/c64_rank0"), cut)
	var te *kineto.TruncatedError
	if !errors.As(err, &te) || r == nil || len(r.Ranks) != 2 || r.Ranks[1].Health[0].ID == "" {
		t.Fatalf("%v %v", r, err)
	}
	found := false
	for _, d := range r.Ranks[1].Health {
		found = found || d.ID == "truncated"
	}
	if !found {
		t.Errorf("health %v", r.Ranks[1].Health)
	}
}

// TestSameInputSameBytes reads twice, in another order of files and with other parallelism.
func TestSameInputSameBytes(t *testing.T) {
	a, b := path(t, "hostmem-eager/c64_rank0"), path(t, "hostmem-eager/c64_rank1")
	one, err := analyze.Files(a, b)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	two, err := analyze.Files(b, a)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(one)
	y, _ := json.Marshal(two)
	if string(x) != string(y) {
		t.Error("the two reports differ")
	}
}

// TestEveryPublicTraceIsAnalysed runs files of other engines, vendors and years: figures add up, or one clear message comes.
func TestEveryPublicTraceIsAnalysed(t *testing.T) {
	var files []string
	for _, dir := range []string{"public", "h200"} {
		more, _ := filepath.Glob(filepath.Join(sharedtest.Dir(t), "traces", dir, "*.json*"))
		files = append(files, more...)
	}
	analysed := 0
	for _, f := range files {
		r, err := analyze.Files(f)
		if err != nil {
			if strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", filepath.Base(f), err)
			}
			continue
		}
		analysed++
		k := r.Ranks[0]
		var ns, overlap int64
		for _, c := range k.Components {
			ns += c.Ns
			overlap += c.OverlapNs
		}
		if ns != k.SummedNs || overlap != k.OverlapNs || k.BusyNs+k.IdleNs != k.SpanNs {
			t.Errorf("%s: components %d overlap %d; %d %d %d %d", k.File, ns, overlap, k.SummedNs, k.OverlapNs, k.BusyNs, k.SpanNs)
		}
	}
	if analysed < 30 {
		t.Errorf("%d of %d files analysed", analysed, len(files))
	}
}
