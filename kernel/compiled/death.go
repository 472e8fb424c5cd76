package compiled

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/rooflab/rooflab/kernel/serve"
)

const exitFatal = " (a library called os.Exit or log.Fatal)"

var (
	crash  = regexp.MustCompile(`(?m)^(fatal error: .*|panic: .*|SIG[A-Z]+: .*|runtime: goroutine stack exceeds.*)$`)
	frame  = regexp.MustCompile(`(?m)^(?:main\.)?(\S+)\(.*\)\n\t(cell\[\d+\]:\d+)`)
	inCell = regexp.MustCompile(`cell\[\d+\]:\d+`)
)

// crashed tells whether a process has ended as the Go runtime ends one that has crashed: with GOTRACEBACK=crash by a
// signal.
func crashed(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return exit.ExitCode() == 2 || ok && status.Signaled() && status.Signal() == syscall.SIGABRT
}

// bury is the error of a cell during which the worker died.
func (e *Engine) bury(x *execution) error {
	err := &serve.CellError{Name: "WorkerDied"}
	<-e.worker.dead
	e.worker.buried = true
	switch {
	case x.ctx.Err() != nil:
		err.Name, err.Value = "Interrupted", "the worker process was killed because the cell did not end"
	default:
		err.Value = "the worker process ended: " + e.worker.epitaph()
	}
	err.Traceback = e.worker.frames()
	if lost := e.losses(); lost != "" {
		err.Traceback = append(err.Traceback, "Lost (now zero): "+lost+".")
	}
	if e.options.Replay {
		err.Traceback = append(err.Traceback, "The cells that ran are run again before the next one.")
	} else {
		err.Traceback = append(err.Traceback, "Functions, types and constants are kept. %restart replay runs all cells again.")
	}
	return err
}

// losses names the variables that the death of the worker costs.
func (e *Engine) losses() string {
	e.mu.Lock()
	names := e.session.Variables()
	e.mu.Unlock()
	const most = 20
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// revive starts a new worker when the old one is dead. Cells are loaded again when they are needed.
func (e *Engine) revive(x *execution) error {
	if e.worker.alive() {
		return nil
	}
	if !e.worker.buried { // it died between two cells
		lines := []string{"The worker process ended between two cells: " + e.worker.epitaph()}
		if lost := e.losses(); lost != "" {
			lines = append(lines, "Lost (now zero): "+lost+".")
		}
		x.out.Stream("stderr", strings.Join(lines, "\n")+"\n")
	}
	if e.options.Replay {
		return e.restart(x, true)
	}
	if err := e.startWorker(); err != nil {
		return &serve.CellError{Name: "WorkerDied", Value: "no new worker process can be started: " + err.Error()}
	}
	return nil
}

// epitaph explains why the worker has ended. It waits for its end.
func (w *worker) epitaph() string {
	<-w.dead
	exit, failed := w.err.(*exec.ExitError)
	text := w.last.String()
	if found := crash.FindAllString(text, 3); found != nil && failed && crashed(exit) {
		why := strings.Join(found, "; ")
		if at := inCell.FindString(text); at != "" {
			why += " (" + at + ")"
		}
		return why
	}
	if failed {
		why := exit.String()
		if exit.ExitCode() > 0 {
			why += exitFatal
		}
		return why
	}
	return "exit status 0" + exitFatal
}

// frames are the first lines of cells in the report of a crash.
func (w *worker) frames() (lines []string) {
	const most = 10
	for _, m := range frame.FindAllStringSubmatch(w.last.String(), -1) {
		line := m[2] + " in " + strings.Replace(m[1], "<cell>", "the cell", 1)
		if len(lines) == 0 || lines[len(lines)-1] != line {
			lines = append(lines, line)
		}
		if len(lines) == most {
			break
		}
	}
	return lines
}
