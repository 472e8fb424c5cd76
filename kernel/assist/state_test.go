package assist

import "testing"

func TestState(t *testing.T) {
	a := quiet(Options{})
	for _, c := range []struct{ code, state, indent string }{
		{"", "complete", ""},
		{"\n\n", "complete", ""},
		{"1+1", "complete", ""},
		{"x := 1", "complete", ""},
		{"x := 1\n\n", "complete", ""},
		{"func f() int { return 1 }", "complete", ""},
		{"type T struct {\n\tA int\n}", "complete", ""},
		{"for i := 0; i < 3; i++ {\n}\n", "complete", ""},
		{"if x := f(); x > 1 {\n} else {\n}", "complete", ""},
		{"outer:\nfor {\n\tbreak outer\n}", "complete", ""},
		{"package main\n\nfunc main() {}", "complete", ""},
		{"import (\n\t\"fmt\"\n)\nfmt.Println(1)", "complete", ""},
		{"// only a comment", "complete", ""},
		{"%time", "complete", ""},
		{"%env A=\"b\nx := 1", "complete", ""},
		{"%%bash\nfor i in 1 2; do", "complete", ""},
		{"f(1,\n\t2)", "complete", ""},
		{"func (p *point) Len() int { return 0 }", "complete", ""},
		{"go func() {}()", "complete", ""},
		{"var f = func(a, b int) bool {\n\treturn a < b\n}", "complete", ""},

		{"func f() {", "incomplete", "\t"},
		{"func f() {\n\n", "incomplete", "\t"},
		{"if true {", "incomplete", "\t"},
		{"if true {\n\tfor {", "incomplete", "\t\t"},
		{"fmt.Println(", "incomplete", "\t"},
		{"fmt.Println(1,\n", "incomplete", "\t"},
		{"var s = `abc", "incomplete", ""},
		{"x := 1\nvar s = `abc\ndef", "incomplete", ""},
		{"/* abc", "incomplete", ""},
		{"a +", "incomplete", ""},
		{"a.", "incomplete", ""},
		{"x :=", "incomplete", ""},
		{"import (", "incomplete", "\t"},
		{"%time\nfunc f() {", "incomplete", "\t"},
		{"go func() {", "incomplete", "\t"},
		{"type T struct {\n\tA int\n", "incomplete", "\t"},
		{"m := map[string]int{\n\t\"a\": 1,", "incomplete", "\t"},

		{"x := )", "invalid", ""},
		{"func func", "invalid", ""},
		{"var 1x = 3", "invalid", ""},
		{"a +\n}", "invalid", ""},
		{"x = = 2\nfunc f() {", "invalid", ""},
		{"s := \"abc", "invalid", ""},
		{"}", "invalid", ""},
		{"f(1 2)", "invalid", ""},
		{"a\xff", "unknown", ""},
	} {
		if state, indent := a.State(c.code); state != c.state || indent != c.indent {
			t.Errorf("%q: %s %q, want %s %q", c.code, state, indent, c.state, c.indent)
		}
	}
}
