package compiled

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/secrets"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/serve"
)

// command is a line that begins with %.
type command struct {
	name, args, help string
	run              func(e *Engine, x *execution, arg string) error
}

// commandList is a function because %help prints the list that it is in.
func commandList() []command {
	return []command{
		{"%help", "", "list the commands", (*Engine).help},
		{"%env", "[NAME[=VALUE]]", "show or set environment variables; secrets are shown as ***", (*Engine).setEnv},
		{"%mem", "", "show the memory of the worker process and of the cells", (*Engine).showMemory},
		{"%timeit", "EXPRESSION", "measure how long an expression or call takes, as go test -bench does", (*Engine).timeIt},
		{"%get", "MODULE[@VERSION]", "add a module that cells can import", (*Engine).get},
		{"%restart", "[replay]", "start with no variables and declarations; replay: run all cells again that ran", (*Engine).restartCommand},
		{"%replay", "", "the same as %restart replay", func(e *Engine, x *execution, _ string) error { return e.restart(x, true) }},
	}
}

// elsewhere are commands of other Go kernels, with what does the same here.
var elsewhere = map[string]string{
	"%%":           "cells need no func main: write the statements without it",
	"%main":        "cells need no func main: write the statements without it",
	"%cd":          "call os.Chdir",
	"%goflags":     "a cell is compiled without flags of its own",
	"%go111module": "modules are always on",
	"%reset":       "use %restart",
	"%gomod":       "use %get MODULE@VERSION",
	"%time":        "use %timeit EXPRESSION; how long a cell took is in its reply's metadata",
	"%%bash":       noShell, "%%sh": noShell, "%%script": noShell, "%%writefile": "call os.WriteFile",
}

const noShell = "a cell holds Go only; run a program with os/exec: exec.Command(\"ls\", \"-l\").CombinedOutput()"

// commands runs command lines one after the other.
func (e *Engine) commands(x *execution, lines []string) error {
	for _, line := range lines {
		name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		c, err := findCommand(name)
		if err != nil {
			return err
		}
		if x.ctx.Err() != nil {
			return interrupted()
		}
		if err := c.run(e, x, strings.TrimSpace(arg)); err != nil {
			return commandError(name, err)
		}
	}
	return nil
}

func commandNames() (names []string) {
	for _, c := range commandList() {
		names = append(names, c.name)
	}
	return names
}

func commandError(name string, err error) error {
	var cell *serve.CellError
	if errors.As(err, &cell) {
		return err
	}
	return &serve.CellError{Name: "CommandError", Value: name + ": " + err.Error()}
}

func findCommand(name string) (command, error) {
	for _, c := range commandList() {
		if c.name == name {
			return c, nil
		}
	}
	if text, ok := elsewhere[name]; ok {
		return command{}, &serve.CellError{Name: "CommandError", Value: name + ": not in this kernel; " + text}
	}
	return command{}, &serve.CellError{Name: "CommandError", Value: "there is no command " + name + "; there are " + strings.Join(commandNames(), " ")}
}

func (e *Engine) help(x *execution, _ string) error {
	var b strings.Builder
	b.WriteString("Cells are Go. Lines that begin with % above or below the code are commands:\n")
	for _, c := range commandList() {
		fmt.Fprintf(&b, "  %-25s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	b.WriteString(`A cell shows the value of its last expression. display.Display(v) shows a value from anywhere in a cell;
display.HTML, display.Markdown and others make values that are more than text.
A cell that does not compile changes nothing, its imports included. Tab completes, Shift-Tab shows a declaration.
`)
	x.out.Stream("stdout", b.String())
	return nil
}

func (e *Engine) setEnv(x *execution, arg string) error {
	name, value, set := strings.Cut(arg, "=")
	name = strings.TrimSpace(name)
	switch {
	case set && name == "":
		return errors.New("give NAME=VALUE")
	case set:
		value = strings.TrimSpace(value)
		e.env[name] = value
		return e.tell(x, proto.ToWorker{Op: "env", Env: map[string]string{name: value}})
	case name != "":
		value, ok := e.lookUpEnv(name)
		if !ok {
			return fmt.Errorf("%s is not set", name)
		}
		x.out.Stream("stdout", shownEnv(name, value)+"\n")
		return nil
	}
	all := slices.Clone(os.Environ())
	all = slices.DeleteFunc(all, func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		_, own := e.env[name]
		return own
	})
	for name, value := range e.env {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	for i, line := range all {
		name, value, _ := strings.Cut(line, "=")
		all[i] = name + "=" + shownEnv(name, value)
	}
	x.out.Stream("stdout", strings.Join(all, "\n")+"\n")
	return nil
}

// shownEnv is the value of a variable without secrets: what a cell prints is saved with its notebook.
func shownEnv(name, value string) string {
	if value != "" && secrets.Name(name) {
		return secrets.Mask
	}
	return secrets.Clean(value)
}

func (e *Engine) lookUpEnv(name string) (string, bool) {
	if value, ok := e.env[name]; ok {
		return value, true
	}
	return os.LookupEnv(name)
}

// tell has the worker do something that is no cell.
func (e *Engine) tell(x *execution, m proto.ToWorker) error {
	if err := e.revive(x); err != nil {
		return err
	}
	_, err := e.request(x, m)
	return err
}

// showMemory lists what the worker holds and the cells that added most to it.
func (e *Engine) showMemory(x *execution, _ string) error {
	const most = 10
	if err := e.revive(x); err != nil {
		return err
	}
	reply, err := e.request(x, proto.ToWorker{Op: "mem"})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "worker process: %s resident, %d cells loaded\n", units.Bytes(e.worker.resident()), len(e.worker.loaded))
	if m := reply.Mem; m != nil {
		fmt.Fprintf(&b, "Go heap: %s in use, %s from the system, %d goroutines\n", units.Bytes(m.Heap), units.Bytes(m.Sys), m.Goroutines)
		if m.Limit > 0 {
			fmt.Fprintf(&b, "limit: %s\n", units.Bytes(m.Limit))
		}
	}
	cells := slices.Clone(e.memory)
	slices.SortStableFunc(cells, func(a, b growth) int { return cmp.Compare(b.bytes, a.bytes) })
	for i, c := range cells {
		if i == most || c.bytes <= 0 {
			break
		}
		b.WriteString(e.rename(fmt.Sprintf("  cell[%d] added %s\n", c.number, units.Bytes(c.bytes))))
	}
	b.WriteString("%restart gives all of it back.\n")
	x.out.Stream("stdout", b.String())
	return nil
}

// get adds modules, and shows what the go command reports.
func (e *Engine) get(x *execution, arg string) error {
	if arg == "" {
		return errors.New("name a module, for example github.com/a/b@v1.2.3")
	}
	report, err := e.build.Get(x.ctx, strings.Fields(arg)...)
	if report != "" {
		x.out.Stream("stdout", report+"\n")
	}
	if x.ctx.Err() != nil {
		return interrupted()
	}
	e.assistant().Refresh()
	return err
}
