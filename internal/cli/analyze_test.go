package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// runAnalyze executes the command and returns its output and exit code.
func runAnalyze(t *testing.T, args ...string) (stdout string, code int, err error) {
	t.Helper()
	cmd := newAnalyze()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), ExitCode(err), err
}

func TestAnalyzeMistakesHaveExitCodes(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{nil, exitUsage, "needs one or more trace files"},
		{[]string{"--json", "--csv", "x"}, exitUsage, "choose one of"},
		{[]string{filepath.Join(dir, "none.json")}, exitFailed, "no such file"},
		{[]string{empty}, exitFailed, "the file is empty"},
	} {
		_, code, err := runAnalyze(t, c.args...)
		if code != c.code || err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: exit %d, %v; want %d and %q on one line", c.args, code, err, c.code, c.text)
		}
	}
}

func TestAnalyzeJSONKeepsItsContract(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "campaign/hostmem-graph")
	out, code, err := runAnalyze(t, "--json", filepath.Join(dir, "c64_rank0.pt.trace.json.gz"), filepath.Join(dir, "c64_rank1.pt.trace.json.gz"))
	if code != exitOK {
		t.Fatal(err)
	}
	var r breakdown.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	ar := r.Ranks[0].Components[0]
	if ar.Name != "allreduce" || ar.N != 1845 || ar.Ns != 246379801 {
		t.Errorf("largest component of rank 0: %+v", ar)
	}
	c := r.Collectives
	if c == nil || c.Matched != 1845 || c.TransferNs != 242199095 || c.WaitNs[0] != 783693 || c.WaitNs[1] != 5200784 || c.TailNs[0] != 3397013 || c.TailNs[1] != 183884 {
		t.Errorf("collectives: %+v", c)
	}
	if g := r.Ranks[0].Steps; len(g) != 1 || g[0].Kind != "decode" || g[0].GenerationTokens != 64 || g[0].N != 15 {
		t.Errorf("steps: %+v", g)
	}
	for _, key := range []string{`"schema":1`, `"span_ns":`, `"busy_ns":`, `"summed_ns":`, `"overlap_ns":`, `"idle_ns":`, `"components":[`, `"health":[`, `"device":"NVIDIA H200"`, `"parts":[`} {
		if !strings.Contains(out, key) {
			t.Errorf("no %s in the JSON", key)
		}
	}
	if strings.Contains(out, dir) {
		t.Error("the JSON holds an absolute path")
	}
}

func TestAnalyzePrintsTruncatedFileAndFails(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(sharedtest.Dir(t), "campaign/nvlink-graph/c64_rank0.pt.trace.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rank0.json.gz")
	if err := os.WriteFile(path, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	out, code, err := runAnalyze(t, path)
	if code != exitFailed || err == nil || !strings.Contains(err.Error(), "gzip data ends too early") {
		t.Errorf("exit %d, %v", code, err)
	}
	if !strings.Contains(out, "allreduce") || !strings.Contains(out, "DATA LOSS") {
		t.Errorf("no table or no warning:\n%s", out)
	}
}
