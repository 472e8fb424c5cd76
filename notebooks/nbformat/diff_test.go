package nbformat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func code(id, source string, outputs ...Output) Cell {
	return Cell{ID: id, Type: Code, Source: source, Outputs: outputs}
}

func stdout(text string) Output { return Output{Type: Stream, Name: "stdout", Text: text} }

func TestDiffIgnoresCountsTimesAndStreamBorders(t *testing.T) {
	one := 1
	a := &Notebook{Cells: []Cell{code("a", "x", stdout("1\n2\n"))}}
	b := &Notebook{Cells: []Cell{code("a", "x", stdout("1\n"), stdout("2\n"))}, Metadata: Metadata{"y": json.RawMessage("1")}}
	b.Cells[0].ExecutionCount = &one
	b.Cells[0].Metadata = Metadata{"execution": json.RawMessage("{}")}
	if d := Diff(a, b); len(d) != 0 {
		t.Errorf("got %v, want no difference", d)
	}
}

func TestDiffShowsWhatChangedWhere(t *testing.T) {
	a := &Notebook{Cells: []Cell{
		code("a", "same"), code("b", "l1\nl2\nl3\nl4\nl5\nold\nl7", stdout("1\n")), code("c", "gone"), code("d", "end", stdout("x\n")),
	}}
	b := &Notebook{Cells: []Cell{
		code("a", "same"), code("b", "l1\nl2\nl3\nl4\nl5\nnew\nl7", stdout("1\n")), code("d", "end", stdout("y\n"),
			Output{Type: DisplayData, Data: MimeBundle{"image/png": json.RawMessage(`"AAAA"`)}}), {ID: "e", Type: Markdown, Source: "more"},
	}}
	var got strings.Builder
	for _, d := range Diff(a, b) {
		fmt.Fprintf(&got, "%d %d %s %s\n%s\n", d.CellA, d.CellB, d.ID, d.What, strings.Join(d.Lines, "\n"))
	}
	want := `2 2 b source
 l4
 l5
-old
+new
 l7
3 0 c removed
-gone
4 3 d outputs
 stdout:
-  x
+  y
+display_data image/png: 6 bytes, sha256 HASH
0 4 e added
+more
`
	text := got.String()
	if i := strings.Index(text, "sha256 "); i >= 0 {
		text = text[:i+7] + "HASH" + text[i+7+64:]
	}
	if d := cmp.Diff(want, text); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestDiffOfEditedCellWithNewIdIsAnEdit(t *testing.T) {
	a := &Notebook{Cells: []Cell{code("a", "x := 1")}}
	b := &Notebook{Cells: []Cell{code("z", "x := 2")}}
	d := Diff(a, b)
	if len(d) != 1 || d[0].What != "source" || cmp.Diff(d[0].Lines, []string{"-x := 1", "+x := 2"}) != "" {
		t.Errorf("got %+v", d)
	}
}
