package nbclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// write stores a notebook with one code cell per source and returns its path.
func write(t *testing.T, sources ...string) string {
	t.Helper()
	nb := &nbformat.Notebook{Metadata: nbformat.Metadata{}}
	for i, s := range sources {
		c := nbformat.Cell{ID: fmt.Sprintf("c%d", i+1), Type: nbformat.Code, Source: s, Metadata: nbformat.Metadata{}}
		if tag, rest, ok := strings.Cut(s, "|"); ok {
			c.Source = rest
			c.Metadata.Set("tags", []string{tag})
		}
		nb.Cells = append(nb.Cells, c)
	}
	path := filepath.Join(t.TempDir(), "in.ipynb")
	if err := nb.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// options runs a notebook on the fake kernel.
func options(t *testing.T, mode string, sources ...string) Options {
	path := write(t, sources...)
	return Options{Notebook: path, Out: filepath.Join(filepath.Dir(path), "out.ipynb"), Kernel: "fake",
		KernelDir: fakeSpec(t, mode, "message"), patience: time.Second}
}

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// stored reads what the run left on disk.
func stored(t *testing.T, o Options) *nbformat.Notebook {
	t.Helper()
	nb, diags, err := nbformat.ReadFile(o.Out)
	if err != nil || len(diags) > 0 {
		t.Fatal(err, diags)
	}
	return nb
}

// shown is a short form of a notebook's outputs.
func shown(nb *nbformat.Notebook) string {
	var b strings.Builder
	for i, c := range nb.Cells {
		fmt.Fprintf(&b, "%d", i+1)
		if c.ExecutionCount != nil {
			fmt.Fprintf(&b, " [%d]", *c.ExecutionCount)
		}
		for _, o := range c.Outputs {
			text, _ := o.Data.Text("text/plain")
			fmt.Fprintf(&b, " %s %s%q", o.Type, o.Name, o.Text+text+o.Ename)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestOutputsAreThoseOfJupyter(t *testing.T) {
	o := options(t, "normal",
		"print a\nprint b\nwarn c\nprint d",
		"display x one\nresult r",
		"update x two\nprint here",
		"print gone\nclear\nprint kept",
		"print gone\nclear wait\nsleep 10\nprint kept",
		"print kept\nclear wait",
		"  \n",
		"skip-execution|fail never",
		"raises-exception|fail Expected",
		"split é€😀",
		"later x", "sleep 300",
	)
	nb, err := Run(background(t), o)
	if err != nil {
		t.Fatal(err)
	}
	want := `1 [1] stream stdout"a\nb\n" stream stderr"c\n" stream stdout"d\n"
2 [2] display_data "two" execute_result "r"
3 [3] stream stdout"here\n"
4 [4] stream stdout"kept\n"
5 [5] stream stdout"kept\n"
6 [6] stream stdout"kept\n"
7
8
9 [7] error "Expected"
10 [8] stream stdout"é€😀"
11 [9] stream stdout"x\n"
12 [10]
`
	if d := cmp.Diff(want, shown(nb)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff(want, shown(stored(t, o))); d != "" {
		t.Errorf("on disk, -want +got:\n%s", d)
	}
	var info map[string]string
	if nb.Metadata.Get("language_info", &info); info["mimetype"] != "text/x-go" || info["pygments_lexer"] != "go" || info["codemirror_mode"] != "go" {
		t.Errorf("language_info %v", info)
	}
}

func TestTwoRunsGiveTheSameBytes(t *testing.T) {
	var runs [][]byte
	for range 2 {
		o := options(t, "normal", "print a\nresult 1", "display x y", "raises-exception|fail No")
		if _, err := Run(background(t), o); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(o.Out)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, data)
	}
	if d := cmp.Diff(string(runs[0]), string(runs[1])); d != "" {
		t.Errorf("two runs differ:\n%s", d)
	}
}

func TestTimesAreRecordedOnlyOnRequest(t *testing.T) {
	o := options(t, "normal", "print a")
	o.RecordTimes = true
	nb, err := Run(background(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var times map[string]string
	nb.Cells[0].Metadata.Get("execution", &times)
	for _, key := range []string{"iopub.status.busy", "iopub.execute_input", "shell.execute_reply", "iopub.status.idle"} {
		if _, err := time.Parse(time.RFC3339, times[key]); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestTenMegabytesOfOutputArriveWhole(t *testing.T) {
	o := options(t, "normal", "chatty 100000")
	nb, err := Run(background(t), o)
	if err != nil {
		t.Fatal(err)
	}
	outputs := nb.Cells[0].Outputs
	if len(outputs) != 1 || len(outputs[0].Text) != 10_000_000 {
		t.Fatalf("%d outputs, the first of %d bytes", len(outputs), len(outputs[0].Text))
	}
	for i, line := range strings.Split(strings.TrimSuffix(outputs[0].Text, "\n"), "\n") {
		if n, err := strconv.Atoi(strings.TrimLeft(line, "0") + strings.Repeat("0", btoi(i == 0))); err != nil || n != i {
			t.Fatalf("line %d is %s", i, line)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestErrorStopsTheRunAndNamesCellAndLine(t *testing.T) {
	o := options(t, "normal", "print before", "print x\nfail Broken", "print never")
	nb, err := Run(background(t), o)
	var cell *CellError
	if !errors.As(err, &cell) {
		t.Fatalf("got %v, want a CellError", err)
	}
	if cell.Cell != 2 || cell.ID != "c2" || cell.Line != 2 || cell.Ename != "Broken" || len(cell.Traceback) != 2 {
		t.Errorf("got %+v", cell)
	}
	if want := o.Notebook + ": cell 2 (id c2), line 2: Broken: fail Broken"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	want := "1 [1] stream stdout\"before\\n\"\n2 [2] stream stdout\"x\\n\" error \"Broken\"\n3\n"
	if shown(nb) != want || shown(stored(t, o)) != want {
		t.Errorf("outputs\n%s, on disk\n%s", shown(nb), shown(stored(t, o)))
	}
}

func TestDeadKernelIsNoticedWithItsLastWords(t *testing.T) {
	for source, state := range map[string]string{"print last\ndie 3": "exit status 3", "print last\nsleep 50\nkilled": "signal: killed", "die 0": "exit status 0"} {
		o := options(t, "normal", "print ok", source, "print never")
		var lost atomic.Int32
		o.OnKernelLost = func() { lost.Add(1) }
		nb, err := Run(background(t), o)
		var died *KernelDiedError
		if !errors.As(err, &died) || died.State != state || died.Cell != 2 {
			t.Errorf("%q: got %v, want death in cell 2 with %s", source, err, state)
			continue
		}
		if strings.Contains(source, "die") && !strings.HasSuffix(died.Output, "fatal: told to die\nexit "+state[len(state)-1:]) {
			t.Errorf("%q: output %q", source, died.Output)
		}
		if lost.Load() != 1 {
			t.Errorf("%q: OnKernelLost called %d times", source, lost.Load())
		}
		if strings.Contains(source, "last") && !strings.Contains(shown(nb), `stdout"last\n"`) {
			t.Errorf("%q: what was printed before is missing:\n%s", source, shown(nb))
		}
	}
}

func TestDeathAtStartIsNoticed(t *testing.T) {
	o := options(t, "dies-at-start", "print a")
	_, err := Run(background(t), o)
	var died *KernelDiedError
	if !errors.As(err, &died) || died.Cell != 0 || died.State != "exit status 7" || !strings.Contains(err.Error(), "no license file") {
		t.Errorf("got %v", err)
	}
}

func TestPortTakenByAnotherProgramIsTriedAgain(t *testing.T) {
	o := options(t, "port-taken", "print a")
	o.Env = []string{"TMPDIR=" + t.TempDir()}
	if _, err := Run(background(t), o); err != nil {
		t.Error(err)
	}
}

func TestTimeoutInterruptsTheCell(t *testing.T) {
	for _, interruptMode := range []string{"message", "signal"} {
		o := options(t, "normal", "print a\nhang", "print never")
		o.KernelDir = fakeSpec(t, "normal", interruptMode)
		o.Timeout = 300 * time.Millisecond
		o.OnKernelLost = func() { t.Error("OnKernelLost called, but the kernel obeyed") }
		nb, err := Run(background(t), o)
		var timeout *TimeoutError
		if !errors.As(err, &timeout) || timeout.KernelKilled || timeout.Cell != 1 {
			t.Errorf("%s: got %v, want a TimeoutError", interruptMode, err)
		}
		if want := "1 [1] stream stdout\"a\\n\" error \"Interrupted\"\n2\n"; shown(nb) != want {
			t.Errorf("%s: outputs %s", interruptMode, shown(nb))
		}
	}
}

func TestKernelThatIgnoresTheInterruptIsKilled(t *testing.T) {
	o := options(t, "ignores-interrupt", "print a\nhang", "print never")
	o.Timeout = 300 * time.Millisecond
	lost := 0
	o.OnKernelLost = func() { lost++ }
	_, err := Run(background(t), o)
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || !timeout.KernelKilled || lost != 1 {
		t.Errorf("got %v, OnKernelLost called %d times", err, lost)
	}
	if want := "1 [1] stream stdout\"a\\n\"\n2\n"; shown(stored(t, o)) != want {
		t.Errorf("on disk %s", shown(stored(t, o)))
	}
}

func TestCancelKeepsWhatWasExecutedAndLeavesNoProcess(t *testing.T) {
	o := options(t, "normal", "child", "print b\nhang", "print never")
	ctx, cancel := context.WithCancelCause(background(t))
	stop := errors.New("Ctrl-C")
	o.Progress = func(e Event) {
		if e.State == Started && e.Cell == 2 {
			time.AfterFunc(200*time.Millisecond, func() { cancel(stop) })
		}
	}
	nb, err := Run(ctx, o)
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), "cell 2 (id c2): interrupted") {
		t.Errorf("got %v", err)
	}
	if got := shown(stored(t, o)); !strings.Contains(got, `2 [2] stream stdout"b\n" error "Interrupted"`) {
		t.Errorf("on disk %s", got)
	}
	pid, err := strconv.Atoi(nb.Cells[0].Outputs[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("child %d of the kernel still runs", pid)
	}
}

// gone waits until a process has ended (or is a zombie that nobody of ours can reap).
func gone(pid int) bool {
	for range 200 {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestFirstOutputIsNotLostToALateSubscription(t *testing.T) {
	o := options(t, "late-subscriber", "print first")
	nb, err := Run(background(t), o)
	if err != nil || shown(nb) != "1 [1] stream stdout\"first\\n\"\n" {
		t.Errorf("%v, outputs %s", err, shown(nb))
	}
}

func TestMissingIdleIsAWarning(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds for a status that never comes")
	}
	o := options(t, "no-idle", "print a")
	var warned []diag.Diagnostic
	o.Warn = func(d diag.Diagnostic) { warned = append(warned, d) }
	if _, err := Run(background(t), o); err != nil || len(warned) != 1 || warned[0].ID != "notebook_no_idle" {
		t.Errorf("%v, warnings %v", err, warned)
	}
}

func TestMessagesWithBadSignaturesAreDropped(t *testing.T) {
	o := options(t, "unsigned", "print a")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*time.Second, errors.New("enough"))
	defer cancel()
	_, err := Run(ctx, o)
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v, want the run to wait for a signed message", err)
	}
}

func TestResumeSkipsAFinishedUnchangedNotebookOnly(t *testing.T) {
	o := options(t, "normal", "parameters|print a", "print b")
	o.Resume = true
	ran := func(o Options) bool {
		t.Helper()
		started := false
		o.Progress = func(e Event) { started = started || e.State == Started }
		nb, err := Run(background(t), o)
		if err != nil && !errors.As(err, new(*CellError)) {
			t.Fatal(err)
		}
		if !started && len(nb.Cells[0].Outputs) != 1 {
			t.Error("the earlier result was not returned")
		}
		return started
	}
	if !ran(o) {
		t.Fatal("first run was skipped")
	}
	if ran(o) {
		t.Error("ran again although nothing changed")
	}
	nb := stored(t, o)
	nb.Cells[1].Source = "print edited"
	nb.WriteFile(o.Out)
	if !ran(o) {
		t.Error("skipped although the result was edited")
	}
	nb, _, _ = nbformat.ReadFile(o.Notebook)
	nb.Cells[1].Source = "fail X"
	nb.WriteFile(o.Notebook)
	if !ran(o) {
		t.Error("skipped a changed notebook")
	}
	if !ran(o) {
		t.Error("skipped a notebook that failed")
	}
}

func TestEnvironmentAndFolderReachTheKernel(t *testing.T) {
	t.Setenv("PWD", "/filled/in")
	o := options(t, "normal", "getenv SECRET\ngetenv FAKE_DIR\npwd")
	o.Env = []string{"SECRET=x"}
	nb, err := Run(background(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := nb.Cells[0].Outputs[0].Text, "x\n/filled/in\n"+filepath.Base(filepath.Dir(o.Notebook)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnectionFileIsRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if _, err := Run(background(t), options(t, "normal", "print a")); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "rooflab-kernel-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProgressTellsEachCell(t *testing.T) {
	o := options(t, "normal", "print a", "\n  print b\n", "fail C")
	var got []string
	o.Progress = func(e Event) { got = append(got, fmt.Sprintf("%d/%d %s %s", e.Cell, e.Cells, e.State, e.Line)) }
	Run(background(t), o)
	want := []string{"1/3 started print a", "1/3 finished print a", "2/3 started print b", "2/3 finished print b", "3/3 started fail C", "3/3 failed fail C"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestNotebookThatWouldLoseSomethingIsNotRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.ipynb")
	os.WriteFile(path, []byte(`{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[5]}`), 0o644)
	if _, err := Run(background(t), Options{Notebook: path, Kernel: "fake"}); err == nil || !strings.Contains(err.Error(), "cell 1 is a number") {
		t.Errorf("got %v", err)
	}
}

func TestMissingKernelIsExplained(t *testing.T) {
	o := options(t, "normal", "print a")
	o.Kernel = "nope"
	_, err := Run(background(t), o)
	var missing *KernelNotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "fake") || !strings.Contains(err.Error(), "rooflab kernel install") {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{filepath.Join(o.KernelDir, "fake"), o.KernelDir} {
		if spec, err := FindKernel("FAKE", dir); err != nil || spec.DisplayName != "Fake" {
			t.Errorf("in %s: %+v, %v", dir, spec, err)
		}
	}
}

func TestKernelIsFoundInTheUsersDataFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("JUPYTER_PATH", "")
	t.Setenv("JUPYTER_DATA_DIR", "")
	t.Setenv("XDG_DATA_HOME", home)
	dir := filepath.Join(home, "jupyter", "kernels", "own")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(`{"argv":["own"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if spec, err := FindKernel("own"); err != nil || spec.Dir != dir {
		t.Errorf("%+v, %v", spec, err)
	}
}
