package kineto_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/kineto"
)

var update = flag.Bool("update", false, "write the wanted results anew")

// options are the "key: value" lines of a txtar comment.
func options(comment string) map[string]string {
	opts := map[string]string{"name": "trace_rank0.json"}
	for _, line := range strings.Split(comment, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok && !strings.Contains(key, " ") {
			opts[key] = value
		}
	}
	return opts
}

// pack makes the bytes of the file: with a byte order mark, as gzip in n members, or as gzip that is cut off.
func pack(t testing.TB, text []byte, opts map[string]string) []byte {
	t.Helper()
	if opts["bom"] == "yes" {
		text = append([]byte("\xef\xbb\xbf"), text...)
	}
	mode := opts["gzip"]
	if mode == "" {
		return text
	}
	members := 1
	fmt.Sscan(mode, &members)
	var out bytes.Buffer
	for i := range members {
		z := gzip.NewWriter(&out)
		if _, err := z.Write(text[len(text)*i/members : len(text)*(i+1)/members]); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if mode == "cut" {
		out.Truncate(out.Len() * 6 / 10)
	}
	return out.Bytes()
}

// dump writes everything a Rank holds.
func dump(r *trace.Rank, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error %v\n", err)
	}
	if r == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "rank %d of %d, device %q, base %d, %d events, %d kernel launches, %d graph launches\n", r.Rank, r.WorldSize, r.Device, r.BaseNs, r.Events, r.KernelLaunches, r.GraphLaunches)
	for _, k := range r.Kernels {
		fmt.Fprintf(&b, "gpu %d +%d device %s stream %s kind %d step %d linked %v graph %v %q\n", k.Start, k.Dur, r.Devices[k.Device], r.Streams[k.Stream], k.Kind, k.Step, k.Flags&trace.Linked != 0, k.Graph(), r.Name(k))
	}
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "step %s %d + %d tokens, %d events, %d to %d\n", s.Kind, s.ContextTokens, s.GenerationTokens, s.Events, s.Start, s.End)
	}
	for _, d := range r.Health {
		fmt.Fprintf(&b, "health %s %s %d: %v\n", d.Severity, d.ID, d.N, d)
	}
	return b.String()
}

func TestTraps(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) < 15 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opts := options(string(ar.Comment))
			raw := pack(t, ar.Files[0].Data, opts)
			got := dump(kineto.Read(bytes.NewReader(raw), opts["name"]))
			// However few bytes a read returns, the result is the same.
			if slow := dump(kineto.Read(iotest.OneByteReader(bytes.NewReader(raw)), opts["name"])); slow != got {
				t.Errorf("read byte by byte:\n%s", cmp.Diff(got, slow))
			}
			if strings.Contains(got, "secret") {
				t.Error("the rank keeps a host or trace name")
			}
			if *update {
				ar.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(string(ar.Files[1].Data), got); d != "" {
				t.Errorf("(-update writes it anew)\n%s", d)
			}
		})
	}
}

func TestMissingFileIsOneClearMessage(t *testing.T) {
	_, err := kineto.ReadFile("testdata/none.json.gz")
	if err == nil || err.Error() != "read testdata/none.json.gz: no such file or directory" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHugeEventIsRefused(t *testing.T) {
	huge := strings.NewReader(`{"traceEvents":[{"name":"` + strings.Repeat("x", 65<<20))
	_, err := kineto.Read(huge, "huge.json")
	if err == nil || !strings.Contains(err.Error(), "one event is larger than 64 MB") {
		t.Errorf("got %v", err)
	}
}

func TestLimitsAreNamed(t *testing.T) {
	event := `{"traceEvents":[{"ph":"X","cat":"kernel","name":"` + strings.Repeat("n", 200) + `","ts":1,"dur":1}]}`
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{event, 100, "read t.json: byte 16: one event is larger than 100 bytes; this is no profiler trace, or it is damaged; --max-event-bytes raises the limit"},
		{strings.Replace(event, "nn", `\n`, 1), 100, "--max-event-bytes raises the limit"},
		{`{"traceEvents":[{"args":` + strings.Repeat(`{"a":`, 10_000), 0, "values are nested more than 10000 deep"},
		{event, 1000, ""},
	} {
		_, err := kineto.Options{MaxEventBytes: c.limit}.Read(strings.NewReader(c.text), "t.json")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("limit %d: got %v, want %q", c.limit, err, c.want)
		}
	}
}

func TestLongNamesAreCutAndCounted(t *testing.T) {
	long := strings.Repeat("void f<", 20_000)
	text := `{"distributedInfo":{"rank":0},"traceEvents":[{"ph":"X","cat":"kernel","name":"` + long + `","ts":1,"dur":1},{"ph":"X","cat":"kernel","name":"` + long + `x","ts":2,"dur":1}]}`
	r, err := kineto.Read(strings.NewReader(text), "t.json")
	if err != nil || len(r.Names) != 1 || len(r.Names[0]) != 64<<10 {
		t.Fatalf("%v, %d names", err, len(r.Names))
	}
	i := slices.IndexFunc(r.Health, func(d diag.Diagnostic) bool { return d.ID == "long_name" })
	if i < 0 || r.Health[i].N != 2 {
		t.Errorf("health %v", r.Health)
	}
}

// TestEveryCutIsReported cuts a trace at every byte: no cut passes silently, and what was read before it is kept.
func TestEveryCutIsReported(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/overlap.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.TrimSpace(ar.Files[0].Data)
	last := 0
	for n := 1; n < len(text); n++ {
		r, err := kineto.Read(bytes.NewReader(text[:n]), "rank0.json")
		var cut *kineto.TruncatedError
		if !errors.As(err, &cut) || r == nil {
			t.Fatalf("cut at byte %d of %d: %v", n, len(text), err)
		}
		if len(r.Kernels) < last {
			t.Fatalf("cut at byte %d: %d kernels, fewer than with a shorter text", n, len(r.Kernels))
		}
		last = len(r.Kernels)
	}
	if last != 2 {
		t.Errorf("the longest cut holds %d kernels", last)
	}
}

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pack(f, ar.Files[0].Data, options(string(ar.Comment))))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := kineto.Read(bytes.NewReader(raw), "rank0.json")
		if r == nil && err == nil {
			t.Fatal("neither rank nor error")
		}
		if r == nil {
			return
		}
		for i, k := range r.Kernels {
			if k.Dur < 0 || i > 0 && k.Start < r.Kernels[i-1].Start || int(k.Step) >= len(r.Steps) || int(k.Name) >= len(r.Names) {
				t.Fatalf("kernel %d: %+v", i, k)
			}
		}
	})
}
