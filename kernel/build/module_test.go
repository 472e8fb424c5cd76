package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// moduleFiles is a module with a library that is replaced by a folder, a package of its own, and an internal one.
func moduleFiles(t testing.TB) string {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"mod/go.mod":                "module example.com/mine\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n\nreplace example.com/lib => ../lib\n",
		"mod/own/own.go":            "package own\n\nimport \"example.com/lib\"\n\nfunc Own() string { return \"own \" + lib.Name() }\n",
		"mod/internal/in/in.go":     "package in\n\nconst In = \"in\"\n",
		"mod/cmd/tool/main.go":      "package main\n\nfunc main() {}\n",
		"mod/broken/broken.go":      "package broken\n\nfunc B() int { return \"x\" }\n",
		"mod/needs/needs.go":        "package needs\n\nimport _ \"github.com/nobody/nothing\"\n",
		"mod/uses/uses.go":          "package uses\n\nimport _ \"github.com/rooflab/rooflab/kernel/rt\"\n",
		"mod/notebooks/nb.ipynb":    "{}",
		"lib/go.mod":                "module example.com/lib\n\ngo 1.26\n",
		"lib/lib.go":                "package lib\n\ntype T struct{ A int }\n\nfunc Name() string { return \"lib1\" }\n",
		"lib/other/other.go":        "package other\n\nimport \"example.com/lib\"\n\nfunc Other() string { return \"other \" + lib.Name() }\n",
		"lib/internal/deep/deep.go": "package deep\n",
	})
	return dir
}

func TestImportsComeFromTheModuleOfTheNotebooksFolder(t *testing.T) {
	dir := moduleFiles(t)
	before, err := os.ReadFile(filepath.Join(dir, "mod", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOFLAGS", "-mod=mod -race -trimpath")
	b := newBench(t, filepath.Join(dir, "mod", "notebooks"))
	got, _ := b.run(1, "import \"example.com/mine/own\"\nimport \"example.com/mine/internal/in\"", "", "panic(own.Own() + in.In)")
	if got != "own lib1in" {
		t.Errorf("got %q", got)
	}
	after, _ := os.ReadFile(filepath.Join(dir, "mod", "go.mod"))
	if string(before) != string(after) {
		t.Errorf("go.mod was changed:\n%s", after)
	}
}

func TestRefusedImportsSayWhatToDo(t *testing.T) {
	dir := moduleFiles(t)
	b := newBench(t, filepath.Join(dir, "mod"))
	for path, want := range map[string]string{
		"example.com/mine/broken":       "package example.com/mine/broken does not compile:\nbroken/broken.go:3:23: cannot use \"x\" (untyped string constant) as int value in return statement",
		"example.com/mine/needs":        "no module here has package github.com/nobody/nothing (imported at needs/needs.go:3:8): run %get github.com/nobody/nothing",
		"github.com/nobody/nothing/sub": "no module here has package github.com/nobody/nothing/sub: run %get github.com/nobody/nothing/sub",
		"example.com/mine/cmd/tool":     "example.com/mine/cmd/tool is a program, not a package that can be imported",
		"example.com/lib/internal/deep": "use of internal package example.com/lib/internal/deep not allowed",
		"internal/abi":                  "use of internal package internal/abi not allowed",
		"example.com/mine/nowhere":      "no module here has package example.com/mine/nowhere: run %get example.com/mine/nowhere",
		"nosuchpackage":                 "package nosuchpackage is not in std",
		"github.com/rooflab/rooflab/x":  "no module here has package github.com/rooflab/rooflab/x: run %get github.com/rooflab/rooflab",
	} {
		err := b.fails(1, "import _ \""+path+"\"", "", "")
		if err.Error() != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, err, want)
		}
	}
}

func TestNewerGoIsNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module example.com/new\n\ngo 1.99\n", "p/p.go": "package p\n"})
	b := newBench(t, dir)
	err := b.fails(1, "import _ \"example.com/new/p\"", "", "")
	want := "go.mod needs Go 1.99, and this kernel runs " + b.Toolchain.Version + ": install that Go, then restart the kernel"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestVendoredPackagesAreUsed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":                        "module example.com/v\n\ngo 1.26\n\nrequire example.com/dep v1.2.3\n",
		"vendor/modules.txt":            "# example.com/dep v1.2.3\n## explicit; go 1.26\nexample.com/dep\n",
		"vendor/example.com/dep/dep.go": "package dep\n\nconst Name = \"vendored\"\n",
		"v.go":                          "package v\n\nimport _ \"example.com/dep\"\n",
	})
	b := newBench(t, dir)
	if got, _ := b.run(1, "import \"example.com/dep\"", "", "panic(dep.Name)"); got != "vendored" {
		t.Errorf("got %q", got)
	}
}

func TestWorkspaceIsUsed(t *testing.T) {
	dir := moduleFiles(t)
	write(t, dir, map[string]string{"go.work": "go 1.26\n\nuse (\n\t./mod\n\t./lib\n)\n"})
	b := newBench(t, filepath.Join(dir, "mod"))
	if got, _ := b.run(1, "import \"example.com/lib/other\"", "", "panic(other.Other())"); got != "other lib1" {
		t.Errorf("got %q", got)
	}
}

func TestThirdPartyModulesOfTheCache(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", "..", f))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, map[string]string{f: strings.Replace(string(text), "module "+Module, "module example.com/copy", 1)})
	}
	b := newBench(t, dir)
	got, _ := b.run(1, "import \"github.com/google/go-cmp/cmp\"", "", "panic(cmp.Equal([]int{1}, []int{1}))")
	if got != "bool(true)" && got != "true" {
		t.Errorf("got %q", got)
	}
}

func TestPackageInUseKeepsItsArchive(t *testing.T) {
	dir := moduleFiles(t)
	b := newBench(t, filepath.Join(dir, "mod"))
	lib := filepath.Join(dir, "lib", "lib.go")
	changed := func(want string) {
		t.Helper()
		_, notes, err := b.Changed(t.Context())
		if err != nil || strings.Join(notes, "\n") != want {
			t.Errorf("notes %q, %v; want %q", notes, err, want)
		}
	}
	b.run(1, "", "", "")
	if got, _ := b.run(2, "import \"example.com/mine/own\"", "", "panic(own.Own())"); got != "own lib1" {
		t.Fatalf("got %q", got)
	}
	changed("")
	if err := os.WriteFile(lib, []byte("package lib\n\n// T is another type now.\ntype T struct{ A, B int }\n\nfunc Name() string { return \"lib2 \" }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed("example.com/lib has changed since cell 2 loaded it: restart the kernel (%restart)\n" +
		"example.com/mine/own has changed since cell 2 loaded it: restart the kernel (%restart)")
	changed("") // said once
	if got, _ := b.run(3, "import \"example.com/lib\"", "", "panic(lib.Name())"); got != "lib1" {
		t.Errorf("a loaded package: got %q", got)
	}
	var e *ChangedError
	if err := b.fails(4, "import \"example.com/lib/other\"", "", "panic(other.Other())"); !errors.As(err, &e) || e.Path != "example.com/lib" || e.Cell != 2 {
		t.Errorf("a new package that needs the changed one: %v", err)
	}
	b.w.end()
	fresh := newBench(t, filepath.Join(dir, "mod"))
	if got, _ := fresh.run(1, "import \"example.com/lib/other\"", "", "panic(other.Other())"); got != "other lib2 " {
		t.Errorf("after a restart: got %q", got)
	}
}

func TestPackageNotYetInUseIsTakenAnew(t *testing.T) {
	dir := moduleFiles(t)
	b := newBench(t, filepath.Join(dir, "mod"))
	r, err := b.Archive("example.com/mine/own") // checked, but no cell was built
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := os.WriteFile(filepath.Join(dir, "lib", "lib.go"), []byte("package lib\n\nfunc Name() string { return \"lib22\" }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	replaced, notes, err := b.Changed(t.Context())
	if strings.Join(replaced, " ") != "example.com/lib example.com/mine/own" || len(notes) > 0 || err != nil {
		t.Errorf("replaced %q, notes %q, %v", replaced, notes, err)
	}
	if got, _ := b.run(1, "import \"example.com/mine/own\"", "", "panic(own.Own())"); got != "own lib22" {
		t.Errorf("got %q", got)
	}
}

func TestNotebookOutsideAnyModule(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, t.TempDir())
	b := open(t, o)
	if _, err := b.Archive("github.com/rooflab/rooflab/internal/units"); err == nil {
		t.Error("rooflab's packages were found without a checkout")
	}
	o.RooflabSource = checkout
	b = open(t, o)
	for _, path := range []string{Module + "/internal/units", Module + "/kernel/rt"} {
		r, err := b.Archive(path)
		if err != nil {
			t.Error(err)
			continue
		}
		r.Close()
	}
}

func TestNotebookInsideTheCheckoutUsesTheWorkersPackages(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, filepath.Join(checkout, "notebooks"))
	if got, _ := b.run(1, "import \"github.com/rooflab/rooflab/internal/units\"\nvar _ = units.Bytes", "", ""); got != "" {
		t.Errorf("got %q", got)
	}
	if f := b.known[Module+"/kernel/rt"].file; !strings.HasPrefix(f, b.std) {
		t.Errorf("kernel/rt comes from %s, not from what the worker was built from", f)
	}
}

func TestGetAddsAModule(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "file://"+filepath.Join(strings.TrimSpace(string(out)), "cache", "download"))
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOFLAGS", "-mod=readonly")
	dir := t.TempDir()
	b := newBench(t, dir)
	imports := "import \"github.com/google/go-cmp/cmp\""
	err = b.fails(1, imports, "", "panic(cmp.Equal(1, 1))")
	if want := "no module here has package github.com/google/go-cmp/cmp: run %get github.com/google/go-cmp/cmp"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	report, err := b.Get(t.Context(), "github.com/google/go-cmp@v0.7.0")
	if err != nil || !strings.Contains(report, "github.com/google/go-cmp v0.7.0") {
		t.Errorf("report %q, %v", report, err)
	}
	if got, _ := b.run(2, imports, "", "panic(fmtBool(cmp.Equal(1, 1)))\n}\nfunc fmtBool(b bool) string {\nif b { return \"yes\" }\nreturn \"no\""); got != "yes" {
		t.Errorf("got %q", got)
	}
	if _, err := b.Get(t.Context(), "github.com/nobody/nothing"); err == nil || strings.Count(err.Error(), "\n") > 3 {
		t.Errorf("a module that is not there: %v", err)
	}
	if _, err := b.Get(t.Context(), "-u"); err == nil {
		t.Error("a flag was taken for a module")
	}
}

// The initialisation of a large map is a function of its own, which the Go linker leaves out of a program that does not
// use the map. A package is initialised once, for all cells.
func TestLargeMapIsThereForTheSecondCellThatImportsItsPackage(t *testing.T) {
	dir := t.TempDir()
	var entries strings.Builder
	for i := range 50 {
		fmt.Fprintf(&entries, "\t\"key%d\": %d,\n", i, i)
	}
	write(t, dir, map[string]string{
		"go.mod":       "module example.com/m\n\ngo 1.26\n",
		"big/big.go":   "package big\n\nconst Name = \"big\"\n\nfunc F() string { return Name }\n\nvar Map = map[string]int{\n" + entries.String() + "}\n",
		"uses/uses.go": "package uses\n\nimport \"example.com/m/big\"\n\nfunc Look(key string) int { return big.Map[key] }\n",
	})
	b := newBench(t, dir)
	if got, _ := b.run(1, "import \"example.com/m/big\"", "", "panic(big.F())"); got != "big" {
		t.Fatalf("got %q", got)
	}
	if got, _ := b.run(2, "import \"example.com/m/uses\"\nimport \"fmt\"", "", "panic(fmt.Sprint(uses.Look(\"key49\")))"); got != "49" {
		t.Errorf("through another package: got %q", got)
	}
	if got, _ := b.run(3, "import \"example.com/m/big\"\nimport \"fmt\"", "", "panic(fmt.Sprint(len(big.Map)))"); got != "50" {
		t.Errorf("the map itself: got %q", got)
	}
}

func TestPackagesAreInitialisedOnceAndInGosOrder(t *testing.T) {
	dir := t.TempDir()
	pkg := func(name, imports string) string {
		return "package " + name + "\n\nimport \"example.com/m/log\"\n" + imports + "\nfunc init() { log.Add(\"" + name + "\") }\n"
	}
	write(t, dir, map[string]string{
		"go.mod":     "module example.com/m\n\ngo 1.26\n",
		"log/log.go": "package log\n\nvar all string\n\nfunc Add(s string) { all += s }\n\nfunc All() string { return all }\n",
		"a/a.go":     pkg("a", "import _ \"example.com/m/z\"\n"),
		"b/b.go":     pkg("b", ""),
		"c/c.go":     pkg("c", "import _ \"example.com/m/a\"\n"),
		"z/z.go":     pkg("z", ""),
	})
	b := newBench(t, dir)
	imports := "import \"example.com/m/log\"\n"
	if got, _ := b.run(1, imports+"import _ \"example.com/m/b\"\nimport _ \"example.com/m/a\"", "", "panic(log.All())"); got != "bza" {
		t.Errorf("got %q, want bza", got)
	}
	if got, _ := b.run(2, imports+"import _ \"example.com/m/c\"", "", "panic(log.All())"); got != "bzac" {
		t.Errorf("got %q, want bzac", got)
	}
}

// Libraries are kept for all sessions; a notebook that imports the same packages in another order has others.
func TestAnotherOrderOfImportsGivesTheSameTypes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":     "module example.com/m\n\ngo 1.26\n",
		"one/one.go": "package one\n\ntype T[V any] struct{ V V }\n\nfunc (t *T[V]) Get() V { return t.V }\n\nfunc Make() any { return &T[map[string][]int8]{} }\n",
		"two/two.go": "package two\n\nimport \"example.com/m/one\"\n\nfunc Is(v any) (a, b bool) {\n\t_, a = v.(*one.T[map[string][]int8])\n\t_, b = v.(interface{ Get() map[string][]int8 })\n\treturn a, b\n}\n",
		"six/six.go": "package six\n\nfunc Is(v any) bool { _, ok := v.(map[string][]int8); return ok }\n",
	})
	for _, order := range []string{"one two six", "two one six", "six two one"} {
		b := newBench(t, dir)
		b.run(1, "", "var Early any = map[string][]int8{}", "")
		for i, name := range strings.Fields(order) {
			b.run(2+i, "import _ \"example.com/m/"+name+"\"", "", "")
		}
		got, _ := b.run(9, "import (\n\"fmt\"\nc1 \"nb/c1\"\n\"example.com/m/one\"\n\"example.com/m/two\"\n\"example.com/m/six\"\n\"go/types\"\n)",
			"", "a, b := two.Is(one.Make())\npanic(fmt.Sprint(a, b, six.Is(c1.Early), six.Is(one.Make().(*one.T[map[string][]int8]).Get()), types.Typ[types.Int]))")
		if got != "true true true true int" {
			t.Errorf("order %s: got %q", order, got)
		}
	}
}

// The variables of a library keep what only they refer to: the collector knows the pointers of types that are in other
// libraries. The worker of these tests clobbers what it frees.
func TestVariablesOfLibrariesKeepTheirValues(t *testing.T) {
	dir := t.TempDir()
	var vars, check strings.Builder
	for i := range 300 { // more symbols than fit in a page of the file that stands for other libraries
		fmt.Fprintf(&vars, "var V%d = &url.URL{Path: path(%d)}\n\nfunc F%d() (url.Values, error) { return url.ParseQuery(V%d.Path) }\n\n", i, i, i, i)
		fmt.Fprintf(&check, "\tif V%d.Path != path(%d) {\n\t\treturn false\n\t}\n", i, i)
	}
	write(t, dir, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"vars/vars.go": "package vars\n\nimport (\n\t\"fmt\"\n\t\"net/url\"\n\t\"strings\"\n)\n\nfunc path(i int) string { return fmt.Sprint(\"path\", i) }\n\n" +
			"var Replacer = strings.NewReplacer(\"a\", path(1))\n\n" + vars.String() + "func OK() bool {\n" + check.String() + "\treturn true\n}\n",
	})
	b := newBench(t, dir)
	imports := "import \"fmt\"\nimport \"html\"\nimport \"runtime\"\nimport \"example.com/m/vars\"\nimport \"encoding/xml\"\nimport \"text/template\""
	got, _ := b.run(1, imports, "", `var trash [][]byte
		for range 10 { runtime.GC(); for range 100 { trash = append(trash, make([]byte, 100)) } }
		text, err := xml.Marshal(struct{ A int }{1})
		panic(fmt.Sprint(html.EscapeString("<"), vars.OK(), vars.Replacer.Replace("xa"), string(text), err, template.HTMLEscapeString("<"), len(trash)))`)
	if want := "&lt;truexpath1xml: unsupported type: struct { A int }&lt;1000"; got != want {
		t.Errorf("got %q", got)
	}
}
