package phases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
)

// recorded is a replay behind a proxy.
type recorded struct {
	*replay.Server
	url string
}

// newTarget starts a replay that calls inWindow when the second profile has started and before the client hears of it.
func newTarget(t *testing.T, inWindow func()) *recorded {
	t.Helper()
	s, err := replay.Start(context.Background(), replay.Options{Dir: archive()})
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var started atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a killed client is what is tested
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == "/start_profile" && r.Request.Method == http.MethodPost && started.Add(1) == 2 {
			inWindow()
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole body first: a server that answers before it has read all closes the body under the proxy.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client hung up
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &recorded{s, front.URL}
}

// macro are the options of a run of 10-macro against the target.
func (tg *recorded) macro(t *testing.T, kernels string) Options {
	return Options{Dir: filepath.Join(t.TempDir(), "campaign"), Target: tg.url, TraceDir: tg.TraceDir, From: archive(),
		Numbers: []int{1}, KernelDir: kernels}
}

// checkStopped checks what a stop after the first round leaves: no open profile, the first round, and that the same
// options with Resume finish the campaign as if nothing had happened.
func checkStopped(t *testing.T, tg *recorded, o Options, err error) {
	t.Helper()
	var stopped *Error
	if !errors.As(err, &stopped) || stopped.Phase.Number != 1 || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("the error is %v", err)
	}
	if tg.ProfileOpen() {
		t.Error("the profile was left open")
	}
	before := readRun(t, o)
	if len(before.Rounds) < 2 || len(before.Rounds[0].Traces) == 0 {
		t.Fatalf("kept are %d rounds: %s", len(before.Rounds), encode(t, before.Rounds))
	}
	o.Resume, o.Lost = true, nil
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	after := readRun(t, o)
	if len(after.Rounds) != 3 || len(after.Rounds[1].Traces) == 0 {
		t.Errorf("after --resume there are %d rounds", len(after.Rounds))
	}
	if a, b := encode(t, before.Rounds[0]), encode(t, after.Rounds[0]); !bytes.Equal(a, b) {
		t.Errorf("the finished round was measured again:\n%s\n%s", a, b)
	}
	checkShares(t, filepath.Join(o.Dir, "results/macro.json"))
	if tg.ProfileOpen() {
		t.Error("the resumed run left a profile open")
	}
	if _, err := os.Stat(filepath.Join(o.Dir, ".journal/profile.json")); !os.IsNotExist(err) {
		t.Errorf("the note of an open profile is still there (%v)", err)
	}
}

func readRun(t *testing.T, o Options) data.Run {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(o.Dir, "runs/main/run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r data.Run
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCtrlCClosesTheProfileAndCanBeResumed(t *testing.T) {
	k := kernels(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tg := newTarget(t, func() {
		cancel()
		time.Sleep(time.Second) // mostly enough for the interrupt to arrive while the profile is open; later is right, too
	})
	o := tg.macro(t, k)
	o.Lost = func(_ notebooks.Phase, stop string) { t.Errorf("the kernel did not end by itself: %s", stop) }
	err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	checkStopped(t, tg, o, err)
}

func TestKilledKernelLeavesNoProfileOpen(t *testing.T) {
	k := kernels(t)
	dir, pid := withPid(t, k)
	tg := newTarget(t, func() { kill(t, readPid(t, pid)) })
	o := tg.macro(t, dir)
	var stop []string
	o.Lost = func(_ notebooks.Phase, s string) { stop = append(stop, s) }
	err := Run(t.Context(), o)
	var died *nbclient.KernelDiedError
	if !errors.As(err, &died) || died.ID != "rounds" || died.State != "signal: killed" {
		t.Errorf("the error is %v", err)
	}
	if len(stop) != 1 || stop[0] != "the profile that was open is closed" {
		t.Errorf("what became of the profiler: %q", stop)
	}
	checkStopped(t, tg, o, err)
}

// The process that cells run in is gone, the kernel is not.
func TestKilledWorkerLeavesNoProfileOpen(t *testing.T) {
	dir, pid := withPid(t, kernels(t))
	tg := newTarget(t, func() {
		workers := children(t, readPid(t, pid))
		if len(workers) == 0 {
			t.Error("the kernel has no worker process")
		}
		for _, w := range workers {
			kill(t, w)
		}
	})
	o := tg.macro(t, dir)
	var stop []string
	o.Lost = func(_ notebooks.Phase, s string) { stop = append(stop, s) }
	err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "the worker process ended: signal: killed") {
		t.Errorf("the error is %v", err)
	}
	if len(stop) != 1 || stop[0] != "the profile that was open is closed" {
		t.Errorf("what became of the profiler: %q", stop)
	}
	checkStopped(t, tg, o, err)
}

// Somebody else profiles the server while a notebook without a profile of its own loses its kernel.
func TestKilledKernelLeavesTheProfilesOfOthersAlone(t *testing.T) {
	dir, pid := withPid(t, kernels(t))
	tg := newTarget(t, func() {})
	o := tg.macro(t, dir)
	o.Numbers = []int{0}
	source, err := json.Marshal(fmt.Sprintf(`import ("os"; "strconv"; "strings"; "syscall")

text, _ := os.ReadFile(%q)
pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
syscall.Kill(pid, syscall.SIGKILL)`, pid))
	if err != nil {
		t.Fatal(err)
	}
	write(t, notebookPath(o.Dir, notebooks.Phases()[0]), `{"nbformat":4,"nbformat_minor":5,"metadata":{"kernelspec":{"name":"rooflab-go","display_name":"Go","language":"go"}},"cells":[
{"cell_type":"code","id":"kill","metadata":{},"source":`+string(source)+`,"execution_count":null,"outputs":[]}]}`)
	other, err := http.Post(tg.url+"/start_profile", "", nil)
	if err != nil || other.StatusCode != http.StatusOK {
		t.Fatal(other, err)
	}
	other.Body.Close()
	var stop []string
	o.Lost = func(_ notebooks.Phase, s string) { stop = append(stop, s) }
	var died *nbclient.KernelDiedError
	if err := Run(t.Context(), o); !errors.As(err, &died) {
		t.Errorf("the error is %v", err)
	}
	if len(stop) != 1 || stop[0] != "it had no profile open" {
		t.Errorf("what became of the profiler: %q", stop)
	}
	if !tg.ProfileOpen() {
		t.Error("somebody else's profile was closed")
	}
}

// program is the program of the Go kernel.
// withPid is a folder with the kernel, and the file in which it leaves its process id when it starts.
func withPid(t *testing.T, kernels string) (dir, pid string) {
	t.Helper()
	spec, err := nbclient.FindKernel("rooflab-go", kernels)
	if err != nil {
		t.Fatal(err)
	}
	dir, pid = t.TempDir(), filepath.Join(t.TempDir(), "pid")
	argv, err := json.Marshal(append([]string{"/bin/sh", "-c", "echo $$ >" + pid + `; exec "$0" "$@"`}, spec.Argv...))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "rooflab-go", "kernel.json"),
		`{"argv": `+string(argv)+`, "display_name": "Go", "language": "go", "interrupt_mode": "message"}`)
	return dir, pid
}

func readPid(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, _ := os.ReadFile(f) // a thread may have ended
		for _, field := range strings.Fields(string(raw)) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	return all
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("kill %d: %v", pid, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
