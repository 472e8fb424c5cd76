package kineto_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/kineto"
)

// TestStepsOfServerOnCPU reads the traces that vLLM wrote on a machine without GPU: ranks, steps and event counts.
func TestStepsOfServerOnCPU(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "traces/vllm-cpu")
	raw, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]json.RawMessage
	if err := json.Unmarshal(raw, &expected); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, raw := range expected {
		var want struct {
			Events    int  `json:"events"`
			Rank      *int `json:"rank"`
			WorldSize *int `json:"world_size"`
			Steps     []struct {
				Name string `json:"name"`
			} `json:"steps"`
		}
		if json.Unmarshal(raw, &want) != nil || want.Events == 0 {
			continue
		}
		r, err := kineto.ReadFile(filepath.Join(dir, name))
		var none *kineto.NoGPUError
		if !errors.As(err, &none) || r == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Events != want.Events || want.Rank != nil && r.Rank != *want.Rank || want.WorldSize != nil && r.WorldSize != *want.WorldSize {
			t.Errorf("%s: %d events, rank %d of %d; want %+v", name, r.Events, r.Rank, r.WorldSize, want)
		}
		if len(r.Steps) != len(want.Steps) {
			t.Errorf("%s: %d steps, want %d", name, len(r.Steps), len(want.Steps))
			continue
		}
		for i, s := range r.Steps {
			if s.Name != want.Steps[i].Name {
				t.Errorf("%s: step %d is %s, want %s", name, i, s.Name, want.Steps[i].Name)
			}
		}
		compared++
	}
	if compared < 15 {
		t.Errorf("compared %d files", compared)
	}
	r, err := kineto.ReadFile(filepath.Join(dir, "truncated.pt.trace.json.gz"))
	var cut *kineto.TruncatedError
	if !errors.As(err, &cut) || cut.Events < 1000 || r == nil || len(r.Steps) == 0 {
		t.Errorf("truncated file: %v", err)
	}
}
