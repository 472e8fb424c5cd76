package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestWriteReplacesInOneStep(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.json")
	for _, text := range []string{"first", "second", ""} {
		if err := Write(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil || string(b) != text {
			t.Errorf("%q %v, want %q", b, err, text)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestWriteThatFailsLeavesTheFileAsItWas(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.json")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err := Copy(name, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(full)), 0o644)
	if !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "write "+name+": ") {
		t.Errorf("error %v", err)
	}
	if b, err := os.ReadFile(name); string(b) != "old" {
		t.Errorf("%q %v", b, err)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := Write(filepath.Join(dir, "none", "a"), nil, 0o644); !os.IsNotExist(errors.Unwrap(err)) {
		t.Errorf("without a folder: %v", err)
	}
}
