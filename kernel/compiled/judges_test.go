package compiled

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// installed finds Python and the folder with the installed compiled kernel: ROOFLAB_PYTHON and ROOFLAB_KERNELS, which make
// unit sets and CI must have.
func installed(t *testing.T) (python, kernels string) {
	t.Helper()
	python, kernels = os.Getenv("ROOFLAB_PYTHON"), os.Getenv("ROOFLAB_KERNELS")
	if python == "" || kernels == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("ROOFLAB_PYTHON and ROOFLAB_KERNELS name no Python and no folder with the Go kernel; CI must have them (make unit sets them)")
		}
		t.Skip("needs a Python with jupyter_client in ROOFLAB_PYTHON and the Go kernel in ROOFLAB_KERNELS (make unit sets them)")
	}
	spec, err := os.ReadFile(filepath.Join(kernels, "rooflab-go", "kernel.json"))
	if err != nil {
		t.Fatalf("the Go kernel is not installed: %v", err)
	}
	if !strings.Contains(string(spec), `"engine": "compiled"`) {
		t.Fatalf("the kernel rooflab-go of %s is not the compiled engine; run make kernel", kernels)
	}
	return python, kernels
}

// judge runs one of the programs of ../shared/notebooks that judge a kernel from outside, through Jupyter's own client,
// on the installed compiled kernel.
func judge(t *testing.T, script string, args ...string) string {
	t.Helper()
	python, kernels := installed(t)
	cmd := exec.CommandContext(t.Context(), python, append([]string{filepath.Join(sharedtest.Dir(t), "notebooks", script), "--kernel", "rooflab-go"}, args...)...)
	cmd.Env = append(os.Environ(), "JUPYTER_PATH="+filepath.Dir(kernels))
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out)
}

// wanted fails a test whose judge did not say text, with the lines of its report that matter.
func wanted(t *testing.T, report, text string, noise *regexp.Regexp) {
	t.Helper()
	if strings.Contains(report, text) {
		t.Log(text)
		return
	}
	var lines []string
	for line := range strings.Lines(report) {
		if !noise.MatchString(line) {
			lines = append(lines, line)
		}
	}
	t.Errorf("want %q, got\n%s", text, strings.Join(lines, ""))
}

// All 320 required cells of the conformance notebooks do what Go does.
func TestConformanceNotebooks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 327 cells, about a minute")
	}
	wanted(t, judge(t, filepath.Join("conformance", "score.py"), "-v"), "\n320 passed, 0 failed", regexp.MustCompile(`^\S+ +\d+ +0 `))
}

// Every test of jupyter_kernel_test that applies, and those of what it leaves out: interrupts, stdin, comms, control.
func TestProtocolSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	wanted(t, judge(t, "protocol_suite.py"), "\n36 passed, 0 failed, 2 skipped", regexp.MustCompile(` (pass|skip) `))
}

// papermill writes parameters in Go when it finds the kernelspec's folder for it.
func TestPapermillWritesParametersInGo(t *testing.T) {
	python, kernels := installed(t)
	if out, err := exec.Command(python, "-c", "import papermill").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s cannot import papermill: %v\n%s", python, err, out)
		}
		t.Skipf("%s cannot import papermill: %v", python, err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.ipynb"), filepath.Join(dir, "out.ipynb")
	notebook := `{"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "rooflab-go", "display_name": "Go", "language": "go"}}, "cells": [
		{"id": "a", "cell_type": "code", "metadata": {"tags": ["parameters"]}, "outputs": [], "execution_count": null,
		 "source": "n := 1\nrate := 0.5\nname := \"\"\nsizes := []int{}\nlabels := map[string]string{}\non := false"},
		{"id": "b", "cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null,
		 "source": "import \"fmt\"\nfmt.Printf(\"%v %T %q %v %v %v\", n, rate, name, sizes, labels, on)"}]}`
	if err := os.WriteFile(in, []byte(notebook), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-m", "papermill", "--no-progress-bar", in, out,
		"-p", "n", "5", "-p", "rate", "1", "-p", "name", "a \"é😀\"", "-p", "on", "True", "-y", "{sizes: [3, 4], labels: {a: b}}")
	cmd.Env = append(os.Environ(), "JUPYTER_PATH="+filepath.Dir(kernels), "PYTHONPATH="+filepath.Join(kernels, "rooflab-go", "papermill"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"5 float64 \"a \\\"é😀\\\"\" [3 4] map[a:b] true"`; !strings.Contains(string(text), want) {
		t.Errorf("%s is not in\n%s", want, text)
	}
}
