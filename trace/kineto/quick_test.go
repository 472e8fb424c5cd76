package kineto_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/kineto"
)

// TestChunkBordersDoNotMatter cuts the same stream at other places.
func TestChunkBordersDoNotMatter(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		opts := options(string(ar.Comment))
		raw := pack(t, ar.Files[0].Data, opts)
		for _, size := range []int{1, 2, 3, 7, 64, 1000} {
			got := dump(kineto.ReadChunks(bytes.NewReader(raw), opts["name"], size))
			if d := cmp.Diff(string(ar.Files[1].Data), got); d != "" {
				t.Errorf("%s in chunks of %d bytes:\n%s", filepath.Base(file), size, d)
			}
		}
	}
}

// TestLongEventsCrossChunks reads events that are longer than what is kept between two chunks.
func TestLongEventsCrossChunks(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"distributedInfo":{"rank":0},"traceEvents":[`)
	for i := range 5 {
		text.WriteString(`{"ph":"X","cat":"cpu_op","name":"` + strings.Repeat(`long \" {`, 30_000*i) + `"},`)
		text.WriteString(`{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":{"stream":7,"x":[` + strings.Repeat("[],", 90_000*i) + `0]}},`)
	}
	text.WriteString(`]}`)
	r, err := kineto.Read(strings.NewReader(text.String()), "rank0.json")
	if err != nil || r.Events != 10 || len(r.Kernels) != 5 || r.Health[0].ID != "launched_before_window" || len(r.Health) != 1 {
		t.Errorf("%v\n%s", err, dump(r, nil))
	}
}

// agree decodes one event both ways and reports whether the quick way knows it.
func agree(t *testing.T, event []byte) bool {
	t.Helper()
	quick, n := kineto.DecodeQuick(append(bytes.Clone(event), ",\n         "...))
	if n == 0 {
		return false
	}
	if n != len(event) {
		t.Fatalf("quick sees %d bytes of %d in %s", n, len(event), event)
	}
	if d := cmp.Diff(dump(kineto.DecodeExact(event), nil), dump(quick, nil)); d != "" {
		t.Fatalf("%s\n%s", event, d)
	}
	return true
}

// TestQuickKnowsWhatProfilersWrite proves that the quick way is taken, and right, for almost every event of real files.
func TestQuickKnowsWhatProfilersWrite(t *testing.T) {
	for _, name := range []string{"traces/public/tl_vllm_decode_full_exec.json.gz", "campaign/hostmem-eager/c1_rank0.pt.trace.json.gz"} {
		f, err := os.Open(filepath.Join(sharedtest.Dir(t), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ TraceEvents []json.RawMessage }
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		known := 0
		for _, e := range doc.TraceEvents {
			if agree(t, e) {
				known++
			}
		}
		if known*100 < len(doc.TraceEvents)*99 {
			t.Errorf("%s: %d of %d events", name, known, len(doc.TraceEvents))
		}
	}
}

// FuzzQuickAgreesWithExact holds the field walk to gjson on everything that is JSON.
func FuzzQuickAgreesWithExact(f *testing.F) {
	for _, s := range []string{
		`{"ph":"X","cat":"kernel","name":"a<b>","pid":0,"tid":7,"ts":5187965661018.571,"dur":0.768,"args":{"External id":36,"device":0,"stream":17,"correlation":60,"grid":[1,1,1]}}`,
		`{"ph": "f", "id": 60, "pid": 0, "tid": 17, "ts": 1.5,` + "\n" + `"cat": "ac2g", "name": "}", "bp": "\"}"}`,
		`{"args":{"correlation":"7","correlation":8,"device":null},"cat":"Kernel","ph":"X","ts":"1","dur":2e3,"name":"k"}`,
		`{"ph":"X","ph":"i","cat":"kernel","ts":1,"dur":1}`, `{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":"[TP00] 1","ts":-3,"args":{"stream":{"a":[1]},"correlation":-9}}`,
		`{"ph":"X","cat":"user_annotation","name":"step[DECODE bs=32]","ts":1,"dur":2,"tid":1}`, `{"\u0070h":"X","cat":"kernel","name":"\u0041","ts":0,"dur":0}`,
		`{"ph":"X","cat":"gpu_memset","name":1,"ts":4,"dur":-1,"args":[]}`, `{}`, `{"ph":"X","cat":"kernel","ts":1,"dur":1,"args":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		if event = bytes.TrimSpace(event); len(event) > 1 && event[0] == '{' && json.Valid(event) {
			agree(t, event)
		}
	})
}
