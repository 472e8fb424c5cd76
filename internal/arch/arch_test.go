// Package arch holds the tests that keep the shape of the repository: who may import whom, file sizes, package comments.
// It has no code of its own.
package arch

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

const module = "github.com/rooflab/rooflab"

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Standard   bool
	Imports    []string
	Deps       []string
	GoFiles    []string
	Dir        string
}

// forbidden maps a package, with everything below it, to what it must not reach, and why.
var forbidden = []struct {
	from  string
	never []string
	why   string
}{
	{"kernel", []string{"trace", "charts", "campaign", "sitegen", "data"}, "the Jupyter kernel knows nothing about profiling"},
	{"trace", []string{"charts", "campaign", "sitegen", "kernel", "net/http", "os/exec", "html/template"}, "analysis returns tables; it neither draws nor talks to anything"},
	{"charts", []string{"trace/kineto", "trace/nsys", "campaign", "sitegen", "kernel", "net/http"}, "charts take finished figures; cells that import them must stay quick to link"},
	{"campaign", []string{"charts", "sitegen", "kernel", "notebooks"}, "a campaign measures; it neither draws nor publishes"},
	{"sitegen", []string{"os/exec", "kernel", "campaign", "trace/kineto"}, "building a site never executes and never measures"},
	{"notebooks/nbformat", []string{"trace", "charts", "campaign", "sitegen", "kernel", "data"}, "the file format stands alone"},
	{"notebooks/nbclient", []string{"trace", "charts", "campaign", "sitegen", "data"}, "the runner drives any Jupyter kernel"},
	{"data", []string{"trace", "charts", "campaign", "sitegen", "kernel", "notebooks", "net/http", "os/exec"}, "records are at the bottom"},
}

// onlyBy maps a module to the packages that may import it directly; main and tests aside.
var onlyBy = map[string][]string{
	"github.com/tidwall/gjson":            {"trace/kineto", "campaign/model", "campaign/micro"},
	"github.com/klauspost/compress":       {"trace/kineto", "campaign"},
	"github.com/go-echarts/go-echarts/v2": {"charts"},
	"github.com/dop251/goja":              {"charts/svg"},
	"golang.org/x/image":                  {"charts/svg"},
	"github.com/yuin/goldmark":            {"sitegen"},
	"github.com/alecthomas/chroma/v2":     {"sitegen"},
	"github.com/microcosm-cc/bluemonday":  {"sitegen"},
	"go.yaml.in/yaml/v4":                  {"campaign/launch"},
	"mvdan.cc/sh/v3":                      {"campaign/launch"},
	"github.com/spf13/cobra":              {"internal/cli"},
	"golang.org/x/term":                   {"internal/cli"},
	"golang.org/x/perf":                   {"trace/compare"},
	"github.com/rogpeppe/go-internal":     {},
	"github.com/google/go-cmp":            {"internal/golden"},
	"github.com/gopherdata/gophernotes":   {},
	"github.com/cosmos72/gomacro":         {"internal/gophernotes"},
}

// stdOnly lists packages that import the standard library and the named siblings only.
var stdOnly = map[string][]string{
	"data":                {"internal/units", "internal/texttab"},
	"trace":               {"internal/diag", "internal/units", "data"},
	"notebooks/nbformat":  {"internal/atomicfile", "internal/diag"},
	"kernel/wire":         {},
	"kernel/serve":        {"kernel/wire"},
	"kernel/session":      {"kernel/proto"},
	"kernel/eval":         {"kernel/proto"},
	"kernel/link":         {},
	"kernel/build":        {"internal/atomicfile", "kernel/link", "kernel/proto"},
	"kernel/rt":           {},
	"kernel/proto":        {},
	"kernel/dl":           {},
	"kernel/display":      {},
	"kernel/worker":       {"kernel/display", "kernel/dl", "kernel/eval", "kernel/proto", "kernel/rt"}, // linked into the process of the cells: users' modules are free
	"internal/units":      {},
	"internal/texttab":    {},
	"internal/diag":       {},
	"internal/atomicfile": {},
	"internal/secrets":    {},
}

func TestArrowsPointOneWay(t *testing.T) {
	pkgs := list(t)
	for _, rule := range forbidden {
		for _, p := range under(pkgs, rule.from) {
			for _, dep := range p.Deps {
				for _, no := range rule.never {
					if rule.from == "notebooks/nbclient" && in(dep, "kernel/wire") {
						continue
					}
					if inside(p.ImportPath, module+"/"+no) {
						continue
					}
					if in(dep, no) || dep == no {
						t.Errorf("%s reaches %s: %s", short(p.ImportPath), short(dep), rule.why)
					}
				}
			}
		}
	}
}

// What every cell links decides how long a cell takes.
func TestTheCellsSupportPackageImportsNearlyNothing(t *testing.T) {
	for _, p := range list(t) {
		if short(p.ImportPath) != "kernel/rt" {
			continue
		}
		for _, imp := range p.Imports {
			if imp != "sync/atomic" {
				t.Errorf("kernel/rt imports %s", imp)
			}
		}
		return
	}
	t.Error("there is no kernel/rt")
}

// The word "kernel" means two things; only the command line may see both.
func TestJupyterKernelAndGPUKernelsMeetOnlyInCLI(t *testing.T) {
	for _, p := range list(t) {
		jupyter, gpu := false, false
		for _, dep := range p.Deps {
			jupyter = jupyter || dep == module+"/kernel"
			gpu = gpu || dep == module+"/trace"
		}
		if jupyter && gpu && short(p.ImportPath) != "internal/cli" && p.ImportPath != module {
			t.Errorf("%s reaches both the Jupyter kernel and package trace", short(p.ImportPath))
		}
	}
}

func TestModulesAreImportedOnlyWhereTheTableSays(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			if inside(imp, module) || !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				continue
			}
			owner := ""
			for m := range onlyBy {
				if inside(imp, m) {
					owner = m
				}
			}
			if owner == "" {
				t.Errorf("%s imports %s, which is not in the dependency table", short(p.ImportPath), imp)
				continue
			}
			allowed := false
			for _, a := range onlyBy[owner] {
				allowed = allowed || inside(p.ImportPath, module+"/"+a)
			}
			if !allowed {
				t.Errorf("%s imports %s; only %v may", short(p.ImportPath), imp, onlyBy[owner])
			}
		}
	}
}

func TestBottomPackagesUseTheStandardLibraryOnly(t *testing.T) {
	for _, p := range list(t) {
		allowed, ok := stdOnly[short(p.ImportPath)]
		if !ok {
			continue
		}
		for _, imp := range p.Imports {
			if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				continue
			}
			if !contains(allowed, short(imp)) {
				t.Errorf("%s imports %s", short(p.ImportPath), imp)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range list(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", short(p.ImportPath))
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	root := sharedtest.Root()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), "_") || d.Name() == "node_modules" || (strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && path != root)) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if n := strings.Count(string(b), "\n"); n > 600 {
			t.Errorf("%s has %d lines; split it by stage (limit 600)", rel, n)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), path, b, parser.PackageClauseOnly); err != nil {
			t.Errorf("%s: %v", rel, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGoModHasNoReplace(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(sharedtest.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "\nreplace") {
		t.Error("go.mod has a replace directive")
	}
}

// Every direct module has a line in ARCHITECTURE.md's table.
func TestDependencyTableIsComplete(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(sharedtest.Root(), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for m := range onlyBy {
		if usesModule(t, m) && !strings.Contains(string(b), m) {
			t.Errorf("ARCHITECTURE.md has no line for %s", m)
		}
	}
}

func usesModule(t *testing.T, m string) bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(sharedtest.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), "\t"+m+" ")
}

func list(t *testing.T) []pkg {
	t.Helper()
	var listed []pkg
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Standard,Imports,Deps,GoFiles,Dir", "./...")
	cmd.Dir = sharedtest.Root()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, p)
	}
	sort.Slice(listed, func(i, j int) bool { return listed[i].ImportPath < listed[j].ImportPath })
	return listed
}

func under(pkgs []pkg, prefix string) []pkg {
	var out []pkg
	for _, p := range pkgs {
		if inside(p.ImportPath, module+"/"+prefix) {
			out = append(out, p)
		}
	}
	return out
}

func in(path, prefix string) bool { return inside(path, module+"/"+prefix) }

func inside(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func short(path string) string { return strings.TrimPrefix(path, module+"/") }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
