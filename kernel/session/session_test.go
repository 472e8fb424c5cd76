package session

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/rooflab/rooflab/internal/golden"
)

func TestSplit(t *testing.T) {
	names := map[kind]string{kStmt: "stmt", kImport: "import", kFunc: "func", kMethod: "method", kType: "type", kConst: "const", kVar: "var"}
	for _, c := range []struct{ src, want string }{
		{"x := 1; y := 2", "stmt:1:1 stmt:1:9"},
		{"import \"fmt\"\nfmt.Println(1)", "import:1:1 stmt:2:1"},
		{"func f() {}\nfunc (t *T[K]) M(a int) {}\nfunc() int { return 9 }()", "func:1:1 method:2:1 stmt:3:1"},
		{"for i := 0; i < 3; i++ {\n}\nif x := f(); x {\n} else {\n}\ny", "stmt:1:1 stmt:3:1 stmt:6:1"},
		{"outer:\nfor {\n}\n// c\ntype T struct {\n\ta int\n}", "stmt:1:1 type:5:1"},
		{"package main\nvar (\n a = 1\n)\nconst k = `a\nb`", "var:2:1 const:5:1"},
		{"switch v := x.(type) {\ncase int:\n}\ngo func() { a; b }()", "stmt:1:1 stmt:4:1"},
		{"", ""},
		{"// only\n/* a\ncomment */", ""},
	} {
		chunks, _, err := split(1, c.src)
		var got []string
		for _, k := range chunks {
			got = append(got, strings.Join([]string{names[k.kind], itoa(k.line), itoa(k.col)}, ":"))
		}
		if s := strings.Join(got, " "); s != c.want || err != nil {
			t.Errorf("%q: %s, want %s, %v", c.src, s, c.want, err)
		}
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

func TestAFailedCellChangesNothing(t *testing.T) {
	s := New(archive)
	// errors have the cell's positions and change nothing
	_, err := s.Compile(9, "z := 1\nz + undefinedName")
	if err == nil || err.Error() != "cell[9]:2:5: undefined: undefinedName" {
		t.Error(err)
	}
	if _, ok := s.env["z"]; ok {
		t.Error("a failed cell has changed the state")
	}
}

// TestFaults shows what is wrong with cells, in their own words.
func TestFaults(t *testing.T) {
	a, err := txtar.ParseFile("testdata/errors/cells.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	s := New(archive)
	for i, f := range a.Files {
		_, err := s.Compile(i+1, string(f.Data))
		if err == nil {
			t.Errorf("%s: nothing is wrong", f.Name)
			continue
		}
		inside(t, i+1, string(f.Data), err)
		fmt.Fprintf(&b, "-- %s --\n%v\n", f.Name, err)
	}
	golden.Check(t, "errors/cells.golden", b.String())
}

func TestPackagesOfStdAreKnownByName(t *testing.T) {
	out, err := exec.Command("go", "list", "std").Output()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, p := range strings.Fields(std) {
		have[p] = true
	}
	for _, p := range strings.Fields(string(out)) {
		if !strings.Contains(p, "internal") && !strings.HasPrefix(p, "vendor/") && !strings.HasSuffix(p, "/v2") && !have[p] {
			t.Errorf("%s is missing", p)
		}
		delete(have, p)
	}
	for p := range have {
		t.Errorf("%s is no package of std", p)
	}
}

func TestFaultsOfTheCompilerHaveTheUsersNames(t *testing.T) {
	said := errors.New(strings.ReplaceAll("cell[7]:3:9: cannot use @@c4.@x (variable of type nb/c4.@acct) as @@main.T value\n\thave (@f)\ncell[7]:1: too big", "@", Prefix))
	want := "cell[7]:1:1: too big\ncell[7]:3:9: cannot use x (variable of type acct) as T value\n\thave (f)"
	var list ErrorList
	if err := Refused(said); !errors.As(err, &list) || err.Error() != want {
		t.Errorf("%v", err)
	}
	other := errors.New("no space left on device")
	if err := Refused(other); err != other {
		t.Errorf("%v", err)
	}
}
