package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestPlainShowsWhatWouldSteerATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"moe.experts\t1 230\n":     "moe.experts\t1 230\n",
		"a\x1b[31mb\x07\r\x7f":     `a\x1b[31mb\x07\x0d\x7f`,
		"C1 \u009b31m, ≤ 5 ms, 中文": `C1 \x9b31m, ≤ 5 ms, 中文`,
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSignalEndsACommandThatReadsASilentPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "silent.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "rooflab", "analyze", pipe)
	if cmd.Err != nil { // testscript.Main puts it there
		cmd = exec.CommandContext(t.Context(), os.Args[0], "analyze", pipe)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the command has opened its end
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Errorf("the command ended with %v, not by the signal", err)
	}
}
