package analyze_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

// FuzzAnalyze takes any text from the file to the tables: nothing panics, and the figures add up.
func FuzzAnalyze(f *testing.F) {
	traps, _ := filepath.Glob("../kineto/testdata/*.txtar")
	for _, trap := range traps {
		ar, err := txtar.ParseFile(trap)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(ar.Files[0].Data)
	}
	for _, name := range []string{"hta_compare_base", "hta_event_sync_multistream", "hta_mi250_rocm62", "hta_triton_cpuop_stream"} {
		raw, err := os.ReadFile(filepath.Join(sharedtest.Dir(f), "traces/public", name+".json.gz"))
		if err != nil {
			f.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			f.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, _ := kineto.Options{Host: true}.Read(bytes.NewReader(text), "rank0.json")
		if r == nil || len(r.Kernels) == 0 {
			return
		}
		cls := classify.Run(r)
		of := breakdown.Of(r, cls)
		var ns, overlap, idle int64
		events := 0
		for _, c := range of.Components {
			ns, overlap, events = ns+c.Ns, overlap+c.OverlapNs, events+c.N
		}
		for _, c := range of.Host.Idle {
			idle += c.Ns
		}
		if ns != of.SummedNs || events != of.GPUEvents || overlap != of.OverlapNs || of.SummedNs-of.OverlapNs != of.BusyNs || of.BusyNs+of.IdleNs != of.SpanNs || idle != of.IdleNs {
			t.Errorf("components %d ns, %d overlap, %d events; causes of idle %d; %d summed, %d overlap, %d busy, %d idle, %d span", ns, overlap, events, idle,
				of.SummedNs, of.OverlapNs, of.BusyNs, of.IdleNs, of.SpanNs)
		}
		if w := of.Whole; w != nil && (w.BusyNs+w.IdleNs != w.SpanNs || w.SummedNs-w.OverlapNs != w.BusyNs || w.SummedNs > of.SummedNs || w.IdleNs < 0) { // idle may be more than the file's: a device may be idle in a step before its first event
			t.Errorf("%+v of %+v", w, of)
		}
		for i, s := range of.StepTable {
			if s.IdleNs < 0 || s.SpanNs < 0 {
				t.Errorf("step %d: %+v", i, s)
			}
		}
		report := breakdown.Report{Ranks: []breakdown.Rank{of, of}}
		for _, by := range breakdown.Views() {
			if _, err := report.View(by, 2, false); err != nil {
				t.Error(err)
			}
		}
		if c, err := breakdown.Match([]*trace.Rank{r, r}, []*classify.Result{cls, cls}); err != nil || c.Straggler != nil {
			t.Errorf("a rank waits for itself: %v %+v", err, c)
		}
	})
}
