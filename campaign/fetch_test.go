package campaign

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/campaign/target"
)

// box puts a stand-in for docker into the PATH that runs the words of `docker exec box` here. Of a read it passes only the
// first bytes on, as often as the file "cuts" says, and then breaks off.
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
	if err != nil || files[name].size != int64(len(body)) {
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
	if got, err = f.take(t.Context(), name, fileState{size: 500}); err != nil {
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
	_, err := hostFolder{h, there, t.TempDir(), func(string) {}}.take(ctx, "a_rank0.pt.trace.json.gz", fileState{size: 10})
	if err == nil || !strings.Contains(err.Error(), "fetch a_rank0.pt.trace.json.gz from docker:box") || !strings.Contains(err.Error(), "goes on there") {
		t.Errorf("%v", err)
	}
}
