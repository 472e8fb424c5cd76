package assist

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestQuestionsWhileCellsAreCommitted matters with -race.
func TestQuestionsWhileCellsAreCommitted(t *testing.T) {
	s := afterCells(t, "import \"fmt\"\ntype point struct{ x, y int }\nfunc (p *point) Len() int { return p.x }\np := point{1, 2}\nfmt.Print(p)")
	a := quiet(Options{Session: s})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range 30 {
				if got := texts(a.Complete("p.", 2)); !slices.Equal(got, []string{"Len", "x", "y"}) && !slices.Equal(got, []string{"x", "y", "Len"}) {
					t.Errorf("matches are %v", got)
				}
				a.Complete(fmt.Sprintf("type q struct{ point }\nvar c q; c.point.%s", "xyz"[:i%3]), 40)
				a.Inspect("http.Get", 6, 1)
				a.State("func f() {")
			}
		})
	}
	for i := range 30 {
		u, err := s.CompileSlow(i+2, fmt.Sprintf("import \"net/http\"\nvar c%d http.Client\nfunc f%d(p *point) int { return p.Len() + %d }\nfor range f%d(&p) { _ = map[string]point{} }", i, i, i, i))
		if err != nil {
			t.Fatal(err)
		}
		u.Commit()
	}
	wg.Wait()
	if got := texts(a.Complete("c29.Ti", 6)); !slices.Equal(got, []string{"Timeout"}) {
		t.Errorf("matches at the end are %v", got)
	}
}
