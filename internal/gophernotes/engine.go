//go:build gophernotes

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	interp "github.com/cosmos72/gomacro/fast"
	"github.com/cosmos72/gomacro/gls"
	"github.com/cosmos72/gomacro/imports"
	"github.com/cosmos72/gomacro/xreflect"

	"github.com/rooflab/rooflab/kernel/serve"
)

// engine is gophernotes' interpreter as package serve wants it.
type engine struct {
	kernel Kernel
	stdio  *serve.Stdio
	out    serve.Output // of the cell that ran last

	busy sync.Mutex // held while the interpreter works: it can do one thing at a time

	mu      sync.Mutex
	running bool
	cells   int  // run so far
	stale   bool // an interrupt may have come too late for its cell
}

func newEngine(stdio *serve.Stdio) *engine {
	ir := interp.New()
	ir.Comp.Stdout, ir.Comp.Stderr = io.Discard, io.Discard // gomacro's own warnings
	e := &engine{kernel: Kernel{ir: ir, display: importPackage(ir, "display", "display")}, stdio: stdio}
	e.kernel.initRenderers()
	ir.DeclVar("Display", nil, func(d Data) error {
		stdio.Flush()
		e.out.Display(serve.Bundle{Data: d.Data, Metadata: d.Metadata})
		return nil
	})
	return e
}

// info is what the engine is, known before it works.
var info = serve.Info{
	Name: "gophernotes", Version: Version, LanguageVersion: strings.TrimPrefix(runtime.Version(), "go"),
	Banner: "Go (gophernotes, an interpreter) with rooflab's packages",
}

func (e *engine) Info() serve.Info       { return info }
func (e *engine) Comm(serve.CommMessage) {} // cells have no comms
func (e *engine) Close()                 {}

// Run evaluates a cell. What goroutines of it print later goes to the cell that runs then: the interpreter has one
// standard output. Silent cells and expressions do not take that place.
func (e *engine) Run(cell serve.Cell, out serve.Output) (serve.Result, error) {
	e.busy.Lock()
	defer e.busy.Unlock()
	last := e.out
	e.out = out
	e.stdio.To(out)
	defer e.stdio.Flush()
	if cell.Silent && last != nil {
		defer func() {
			e.stdio.To(last)
			e.out = last
		}()
	}
	value, err := e.evaluate(cell.Count, cell.Code)
	return serve.Result{Value: value}, err
}

func (e *engine) evaluate(count int, code string) (serve.Bundle, error) {
	e.begin()
	defer e.end()
	nodes := e.parse(code)
	if err := bound(nodes); err != nil {
		return serve.Bundle{}, err
	}
	vals, types, err := doEval(e.kernel.ir, OutErr{os.Stdout, os.Stderr}, code)
	if e.interrupted() {
		err = errInterrupted // also when the cell came to its end
	}
	if err != nil {
		return serve.Bundle{}, readable(err, count)
	}
	vals, types = e.shown(wanted(nodes, vals, types))
	d := e.kernel.autoRenderResults(vals, types)
	if d.Data != nil && d.Data[MIMETypeText] == nil {
		d.Data[MIMETypeText] = fmt.Sprint(vals...)
	}
	return serve.Bundle{Data: d.Data, Metadata: d.Metadata}, nil
}

// begin starts a cell. An interrupt that came after the end of the last one is used up first.
func (e *engine) begin() {
	e.mu.Lock()
	stale := e.stale
	e.mu.Unlock()
	if stale {
		doEval(e.kernel.ir, OutErr{io.Discard, io.Discard}, "0")
	}
	e.mu.Lock()
	e.running, e.stale = true, false
	e.cells++
	e.mu.Unlock()
	interrupts.begin(gls.GoID())
}

func (e *engine) interrupted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stale
}

func (e *engine) end() {
	e.mu.Lock()
	e.running = false
	e.mu.Unlock()
}

// Interrupt stops interpreted code at its next statement, and compiled code that waits for a context or sleeps.
func (e *engine) Interrupt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		e.stale = true
		e.kernel.ir.Interrupt(os.Interrupt)
		interrupts.raise()
		e.remind(e.cells, e.out)
	}
}

// remind says so when the end of an interrupted cell takes long: a compiled function that waits cannot be ended.
func (e *engine) remind(cell int, out serve.Output) {
	time.AfterFunc(3*time.Second, func() {
		e.mu.Lock()
		still := e.running && e.cells == cell
		e.mu.Unlock()
		if still {
			out.Stream("stderr", "interrupt: the cell waits in a call that cannot be ended; "+
				"it stops when the call returns. Restart the kernel to stop it now.\n")
		}
	})
}

// parse returns the cell's syntax tree, or nil when the cell does not parse: evaluating it then says why.
func (e *engine) parse(code string) (nodes []ast.Node) {
	defer func() {
		if recover() != nil {
			nodes = nil
		}
	}()
	if code := strings.TrimSpace(code); code == "" || code[0] == '%' || code[0] == '$' {
		return nil // gophernotes' own commands
	}
	e.kernel.ir.Comp.Line = 0
	return e.kernel.ir.Comp.ParseBytes([]byte(code))
}

// bound returns an error when a cell imports what this binary does not hold. The interpreter would try to download
// and load it, which cannot work in a binary without symbols.
func bound(nodes []ast.Node) error {
	for _, n := range nodes {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.IMPORT {
			continue
		}
		for _, spec := range decl.Specs {
			path, err := strconv.Unquote(spec.(*ast.ImportSpec).Path.Value)
			if err != nil {
				continue
			}
			if _, ok := imports.Packages[path]; !ok {
				return fmt.Errorf("import %q: cells can import most of the standard library and rooflab's packages; "+
					"this one is not in the kernel, or has generic functions only", path)
			}
		}
	}
	return nil
}

// shown takes the one value that has a form of its own, as a chart has, from between nils: a nil error beside it is
// no reason to print both as text.
func (e *engine) shown(vals []any, types []xreflect.Type) ([]any, []xreflect.Type) {
	at := -1
	for i, v := range vals {
		if v == nil {
			continue
		}
		if at >= 0 {
			return vals, types
		}
		at = i
	}
	if at < 0 || !e.kernel.canAutoRender(vals[at], types[at]) {
		return vals, types
	}
	return vals[at : at+1], types[at : at+1]
}

// wanted drops values that Go would not show: the counts that printing returns, and the second value of a map
// index, a type assertion or a receive.
func wanted(nodes []ast.Node, vals []any, types []xreflect.Type) ([]any, []xreflect.Type) {
	if len(nodes) == 0 || len(vals) != 2 {
		return vals, types
	}
	last := nodes[len(nodes)-1]
	if stmt, ok := last.(*ast.ExprStmt); ok {
		last = stmt.X
	}
	switch last := last.(type) {
	case *ast.CallExpr:
		if f, ok := last.Fun.(*ast.SelectorExpr); ok && isPrint(f) {
			return nil, nil
		}
	case *ast.IndexExpr, *ast.TypeAssertExpr, *ast.UnaryExpr:
		return vals[:1], types[:1]
	}
	return vals, types
}

func isPrint(f *ast.SelectorExpr) bool {
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "fmt" &&
		slices.Contains([]string{"Print", "Println", "Printf", "Fprint", "Fprintln", "Fprintf"}, f.Sel.Name)
}

// readable takes the interpreter's own words out of an error.
func readable(err error, count int) error {
	text := err.Error()
	if strings.Contains(text, "// signal: interrupt") {
		return errors.New("interrupted")
	}
	return errors.New(strings.ReplaceAll(text, "repl.go:", fmt.Sprintf("cell[%d]:", count)))
}
