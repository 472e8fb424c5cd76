package compiled

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rooflab/rooflab/kernel/serve"
)

// reopen starts again after a restart that has failed.
func (e *Engine) reopen(x *execution) error {
	e.mu.Lock()
	open := e.closeBuild != nil
	e.mu.Unlock()
	if open {
		return nil
	}
	return e.restart(x, e.options.Replay)
}

// restart starts a new worker with an empty session. With replay, the cells that ran are run again, until one fails.
func (e *Engine) restart(x *execution, replay bool) error {
	log := e.log
	e.worker.kill()
	<-e.worker.dead
	e.worker.buried = true
	e.setBuild(nil) // packages may change now: nothing is loaded
	if err := e.start(x.ctx); err != nil {
		e.setBuild(nil)
		if x.ctx.Err() != nil {
			return interrupted()
		}
		return &serve.CellError{Name: "KernelError", Value: "start again: " + err.Error()}
	}
	if !replay {
		return nil
	}
	for i, cell := range log {
		if err := e.again(x, cell); err != nil {
			e.log = log[:i]
			return replayError(err, cell, i, len(log))
		}
	}
	e.log = log
	x.out.Stream("stderr", fmt.Sprintf("Ran %d cells again.\n", len(log)))
	return nil
}

// again runs a cell of the log under its old number. What it prints is not shown again.
func (e *Engine) again(x *execution, cell past) error {
	y := &execution{number: cell.number, out: silence{}, ctx: x.ctx, cancel: x.cancel}
	e.mu.Lock()
	shown := e.outputs[y.number]
	e.outputs[y.number], e.running = y.out, y
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.outputs[y.number], e.running = shown, x
		e.mu.Unlock()
	}()
	_, err := e.execute(y, cell.code)
	return err
}

func replayError(err error, cell past, done, of int) error {
	failed := &serve.CellError{Name: "Error", Value: err.Error()}
	if inner, ok := errors.AsType[*serve.CellError](err); ok {
		failed = inner
	}
	failed.Value = fmt.Sprintf("cell[%d] failed when it ran again (%d of %d cells have run): %s", cell.number, done, of, failed.Value)
	return failed
}

func (e *Engine) restartCommand(x *execution, arg string) error {
	switch strings.TrimSpace(arg) {
	case "":
		return e.restart(x, false)
	case "replay":
		return e.restart(x, true)
	}
	return fmt.Errorf("%q: give nothing, or replay", arg)
}
