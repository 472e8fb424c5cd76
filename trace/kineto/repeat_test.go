package kineto_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/kineto"
)

// unmarked reads a trace whose step annotations were made unreadable.
func unmarked(t *testing.T, path string) *trace.Rank {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	r, err := kineto.Read(bytes.NewReader(bytes.ReplaceAll(raw, []byte(`"execute_`), []byte(`"exit_____`))), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStepsAreFoundByRepetition takes the annotations away and compares the steps that are found with those that were annotated:
// as many, and as long from start to start, whatever kernel they begin with.
func TestStepsAreFoundByRepetition(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "campaign")
	for _, file := range []string{"hostmem-graph-uniform/c1_rank0", "hostmem-graph-uniform/c64_rank1", "hostmem-graph-uniform/c256_rank0", "hostmem-graph/c64_rank0",
		"hostmem-eager/c64_rank0", "hostmem-eager/c1_rank0", "nvlink-graph/c1_rank0", "nvlink-graph/c64_rank0"} {
		path := filepath.Join(dir, file+".pt.trace.json.gz")
		want, err := kineto.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := unmarked(t, path)
		whole := 0
		for _, s := range got.Steps {
			if !s.Partial {
				whole++
			}
			if s.Kind != trace.Unmarked {
				t.Errorf("%s: a step of kind %s", file, s.Kind)
			}
		}
		n := len(want.Steps)
		if got.StepsBy != trace.ByRepetition || whole < n-1 || whole > n || len(got.Steps) > n+1 {
			t.Errorf("%s: %d steps, %d of them whole, by %q; %d were annotated", file, len(got.Steps), whole, got.StepsBy, n)
			continue
		}
		t.Log(file, n, len(got.Steps), whole, got.Health)
		if want.Steps[n/2].Events != got.Steps[n/2].Events {
			t.Errorf("%s: %d events in a step, want %d", file, got.Steps[n/2].Events, want.Steps[n/2].Events)
		}
	}
}
