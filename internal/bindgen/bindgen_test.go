package main

import (
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The sample has one of everything: constants of all sizes, sealed and leaky interfaces, aliases, generics, two
// packages of one name, promoted methods, and a package that is generic only.
func TestBindingsOfTheSample(t *testing.T) {
	src, skipped, err := Generate("testdata/sample", []string{"./...", "./absent"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/sample.golden", src)
	golden(t, "testdata/skipped.golden", []byte(strings.Join(skipped, "\n")+"\n"))
	typeCheck(t, "testdata/sample", src)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (run with -update and read the diff); got\n%s", name, got)
	}
}

// typeCheck compiles the file against a stand-in for the interpreter's package.
func typeCheck(t *testing.T, dir string, src []byte) {
	t.Helper()
	const stub = `package imports
import "reflect"
type Package struct {
	Name string
	Binds map[string]reflect.Value
	Types, Proxies map[string]reflect.Type
	Untypeds map[string]string
	Wrappers map[string][]string
}
var Packages map[string]Package`
	fset := token.NewFileSet()
	parse := func(name string, src any) *ast.File {
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	file := parse("bindings.go", src)
	var paths []string
	for _, imp := range file.Imports {
		if path := strings.Trim(imp.Path.Value, `"`); !strings.HasPrefix(path, "github.com/cosmos72/") {
			paths = append(paths, path)
		}
	}
	deps, err := goList(dir, append([]string{"-export", "-deps", "-json=ImportPath,Export"}, paths...)...)
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for _, p := range deps {
		exports[p.ImportPath] = p.Export
	}
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	stubs, err := (&types.Config{Importer: compiled}).Check("imports", fset, []*ast.File{parse("stub.go", stub)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	from := importerFunc(func(path string) (*types.Package, error) {
		if path == "github.com/cosmos72/gomacro/imports" {
			return stubs, nil
		}
		return compiled.Import(path)
	})
	if _, err := (&types.Config{Importer: from}).Check("main", fset, []*ast.File{file}, nil); err != nil {
		t.Errorf("the generated file does not compile: %v", err)
	}
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

func TestBindingsOfTheStandardLibraryCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("lists and reads a hundred packages")
	}
	pkgs, err := goList(".", "-json=ImportPath,Name,GoFiles", "std")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range pkgs {
		if p.importable() && p.ImportPath != "unsafe" && p.ImportPath != "runtime/cgo" && p.ImportPath != "runtime/race" {
			paths = append(paths, p.ImportPath)
		}
	}
	if len(paths) < 100 {
		t.Fatalf("only %d packages found", len(paths))
	}
	src, _, err := Generate(".", paths)
	if err != nil {
		t.Fatal(err)
	}
	typeCheck(t, ".", src)
	for _, want := range []string{
		`"Join":`, `"MaxUint64":`, `"Int64":`, `proxy_`, `"WithCancelCause":`,
	} {
		if !strings.Contains(string(src), want) {
			t.Errorf("the bindings have no %s", want)
		}
	}
}

func TestSameSourceGivesTheSameBindings(t *testing.T) {
	var last []byte
	for range 3 {
		src, _, err := Generate("testdata/sample", []string{"net/http", "./..."})
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && string(src) != string(last) {
			t.Fatal("two runs differ")
		}
		last = src
	}
}

func TestAPackageThatDoesNotCompileIsAnErrorThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.com/broken\n\ngo 1.26\n",
		"bad/bad.go":   "package bad\n\nfunc F() { undefined() }\n",
		"good/good.go": "package good\n\nconst One = 1\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Generate(dir, []string{"./bad"}); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("error %v", err)
	}
	if _, _, err := Generate(dir, []string{"./nothing"}); err == nil || !strings.Contains(err.Error(), "no package to bind") {
		t.Errorf("error %v", err)
	}
	if src, _, err := Generate(dir, []string{"./good"}); err != nil || !strings.Contains(string(src), `"One": "int:1"`) {
		t.Errorf("error %v, source\n%s", err, src)
	}
}

func TestEveryListedPatternIsFoundOrMayBeAbsent(t *testing.T) {
	patterns := listed(packageList)
	if !slices.Contains(patterns, "./data/...") || !slices.Contains(patterns, "net/http") || slices.Contains(patterns, "") {
		t.Errorf("patterns %q", patterns)
	}
	for _, p := range patterns {
		if strings.HasPrefix(p, "./") {
			continue // of this module; folders may come and go
		}
		found, err := goList(".", "-json=ImportPath,Name,GoFiles", p)
		if err != nil || len(found) != 1 || !found[0].importable() {
			t.Errorf("%s: %v %v", p, found, err)
		}
	}
}

// A notebook of ours that imports what is not bound stops at its first cell.
func TestEveryImportOfOurNotebooksIsBound(t *testing.T) {
	root := sharedtest.Root()
	notebooks, err := filepath.Glob(filepath.Join(root, "notebooks", "*.ipynb"))
	if err != nil || len(notebooks) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	src, _, err := Generate(root, listed(packageList))
	if err != nil {
		t.Fatal(err)
	}
	own, err := goList(root, "-json=ImportPath,Name,GoFiles", "github.com/cosmos72/gomacro/imports")
	if err != nil {
		t.Fatal(err)
	}
	bound := func(path string) bool {
		file := strings.ReplaceAll(path, "/", "_") + ".go" // in the interpreter's own tables
		return slices.Contains(own[0].GoFiles, file) || strings.Contains(string(src), `imports.Packages["`+path+`"]`)
	}
	for _, name := range notebooks {
		imports := importsOf(t, name)
		if len(imports) == 0 {
			t.Errorf("%s imports nothing", filepath.Base(name))
		}
		for _, path := range imports {
			if !bound(path) {
				t.Errorf("%s imports %q, which cells cannot; add it to packages.txt", filepath.Base(name), path)
			}
		}
	}
}

var importLine = regexp.MustCompile(`(?m)^\s*(?:import\s+)?(?:[A-Za-z_][A-Za-z0-9_]*\s+)?"([a-z0-9./_-]+)"\s*(?://.*)?$`)

// importsOf returns the import paths of the cells that begin with an import.
func importsOf(t *testing.T, name string) []string {
	t.Helper()
	nb, _, err := nbformat.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, c := range nb.Cells {
		source, isImport := c.Source, strings.HasPrefix(strings.TrimSpace(c.Source), "import")
		if c.Type != nbformat.Code || !isImport {
			continue
		}
		if _, rest, found := strings.Cut(source, "import ("); found {
			source, _, _ = strings.Cut(rest, "\n)")
		}
		for _, m := range importLine.FindAllStringSubmatch(source, -1) {
			paths = append(paths, m[1])
		}
	}
	return paths
}
