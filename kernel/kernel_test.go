package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/kernel/serve"
)

// TestMain lets the test binary be a kernel: doctor's tests start it with this variable set.
func TestMain(m *testing.M) {
	switch os.Getenv("ROOFLAB_FAKE_KERNEL") {
	case "answers":
		server, err := serve.Listen(os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		server.Serve(fakeInfo, func(context.Context) (serve.Engine, error) { return fake{}, nil })
		return
	case "ends":
		fmt.Fprintln(os.Stderr, "cannot go on")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

type fake struct{}

func (fake) Info() serve.Info                                   { return fakeInfo }
func (fake) Run(serve.Cell, serve.Output) (serve.Result, error) { return serve.Result{}, nil }
func (fake) Complete(string, int) (c serve.Completion)          { return c }
func (fake) Inspect(string, int, int) (b serve.Bundle)          { return b }
func (fake) State(string) (string, string)                      { return "unknown", "" }
func (fake) Interrupt()                                         {}
func (fake) Comm(serve.CommMessage)                             {}
func (fake) Close()                                             {}

var fakeInfo = serve.Info{Name: "fake", LanguageVersion: "1.0"}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSourceIsFoundUpwards(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "// ours\nmodule "+modulePath+"\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "a", "b", "x.txt"), "")
	other := filepath.Join(dir, "a", "other")
	write(t, filepath.Join(other, "go.mod"), "module example.com/other\n")

	t.Chdir(filepath.Join(dir, "a", "b"))
	if got, err := findSource(""); err != nil || got != dir {
		t.Errorf("from below: %q, %v", got, err)
	}
	t.Chdir(other)
	if got, err := findSource(""); err != nil || got != dir {
		t.Errorf("from a module inside: %q, %v", got, err)
	}
	if got, err := findSource("../.."); err != nil || got != dir {
		t.Errorf("named: %q, %v", got, err)
	}
	if _, err := findSource("."); err == nil || !strings.Contains(err.Error(), "root folder of a checkout") {
		t.Errorf("a wrong folder: %v", err)
	}
	t.Chdir(t.TempDir())
	if _, err := findSource(""); err == nil || !strings.Contains(err.Error(), "--source") {
		t.Errorf("outside: %v", err)
	}
}

func TestInstallSaysWhatIsMissing(t *testing.T) {
	root := sharedtest.Root()
	for _, c := range []struct {
		name    string
		options Options
		path    string
		want    string
	}{
		{"engine", Options{Engine: "yaegi"}, os.Getenv("PATH"), "there are compiled and gophernotes"},
		{"name", Options{Name: "a b"}, os.Getenv("PATH"), "letters, digits"},
		{"program", Options{Engine: Compiled, Source: root, Program: os.Args[0]}, os.Getenv("PATH"), "is not the rooflab binary"},
		{"source", Options{Engine: Gophernotes, Source: t.TempDir()}, os.Getenv("PATH"), "find the sources"},
		{"go", Options{Engine: Gophernotes, Source: root, Prefix: t.TempDir()}, t.TempDir(), "install Go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			if _, err := Install(t.Context(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// checkout writes the smallest tree that a stamp can be made of.
func checkout(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                        "module " + modulePath + "\n\ngo 1.26\n",
		"go.sum":                        "",
		"internal/bindgen/main.go":      "package main\n\nfunc main() {}\n",
		"internal/bindgen/packages.txt": "# comment\n./data/...\n./later\nfmt\n",
		"internal/gophernotes/main.go":  "//go:build gophernotes\n\npackage main\n\nfunc main() {}\n",
		"data/data.go":                  "package data\n\nimport (\n\t_ \"embed\"\n\n\t_ \"" + modulePath + "/internal/unit\"\n)\n\n//go:embed t.json\nvar T string\n",
		"data/t.json":                   "1",
		"internal/unit/unit.go":         "package unit\n",
		"other/other.go":                "package other\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func TestStampChangesWithWhatTheEngineIsBuiltFrom(t *testing.T) {
	dir := checkout(t)
	stamp := func() string {
		t.Helper()
		s, err := sourceStamp(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	last := stamp()
	if again := stamp(); again != last {
		t.Fatal("nothing changed, but the stamp did")
	}
	for _, c := range []struct {
		file, text string
		changes    bool
	}{
		{"other/other.go", "package other\n\nconst A = 1\n", false},
		{"data/data_test.go", "package data\n", false},
		{"README.md", "text", false},
		{"data/t.json", "2", true},
		{"internal/unit/unit.go", "package unit\n\nconst A = 1\n", true},
		{"internal/gophernotes/main.go", "//go:build gophernotes\n\npackage main\n\nfunc main() { println() }\n", true},
		{"internal/bindgen/main.go", "package main\n\nfunc main() { println() }\n", true},
		{"later/later.go", "package later\n", true},
		{"go.sum", "\n", true},
	} {
		write(t, filepath.Join(dir, c.file), c.text)
		if now := stamp(); (now != last) != c.changes {
			t.Errorf("after a change of %s: stamp changed %v, want %v", c.file, now != last, c.changes)
		} else {
			last = now
		}
	}
}

func TestWriteFileReplacesAtOnceAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"one", "two", "two"} {
		if err := writeFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestGoKernelsAreListedInTheOrderOfJupytersSearch(t *testing.T) {
	dir := t.TempDir()
	spec := func(place, name, language string) {
		write(t, filepath.Join(dir, place, "kernels", name, "kernel.json"),
			fmt.Sprintf(`{"argv": ["x"], "display_name": %q, "language": %q}`, place, language))
	}
	spec("path", "rooflab-go", "go")
	spec("path", "python3", "python")
	spec("user", "rooflab-go", "go")
	spec("env/share/jupyter", "another", "Go")
	write(t, filepath.Join(dir, "user", "kernels", "broken", "kernel.json"), "{")
	t.Setenv("JUPYTER_PATH", filepath.Join(dir, "path"))
	t.Setenv("JUPYTER_DATA_DIR", filepath.Join(dir, "user"))
	t.Setenv("VIRTUAL_ENV", filepath.Join(dir, "env"))
	t.Setenv("CONDA_PREFIX", "")
	var got []string
	for _, s := range List() {
		if strings.HasPrefix(s.Dir, dir) { // this machine may have kernels of its own
			got = append(got, s.DisplayName+" "+s.Name)
		}
	}
	if want := []string{"path rooflab-go", "user rooflab-go", "env/share/jupyter another"}; !slices.Equal(got, want) {
		t.Errorf("kernels %q, want %q", got, want)
	}
}

func TestDoctorFindsWhyAKernelDoesNotWork(t *testing.T) {
	t.Setenv("VIRTUAL_ENV", "")
	for _, c := range []struct {
		name, spec, behaves string
		broken              []string
		text                string
	}{
		{"nothing installed", "", "", []string{"kernelspec", "answer"}, "no kernel called rooflab-go"},
		{"moved", `{"argv": ["/nowhere/engine", "{connection_file}"], "language": "go"}`, "", []string{"kernelspec", "answer"}, "/nowhere/engine cannot be started"},
		{"ends", fmt.Sprintf(`{"argv": [%q, "{connection_file}"], "language": "go"}`, os.Args[0]), "ends", []string{"answer"}, "ended at once: cannot go on"},
		{"works", fmt.Sprintf(`{"argv": [%q, "{connection_file}"], "language": "go"}`, os.Args[0]), "answers", nil, "fake answers and runs a cell: protocol 5.3, go 1.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			prefix := t.TempDir()
			if c.spec != "" {
				write(t, filepath.Join(prefix, "share", "jupyter", "kernels", DefaultName, "kernel.json"), c.spec)
			}
			t.Setenv("ROOFLAB_FAKE_KERNEL", c.behaves)
			var broken []string
			var said strings.Builder
			for _, r := range Doctor(t.Context(), Options{Prefix: prefix, Source: sharedtest.Root()}) {
				if r.Broken() {
					broken = append(broken, r.Check)
				}
				fmt.Fprintf(&said, "%s: %s\n", r.Check, r.Text)
			}
			if !slices.Equal(broken, c.broken) || !strings.Contains(said.String(), c.text) {
				t.Errorf("broken %q, want %q; want %q in\n%s", broken, c.broken, c.text, said.String())
			}
		})
	}
}

func TestDoctorStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("ROOFLAB_FAKE_KERNEL", "answers")
	if _, err := ask(ctx, []string{os.Args[0], "{connection_file}"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
