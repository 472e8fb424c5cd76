package campaign

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/target"
)

// box puts a stand-in for docker into the PATH that runs the words of `docker exec box` here. Of a read it passes only the
// first bytes on, as often as the file "cuts" says, and then breaks off; the script "then", if there is one, runs after the first.
func box(t *testing.T, cutAfter, cuts int) target.Host {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
shift 2
dir=` + dir + `
left=$(cat $dir/cuts)
case "$*" in *tail*)
	echo read >>$dir/reads
	if [ "$left" -gt 0 ]; then
		echo $((left - 1)) >$dir/cuts
		"$@" | head -c ` + strconv.Itoa(cutAfter) + `
		[ ! -e $dir/then ] || { sh $dir/then; rm $dir/then; }
		exit 255
	fi ;;
esac
exec "$@"
`
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cuts"), []byte(strconv.Itoa(cuts)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("BOX", dir)
	h, err := target.Parse("docker:box")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestFetchThatBreaksGoesOnWhereItWas(t *testing.T) {
	h := box(t, 30_000, 3)
	there, here := t.TempDir(), t.TempDir()
	body := make([]byte, 100_000)
	if _, err := rand.Read(body); err != nil {
		t.Fatal(err)
	}
	const name = "dp0_rank0.1.pt.trace.json.gz"
	if err := os.WriteFile(filepath.Join(there, name), body, 0o644); err != nil {
		t.Fatal(err)
	}
	f := hostFolder{h, there, here, func(string) {}}
	files, err := f.list(t.Context())
	if err != nil || files[name].Size != int64(len(body)) {
		t.Fatalf("%v %v", files, err)
	}
	got, err := f.take(t.Context(), name, files[name])
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(got)
	if err != nil || string(b) != string(body) {
		t.Fatalf("%d bytes of %d, or others (%v)", len(b), len(body), err)
	}
	if same, err := f.same(t.Context(), name, got); !same || err != nil {
		t.Errorf("the copy differs: %v", err)
	}
	reads, err := os.ReadFile(filepath.Join(os.Getenv("BOX"), "reads"))
	if n := strings.Count(string(reads), "read"); n != 4 || err != nil {
		t.Errorf("%d reads (%v): three were cut, so the fourth brings the rest", n, err)
	}
	b[0]++
	if err := os.WriteFile(got, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if same, err := f.same(t.Context(), name, got); same || err != nil {
		t.Errorf("a damaged copy counts as the same (%v)", err)
	}
	// Written again and shorter: the old copy is of no use.
	if err := os.WriteFile(filepath.Join(there, name), body[:500], 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err = f.take(t.Context(), name, fileState{Size: 500}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(got); string(b) != string(body[:500]) {
		t.Errorf("%d bytes instead of the 500 new ones", len(b))
	}
	if f.drop(name); exists(got) {
		t.Error("the copy stays behind")
	}
}

func TestFetchThatNeverComesSaysSo(t *testing.T) {
	h := box(t, 0, 1000)
	there := t.TempDir()
	if err := os.WriteFile(filepath.Join(there, "a_rank0.pt.trace.json.gz"), make([]byte, 10), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err := hostFolder{h, there, t.TempDir(), func(string) {}}.take(ctx, "a_rank0.pt.trace.json.gz", fileState{Size: 10})
	if err == nil || !strings.Contains(err.Error(), "fetch a_rank0.pt.trace.json.gz from docker:box") || !strings.Contains(err.Error(), "goes on there") {
		t.Errorf("%v", err)
	}
}

// stored is a complete trace of one rank whose size depends on n only.
func stored(t *testing.T, fill string, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(`{"traceEvents": [], "fill": "` + strings.Repeat(fill, n) + `"}`)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fetching is a session that looks for traces in a folder of the box.
func fetching(t *testing.T, h target.Host, there string, patience time.Duration) *Session {
	dir := t.TempDir()
	s := &Session{dir: dir, teller: teller{dir: dir}, patience: patience, poll: 10 * time.Millisecond, limits: Limits{TraceBytes: 1 << 30}}
	s.folder = hostFolder{h, there, filepath.Join(dir, ".fetch"), func(string) {}}
	return s
}

func reads(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(os.Getenv("BOX"), "reads"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "read")
}

// A copy of which one half is from before and one from after is no trace, and must not stay for ever.
func TestTraceThatIsWrittenAnewIsFetchedAnew(t *testing.T) {
	const name = "dp0_rank0.1.pt.trace.json.gz"
	for what, c := range map[string]struct {
		now   []byte
		cuts  int
		reads int
	}{
		"while it is fetched, with the same size": {stored(t, "b", 90_000), 1, 3},
		"while it is fetched, larger":             {stored(t, "b", 200_000), 1, 3},
		"while it is fetched, shorter":            {stored(t, "b", 20_000), 1, 3},
		"before the fetch goes on":                {stored(t, "b", 90_000), 0, 2},
	} {
		t.Run(what, func(t *testing.T) {
			h, there := box(t, 30_000, c.cuts), t.TempDir()
			s := fetching(t, h, there, 20*time.Second) // only a failure waits for it
			old, file := stored(t, "a", 90_000), filepath.Join(there, name)
			write := func(name string, b []byte) {
				t.Helper()
				if err := writeFile(name, bytes.NewReader(b)); err != nil {
					t.Fatal(err)
				}
			}
			if c.cuts > 0 {
				write(file, old)
				write(file+".new", c.now)
				write(filepath.Join(os.Getenv("BOX"), "then"), []byte("mv "+file+".new "+file+"\n"))
			} else {
				write(file, c.now)
				write(filepath.Join(s.dir, ".fetch", name), old[:30_000])
			}
			traces, _, _, err := s.await(t.Context(), 1, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(traces[0].path); err != nil || !bytes.Equal(b, c.now) {
				t.Errorf("%d bytes, which are not those of the trace there (%v)", len(b), err)
			}
			if n := reads(t); n != c.reads {
				t.Errorf("%d reads, want %d", n, c.reads)
			}
		})
	}
}

func TestTraceThatIsNeverCompleteIsFetchedOnce(t *testing.T) {
	h, there := box(t, 0, 0), t.TempDir()
	whole := stored(t, "a", 90_000)
	if err := os.WriteFile(filepath.Join(there, "dp0_rank0.1.pt.trace.json.gz"), whole[:50_000], 0o644); err != nil {
		t.Fatal(err)
	}
	s := fetching(t, h, there, 300*time.Millisecond)
	_, _, _, err := s.await(t.Context(), 1, nil, "")
	if err == nil || !strings.Contains(err.Error(), "1 new files, the last is not complete: read dp0_rank0.1.pt.trace.json.gz: unexpected EOF") {
		t.Errorf("%v", err)
	}
	if n := reads(t); n != 1 {
		t.Errorf("%d reads of a file that stayed as it was", n)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".fetch", "*")); len(left) > 0 {
		t.Errorf("of no use and left: %v", left)
	}
}
