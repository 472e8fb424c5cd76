package analyze_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/kineto"
)

// BenchmarkAnalyze compares a process that analyses the largest campaign trace, and the same grown 10 (and, with
// ROOFLAB_BENCH_40X set, 40) times, with "zcat FILE >/dev/null". The two run in turn, so that both see the same machine; the figures
// are ratios of medians, of wall time and of CPU time, the child's peak memory and that memory beside its bound (64 MB + 48 bytes
// per GPU event).
func BenchmarkAnalyze(b *testing.B) {
	zcat, err := exec.LookPath("zcat")
	if err != nil {
		b.Skip("there is no zcat to compare with")
	}
	for _, times := range []int{1, 10, 40} {
		b.Run(strconv.Itoa(times)+"x", func(b *testing.B) {
			file := path(b, "hostmem-graph-uniform/c1_rank0")
			switch {
			case times == 40 && os.Getenv("ROOFLAB_BENCH_40X") == "":
				b.Skip("set ROOFLAB_BENCH_40X to run it")
			case times > 1:
				file = grow(b, file, times)
			}
			r, err := kineto.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			bound := 64<<20 + 48*len(r.Kernels)
			r = nil
			var ours, theirs []usage
			for b.Loop() {
				for range 5 {
					theirs = append(theirs, measure(exec.Command(zcat, file), false))
					ours = append(ours, measure(analyzeChild(b, file), true))
				}
			}
			wall := func(u usage) time.Duration { return u.wall }
			cpu := func(u usage) time.Duration { return u.cpu }
			peak := slices.MaxFunc(ours, func(x, y usage) int { return int(x.peak - y.peak) }).peak
			b.ReportMetric(median(ours, wall)/median(theirs, wall), "x-zcat")
			b.ReportMetric(median(ours, cpu)/median(theirs, cpu), "x-zcat-cpu")
			b.ReportMetric(float64(peak)/1e6, "peak-MB")
			b.ReportMetric(float64(peak)/float64(bound), "x-bound")
		})
	}
}

func median(us []usage, of func(usage) time.Duration) float64 {
	ds := make([]time.Duration, len(us))
	for i, u := range us {
		ds[i] = of(u)
	}
	slices.Sort(ds)
	return ds[len(ds)/2].Seconds()
}

var (
	growTimes = regexp.MustCompile(`"ts": \d+`)
	growIDs   = regexp.MustCompile(`"(id|correlation|External id)": [1-9]\d*`)
)

// grow writes the events of a trace several times one after another: each copy begins later and has ids of its own.
func grow(b *testing.B, file string, times int) string {
	b.Helper()
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		b.Fatal(err)
	}
	const begin, end = `"traceEvents": [`, "\n  ],"
	from := bytes.Index(text, []byte(begin)) + len(begin)
	to := bytes.LastIndex(text, []byte(end))
	if from < len(begin) || to < from {
		b.Fatal("the trace has another layout")
	}
	grown := filepath.Join(b.TempDir(), "rank0.json.gz")
	out, err := os.Create(grown)
	if err != nil {
		b.Fatal(err)
	}
	z := gzip.NewWriter(out)
	z.Write(text[:from])
	for k := range times {
		if k > 0 {
			io.WriteString(z, ",")
		}
		events := growTimes.ReplaceAllFunc(text[from:to], func(m []byte) []byte { return add(m, k*300_000) })
		z.Write(growIDs.ReplaceAllFunc(events, func(m []byte) []byte { return add(m, k*1_000_000) }))
	}
	z.Write(text[to:])
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
	return grown
}

// add adds to the number at the end of m.
func add(m []byte, more int) []byte {
	at := bytes.LastIndexByte(m, ' ') + 1
	n, _ := strconv.Atoi(string(m[at:]))
	return strconv.AppendInt(bytes.Clone(m[:at]), int64(n+more), 10)
}

// BenchmarkRanks analyses eight ranks of one run together and compares the wall time with that of perfectly divided work: the CPU
// time of all ranks, each analysed by itself, divided by the cores. Each alone keeps more than one core busy, so that the sum of
// their wall times is no measure.
func BenchmarkRanks(b *testing.B) {
	const ranks = 8
	var files []string
	for rank := range ranks {
		files = append(files, asRank(b, path(b, "hostmem-graph-uniform/c1_rank0"), rank))
	}
	var together, alone []usage
	for b.Loop() {
		for range 3 {
			var sum usage
			for _, f := range files {
				sum.cpu += measure(analyzeChild(b, f), true).cpu
			}
			alone = append(alone, sum)
			together = append(together, measure(analyzeChild(b, files...), true))
		}
	}
	cpu := func(u usage) time.Duration { return u.cpu }
	whole := median(alone, cpu) / float64(runtime.GOMAXPROCS(0))
	b.ReportMetric(median(together, func(u usage) time.Duration { return u.wall })/whole, "x-cpu-per-core")
	b.ReportMetric(median(together, cpu)/median(alone, cpu), "x-cpu")
}

// asRank writes a trace of rank 0 as one of another rank.
func asRank(b *testing.B, file string, rank int) string {
	b.Helper()
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		b.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"rank": 0, "world_size": 2`), fmt.Appendf(nil, `"rank": %d, "world_size": 8`, rank), 1)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(text)
	z.Close()
	to := filepath.Join(b.TempDir(), fmt.Sprintf("rank%d.json.gz", rank))
	if err := os.WriteFile(to, out.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	return to
}

// BenchmarkFiles analyses the largest campaign trace in this process; allocations do not grow with its events.
func BenchmarkFiles(b *testing.B) {
	file := path(b, "hostmem-graph-uniform/c1_rank0")
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		r, err := analyze.Files(file)
		if err != nil {
			b.Fatal(err)
		}
		events = r.Ranks[0].Events
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
}
