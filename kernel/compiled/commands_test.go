package compiled

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/internal/secrets"
)

func TestCommandsStandAboveOrBelowTheCode(t *testing.T) {
	for _, c := range []struct {
		name, cell   string
		above, below []string
		code, fails  string
	}{
		{name: "code only", cell: "a := 7\nb := a % 3", code: "a := 7\nb := a % 3"},
		{name: "above", cell: "%env A=1\n\na := 1", above: []string{"%env A=1"}, code: "\n\na := 1"},
		{name: "below", cell: "a := 1\n%mem\n", below: []string{"%mem"}, code: "a := 1\n\n"},
		{name: "between", cell: "a := 1\n%mem\nb := 2", fails: "%mem stands between lines of code"},
		{name: "in a raw string", cell: "s := `\n%mem\n`\n%help", below: []string{"%help"}, code: "s := `\n%mem\n`\n"},
		{name: "in a comment", cell: "/* \"\n%mem\n*/ a := '`'\n%help", below: []string{"%help"}, code: "/* \"\n%mem\n*/ a := '`'\n"},
		{name: "quotes that hide", cell: "s := \"`\\\"`\" // `\n%help", below: []string{"%help"}, code: "s := \"`\\\"`\" // `\n"},
		{name: "indented is code", cell: "  %mem", code: "  %mem"},
		{name: "shell of gophernotes", cell: "$ls -l", fails: "$ls: a cell holds Go only; run a program with os/exec"},
	} {
		p, err := split(c.cell)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil || p.code != c.code || !slices.Equal(p.above, c.above) || !slices.Equal(p.below, c.below) {
			t.Errorf("%s: %q, %v", c.name, p, err)
		}
	}
}

func TestCommands(t *testing.T) {
	h := newHarness(t, Options{})
	if o := h.cell("%help"); o.err != nil || !strings.Contains(o.paper.String(), "%timeit EXPRESSION") {
		t.Errorf("%q %s", o.shown(), o.said())
	}
	for _, c := range []struct{ cell, said string }{
		{"%nope", "there is no command %nope; there are %help %env"},
		{"%%\nx := 1", "%%: not in this kernel; cells need no func main"},
		{"%cd /tmp", "call os.Chdir"},
		{"!ls -l", "! starts no program here: a cell holds Go only"},
		{"!ls", "! starts no program here"},
		{"%env =1", "%env: give NAME=VALUE"},
		{"%env ROOFLAB_NOT_SET", "ROOFLAB_NOT_SET is not set"},
		{"%timeit 1 +", "give an expression or a call"},
		{"%get", "%get: name a module"},
		{"%timeit undefinedName", "%timeit: undefined: undefinedName"},
		{"1, 2", "write fmt.Println(a, b)"},
		{"?len", "press Shift-Tab"},
		{"return error(nil)", "takes no value"},
	} {
		h.fails(c.cell, c.said)
	}
	h.want("%env ROOFLAB_A=one two\nimport \"os\"\nos.Getenv(\"ROOFLAB_A\")", "=one two")
	h.want("%env ROOFLAB_A", "one two\n")
	if o := h.cell("%env"); !strings.Contains(o.paper.String(), "\nROOFLAB_A=one two\n") {
		t.Errorf("%q", o.shown())
	}
	h.want("%env ROOFLAB_TOKEN=sekret\n%env ROOFLAB_PROXY=http://bob:sekret@proxy:3128\n%env ROOFLAB_TOKEN", secrets.Mask+"\n")
	shown := h.cell("%env").paper.String()
	for _, line := range []string{"\nROOFLAB_PROXY=http://***@proxy:3128\n", "\nROOFLAB_TOKEN=***\n"} {
		if strings.Contains(shown, "sekret") || !strings.Contains(shown, line) {
			t.Errorf("%q in %q", line, shown)
		}
	}
	h.want("import \"os\"\nos.Getenv(\"ROOFLAB_TOKEN\")", "=sekret")
	h.want("%restart\nimport \"os\"\nos.Getenv(\"ROOFLAB_A\")", "=one two") // also in the next worker
	h.want("v := make([]byte, 50<<20)\nfor i := range v { v[i] = 1 }\nfunc add(n int) int { return n + 1 }\nfunc none() {}\nfunc two() (int, error) { return 1, nil }", "")
	if o := h.cell("%mem"); o.err != nil || !regexp.MustCompile(`worker process: .* resident, \d+ cells loaded\nGo heap: .*(?s:.*)cell\[\d+\] added `).MatchString(o.paper.String()) {
		t.Errorf("%q %s", o.shown(), o.said())
	}
	for _, expr := range []string{"add(3)", "none()", "two()", "len(v) + 1"} {
		if o := h.cell("%timeit " + expr); o.err != nil || !regexp.MustCompile(`^\S+ ns/op, \d+ runs, \d+ B/op, \d+ allocs/op\n$`).MatchString(o.paper.String()) {
			t.Errorf("%s: %q %s", expr, o.shown(), o.said())
		}
	}
	h.fails("benchmark.Benchmark", "undefined: benchmark") // %timeit leaves no names behind
	h.during(h.Interrupt)
	if o := h.cell("%timeit func() { for {} }()"); o.err == nil || o.err.Name != "Interrupted" {
		t.Errorf("%s", o.said())
	}
}

func TestNotesAndTimingsAreShown(t *testing.T) {
	h := newHarness(t, Options{})
	h.want("type T struct{ A int }\nv := T{1}", "")
	o := h.cell("type T struct{ B string }")
	if o.err != nil || !strings.Contains(o.stderr(), "v (cell 1) still has the old T") {
		t.Errorf("%q %s", o.stderr(), o.said())
	}
	o = h.cell(fmt.Sprintf("w := T{\"b%d\"}\nw.B", time.Now().UnixNano())) // no earlier session has compiled it
	took, _ := o.Metadata["rooflab"].(timings)
	for _, name := range []string{"check_ms", "compile_ms", "link_ms", "load_ms", "run_ms"} {
		if took[name] <= 0 {
			t.Errorf("%s is not measured: %v", name, took)
		}
	}
	if o = h.cell("w.B"); o.Metadata["rooflab"].(timings)["fast_ms"] <= 0 {
		t.Errorf("a shown value was compiled: %v", o.Metadata)
	}
}
