// Package golden compares the output of a test with a file in testdata; -update writes the file anew.
// It is for tests only, and does not decide what a test shows.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Check compares got with testdata/NAME line by line. A difference fails the test and leaves NAME.got beside the file.
func Check(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n"))
	t.Errorf("%s changed (-want +got; look at it, then -update):\n%.4000s", path, d)
	if err := os.WriteFile(path+".got", []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}
