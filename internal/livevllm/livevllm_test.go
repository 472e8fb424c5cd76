package livevllm

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A test binary that is killed, by its -timeout or otherwise, runs no cleanup. The lock is free when its server is gone.
func TestServerOfAKilledTestBinaryIsStopped(t *testing.T) {
	if os.Getenv("LIVEVLLM_TEST_CHILD") != "" {
		s := Start(t, Options{})
		fmt.Printf("\nstarted %d %s\n", s.PID, s.TraceDir)
		time.Sleep(time.Hour)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), "LIVEVLLM_TEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir, said string
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		said += lines.Text() + "\n"
		fmt.Sscanf(lines.Text(), "started %d %s", &pid, &dir)
	}
	child.Process.Kill()
	child.Wait()
	if pid == 0 {
		t.Skipf("the child has started no server:\n%s", said) // it failed in CI, the next test tells
	}
	if _, err := alone(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute) // they have been sent SIGKILL: their memory is being freed
	for left := running(t, pid); len(left) > 0; left = running(t, pid) {
		if time.Now().After(deadline) {
			t.Fatalf("the server's processes are still there:\n%s", strings.Join(left, "\n"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its profiles are still there: %v", err)
	}
}

// running lists the processes of a group that have not ended. A zombie has: some machines' first process reaps late or never,
// and kill(2) still finds it.
func running(t *testing.T, group int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	var left []string
	for _, name := range stats {
		text, err := os.ReadFile(name) // PID (NAME) STATE PARENT GROUP ...
		if err != nil {
			continue // it has just ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[0] != "Z" && fields[0] != "X" && fields[2] == strconv.Itoa(group) {
			left = append(left, string(text))
		}
	}
	return left
}

// A test binary that is killed while its server starts hears no answer of the start.
func TestServerIsStoppedWhenNobodyHearsThatItHasStarted(t *testing.T) {
	dir, begun, stopped := t.TempDir(), filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "stopped")
	gone := filepath.Join(t.TempDir(), "gone")
	serve := filepath.Join(t.TempDir(), "serve.sh")
	text := fmt.Sprintf("case $1 in\nstart) : >%s; until [ -e %s ]; do sleep 0.01; done; echo 123 ;;\nstop) : >%s ;;\nesac\n", begun, gone, stopped)
	if err := os.WriteFile(serve, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	k, err := newKeeper(lock, dir, os.Environ(), []string{serve, t.TempDir(), "1", dir, "-"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(k.in, "start\n"); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		time.Sleep(time.Millisecond)
	}
	k.pipe.Close()
	if err := os.WriteFile(gone, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	k.close()
	if _, err := os.Stat(stopped); err != nil {
		t.Errorf("the server was left behind: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder was left behind: %v", err)
	}
}

func TestKilledServerStartsAgain(t *testing.T) {
	s := Start(t, Options{})
	s.CheckNoProfile(t)
	if status, err := post(s.URL+"/start_profile", ""); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	shared := sharedMemory(s.PID)
	s.Kill()
	if _, err := http.Get(s.URL + "/health"); err == nil {
		t.Error("a killed server answers")
	}
	for _, name := range shared {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("left: %s", name)
		}
	}
	s.Restart()
	s.CheckNoProfile(t)
	if entries, err := os.ReadDir(s.TraceDir); err != nil || len(entries) == 0 {
		t.Errorf("%d profiles, %v", len(entries), err)
	}
}
