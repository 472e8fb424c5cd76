//go:build gophernotes

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	r "reflect"
	"sync"
	"time"

	"github.com/cosmos72/gomacro/gls"
	"github.com/cosmos72/gomacro/imports"
)

var errInterrupted = errors.New("interrupted")

// cellContext is the context of the running cell. It is cancelled when the user interrupts the cell.
type cellContext struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	goid   uintptr // the goroutine that runs the cell
}

// interrupts is the one place that ties functions called by cells to the cell that runs: the interpreter has no way
// to hand them anything.
var interrupts cellContext

func (c *cellContext) begin(goid uintptr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goid = goid
	if c.ctx == nil || c.ctx.Err() != nil {
		c.ctx, c.cancel = context.WithCancelCause(context.Background())
	}
}

func (c *cellContext) raise() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel(errInterrupted)
}

func (c *cellContext) current() (ctx context.Context, inCell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		return context.Background(), false
	}
	return c.ctx, c.goid == gls.GoID()
}

// bindInterruptible rebinds what cells wait in. In a cell, context.Background ends when the user interrupts the cell, so that a call which takes a context can be
// interrupted although the interpreter cannot reach it. time.Sleep ends too; the interpreter then stops the cell.
func bindInterruptible() {
	background := r.ValueOf(func() context.Context {
		ctx, _ := interrupts.current()
		return ctx
	})
	imports.Packages["context"].Binds["Background"] = background
	imports.Packages["context"].Binds["TODO"] = background
	imports.Packages["time"].Binds["Sleep"] = r.ValueOf(func(d time.Duration) {
		ctx, inCell := interrupts.current()
		if !inCell {
			time.Sleep(d)
			return
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	})
}

// bindExits rebinds what ends the process. It would take the notebook's variables with it: the cell ends with an
// error instead.
func bindExits() {
	imports.Packages["os"].Binds["Exit"] = r.ValueOf(func(code int) { panic(fmt.Errorf("exit status %d", code)) })
	fatal := imports.Packages["log"].Binds
	fatal["Fatal"] = r.ValueOf(func(v ...any) { stop(fmt.Sprint(v...)) })
	fatal["Fatalf"] = r.ValueOf(func(format string, v ...any) { stop(fmt.Sprintf(format, v...)) })
	fatal["Fatalln"] = r.ValueOf(func(v ...any) { stop(fmt.Sprintln(v...)) })
}

func stop(text string) {
	log.Output(3, text)
	panic(errors.New("exit status 1"))
}
