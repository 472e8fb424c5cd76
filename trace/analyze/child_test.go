package analyze_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/trace/analyze"
)

// childEnv names the file that a copy of the test binary analyses instead of running tests.
const childEnv = "ROOFLAB_TEST_ANALYZE"

func TestMain(m *testing.M) {
	path := os.Getenv(childEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	report, err := analyze.Files(filepath.SplitList(path)...)
	if report != nil {
		json.NewEncoder(io.Discard).Encode(report)
	}
	// The peak that wait4 gives counts what the parent had at the fork; the one of /proc begins with the program.
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		fmt.Println(strings.Fields(peak)[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// usage is what a process took.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory
	stderr    string
}

// measure runs a command to its end. A child's output is its peak memory in kB; that of other commands is dropped.
func measure(cmd *exec.Cmd, child bool) usage {
	var stdout, stderr strings.Builder
	cmd.Stderr = &stderr
	if child {
		cmd.Stdout = &stdout
	}
	start := time.Now()
	if err := cmd.Run(); cmd.ProcessState == nil {
		return usage{stderr: err.Error()}
	}
	u := usage{wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), stderr: stderr.String()}
	kb, _ := strconv.ParseInt(strings.TrimSpace(stdout.String()), 10, 64)
	u.peak = kb << 10
	return u
}

// analyzeChild makes the command that analyses files together in a process of its own.
func analyzeChild(t testing.TB, paths ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(paths, string(filepath.ListSeparator)))
	return cmd
}
