package nbclient

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ipykernel gives options that run sources on a real ipykernel of $ROOFLAB_PYTHON. Without it the test is skipped;
// under CI=true one that is named but does not work fails.
func ipykernel(t *testing.T, sources ...string) Options {
	t.Helper()
	python := os.Getenv("ROOFLAB_PYTHON")
	if python == "" {
		t.Skip("set ROOFLAB_PYTHON to a Python with ipykernel to run on it")
	}
	if out, err := exec.Command(python, "-c", "import ipykernel").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s cannot import ipykernel: %v\n%s", python, err, out)
		}
		t.Skipf("%s cannot import ipykernel: %v", python, err)
	}
	o := options(t, "normal", sources...)
	spec, _ := json.Marshal(map[string]any{"argv": []string{python, "-m", "ipykernel_launcher", "-f", "{connection_file}"},
		"display_name": "Python", "language": "python"})
	dir := filepath.Join(o.KernelDir, "py")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "kernel.json"), spec, 0o644)); err != nil {
		t.Fatal(err)
	}
	o.Kernel, o.patience = "py", 10*time.Second
	return o
}

func TestIpykernelRunsANotebook(t *testing.T) {
	o := ipykernel(t,
		"parameters|n = 1",
		"import sys\nprint(n); sys.stdout.flush()\nprint('é€😀', file=sys.stderr); sys.stderr.flush()\nn + 1", // unflushed, their order is random
		"from IPython.display import display\nh = display('one', display_id=True)\nh.update('two')",
		"for i in range(20000): print('x' * 499)",
		"raises-exception|1/0",
		"from IPython.display import clear_output\nprint('gone'); clear_output(wait=True); print('kept')",
	)
	o.Params = []Param{{Name: "n", Value: 41}}
	nb, err := Run(background(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(nb.Cells[4].Outputs[0].Text); n != 10_000_000 {
		t.Errorf("%d bytes of output, want 10,000,000", n)
	}
	nb.Cells[4].Outputs = nil
	want := `1 [1]
2 [2]
3 [3] stream stdout"41\n" stream stderr"é€😀\n" execute_result "42"
4 [4] display_data "'two'"
5 [5]
6 [6] error "ZeroDivisionError"
7 [7] stream stdout"kept\n"
`
	if got := shown(nb); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestIpykernelErrorNamesTheLine(t *testing.T) {
	o := ipykernel(t, "def f():\n    return 1/0\n\nf()")
	_, err := Run(background(t), o)
	var cell *CellError
	if !errors.As(err, &cell) || cell.Line != 4 || cell.Ename != "ZeroDivisionError" || !strings.Contains(cell.PlainTraceback(), "line 2") {
		t.Errorf("got %v, line %d", err, cell.Line)
	}
}

func TestIpykernelTimeoutInterruptsBySignal(t *testing.T) {
	o := ipykernel(t, "print('a')\nwhile True: pass")
	o.Timeout = time.Second
	nb, err := Run(background(t), o)
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.KernelKilled {
		t.Errorf("got %v", err)
	}
	if want := "1 [1] stream stdout\"a\\n\" error \"KeyboardInterrupt\"\n"; shown(nb) != want {
		t.Errorf("outputs %s", shown(nb))
	}
}

func TestIpykernelDeathIsNoticed(t *testing.T) {
	o := ipykernel(t, "import os, sys\nos.write(2, b'last words')\nos._exit(9)")
	_, err := Run(background(t), o)
	var died *KernelDiedError
	if !errors.As(err, &died) || died.State != "exit status 9" {
		t.Errorf("got %v", err)
	}
}
