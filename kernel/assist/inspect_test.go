package assist

import (
	"strings"
	"testing"
)

func TestInspect(t *testing.T) {
	for _, q := range questions(t, "testdata/inspect.txtar", ">!+=") {
		t.Run(q.name, func(t *testing.T) {
			a := quiet(Options{Session: afterCells(t, q.before...)})
			plain := func(detail int) string {
				s, _ := a.Inspect(q.code, q.cursor, detail).Data["text/plain"].(string)
				return s
			}
			less, more := plain(0), plain(1)
			for _, w := range q.want {
				has := strings.Contains(less, strings.TrimSpace(w[1:]))
				switch w[0] {
				case '=':
					if less != "" {
						t.Errorf("something is known: %s", less)
					}
				case '>':
					if !has {
						t.Errorf("lacks %q:\n%s", w[2:], less)
					}
				case '!':
					if has {
						t.Errorf("has %q:\n%s", w[2:], less)
					}
				case '+':
					if !strings.Contains(more, w[2:]) {
						t.Errorf("lacks %q with more detail:\n%s", w[2:], more)
					}
				}
			}
		})
	}
}

func TestInspectionIsAlsoMarkdown(t *testing.T) {
	a := quiet(Options{Session: afterCells(t, "import \"strings\"")})
	md, _ := a.Inspect("strings.Fields", 10, 0).Data["text/markdown"].(string)
	for _, want := range []string{"```go\nfunc Fields(s string) []string\n```", "package strings", "[unicode.IsSpace](https://pkg.go.dev/unicode#IsSpace)"} {
		if !strings.Contains(md, want) {
			t.Errorf("lacks %q:\n%s", want, md)
		}
	}
}
