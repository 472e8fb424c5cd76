package kineto_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/kineto"
)

// TestFiguresDoNotMoveUnderRewriting rewrites a real decode step in ways that keep its meaning: the figures stay.
func TestFiguresDoNotMoveUnderRewriting(t *testing.T) {
	f, err := os.Open(filepath.Join(sharedtest.Dir(t), "traces/public/tl_vllm_decode_full_exec.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var events []json.RawMessage
	if err := json.Unmarshal(doc["traceEvents"], &events); err != nil {
		t.Fatal(err)
	}
	read := func(raw []byte) reference {
		r, err := kineto.Read(bytes.NewReader(raw), "rank0.json")
		if err != nil {
			t.Fatal(err)
		}
		return figures(r)
	}
	want := read(text.Bytes())
	if want.Kernels != 425 {
		t.Fatalf("%d kernels, the file has 425", want.Kernels)
	}
	encode := func() []byte {
		raw, err := json.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		doc["traceEvents"] = raw
		out, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	check := func(what string, raw []byte) {
		if got := read(raw); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
		}
	}
	compact := encode()
	check("compact, keys sorted", compact)
	check("one text in front of the events", bytes.Replace(compact, []byte(`"traceEvents":[`), []byte(`"metadata":{"x":"]}\"[{"},"traceEvents":[`), 1))
	check("pid and tid as text", regexp.MustCompile(`"(pid|tid)":(\d+)`).ReplaceAll(compact, []byte(`"$1":"[TP00] $2"`)))
	check("times as text", regexp.MustCompile(`"(ts|dur)":([0-9.]+)`).ReplaceAll(compact, []byte(`"$1":"$2"`)))
	check("times with six decimals", regexp.MustCompile(`"(ts|dur)":(\d+\.\d{3})\b`).ReplaceAll(compact, []byte(`"$1":${2}000`)))
	check("old spelling", bytes.ReplaceAll(compact, []byte(`"cat":"kernel"`), []byte(`"cat":"Kernel"`)))
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	check("shuffled", encode())
	var indented bytes.Buffer
	if err := json.Indent(&indented, compact, "", "\t"); err != nil {
		t.Fatal(err)
	}
	check("indented", indented.Bytes())
}
