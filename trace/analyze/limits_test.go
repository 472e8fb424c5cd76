package analyze_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// TestHostileFilesStayInMemory writes files of up to 1 GB of JSON that ask for much memory: each is refused with the limit that
// it passes, or analysed, within 512 MB.
func TestHostileFilesStayInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads several GB")
	}
	if runtime.GOOS != "linux" {
		t.Skip("peak memory is read from /proc")
	}
	const gb = 1 << 30
	events := func(format string) func(w io.Writer, i int) {
		return func(w io.Writer, i int) { fmt.Fprintf(w, format, i) }
	}
	same := func(text string) func(w io.Writer, i int) {
		return func(w io.Writer, _ int) { io.WriteString(w, text) }
	}
	for _, c := range []struct {
		name string
		next func(w io.Writer, i int) // writes the i-th piece of the array of events
		size int
		want string // in the message; empty when the file is analysed
	}{
		{"many kernels", events(`{"ph":"X","cat":"kernel","ts":%d,"dur":9,"name":"k","tid":1},` + "\n"), 340 << 20, ""},
		{"too many kernels", events(`{"ph":"X","cat":"kernel","ts":%d,"dur":9,"tid":1},` + "\n"), gb, "more than 6000000 GPU events and launches"},
		{"too many launches", events(`{"ph":"X","cat":"cuda_runtime","ts":%d,"args":{"correlation":%[1]d}},` + "\n"), gb, "more than 6000000 GPU events and launches"},
		{"too many steps", events(`{"ph":"X","cat":"user_annotation","ts":%d,"name":"step[DECODE bs=%[1]d]"},` + "\n"), gb, "more than 100000 steps"},
		{"too many devices", events(`{"ph":"X","cat":"kernel","ts":%d,"dur":9,"name":"k","args":{"device":%[1]d}},` + "\n"), gb, "more than 1024 devices"},
		{"names", events(`{"ph":"X","cat":"kernel","ts":%d,"dur":9,"name":"` + strings.Repeat("n", 1000) + `%[1]d"},` + "\n"), gb, "bytes of different names"},
		{"long names", events(`{"ph":"X","cat":"kernel","ts":%d,"dur":9,"name":"%[1]d` + strings.Repeat("void cutlass::Kernel2<", 2<<20) + `"},` + "\n"), 600 << 20, ""},
		{"one string", same(strings.Repeat("x", 1<<20)), gb, "one event is larger than 64 MB"},
		{"white space", same(strings.Repeat(" ", 1<<20)), gb, "one event is larger than 64 MB"},
		{"nesting", same(strings.Repeat("[", 1<<20)), gb, "nested more than 10000 deep"},
		{"small events", same(strings.Repeat("{},", 1<<18)), gb, "unpacks to more than 500 times its size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rank0.json.gz")
			start := `{"traceEvents":[`
			if c.name == "one string" {
				start += `{"name":"`
			}
			write(t, path, start, c.next, c.size)
			u := measure(analyzeChild(t, path), true)
			t.Logf("%d MB, %v: %s", u.peak>>20, u.cpu, u.stderr)
			if u.peak == 0 || u.peak > 512<<20 {
				t.Errorf("took %d MB", u.peak>>20)
			}
			if !strings.Contains(u.stderr, c.want) || c.want == "" && u.stderr != "" {
				t.Errorf("got %q, want %q", u.stderr, c.want)
			}
		})
	}
}

// write makes a gzip file of about size bytes of JSON: start, pieces, and the end of a trace.
func write(t testing.TB, path, start string, next func(w io.Writer, i int), size int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(z, 1<<20)
	io.WriteString(w, start)
	for i, n := 1, counting(0); int(n) < size; i++ {
		next(io.MultiWriter(w, &n), i)
	}
	io.WriteString(w, `]}`)
	for _, err := range []error{w.Flush(), z.Close(), f.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// counting is a writer that counts.
type counting int

func (c *counting) Write(p []byte) (int, error) {
	*c += counting(len(p))
	return len(p), nil
}
