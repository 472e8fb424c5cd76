package nbclient

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a kernel's process, leader of its own group: Ctrl-C in a terminal does not reach it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	tail   tail
}

func startProcess(argv, env []string, dir string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, dir
	p.cmd.Stdout, p.cmd.Stderr = &p.tail, &p.tail
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 200 * time.Millisecond // children of the kernel may keep its stderr open
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start kernel: %w", err)
	}
	go func() {
		p.cmd.Wait() // the state is in p.cmd
		p.signal(syscall.SIGKILL)
		close(p.exited)
	}()
	return p, nil
}

// signal sends to the whole group, so that no child of the kernel stays behind.
func (p *process) signal(sig syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, sig) }

// end waits for the process to end by itself, then asks it to, then kills the group.
func (p *process) end(patience time.Duration) (killed bool) {
	if p.ended(patience) {
		return false
	}
	p.signal(syscall.SIGTERM)
	if p.ended(patience / 5) {
		return true
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
	return true
}

// ended waits for the end of the process, no longer than limit.
func (p *process) ended(limit time.Duration) bool {
	select {
	case <-p.exited:
		return true
	default:
	}
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// state says how the process ended.
func (p *process) state() string {
	if !p.ended(0) {
		return "it closed its connection without ending"
	}
	return p.cmd.ProcessState.String()
}

// missingProgram explains a kernelspec that points to nothing.
func missingProgram(spec Spec, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w (named in %s/kernel.json; install the kernel again)", err, spec.Dir)
	}
	return err
}

// tail keeps the end of what a process prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const (
	tailBytes = 16 << 10
	tailLines = 20
)

// Write never fails and never waits: a kernel that prints a lot must not be held up.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > tailBytes {
		t.text = bytes.Clone(t.text[extra:])
	}
	return len(b), nil
}

// String gives the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\ufffd")), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
