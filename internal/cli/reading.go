package cli

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/perfetto"
)

// reading shows how far the files are read, on one line that is rewritten: for large files, on a terminal, and nowhere else.
type reading struct {
	w     io.Writer // nil: says nothing
	total int64     // bytes of all files
	now   func() time.Time

	mu           sync.Mutex
	read         int64
	begun, shown time.Time
}

// largeFiles is the size in bytes from which reading takes long enough to be shown.
const largeFiles = 50_000_000

func newReading(stderr io.Writer, paths []string) *reading {
	r := &reading{now: time.Now}
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			r.total += st.Size()
		}
	}
	if r.total > largeFiles && newProgress(stderr).tty {
		r.w = stderr
		r.begun = r.now()
	}
	return r
}

// more takes n further bytes; files are read at once.
func (r *reading) more(n int) {
	if r.w == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += int64(n)
	now := r.now()
	if now.Sub(r.shown) < 100*time.Millisecond {
		return
	}
	r.shown = now
	fmt.Fprintf(r.w, "\r\x1b[Kread %s of %s", units.Bytes(r.read), units.Bytes(r.total))
	if took := now.Sub(r.begun); took >= 100*time.Millisecond {
		fmt.Fprintf(r.w, ", %s/s", units.Bytes(int64(float64(r.read)/took.Seconds())))
	}
}

// clear removes the line.
func (r *reading) clear() {
	if r.w != nil && !r.shown.IsZero() {
		fmt.Fprint(r.w, "\r\x1b[K")
	}
}

// writePerfetto writes the annotated trace to a file, packed when its name ends in .gz. It never writes over a file that is read.
func writePerfetto(path string, got *analyze.Analysis, inputs []string) (err error) {
	if out, statErr := os.Stat(path); statErr == nil {
		for _, in := range inputs {
			if st, err := os.Stat(in); err == nil && os.SameFile(st, out) {
				return fmt.Errorf("write %s: it is one of the traces that are read; choose another name", path)
			}
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the Perfetto trace: %w", err)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if !strings.HasSuffix(path, ".gz") {
		return perfetto.Write(f, got.Traces, got.Classes)
	}
	z := gzip.NewWriter(f)
	if err := perfetto.Write(z, got.Traces, got.Classes); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
