package assist

import (
	"fmt"
	"testing"
)

// BenchmarkComplete asks in a session of 200 cells, each with a type, a method, a function and two variables.
func BenchmarkComplete(b *testing.B) {
	cells := []string{"import (\n\"fmt\"\n\"net/http\"\n\"strings\"\n)"}
	for i := range 200 {
		cells = append(cells, fmt.Sprintf(`type rec%d struct { id int; name string }
func (r *rec%d) show() string { return fmt.Sprint(r.id, strings.ToUpper(r.name)) }
func make%d(id int) *rec%d { return &rec%d{id: id} }
list%d := []*rec%d{make%d(1)}
var count%d = len(list%d)`, i, i, i, i, i, i, i, i, i, i))
	}
	a := quiet(Options{Session: afterCells(b, cells...)})
	for _, code := range []string{"list77[0].", "lis", "http.", "func f(r *http.Request) {\n\tfor _, x := range list3 {\n\t\tfmt.Println(x.na"} {
		b.Run(fmt.Sprintf("%.6q", code), func(b *testing.B) {
			for b.Loop() {
				if len(a.Complete(code, len(code)).Matches) == 0 {
					b.Fatal("no matches")
				}
			}
		})
	}
	b.Run("inspect", func(b *testing.B) {
		for b.Loop() {
			if a.Inspect("http.Get", 8, 0).Data == nil {
				b.Fatal("nothing")
			}
		}
	})
}
