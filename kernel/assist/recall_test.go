package assist

import (
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/kernel/session"
)

// notebookCells reads the code cells of a notebook.
func notebookCells(t *testing.T, file string) (cells []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var nb struct {
		Cells []struct {
			Type   string `json:"cell_type"`
			Source any
		}
	}
	if err := json.Unmarshal(b, &nb); err != nil {
		t.Fatal(err)
	}
	for _, c := range nb.Cells {
		if c.Type != "code" {
			continue
		}
		switch src := c.Source.(type) {
		case string:
			cells = append(cells, src)
		case []any:
			var s strings.Builder
			for _, line := range src {
				s.WriteString(line.(string))
			}
			cells = append(cells, s.String())
		}
	}
	return cells
}

// TestNamesThatWereWrittenAreOffered goes through the conformance notebooks. Every name that was written behind a dot,
// or is used, is taken away with all that follows it, up to its first letter; then it must be among the completions.
func TestNamesThatWereWrittenAreOffered(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(sharedtest.Dir(t), "notebooks/conformance/*.ipynb"))
	asked, found, first, top := 0, 0, 0, 0
	for _, file := range files {
		s := session.New(archive)
		a := quiet(Options{Session: s})
		for n, cell := range notebookCells(t, file) {
			u, err := s.CompileSlow(n+1, cell)
			if err != nil {
				continue // cells with errors on purpose
			}
			for _, at := range usedNames(cell) {
				name := cell[at[0]:at[1]]
				cut := at[0]
				if at[2] == 0 {
					cut++ // no dot before: a letter
				}
				got := texts(a.Complete(cell[:cut], cut))
				asked++
				switch i := slices.Index(got, name); {
				case i < 0:
					t.Logf("%s cell %d: %s is not offered behind %q: %.5q", filepath.Base(file), n+1, name, cell[max(0, cut-40):cut], got)
				default:
					found++
					if i == 0 {
						first++
					}
					if i < 10 {
						top++
					}
				}
			}
			u.Commit()
		}
	}
	t.Logf("asked %d, offered %d, among the first ten %d, first %d", asked, found, top, first)
	if asked < 500 || found*100 < asked*95 {
		t.Errorf("%d of %d names are offered", found, asked)
	}
}

// usedNames finds the names in a cell that declare nothing: where they begin and end, and 1 if a dot is before.
func usedNames(cell string) (out [][3]int) {
	text, foreign := blank(cell)
	if foreign {
		return nil
	}
	c := parse(text, 0)
	if c == nil {
		return nil
	}
	declared := map[*ast.Ident]bool{}
	behindDot := map[*ast.Ident]bool{}
	ast.Inspect(c.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			behindDot[n.Sel] = true
		case *ast.FuncDecl:
			declared[n.Name] = true
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				if id, ok := l.(*ast.Ident); ok {
					declared[id] = true
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok {
					declared[id] = true
				}
			}
		case *ast.Ident:
			if off, ok := c.toCell(c.tfile.Offset(n.Pos())); ok && !declared[n] && n.Name != "_" && len(n.Name) > 1 && c.used(n) {
				dot := 0
				if behindDot[n] {
					dot = 1
				}
				out = append(out, [3]int{off, off + len(n.Name), dot})
			}
		}
		return true
	})
	return out
}

// used tells whether an identifier is none that declares.
func (c *checked) used(id *ast.Ident) bool {
	path := c.path(id.Pos())
	return len(path) > 1 && !declaresName(path[1], id)
}
