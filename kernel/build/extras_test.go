package build

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestCellWithC(t *testing.T) {
	b := newBench(t, t.TempDir())
	imports := "//#line 2 \"cell[1]\"\n// #include <stdlib.h>\n// #cgo LDFLAGS: -lm\n// #include <math.h>\n// static int add(int a, int b) { return a + b; }\nimport \"C\""
	decls := "func Add(a, b int) int { return int(C.add(C.int(a), C.int(b))) }\nfunc Root(x float64) float64 { return float64(C.sqrt(C.double(x))) }"
	if got, _ := b.run(1, imports, decls, "if Add(2, 3) != 5 { panic(\"add\") }"); got != "" {
		t.Fatal(got)
	}
	got, _ := b.run(2, "import c1 \"nb/c1\"\nimport \"fmt\"", "", "panic(fmt.Sprint(c1.Add(40, 2), c1.Root(81)))")
	if got != "42 9" {
		t.Errorf("a later cell: got %q", got)
	}
}

func TestTypeCheckerKnowsTheNamesOfC(t *testing.T) {
	b := newBench(t, t.TempDir())
	src := []byte("package p\n// static int add(int a, int b) { return a + b; }\nimport \"C\"\nvar X = C.add(1, 2)\nvar Y, E = C.add(1, 2)\n")
	decls, err := b.CgoTypes(t.Context(), Unit{Cell: 1, Pkg: "nb/c1", Source: src})
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, text := range [][]byte{src, decls} {
		f, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", b.Archive)}
	*(*bool)(reflect.ValueOf(&conf).Elem().FieldByName("go115UsesCgo").Addr().UnsafePointer()) = true
	pkg, err := conf.Check("p", fset, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := pkg.Scope().Lookup("X").Type().String(); got != "p._Ctype_int" {
		t.Errorf("X is a %s", got)
	}
	if got := pkg.Scope().Lookup("E").Type().String(); got != "error" {
		t.Errorf("E is a %s", got)
	}
}

func TestErrorsInCNameTheCell(t *testing.T) {
	b := newBench(t, t.TempDir())
	imports := "//#line 3 \"cell[4]\"\n// static int f(void) {\n//   return missing;\n// }\nimport \"C\""
	err := b.fails(4, imports, "", "C.f()")
	if !strings.Contains(err.Error(), "cell[4]:4:") || !strings.Contains(err.Error(), "missing") || strings.Contains(err.Error(), b.dir) {
		t.Errorf("got %s", err)
	}
	err = b.fails(5, "//#line 3 \"cell[5]\"\n// static int f(void) { return 1; }\nimport \"C\"", "", "/*line cell[5]:9:1*/C.g()")
	if !strings.Contains(err.Error(), "cell[5]:9:") || !strings.Contains(err.Error(), "could not determine what C.g refers to") {
		t.Errorf("got %s", err)
	}
}

func TestCellWithEmbeddedFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.txt": "hello", "data/x.csv": "1,2", "data/.hidden": "no", "data/sub/y.csv": "3"})
	imports := "import \"embed\"\nimport \"io/fs\"\nimport \"strings\""
	decls := "//go:embed a.txt\nvar Text string\n//go:embed data/*.csv \"data\"\nvar Files embed.FS\n" +
		"func list() string {\nvar names []string\nfs.WalkDir(Files, \".\", func(p string, d fs.DirEntry, _ error) error {\nif !d.IsDir() { names = append(names, p) }\nreturn nil })\nreturn strings.Join(names, \" \")\n}"
	for session := range 2 {
		b := newBench(t, dir)
		got, times := b.run(1, imports, decls, "panic(Text + \": \" + list())")
		if got != "hello: data/sub/y.csv data/x.csv" || times.Cached != (session == 1) {
			t.Errorf("session %d: got %q, cached %v", session, got, times.Cached)
		}
	}
	write(t, dir, map[string]string{"a.txt": "changed"})
	b := newBench(t, dir)
	if got, _ := b.run(1, imports, decls, "panic(Text)"); got != "changed" {
		t.Errorf("got %q", got)
	}
	err := b.fails(2, "import _ \"embed\"", "//line cell[2]:3:1\n//go:embed none.txt\nvar None string", "")
	if want := "cell[2]:3:1: pattern none.txt: no matching files found"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	for _, p := range []string{"../a.txt", "/etc/passwd", "[", "missing"} {
		if names, err := match(dir, p); err == nil {
			t.Errorf("pattern %s: %q", p, names)
		}
	}
}

func TestWithoutCCompilerTheErrorNamesThePackage(t *testing.T) {
	goTool, err := findGo("")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	t.Setenv("CC", "nocc")
	if executable("/usr/bin/gcc") || executable("/usr/bin/cc") || executable("/usr/bin/clang") {
		// found in its usual place, as a kernel that was not started from a shell needs
		if cc, err := compilerOf("nocc"); err != nil || !filepath.IsAbs(cc[0]) {
			t.Errorf("compiler %q, %v", cc, err)
		}
	} else if _, err := compilerOf("nocc"); !errors.Is(err, ErrNoLinker) || !Unavailable(err) {
		t.Errorf("error %v", err)
	}
	if _, err := findToolchain(t.Context(), goTool, empty); err != nil {
		t.Errorf("a named go command with an empty PATH: %v", err)
	}
	if _, err := findToolchain(t.Context(), filepath.Join(empty, "go"), empty); !errors.Is(err, ErrNoGo) || !Unavailable(err) {
		t.Errorf("a go command that is not there: %v", err)
	}
}

func TestFlagsThatMakeOtherArchivesAreDropped(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                   "-buildvcs=false",
		"-mod=mod -trimpath -race":           "-buildvcs=false",
		"-tags=netgo,osusergo -mod=vendor":   "-buildvcs=false -tags=netgo,osusergo",
		"--tags=a -ldflags=-s -gcflags=all=": "-buildvcs=false -tags=a",
	} {
		if got := cleanFlags(flags); got != want {
			t.Errorf("%q: got %q, want %q", flags, got, want)
		}
	}
}

func TestFoldersMayHaveSpacesAndQuotes(t *testing.T) {
	o := options(t, filepath.Join(t.TempDir(), "my notebooks"))
	o.Cache = filepath.Join(t.TempDir(), "user's cache")
	write(t, o.Dir, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "p q/p.go": "package p\n\nconst P = 1\n", "add.h": "static int add(int a, int b) { return a + b; }\n"})
	b := open(t, o)
	if _, err := b.Worker(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := source("//#line 1 \"cell[2]\"\n// #include \"add.h\"\nimport \"C\"", "", "C.add(1, 2)")
	for i, src := range [][]byte{source("import _ \"fmt\"", "", ""), c} {
		n := i + 1
		if _, err := b.Cell(t.Context(), Unit{Cell: n, Pkg: fmt.Sprintf("nb/c%d", n), Source: src}); err != nil {
			t.Errorf("cell %d: %v", n, err)
		}
	}
}
