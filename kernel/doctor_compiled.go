package kernel

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/rooflab/rooflab/kernel/build"
)

// workshop is what the checks of the compiled engine share: the tools, looked for once.
type workshop struct {
	builder *build.Builder
	err     error
}

func (w *workshop) open(ctx context.Context, spec Spec) error {
	if w.builder == nil && w.err == nil {
		// outside any module: the doctor looks at the machine, not at a notebook
		w.builder, w.err = build.New(ctx, build.Options{Go: spec.tool(), Dir: os.TempDir(), Sources: Sources})
	}
	return w.err
}

func (w *workshop) checkLinker(ctx context.Context, spec Spec) Result {
	r := Result{Needed: true, Hint: "or use the other engine: rooflab kernel install --engine gophernotes"}
	if r.Text = errorText(w.open(ctx, spec)); r.Text == "" {
		r.OK, r.Text = true, strings.Join(w.builder.Toolchain.CC, " ")
	}
	return r
}

// checkCells builds the worker and tries it, unless that has been done with this Go.
func (w *workshop) checkCells(ctx context.Context, spec Spec) Result {
	r := Result{Needed: true}
	if err := w.open(ctx, spec); err != nil {
		r.Text = "cannot be tried without the tools above"
		return r
	}
	defer w.builder.Close()
	worker, err := w.builder.Worker(ctx)
	if err != nil {
		r.Text = err.Error()
		return r
	}
	r.OK, r.Text = true, fmt.Sprintf("work with %s (worker process: %s)", w.builder.Toolchain.Version, worker)
	return r
}

func checkGopls(context.Context) Result {
	path, err := exec.LookPath("gopls")
	if err != nil {
		return Result{OK: true, Text: "not installed: completion and tooltips come from the kernel alone, which is enough for most"}
	}
	return Result{OK: true, Text: path + " adds to completion and tooltips"}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
