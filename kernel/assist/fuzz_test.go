package assist

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAnswers asks everything about any cell at any place: no panic, and offsets inside the text.
func FuzzAnswers(f *testing.F) {
	for _, file := range []string{"testdata/complete.txtar", "testdata/inspect.txtar"} {
		for _, q := range questions(f, file, ">=!~+") {
			f.Add(q.code, q.cursor)
		}
	}
	for _, s := range []string{"func f() { `", "type T struct { a ", "x := [...]int{", "%%", "%\n%", "\r\n`a\r\n`", "𐲀cursor", "a.b.c.", "import \"", "case x:", "\xff.", "goto "} {
		f.Add(s, len(s))
	}
	session := afterCells(f, "import \"fmt\"\ntype point struct{ x, y int }\nvar p point\nfmt.Println(p)", "func f(p *point) int { return p.x }")
	a := quiet(Options{Session: session, Commands: []string{"%help"}})
	f.Fuzz(func(t *testing.T, code string, cursor int) {
		c := a.Complete(code, cursor)
		if c.Start < 0 || c.Start > c.End || c.End > len(code) {
			t.Fatalf("range %d to %d of %d bytes", c.Start, c.End, len(code))
		}
		if utf8.ValidString(code) && !(utf8.ValidString(code[:c.Start]) && utf8.ValidString(code[:c.End])) {
			t.Fatal("a range cuts a character")
		}
		for _, m := range c.Matches {
			if m.Text == "" || strings.Contains(m.Text+m.Signature, mark) {
				t.Fatalf("match %q", m)
			}
		}
		a.Inspect(code, cursor, 1)
		a.State(code)
	})
}

// FuzzView maps offsets to the file made of a cell and back.
func FuzzView(f *testing.F) {
	for _, q := range questions(f, "testdata/complete.txtar", ">=!~") {
		f.Add(q.code, q.cursor)
	}
	f.Fuzz(func(t *testing.T, code string, cursor int) {
		cursor = onRune(code, cursor)
		text, _ := blank(code)
		if len(text) != len(code) {
			t.Fatal("blank changes the length")
		}
		v := layout(text, cursor)
		if off, ok := v.toView(cursor); ok {
			back, ok := v.toCell(off)
			if !ok || back != cursor {
				t.Fatalf("%d became %d", cursor, back)
			}
		}
		for _, s := range v.spans {
			for i := range s.length {
				if a, b := v.text[s.view+i], text[s.cell+i]; a != b && a != ' ' {
					t.Fatalf("byte %d is %q, was %q", s.cell+i, a, b)
				}
			}
		}
	})
}
