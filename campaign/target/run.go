package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"
)

// Error is a command that could not be run or that ended with an error. Its text says what to do where that is known.
type Error struct {
	Host   Host
	Argv   []string // as given, without the programs that lead there
	Exit   int      // exit status, -1 if the program was not started or was killed
	Stderr string   // its last lines
	err    error    // why it was not started
	what   string   // what was done, "" for a program of the caller
}

func (e *Error) Error() string {
	what := e.what
	if what == "" {
		what = "run " + name(e.Argv)
	}
	if !e.Host.Local() {
		what += " on " + e.Host.String()
	}
	if advice := e.advice(); advice != "" {
		return what + ": " + advice
	}
	last := lastLine(e.Stderr)
	switch {
	case e.err != nil:
		return what + ": " + e.err.Error()
	case last == "":
		return fmt.Sprintf("%s: exit status %d", what, e.Exit)
	}
	return fmt.Sprintf("%s: %s (exit status %d)", what, last, e.Exit)
}

// Unwrap lets callers tell a missing file (fs.ErrNotExist), a refused one (fs.ErrPermission) and a cancelled context.
func (e *Error) Unwrap() error {
	switch {
	case e.err != nil:
		return e.err
	case e.what == "" || e.way() != "": // a program's own words are its own
		return nil
	case contains(e.Stderr, "no such file"):
		return fs.ErrNotExist
	case contains(e.Stderr, "permission denied"):
		return fs.ErrPermission
	}
	return nil
}

// NotFound reports whether the program is not installed over there.
func (e *Error) NotFound() bool {
	return e.Exit == 127 || contains(e.Stderr, "executable file not found") || e.Host.Local() && errors.Is(e.err, exec.ErrNotFound)
}

// Reached reports whether the host was reached: the error is about what ran there.
func (e *Error) Reached() bool {
	return e.err == nil && e.way() == ""
}

func (e *Error) advice() string {
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		return ""
	}
	if way := e.way(); way != "" {
		return way
	}
	switch {
	case e.NotFound():
		return "the program is not installed there, or not in PATH"
	case errors.Is(e, fs.ErrNotExist):
		return "no such file"
	case errors.Is(e, fs.ErrPermission):
		return "this user may not read it there: permission denied"
	}
	return ""
}

// way says what is wrong with the way to the host, "" if the host was reached.
func (e *Error) way() string {
	if e.Host.Local() {
		return ""
	}
	outer := e.Host.hops[0]
	if errors.Is(e.err, exec.ErrNotFound) {
		return fmt.Sprintf("%s is not installed on this machine, or not in PATH", outer.kind)
	}
	text := ""
	for _, p := range e.Host.hops {
		t := p.trouble(e.Stderr, e.Exit)
		if t != "" && contains(e.Stderr, p.node()) {
			return t // of several, the one that is named
		}
		if text == "" {
			text = t
		}
	}
	return text
}

// node is the name of a hop without the user.
func (p hop) node() string { return p.name[strings.LastIndexByte(p.name, '@')+1:] }

// trouble recognises what a program says when it does not get through. Texts of OpenSSH, Docker, Podman and kubectl.
func (p hop) trouble(stderr string, exit int) string {
	said := func(texts ...string) bool {
		for _, t := range texts {
			if contains(stderr, t) {
				return true
			}
		}
		return false
	}
	if p.kind == "ssh" {
		return p.sshTrouble(said, stderr, exit)
	}
	switch {
	case said(p.kind+": not found", p.kind+": command not found", "executable file not found in $PATH") && said("exec: \""+p.kind+"\"", p.kind+": not found", p.kind+": command not found"):
		return p.kind + " is not installed on the machine before it"
	case said("permission denied while trying to connect to the"):
		return "this user may not talk to " + p.kind + ": add it to the group docker, or reach the server another way"
	case said("Cannot connect to the Docker daemon", "Cannot connect to Podman", "failed to connect to the docker API"):
		return p.kind + " does not run there: start it, or correct DOCKER_HOST"
	case said("No such container", "no container with name or ID", "no such container"):
		return fmt.Sprintf("there is no container %s: `%s ps` lists those that run", p.name, p.kind)
	case said("is not running", "container state improper"):
		return fmt.Sprintf("container %s does not run: `%s ps -a` says why", p.name, p.kind)
	case p.kind == "kubectl":
		return p.kubeTrouble(said, stderr)
	}
	return ""
}

func (p hop) sshTrouble(said func(...string) bool, stderr string, exit int) string {
	switch {
	case said("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		return "the host key of " + p.name + " is another than before: find out why, then remove the old one with ssh-keygen -R"
	case said("Host key verification failed"):
		return "the host key of " + p.name + " is not known: connect once by hand (ssh " + p.name + ") and check it"
	case said("Could not resolve hostname"):
		return "no machine is called " + p.name + ": check the name, or the Host lines of ~/.ssh/config"
	case exit != 255:
		return ""
	case said("Permission denied (", "Too many authentication failures"):
		return p.name + " does not let this user in without a password: load a key (ssh-add), or name another user (ssh:USER@NODE)"
	case said("Connection refused"):
		return "no ssh server answers at " + p.name + ": connection refused; check name and port (ssh:NODE:PORT)"
	case said("timed out", "No route to host", "Network is unreachable"):
		return p.name + " does not answer ssh: " + lastLine(stderr)
	case said("Connection closed", "Connection reset", "Broken pipe", "not responding"):
		return "the ssh connection to " + p.name + " broke off: " + lastLine(stderr)
	}
	return ""
}

func (p hop) kubeTrouble(said func(...string) bool, stderr string) string {
	switch {
	case said(`pods "` + p.name + `" not found`):
		return fmt.Sprintf("there is no pod %s in namespace %s: `kubectl get pods -n %s` lists them", p.name, p.namespace, p.namespace)
	case said(`namespaces "` + p.namespace + `" not found`):
		return fmt.Sprintf("there is no namespace %s", p.namespace)
	case said("container not found", "container "+p.container+" is not valid", "container "+p.container+" not found"):
		return fmt.Sprintf("pod %s has no running container of that name: `kubectl describe pod -n %s %s` lists them", p.name, p.namespace, p.name)
	case said("cannot exec into a container in a completed pod", "cannot exec in a stopped"):
		return "pod " + p.name + " does not run"
	case said("Forbidden", "forbidden"):
		return fmt.Sprintf("this user may not exec into pods of namespace %s: `kubectl auth can-i create pods/exec -n %s`", p.namespace, p.namespace)
	case said("Unauthorized", "must be logged in"):
		return "the cluster does not know this user: log in again"
	case said("current-context is not set", "no configuration has been provided", "was refused - did you specify the right host or port"):
		return "kubectl knows no cluster: set KUBECONFIG or a context"
	case said("Unable to connect to the server", "connection refused"):
		return "the cluster does not answer: " + lastLine(stderr)
	}
	return ""
}

const (
	maxOutput = 16 << 20 // more than any answer that is asked for
	maxStderr = 16 << 10
)

// Output runs a program there and returns what it printed, at most 16 MiB.
func (h Host) Output(ctx context.Context, argv ...string) ([]byte, error) {
	out := &bounded{max: maxOutput}
	if err := h.run(ctx, out, "", argv); err != nil {
		return out.b.Bytes(), err
	}
	if out.lost > 0 {
		return nil, fmt.Errorf("run %s on %s: it printed more than %d MiB", name(argv), h, maxOutput>>20)
	}
	return out.b.Bytes(), nil
}

// run starts the command and copies what it prints to w.
func (h Host) run(ctx context.Context, w io.Writer, what string, argv []string) error {
	fail := func(exit int, stderr string, err error) error {
		return &Error{Host: h, Argv: argv, Exit: exit, Stderr: strings.TrimSpace(stderr), err: err, what: what}
	}
	for _, word := range argv {
		if strings.IndexByte(word, 0) >= 0 {
			return fail(-1, "", errNUL)
		}
	}
	words := h.Words(argv...)
	if len(words) == 0 {
		return fail(-1, "", errors.New("there is no program"))
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	stderr := &bounded{max: maxStderr}
	cmd.Stdout, cmd.Stderr = w, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // with what it started itself; ssh closes its connection
	cmd.WaitDelay = 3 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fail(-1, stderr.b.String(), ctx.Err())
	case errors.As(err, &exit):
		return fail(exit.ExitCode(), stderr.b.String(), nil)
	}
	return fail(-1, stderr.b.String(), reason(err))
}

// reason takes the name of the program, which the message has already, off an error of os/exec.
func reason(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// bounded keeps the first max bytes and counts the others.
type bounded struct {
	b    bytes.Buffer
	max  int
	lost int64
}

func (w *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), w.max-w.b.Len())
	w.b.Write(p[:keep])
	w.lost += int64(len(p) - keep)
	return len(p), nil
}

func name(argv []string) string {
	if len(argv) == 0 {
		return "nothing"
	}
	return path.Base(argv[0])
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// lastLine returns the last line that says something.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		if line != "" && !strings.HasPrefix(line, "command terminated with exit code") { // kubectl adds it
			return line
		}
	}
	return ""
}
