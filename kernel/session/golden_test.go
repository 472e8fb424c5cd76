package session

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/rooflab/rooflab/internal/golden"
)

// archives finds export data with the go command, once for each package.
var archives sync.Map

func archive(path string) (io.ReadCloser, error) {
	file, ok := archives.Load(path)
	if !ok {
		out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", path).Output()
		if err != nil {
			return nil, errors.New("no package " + path)
		}
		for _, l := range strings.Fields(string(out)) {
			if p, f, ok := strings.Cut(l, "="); ok && f != "" {
				archives.Store(p, f)
			}
		}
		if file, ok = archives.Load(path); !ok {
			return nil, errors.New("no package " + path)
		}
	}
	return os.Open(file.(string))
}

// emitted checks the generated sources as the compiler would: whatever is accepted as a cell must compile.
type emitted struct {
	s     *Session
	cells map[string]*types.Package
}

func (e *emitted) Import(path string) (*types.Package, error) {
	if p := e.cells[path]; p != nil {
		return p, nil
	}
	return e.s.imp.Import(path)
}

func (e *emitted) check(u *Unit) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", u.Source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	conf := types.Config{GoVersion: "go1.26", Importer: e, Sizes: types.SizesFor("gc", "amd64")}
	files := []*ast.File{f}
	if u.Cgo {
		text, err := cgo(u.N, u.Source)
		if err != nil {
			return err
		}
		c, err := parser.ParseFile(fset, gotypes, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, c)
		usesCgo(&conf)
	}
	p, err := conf.Check(PkgPath(u.N), fset, files, nil)
	if err != nil {
		return err
	}
	e.cells[PkgPath(u.N)] = p
	return nil
}

// cgo runs the tool of that name.
func cgo(n int, file []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "cgo")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "cell.go"), file, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "tool", "cgo", "-objdir", dir, "cell.go")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cgo: %s", out)
	}
	return os.ReadFile(filepath.Join(dir, gotypes))
}

// TestEmit shows what cells become. @ stands for the prefix. Each .txtar file is a notebook.
func TestEmit(t *testing.T) {
	files, _ := filepath.Glob("testdata/emit/*.txtar")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := New(archive)
			s.Cgo = cgo
			e := &emitted{s, map[string]*types.Package{}}
			var b strings.Builder
			for _, f := range a.Files {
				n, _ := strconv.Atoi(f.Name)
				u, err := s.CompileSlow(n, string(f.Data))
				if err != nil {
					t.Fatalf("cell %d: %v", n, err)
				}
				if err := e.check(u); err != nil {
					t.Errorf("cell %d does not compile: %v", n, err)
				}
				fmt.Fprintf(&b, "-- %d --\n%s", n, describe(u))
				u.Commit()
			}
			golden.Check(t, "emit/"+name+".golden", b.String())
		})
	}
}

func describe(u *Unit) string {
	var b strings.Builder
	for _, n := range u.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, m := range u.Moved {
		fmt.Fprintf(&b, "moved: %d lines at cell[%d]:%d are code of cell[%d]:%d\n", m.Lines, m.Cell, m.Line, m.FromCell, m.FromLine)
	}
	for _, e := range u.Embeds {
		fmt.Fprintf(&b, "embeds: %s at %d:%d\n", e.Pattern, e.Line, e.Col)
	}
	fmt.Fprintf(&b, "deps: %v empty: %v cgo: %v\n", u.Deps, u.Empty, u.Cgo)
	b.WriteString(strings.ReplaceAll(string(u.Source), Prefix, "@"))
	return b.String()
}
