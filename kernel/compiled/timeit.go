package compiled

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"regexp"

	"github.com/rooflab/rooflab/kernel/serve"
)

var inHidden = regexp.MustCompile(`(?m)^cell\[\d+\]:\d+:\d+: `)

// hidden runs code that leaves no names behind.
func (e *Engine) hidden(x *execution, code string) error {
	e.mu.Lock()
	e.number++
	y := &execution{number: e.number, out: x.out, ctx: x.ctx, cancel: x.cancel}
	e.outputs[y.number] = x.out
	e.running = y
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.running = x
		e.mu.Unlock()
	}()
	if err := e.revive(y); err != nil {
		return err
	}
	u, err := e.session.CompileSlow(y.number, code)
	if err != nil {
		return compileError(err)
	}
	if err := e.make(y, u, timings{}); err != nil {
		return err
	}
	_, err = e.load(y, u, false)
	return err
}

// timeIt measures an expression, as a benchmark of go test does.
func (e *Engine) timeIt(x *execution, expr string) error {
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return fmt.Errorf("give an expression or a call, such as %%timeit f(10): %w", err)
	}
	statement := "_ = " + expr
	if _, call := parsed.(*ast.CallExpr); call && !e.hasValue(expr) {
		statement = expr
	}
	err = e.hidden(x, `import benchmark "testing"
import "fmt"
func() {
	r := benchmark.Benchmark(func(b *benchmark.B) {
		b.ReportAllocs()
		for b.Loop() {
			`+statement+`
		}
	})
	if r.N > 0 {
		fmt.Printf("%.4g ns/op, %d runs, %d B/op, %d allocs/op\n", float64(r.T.Nanoseconds())/float64(r.N), r.N, r.AllocedBytesPerOp(), r.AllocsPerOp())
	}
}()`)
	var cell *serve.CellError
	if errors.As(err, &cell) && cell.Name == "CompileError" { // a position in the text above says nothing to the user
		cell.Value = inHidden.ReplaceAllString(cell.Value, "%timeit: ")
	}
	return err
}

// hasValue tells whether a call can stand on the right of an assignment to one variable: one with no result or
// several cannot.
func (e *Engine) hasValue(call string) bool {
	e.mu.Lock()
	e.number++
	n := e.number
	e.mu.Unlock()
	_, err := e.session.CompileSlow(n, "func() { _ = "+call+" }()")
	return err == nil
}
