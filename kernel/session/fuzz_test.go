package session

import (
	"errors"
	"go/types"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzCells: no text makes the session panic; faults lie inside the cell; what is accepted compiles.
func FuzzCells(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range a.Files {
			f.Add("x := 1", string(c.Data))
		}
	}
	f.Add("type T struct{ a int }\nt := T{1}\nfunc g(t T) int { return t.a }", "func (t T) m() { t.a++ }")
	f.Add("", "} func f() {")
	f.Add("", "import \"")
	f.Add("", "if x {\n} else\n")
	f.Add("", "//line a.go:5\nx := y")
	known := func(path string) bool { _, ok := archives.Load(path); return ok }
	for _, path := range []string{rtPath, displayPath, "fmt", "unsafe"} { // and what they need
		archive(path)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		s := New(func(path string) (io.ReadCloser, error) {
			if !known(path) {
				return nil, errors.New("no package " + path)
			}
			return archive(path)
		})
		e := &emitted{s, map[string]*types.Package{}}
		for i, src := range []string{first, second, second} {
			u, err := s.CompileSlow(i+1, src)
			if err != nil {
				inside(t, i+1, src, err)
				continue
			}
			if _, err := s.Compile(i+1, src); err != nil {
				t.Fatalf("accepted once: %v", err)
			}
			if err := e.check(u); err != nil && !excused(src, err) {
				t.Fatalf("accepted, but does not compile: %v\n%s\n%s", err, src, strings.ReplaceAll(string(u.Source), Prefix, "@"))
			}
			u.Commit()
		}
	})
}

// inside fails unless every fault has a position in the cell.
func inside(t *testing.T, n int, src string, err error) {
	var list ErrorList
	if !errors.As(err, &list) || len(list) == 0 || len(list) > maxErrors {
		t.Fatalf("%T %v", err, err)
	}
	lines := strings.Split(src, "\n")
	for _, e := range list {
		if e.Cell > n || e.Cell < 1 || e.Cell == n && (e.Line < 1 || e.Line > len(lines) || e.Col < 1 || e.Col > len(lines[e.Line-1])+1) {
			t.Fatalf("cell %d: %q: %v", n, src, e)
		}
	}
}

// excused: what only the compiler sees in the whole file.
func excused(src string, err error) bool {
	return strings.Contains(src, "//line") || strings.Contains(src, "/*line") || strings.Contains(src, "go:linkname")
}
