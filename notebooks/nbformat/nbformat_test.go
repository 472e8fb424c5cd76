package nbformat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/golden"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

// samples lists the real and hand-made notebooks, by base name.
func samples(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, kind := range []string{"real", "handmade"} {
		list, _ := filepath.Glob(filepath.Join(sharedtest.Dir(t), "samples/notebooks", kind, "*.ipynb"))
		for _, f := range list {
			name := strings.TrimSuffix(filepath.Base(f), ".ipynb")
			if kind == "handmade" {
				name = "handmade-" + name
			}
			files[name] = f
		}
	}
	if len(files) < 20 {
		t.Fatalf("only %d sample notebooks found", len(files))
	}
	return files
}

func TestRealNotebooksHoldWhatWasCounted(t *testing.T) {
	for name, file := range samples(t) {
		if strings.HasPrefix(name, "handmade") || name == "py-v3.0" {
			continue
		}
		var want struct {
			Kernel, Language     *string
			Cells, Outputs, Mime map[string]int
			Streams              map[string]int
			Attachments          int
		}
		data, err := os.ReadFile(filepath.Join(sharedtest.Dir(t), "samples/notebooks/expected", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		nb, diags, err := ReadFile(file)
		if err != nil || Malformed(diags) != nil {
			t.Errorf("%s: %v, %v", name, err, diags)
			continue
		}
		cells, outputs, mime, streams, attachments := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}, 0
		for _, c := range nb.Cells {
			cells[c.Type]++
			for _, b := range c.Attachments {
				attachments++
				_ = b
			}
			for _, o := range c.Outputs {
				outputs[o.Type]++
				if o.Type == Stream {
					streams[o.Name]++
				}
				for m := range o.Data {
					mime[m]++
				}
			}
		}
		for what, d := range map[string]string{"cells": cmp.Diff(want.Cells, cells), "outputs": cmp.Diff(want.Outputs, outputs),
			"mime": cmp.Diff(want.Mime, mime), "streams": cmp.Diff(want.Streams, streams)} {
			if d != "" {
				t.Errorf("%s: %s differ (-want +got):\n%s", name, what, d)
			}
		}
		if want.Attachments != attachments {
			t.Errorf("%s: %d attachments, want %d", name, attachments, want.Attachments)
		}
		if want.Kernel != nil && *want.Kernel != nb.Kernel() {
			t.Errorf("%s: kernel %q, want %q", name, nb.Kernel(), *want.Kernel)
		}
	}
}

func TestOldAndNewFormatsAreRefusedWithAWayOut(t *testing.T) {
	_, _, err := ReadFile(samples(t)["py-v3.0"])
	if err == nil || !strings.Contains(err.Error(), "jupyter nbconvert --to notebook --nbformat 4") {
		t.Errorf("format 3: %v", err)
	}
	for data, want := range map[string]string{
		`{"nbformat":5,"nbformat_minor":0,"metadata":{},"cells":[]}`: "too new",
		`{"a":1}`:                              "neither",
		`[]`:                                   "a list",
		`null`:                                 "null",
		``:                                     "not JSON",
		"{\n \"nbformat\": 4,\n \"cells\" []}": "x.ipynb:3:10",
	} {
		if _, _, err := Parse("x.ipynb", []byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}

func TestSyntaxErrorNamesLineAndColumn(t *testing.T) {
	file := samples(t)["handmade-bad-json"]
	_, _, err := ReadFile(file)
	if err == nil || !strings.Contains(err.Error(), "bad-json.ipynb:7:72") {
		t.Errorf("got %v, want line 7, column 72", err)
	}
}

func TestMalformedCellsAreNamed(t *testing.T) {
	var got strings.Builder
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range samples(t) {
			if strings.HasPrefix(n, "handmade") && n != "handmade-bad-json" && !yield(n) {
				return
			}
		}
	}) {
		nb, diags, err := ReadFile(samples(t)[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fmt.Fprintf(&got, "-- %s --\n", name)
		for _, d := range diags {
			fmt.Fprintf(&got, "%s: %s\n", d.Severity, d.Text)
		}
		for _, c := range nb.Cells {
			fmt.Fprintf(&got, "cell %s %s %.20q\n", c.ID, c.Type, c.Source)
			if c.Type == Code && len(c.Outputs) > 0 && len(c.Outputs[0].Text) < 100 {
				fmt.Fprintf(&got, "  output %s %q\n", c.Outputs[len(c.Outputs)-1].Type, c.Outputs[len(c.Outputs)-1].Text)
			}
		}
	}
	golden.Check(t, "malformed.golden", got.String())
}

func TestEncodeIsStableAndKeepsEverything(t *testing.T) {
	for name, file := range samples(t) {
		nb, _, err := ReadFile(file)
		if err != nil {
			continue // tested elsewhere
		}
		once, err := nb.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, diags, err := Parse(name, once)
		if err != nil || len(diags) > 0 {
			t.Errorf("%s: own output read with %v, %v", name, err, diags)
			continue
		}
		twice, _ := again.Encode()
		if !bytes.Equal(once, twice) {
			t.Errorf("%s: second writing differs", name)
		}
		if len(Diff(nb, again)) > 0 {
			t.Errorf("%s: differs after writing: %v", name, Diff(nb, again))
		}
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	const in = `{"nbformat":4,"nbformat_minor":7,"later":{"b":1,"a":[1e-7,1.50,100000000000000000001]},"metadata":{"x":{"<":"&"}},
"cells":[{"cell_type":"code","id":"a","metadata":{"my":null},"source":[],"execution_count":0,"new":true,
"outputs":[{"output_type":"later_output","what":["a","b"]},{"output_type":"display_data","data":{"application/vnd.x+json":["a","b"],"text/plain":["a\n","b"]},"metadata":{},"more":1}]}]}`
	const want = `{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 0,
   "id": "a",
   "metadata": {
    "my": null
   },
   "new": true,
   "outputs": [
    {
     "output_type": "later_output",
     "what": [
      "a",
      "b"
     ]
    },
    {
     "data": {
      "application/vnd.x+json": [
       "a",
       "b"
      ],
      "text/plain": [
       "a\n",
       "b"
      ]
     },
     "metadata": {},
     "more": 1,
     "output_type": "display_data"
    }
   ],
   "source": []
  }
 ],
 "later": {
  "a": [
   1e-07,
   1.5,
   100000000000000000001
  ],
  "b": 1
 },
 "metadata": {
  "x": {
   "<": "&"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 7
}
`
	nb, diags, err := Parse("x", []byte(in))
	if err != nil || diags != nil {
		t.Fatal(err, diags)
	}
	got, err := nb.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestIdsStayWhenACellIsInsertedAbove(t *testing.T) {
	cell := func(src string) Cell { return Cell{Type: Code, Source: src} }
	id := func(c Cell, used ...string) string {
		return NewID(&c, func(s string) bool { return slices.Contains(used, s) })
	}
	first := id(cell("x"))
	if second := id(cell("x"), first); second == first || second != id(cell("x"), first) {
		t.Errorf("second equal cell got %s after %s", second, first)
	}
	if first == id(cell("y")) || !validID(first) {
		t.Errorf("id %s", first)
	}
}

func TestWriteFileReplacesAtOnceAndKeepsTheMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "n.ipynb")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Notebook{}).WriteFile(path); err != nil {
		t.Fatal(err)
	}
	st, _ := os.Stat(path)
	entries, _ := os.ReadDir(dir)
	if st.Mode().Perm() != 0o600 || len(entries) != 1 {
		t.Errorf("mode %v, %d files in the folder, want 0600 and 1", st.Mode(), len(entries))
	}
	if err := (&Notebook{}).WriteFile(filepath.Join(dir, "none", "n.ipynb")); err == nil {
		t.Error("writing into a missing folder gave no error")
	}
}

func TestStripLeavesSourcesAndIds(t *testing.T) {
	nb, _, err := ReadFile(samples(t)["py-streams-split-4.4"])
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range nb.Cells {
		ids = append(ids, c.ID+c.Source)
	}
	nb.Strip()
	for i, c := range nb.Cells {
		if len(c.Outputs) > 0 || c.ExecutionCount != nil || c.Metadata["execution"] != nil || c.ID+c.Source != ids[i] {
			t.Errorf("cell %d: %+v", i+1, c)
		}
	}
}

func TestJoinStreamsMakesOneOfTwentyPieces(t *testing.T) {
	nb, _, err := ReadFile(samples(t)["py-streams-split-4.4"])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range nb.Cells {
		if n := len(c.Outputs); n == 20 {
			joined := JoinStreams(c.Outputs)
			if len(joined) != 1 || c.Outputs[0].Text == joined[0].Text {
				t.Errorf("%d outputs after joining, first text %q", len(joined), joined[0].Text)
			}
			return
		}
	}
	t.Error("no cell with 20 outputs")
}

// TestBytesEqualPythonNbformat compares with nbformat itself, and lets it validate what was written.
func TestBytesEqualPythonNbformat(t *testing.T) {
	python := os.Getenv("ROOFLAB_PYTHON")
	if python == "" {
		t.Skip("set ROOFLAB_PYTHON to a Python with nbformat to compare with it")
	}
	if out, err := exec.Command(python, "-c", "import nbformat").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s cannot import nbformat: %v\n%s", python, err, out)
		}
		t.Skipf("%s cannot import nbformat: %v", python, err)
	}
	const script = `
import sys, nbformat
ours, out = sys.argv[1:]
nb = nbformat.read(ours, as_version=nbformat.NO_CONVERT)
if nb.nbformat_minor <= 5: nbformat.validate(nb)
nbformat.write(nb, out)
`
	dir := t.TempDir()
	for name, file := range samples(t) {
		nb, diags, err := ReadFile(file)
		if err != nil || Malformed(diags) != nil {
			continue
		}
		ours, theirs := filepath.Join(dir, name+".ipynb"), filepath.Join(dir, name+".python.ipynb")
		if err := nb.WriteFile(ours); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(python, "-W", "ignore", "-c", script, ours, theirs).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		a, _ := os.ReadFile(ours)
		b, _ := os.ReadFile(theirs)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: bytes differ (-python +ours):\n%.2000s", name, cmp.Diff(string(b), string(a)))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range samples(f) {
		if data, err := os.ReadFile(file); err == nil && len(data) < 4_000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nb, _, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		out, err := nb.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, diags, err := Parse("fuzz", out)
		if err != nil || Malformed(diags) != nil {
			t.Fatalf("own output: %v, %v", err, diags)
		}
		if out2, _ := again.Encode(); !bytes.Equal(out, out2) {
			t.Fatal("second writing differs")
		}
	})
}
