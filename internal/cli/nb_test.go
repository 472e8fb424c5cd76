package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/notebooks/nbclient"
)

const (
	notebookRan = `{"nbformat":4,"nbformat_minor":5,"metadata":{"rooflab":{"run":{"status":"finished"}}},"cells":[
{"cell_type":"code","id":"a","metadata":{},"source":"x","execution_count":3,"outputs":[{"output_type":"stream","name":"stdout","text":"1\n"}]}]}`
	notebookRanAgain = `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[
{"cell_type":"code","id":"a","metadata":{},"source":"x","execution_count":9,"outputs":[{"output_type":"stream","name":"stdout","text":"1\n"}]}]}`
	notebookOther = `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[
{"cell_type":"code","id":"a","metadata":{},"source":"x","execution_count":1,"outputs":[{"output_type":"stream","name":"stdout","text":"2\n"}]}]}`
)

// nb runs one nb command line on files of the given contents, named a.ipynb, b.ipynb and so on.
func nb(t *testing.T, files []string, args ...string) (dir, stdout string, err error) {
	t.Helper()
	dir = t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".ipynb"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range args {
		if strings.HasSuffix(a, ".ipynb") {
			args[i] = filepath.Join(dir, a)
		}
	}
	cmd := newNB()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	err = cmd.Execute()
	return dir, out.String(), err
}

func TestNBDiffExitsWith3OnlyForSourcesAndOutputs(t *testing.T) {
	if _, out, err := nb(t, []string{notebookRan, notebookRanAgain}, "diff", "a.ipynb", "b.ipynb"); err != nil || out != "" {
		t.Errorf("counts and metadata differ only: %v, %q", err, out)
	}
	_, out, err := nb(t, []string{notebookRan, notebookOther}, "diff", "a.ipynb", "b.ipynb")
	if want := "@@ cell 1 (id a): outputs\n stdout:\n-  1\n+  2\n"; ExitCode(err) != exitThreshold || out != want {
		t.Errorf("exit code %d, got %q, want %q", ExitCode(err), out, want)
	}
	_, out, _ = nb(t, []string{notebookRan, notebookOther}, "diff", "--json", "a.ipynb", "b.ipynb")
	if want := `[{"cell_a":1,"cell_b":1,"id":"a","what":"outputs","lines":[" stdout:","-  1","+  2"]}]`; strings.TrimSpace(out) != want {
		t.Errorf("json %s, want %s", out, want)
	}
	if _, out, _ = nb(t, []string{notebookRan, notebookRan}, "diff", "--json", "a.ipynb", "b.ipynb"); strings.TrimSpace(out) != "[]" {
		t.Errorf("json of equal notebooks: %s", out)
	}
}

func TestNBStripKeepsIdsAndSources(t *testing.T) {
	dir, _, err := nb(t, []string{notebookRan}, "strip", "a.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(filepath.Join(dir, "a.ipynb"))
	want := `{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": null,
   "id": "a",
   "metadata": {},
   "outputs": [],
   "source": [
    "x"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
`
	if string(data) != want {
		t.Errorf("got %s", data)
	}
}

func TestNBRunSaysWhatIsWrongWithTheCall(t *testing.T) {
	for _, args := range [][]string{
		{"run", "a.ipynb", "-p", "no value"},
		{"run", "a.ipynb", "--env", "=x"},
		{"strip", "a.ipynb", "a.ipynb", "-o", "b.ipynb"},
	} {
		if _, _, err := nb(t, []string{notebookRan}, args...); ExitCode(err) != exitUsage {
			t.Errorf("%q: exit code %d (%v), want %d", args, ExitCode(err), err, exitUsage)
		}
	}
	_, _, err := nb(t, []string{notebookRan}, "run", "a.ipynb", "--kernel", "no-such-kernel")
	if !errors.As(err, new(*nbclient.KernelNotFoundError)) || ExitCode(err) != exitFailed {
		t.Errorf("got %v", err)
	}
}
