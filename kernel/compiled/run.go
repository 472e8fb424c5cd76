package compiled

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rooflab/rooflab/kernel/build"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/serve"
	"github.com/rooflab/rooflab/kernel/session"
)

// Run executes a cell: the commands above its code, the code, the commands below it.
func (e *Engine) Run(cell serve.Cell, out serve.Output) (serve.Result, error) {
	x := e.begin(cell, out)
	defer e.end(x)
	parts, err := split(cell.Code)
	if err != nil {
		return serve.Result{}, err
	}
	if err := e.reopen(x); err != nil {
		return serve.Result{}, e.readable(err)
	}
	if err := e.commands(x, parts.above); err != nil {
		return serve.Result{}, e.readable(err)
	}
	if len(parts.above) == 0 {
		x.steps = &steps{out: out}
		defer x.steps.end()
	}
	result, err := e.execute(x, parts.code)
	if err != nil {
		return result, e.readable(hint(err, parts.code))
	}
	if !cell.Silent && strings.TrimSpace(parts.code) != "" {
		e.log = append(e.log, past{x.number, parts.code})
	}
	return result, e.readable(e.commands(x, parts.below))
}

// begin gives the cell a number of its own: it names the cell's package, so it cannot be used twice.
func (e *Engine) begin(cell serve.Cell, out serve.Output) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	number := cell.Count
	if _, used := e.outputs[number]; used || cell.Silent {
		e.number++
		number = e.number
		e.counts[number] = cell.Count
	}
	x := &execution{number: number, out: out}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	e.running, e.outputs[number] = x, out
	if e.closed {
		x.cancel(errClosed)
	}
	return x
}

func (e *Engine) end(x *execution) {
	e.mu.Lock()
	e.running = nil
	e.mu.Unlock()
	x.cancel(nil)
}

// timings are the milliseconds of a cell's phases, for the metadata of its reply.
type timings map[string]float64

func (t timings) since(name string, start time.Time) { t[name] = milliseconds(time.Since(start)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// execute compiles and runs code.
func (e *Engine) execute(x *execution, code string) (serve.Result, error) {
	t := timings{}
	result := serve.Result{Metadata: map[string]any{"rooflab": t}}
	start := time.Now()
	if err := e.refresh(x); err != nil {
		return result, err
	}
	u, err := e.session.Compile(x.number, code)
	t.since("check_ms", start)
	if x.ctx.Err() != nil {
		return result, interrupted()
	}
	if err != nil {
		return result, compileError(err)
	}
	if u.Empty {
		e.commit(x, u)
		return result, nil
	}
	if err := e.revive(x); err != nil {
		return result, err
	}
	if u.Fast != nil {
		if done, err := e.evaluate(x, u, t, &result); done || err != nil {
			return result, err
		}
		if u, err = e.session.CompileSlow(x.number, code); err != nil {
			return result, compileError(err)
		}
	}
	if err := e.make(x, u, t); err != nil {
		return result, err
	}
	reply, err := e.load(x, u, true)
	t["load_ms"], t["run_ms"] = reply.LoadMS, reply.RunMS
	result.Value = bundle(reply)
	return result, err
}

// evaluate lets the worker answer a simple expression without compiling. Done is false when it cannot.
func (e *Engine) evaluate(x *execution, u *session.Unit, t timings, result *serve.Result) (done bool, err error) {
	for _, d := range u.Deps {
		if !e.worker.loaded[d] {
			return false, nil
		}
	}
	reply, err := e.request(x, proto.ToWorker{Op: "eval", Cell: x.number, Eval: u.Fast})
	if err != nil || reply.Ev == "slow" {
		return false, err
	}
	t["fast_ms"] = reply.RunMS
	result.Value = bundle(reply)
	return true, runError(reply.Err)
}

// make compiles and links a cell.
func (e *Engine) make(x *execution, u *session.Unit, t timings) error {
	pkg := session.PkgPath(x.number)
	defer x.steps.end()
	built, err := e.build.Cell(x.ctx, build.Unit{Cell: x.number, Pkg: pkg, Source: u.Source})
	t["list_ms"], t["compile_ms"], t["link_ms"] = milliseconds(built.Times.List), milliseconds(built.Times.Compile), milliseconds(built.Times.Link)
	if x.ctx.Err() != nil {
		return interrupted()
	}
	if err != nil {
		return compileError(err)
	}
	e.mods[x.number], e.deps[x.number] = built.Mod, u.Deps
	return nil
}

// load loads a cell with the cells that it refers to, and runs it. A cell that fails while it runs keeps its
// declarations, when they are to be kept at all: they are loaded, and what it assigned stays.
func (e *Engine) load(x *execution, u *session.Unit, keep bool) (proto.FromWorker, error) {
	before := e.worker.resident()
	missing := e.missing(x.number)
	m := proto.ToWorker{Op: "run", Cell: x.number, Pkg: session.PkgPath(x.number)}
	for _, n := range missing {
		m.Load = append(m.Load, e.mods[n])
	}
	reply, err := e.request(x, m)
	if err == nil && reply.Err != nil && reply.Err.Name == "LoadError" { // nothing has run: nothing changes
		return reply, runError(reply.Err)
	}
	if keep {
		e.commit(x, u)
	}
	if err != nil {
		return reply, err
	}
	for _, n := range missing {
		e.worker.loaded[n] = true
	}
	e.memory = append(e.memory, growth{x.number, e.worker.resident() - before})
	return reply, runError(reply.Err)
}

// missing lists the cells that cell n needs and the worker has not loaded, n itself last.
func (e *Engine) missing(n int) (list []int) {
	seen := map[int]bool{}
	var need func(n int)
	need = func(n int) {
		if seen[n] || e.worker.loaded[n] {
			return
		}
		seen[n] = true
		for _, d := range e.deps[n] {
			need(d)
		}
		list = append(list, n)
	}
	need(n)
	return list
}

// request has the worker do something for a cell. When the worker dies of it, the error says why and what is lost.
func (e *Engine) request(x *execution, m proto.ToWorker) (proto.FromWorker, error) {
	e.mu.Lock()
	if x.ctx.Err() != nil {
		e.mu.Unlock()
		return proto.FromWorker{}, interrupted()
	}
	m.ID = e.worker.next()
	x.request = m.ID // from now on an interrupt goes to the worker
	e.mu.Unlock()
	reply, err := e.worker.do(m)
	e.mu.Lock()
	x.request = 0
	e.mu.Unlock()
	if err != nil {
		return reply, e.bury(x)
	}
	return reply, nil
}

// refresh takes up what has changed in packages since the last cell.
func (e *Engine) refresh(x *execution) error {
	replaced, notes, err := e.build.Changed(x.ctx)
	if x.ctx.Err() != nil {
		return interrupted()
	}
	if err != nil {
		return compileError(err)
	}
	e.session.Forget(replaced)
	for _, note := range notes {
		x.out.Stream("stderr", note+"\n")
	}
	return nil
}

// commit keeps what a cell declares, and tells the user what that changes that may surprise.
func (e *Engine) commit(x *execution, u *session.Unit) {
	u.Commit()
	e.moves = append(e.moves, u.Moved...)
	for _, note := range u.Notes {
		x.out.Stream("stderr", e.rename(note)+"\n")
	}
}

// compileError is the error of a cell that the compiler or a tool refused.
func compileError(err error) error {
	name := "BuildError"
	err = session.Refused(err)
	var wrong *session.CellError
	if errors.As(err, &wrong) {
		name = "CompileError"
	}
	return &serve.CellError{Name: name, Value: err.Error()}
}

func runError(e *proto.RunError) error {
	if e == nil {
		return nil
	}
	return &serve.CellError{Name: e.Name, Value: e.Value, Traceback: e.Trace}
}

func interrupted() error { return &serve.CellError{Name: "Interrupted", Value: "interrupted"} }

const (
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// readable finishes an error for a front end: the cells in it are named by the numbers that stand beside them, and
// the traceback begins with the error itself.
func (e *Engine) readable(err error) error {
	var ce *serve.CellError
	if !errors.As(err, &ce) {
		if err == nil {
			return nil
		}
		ce = &serve.CellError{Name: "Error", Value: err.Error()}
	}
	shown := &serve.CellError{Name: ce.Name, Value: e.rename(ce.Value)}
	shown.Traceback = append(shown.Traceback, red+shown.Name+plain+": "+shown.Value)
	for _, line := range ce.Traceback {
		shown.Traceback = append(shown.Traceback, "    "+e.rename(line))
	}
	return shown
}
