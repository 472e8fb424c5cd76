package compiled

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestSoak runs 500 cells on one worker, 200 of which redefine types, functions and variables that later cells assert
// on. ROOFLAB_SOAK=n makes it n cells; with -short it is 50.
func TestSoak(t *testing.T) {
	n := 500
	if testing.Short() {
		n = 50
	}
	if text := os.Getenv("ROOFLAB_SOAK"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	h := newHarness(t, Options{})
	h.want("import (\"fmt\"; \"io\"; \"strings\"; \"errors\")\nvar keep []any\ntype E struct{ n int }\n"+
		"func (e *E) Error() string { return fmt.Sprint(\"E\", e.n) }\nvar err error = &E{0}\nsum := 0", "")
	before := h.worker.resident()
	redefined := 0
	for i := 1; i <= n; i++ {
		if i%5 < 2 { // 200 of 500
			redefined++
			h.want(redefinition(i), fmt.Sprintf("{a:%d b:%d s:%s} true true %d\n", i, 2*i, strings.Repeat("x", i%5), 2*redefined))
		} else {
			h.want(fmt.Sprintf("sum += %d\nfmt.Println(err, len(keep), %d)", i, i), fmt.Sprintf("%s %d %d\n", wrapped(i), 2*redefined, i))
		}
		if t.Failed() {
			t.Fatalf("at cell %d", i)
		}
	}
	want := 0
	for i := 1; i <= n; i++ {
		if i%5 < 2 {
			i := 2 * i
			want += i
		} else {
			want += i
		}
	}
	h.want("sum", fmt.Sprint("=", want))
	t.Logf("%d cells, %d of them redefine: the worker grew %.2f MB a cell", n, redefined, float64(h.worker.resident()-before)/1e6/float64(n))
}

func redefinition(i int) string {
	return fmt.Sprintf(`func step(k int) int { return k + %d }
type V struct { a, b int; s string }
func (v V) Sum() int { return v.a + v.b + %d }
v := V{%d, step(%d), strings.Repeat("x", %d)}
keep = append(keep, v, &v)
err = fmt.Errorf("w%d: %%w", &E{%d})
var e *E
ok := errors.As(err, &e) && e.n == %d
var r io.Reader = strings.NewReader(v.s)
_, isr := r.(*strings.Reader)
sum += v.b
fmt.Printf("%%+v %%v %%v %%d\n", v, ok, isr, len(keep))`, i, i, i, i, i%5, i, i, i)
}

// wrapped is the error that the last redefinition before cell i made.
func wrapped(i int) string {
	for i > 0 && i%5 >= 2 {
		i--
	}
	if i == 0 {
		return "E0"
	}
	return fmt.Sprintf("w%d: E%d", i, i)
}
