package link

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compiled makes the archive of a package for libraries.
func compiled(t testing.TB, path, src string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "p.go")
	if err := os.WriteFile(file, []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "p.a")
	cmd := exec.Command("go", "tool", "compile", "-p", path, "-complete", "-dynlink", "-linkshared", "-pack", "-o", archive, file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	return archive
}

const pairSource = `package p

type Pair[T any] struct{ A, B T }

func (p *Pair[T]) Swap() { p.A, p.B = p.B, p.A }

type Speaker struct{ Name string }

func (Speaker) Say(err error) string { return err.Error() }

var Shown any = Speaker{}

var Kept any = &Pair[int]{1, 2}

`

func TestObjectTellsWhatALinkNeeds(t *testing.T) {
	o, err := readObject(compiled(t, "example.com/p", pairSource))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.print) != 8 || o.print == "\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("fingerprint %x", o.print)
	}
	for _, name := range []string{"example.com/p.Kept", "type:example.com/p.Speaker", "type:*example.com/p.Pair[int]"} {
		if !slices.Contains(o.defs, name) {
			t.Errorf("%s is not defined", name)
		}
	}
	if !o.refs[basicType] || !o.refs["type:int"] {
		t.Errorf("the object does not refer to basic types: %q", slices.Sorted(maps.Keys(o.refs)))
	}
}

func TestObjectsOfOtherKindsAreRefused(t *testing.T) {
	for _, text := range []string{"", "hello", "!<arch>\nshort"} {
		file := filepath.Join(t.TempDir(), "x.a")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o, err := readObject(file)
		if strings.HasPrefix(text, "!<arch>") {
			if err != nil || len(o.defs) > 0 {
				t.Errorf("%q: %+v, %v", text, o, err)
			}
		} else if err == nil {
			t.Errorf("%q is read as an archive", text)
		}
	}
}

func FuzzReadObject(f *testing.F) {
	data, err := os.ReadFile(compiled(f, "p", "package p\n\ntype T[V any] struct{ V V }\n\nfunc (T[V]) M() {}\n\nvar X any = T[int]{}\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("!<arch>\n"))
	file := filepath.Join(f.TempDir(), "x.a")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if o, err := readObject(file); err == nil {
			for _, m := range o.methods {
				if m.at+8 > len(o.data) {
					t.Fatalf("a reference at %d of %d", m.at, len(o.data))
				}
			}
		}
	})
}

func TestTypesOfOnePackageNeedNotBeShared(t *testing.T) {
	own := map[string]bool{"example.com/p": true, "time": true}
	for typ, want := range map[string]bool{
		"example.com/p.T": true, "*example.com/p.T": true, "example.com/p.F.T·1": true, "time.Duration": true,
		"**example.com/p.T": false, "[]example.com/p.T": false, "map[string]int": false, "example.com/p.Pair[int]": false,
		"*example.com/q.T": false, "int": false, "func() time.Duration": false, "struct { time.Time }": false,
	} {
		if got := declaredIn(typ, own); got != want {
			t.Errorf("%s: %v, want %v", typ, got, want)
		}
	}
}

func TestInitialisationsAreNamedAsTheCompilerDoes(t *testing.T) {
	for path, want := range map[string]string{
		"fmt": "fmt..inittask", "gopkg.in/yaml.v3": "gopkg.in/yaml%2ev3..inittask", "example.com/p": "example.com/p..inittask", "nb/c1": "nb/c1..inittask",
	} {
		if got := InitTask(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestIndexFindsWhatIsInIt(t *testing.T) {
	x := &index{lines: []byte("a\x001 2\na.b\x001 16 24 8 05\nb\x002 3\n")}
	if s, ok := x.find("a.b"); !ok || s.size != 16 || s.typSize != 24 || s.ptrData != 8 || len(s.mask) != 1 || s.mask[0] != 5 {
		t.Errorf("a.b: %+v, %v", s, ok)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "": false, "a.a": false, "a.c": false, "c": false, "aa": false} {
		if _, ok := x.find(name); ok != want {
			t.Errorf("%q: %v, want %v", name, ok, want)
		}
	}
}
