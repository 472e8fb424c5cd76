package compiled

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/serve"
)

// goTests are Go's own test programs that are marked "// run". As programs they print what stands beside them, or
// nothing; a cell must do the same. Some cannot agree: they look at file names, function names of main, or at what a
// program of its own would have freed.
var goTests = []struct {
	glob  string
	least int // of 100: that must agree
}{
	{"*.go", 95},
	{"typeparam/*.go", 98},
	{"chan/*.go", 95},
	{"interface/*.go", 95},
	{"ken/*.go", 95},
	{"escape*.go", 90},
}

// TestGoTestPrograms counts the programs that agree. ROOFLAB_GOTEST=GLOB runs others of $GOROOT/test, such as
// 'fixedbugs/*.go'; ROOFLAB_GOTEST=all runs those above, which take some minutes.
func TestGoTestPrograms(t *testing.T) {
	tests := goTests
	switch glob := os.Getenv("ROOFLAB_GOTEST"); glob {
	case "":
		tests = goTests[3:5] // some seconds
	case "all":
	default:
		tests = tests[:0:0]
		tests = append(tests, struct {
			glob  string
			least int
		}{glob, 0})
	}
	h := newHarness(t, Options{})
	root := filepath.Join(h.build.Toolchain.Root, "test")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("this Go comes without its test programs: %v", err)
	}
	for _, c := range tests {
		files, err := filepath.Glob(filepath.Join(root, c.glob))
		if err != nil {
			t.Fatal(err)
		}
		agree, total := 0, 0
		for _, f := range files {
			program, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !runs(string(program)) {
				continue
			}
			total++
			if why := h.differs(f, string(program)); why != "" {
				t.Logf("%s: %s", filepath.Base(f), why)
			} else {
				agree++
			}
		}
		t.Logf("%s: %d of %d programs agree", c.glob, agree, total)
		if 100*agree < c.least*total || total == 0 {
			t.Errorf("%s: %d of %d programs agree, want %d %%", c.glob, agree, total, c.least)
		}
	}
}

func runs(program string) bool {
	first, _, _ := strings.Cut(program, "\n")
	return strings.TrimSpace(first) == "// run" && !strings.Contains(program, "//go:build") && !strings.Contains(program, `import "C"`)
}

// differs runs a program as a cell of an empty session: programs may redefine int or len.
func (h *harness) differs(file, program string) string {
	h.want("%restart", "")
	want, err := os.ReadFile(strings.TrimSuffix(file, ".go") + ".out")
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	soft := time.AfterFunc(20*time.Second, h.Interrupt)
	hard := time.AfterFunc(30*time.Second, h.worker.kill)
	defer soft.Stop()
	defer hard.Stop()
	h.count++
	o := h.run(serve.Cell{Count: h.count, Code: program})
	if o.err != nil && !(o.err.Name == "SystemExit" && o.err.Value == "0") {
		return limited(o.err.Error())
	}
	if got := o.paper.String(); got != string(want) {
		return "prints " + limited(got)
	}
	return ""
}

func limited(s string) string {
	const most = 250
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
