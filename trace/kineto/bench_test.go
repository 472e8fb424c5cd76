package kineto_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/kineto"
)

// BenchmarkReadFile reads the largest campaign trace and reports how much longer that takes than only decompressing it.
func BenchmarkReadFile(b *testing.B) {
	path := filepath.Join(sharedtest.Dir(b), "campaign/hostmem-graph-uniform/c1_rank0.pt.trace.json.gz")
	var gunzip time.Duration
	events := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		start := time.Now()
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, z)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
		gunzip += time.Since(start)
		b.SetBytes(n)
		b.StartTimer()
		r, err := kineto.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		events = r.Events
	}
	b.ReportMetric(float64(b.Elapsed())/float64(gunzip), "x/gunzip")
	b.ReportMetric(float64(events), "events")
}
