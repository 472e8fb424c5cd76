// Package livevllm starts real vLLM servers on the CPU for tests, by shared/vllm/serve-cpu.sh, and sees to it that none
// outlives the test binary. It does not install them (make vllm does) and holds no tests of rooflab.
package livevllm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// Model is the name that the servers serve.
const Model = "tiny-moe"

// Options describe a server. The zero value is version 0.32.0 on one rank with a profiler and no key.
type Options struct {
	Version    string // "0.32.0" or "0.20.2"; the older one serves a model without experts on a CPU without AVX-512
	TP         int    // tensor-parallel ranks: 1, 2, 4 or 8
	APIKey     string
	NoProfiler bool
	Args       []string // more arguments of vllm serve
}

// Server is a running server on 127.0.0.1.
type Server struct {
	URL      string
	TraceDir string // its torch_profiler_dir; "" without a profiler
	Log      string // the file with its output
	PID      int    // of its API process, which leads a process group with all others
	Dense    bool   // it serves a model without experts

	t    testing.TB
	keep *keeper
}

// Start starts a server and stops it when the test ends. It waits while another test binary has servers: two at once
// on a small machine would slow each other down past every limit. Without an installed vLLM the test is skipped;
// under CI=true it fails, because CI must run these tests.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Version == "" {
		o.Version = "0.32.0"
	}
	serve := filepath.Join(sharedtest.Dir(t), "vllm", "serve-cpu.sh")
	venv := filepath.Join(sharedtest.Root(), "_build", "vllm-"+o.Version)
	if err := installed(venv, strings.TrimSuffix(serve, ".sh")+"-"+o.Version+".lock"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v; CI must have it: make vllm", err)
		}
		t.Skipf("%v; install it with: make vllm", err)
	}
	lock, err := alone()
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://127.0.0.1:" + port, Log: filepath.Join(venv, "run", port+".log"), t: t}
	dir, err := os.MkdirTemp("", "livevllm-")
	if err != nil {
		t.Fatal(err)
	}
	profiles := "-"
	if !o.NoProfiler {
		s.TraceDir = filepath.Join(dir, "profiles")
		profiles = s.TraceDir
	}
	args := o.Args
	if o.Version == old && !avx512() {
		if err := dense(filepath.Join(filepath.Dir(serve), "tiny-model-qwen3moe"), filepath.Join(venv, "dense-model")); err != nil {
			t.Fatal(err)
		}
		s.Dense = true
	}
	if o.APIKey != "" {
		args = append([]string{"--api-key", o.APIKey}, args...)
	}
	env := append(os.Environ(), "SERVE_VERSION="+o.Version, "TP="+strconv.Itoa(max(o.TP, 1)), "MODEL_NAME="+Model, "HOST=127.0.0.1",
		"START_TIMEOUT=1200") // ten times what a busy machine of two cores takes
	if s.Dense {
		env = append(env, "MODEL_DIR="+filepath.Join(venv, "dense-model"))
	}
	if s.keep, err = newKeeper(lock, dir, env, append([]string{serve, venv, port, dir, profiles}, args...)); err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.keep.close(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	s.start()
	return s
}

func (s *Server) start() {
	s.t.Helper()
	answer, err := s.keep.ask("start")
	pid, notPID := strconv.Atoi(answer)
	if err != nil || notPID != nil {
		s.t.Fatalf("vLLM does not start: %q %v\n%s\n%s", answer, err, s.errors(), s.keep.said())
	}
	s.PID = pid
}

// errors are the first errors in the server's log: the reason is said there long before the end.
func (s *Server) errors() []byte {
	text, _ := os.ReadFile(s.Log) // without a log what serve-cpu.sh said is enough
	var found [][]byte
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("ERROR")) && len(found) < 60 {
			found = append(found, line)
		}
	}
	return bytes.Join(found, nil)
}

// Kill ends all processes of the server at once, as a node that loses power does.
func (s *Server) Kill() {
	s.t.Helper()
	left := sharedMemory(s.PID)
	if err := syscall.Kill(-s.PID, syscall.SIGKILL); err != nil {
		s.t.Errorf("kill the server: %v", err)
	}
	for _, name := range left { // what it would have removed itself
		os.Remove(name)
	}
}

// Restart starts the server again on the same port, after Kill or while it runs. Its profiles are still there.
func (s *Server) Restart() {
	s.t.Helper()
	if _, err := s.keep.ask("stop"); err != nil {
		s.t.Fatalf("stop the server: %v\n%s", err, s.keep.said())
	}
	s.start()
}

// CheckNoProfile fails the test when a profile is open on the server. Only 0.32.0 says so, by refusing another one.
func (s *Server) CheckNoProfile(t testing.TB) {
	t.Helper()
	status, err := post(s.URL+"/start_profile", `{"profile_prefix":"check"}`)
	switch {
	case err != nil:
		t.Errorf("ask the server for a profile: %v", err)
	case status == http.StatusConflict:
		t.Error("a profile was left open")
	case status != http.StatusOK:
		t.Errorf("asked for a profile the server answered %d", status)
	}
	if err == nil { // ours, or one that must not spoil the next test
		if status, err := post(s.URL+"/stop_profile", ""); err != nil || status != http.StatusOK {
			t.Errorf("stop the profile: %d %v", status, err)
		}
	}
}

func post(url, body string) (int, error) {
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

// installed compares the stamp that serve-cpu.sh leaves with the lock file of this checkout: a test installs nothing.
func installed(venv, lock string) error {
	want, err := os.ReadFile(lock)
	if err != nil {
		return err
	}
	stamp, err := os.ReadFile(filepath.Join(venv, ".serve-cpu.lock.sha256"))
	sum := sha256.Sum256(want)
	if err != nil || strings.TrimSpace(string(stamp)) != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("no vLLM as in %s is in _build/%s", filepath.Base(lock), filepath.Base(venv))
	}
	return nil
}

// alone holds a lock against other test binaries until this one and its servers have ended.
var alone = sync.OnceValues(func() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(sharedtest.Root(), "_build", "vllm.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return f, err
		}
	}
})

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// sharedMemory lists the files in /dev/shm that a process group has mapped.
func sharedMemory(group int) []string {
	found := map[string]bool{}
	maps, _ := filepath.Glob("/proc/[0-9]*/maps")
	for _, name := range maps {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if g, err := syscall.Getpgid(pid); err != nil || g != group {
			continue
		}
		text, _ := os.ReadFile(name) // it may just have ended
		for line := range bytes.Lines(text) {
			if at := bytes.Index(line, []byte("/dev/shm/")); at >= 0 {
				found[strings.TrimSuffix(strings.TrimSpace(string(line[at:])), " (deleted)")] = true
			}
		}
	}
	var names []string
	for n := range found {
		names = append(names, n)
	}
	return names
}

// keeper is a process that starts and stops one server on command, and stops it when the commands end: also when the
// test binary is killed.
type keeper struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	pipe io.Closer // of its answers
	out  *bufio.Reader
	err  *os.File
}

//go:embed keeper.sh
var script string

func newKeeper(lock *os.File, dir string, env, args []string) (*keeper, error) {
	k := &keeper{cmd: exec.Command("sh", append([]string{"-c", script, "keeper"}, args...)...)}
	k.cmd.Env = env
	k.cmd.ExtraFiles = []*os.File{lock}                    // released when it ends
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of a Ctrl-C
	var err error
	if k.err, err = os.Create(filepath.Join(dir, "keeper.log")); err != nil {
		return nil, err
	}
	k.cmd.Stderr = k.err
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	k.pipe, k.out = out, bufio.NewReader(out)
	return k, k.cmd.Start()
}

func (k *keeper) ask(what string) (string, error) {
	if _, err := io.WriteString(k.in, what+"\n"); err != nil {
		return "", err
	}
	line, err := k.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// close stops the server and removes its files.
func (k *keeper) close() error {
	defer k.err.Close()
	k.in.Close()
	return k.cmd.Wait()
}

// said is what serve-cpu.sh had to say, with the end of the server's log.
func (k *keeper) said() string {
	text, _ := os.ReadFile(k.err.Name())
	return string(text)
}
