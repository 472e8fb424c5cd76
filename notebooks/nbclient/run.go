package nbclient

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// Options says what to run and how. Only Notebook is required.
type Options struct {
	Notebook  string        // file to run
	Out       string        // file to write, may be Notebook itself; empty: the result is only returned
	Kernel    string        // name of the kernelspec; empty: the one the notebook names
	KernelDir string        // searched for kernelspecs before Jupyter's own places; empty: none
	Params    []Param       // values for the cell tagged "parameters"
	Env       []string      // "NAME=value", added to the kernel's environment
	Dir       string        // the kernel's working directory; empty: the folder of Notebook
	Timeout   time.Duration // for one cell; 0: none
	Resume    bool          // return Out as it is when it finished before with the same sources, parameters and kernel

	// RecordTimes stores when each cell ran in metadata.execution, as JupyterLab does. Two runs then differ.
	RecordTimes bool

	Progress func(Event)           // called before and after each code cell; may be nil
	Warn     func(diag.Diagnostic) // told of what did not stop the run; may be nil

	// OnKernelLost is called once, at once, when the kernel died or had to be killed: what its cells would have
	// undone, nobody else will undo. May be nil.
	OnKernelLost func()

	patience time.Duration // for an interrupt or a shutdown to work; 0: five seconds
}

// State is what happened to a cell.
type State string

// The states in which Progress is called. Unchanged concerns the whole notebook (Cell is 0).
const (
	Started   State = "started"
	Finished  State = "finished"
	Failed    State = "failed"
	Unchanged State = "unchanged"
)

// Event is one step of a run.
type Event struct {
	State   State
	Cell    int // position in the notebook, from 1
	Cells   int // cells in the notebook
	ID      string
	Line    string // first line of the source that is not blank
	Elapsed time.Duration
}

// Run runs a notebook and returns it with its outputs, also when it fails: then with those of the cells that ran.
// The error may be a *CellError, *TimeoutError, *KernelDiedError or *KernelNotFoundError, or wrap the context's cause.
func Run(ctx context.Context, o Options) (*nbformat.Notebook, error) {
	nb, err := o.load()
	if err != nil {
		return nil, err
	}
	name := o.Kernel
	if name == "" {
		name = nb.Kernel()
	}
	if name == "" {
		return nil, fmt.Errorf("%s names no kernel in its metadata; say which one to use with --kernel", o.Notebook)
	}
	spec, err := FindKernel(name, o.kernelDirs()...)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", o.Notebook, err)
	}
	language := nb.Language()
	if language == "" || o.Kernel != "" {
		language = strings.ToLower(spec.Language)
	}
	warnings, err := inject(nb, o.Params, language)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Notebook, err)
	}
	for _, w := range warnings {
		o.warn("notebook_parameters", w, "")
	}
	record := runRecord{Source: sourceHash(nb, spec.Name)}
	if done := o.finished(record); done != nil {
		o.progress(Event{State: Unchanged, Cells: len(done.Cells)})
		return done, nil
	}
	r := &runner{o: o, nb: nb, record: record}
	return nb, r.run(ctx, spec)
}

// load reads the notebook and refuses one of which something would be lost.
func (o *Options) load() (*nbformat.Notebook, error) {
	nb, diags, err := nbformat.ReadFile(o.Notebook)
	if err != nil {
		return nil, err
	}
	if err := nbformat.Malformed(diags); err != nil {
		return nil, err
	}
	for _, d := range diags {
		if o.Warn != nil {
			o.Warn(d)
		}
	}
	return nb, nil
}

func (o *Options) kernelDirs() []string {
	if o.KernelDir == "" {
		return nil
	}
	return []string{o.KernelDir}
}

func (o *Options) workDir() string {
	if o.Dir != "" {
		return o.Dir
	}
	return filepath.Dir(o.Notebook)
}

func (o *Options) wait() time.Duration {
	if o.patience > 0 {
		return o.patience
	}
	return 5 * time.Second
}

func (o *Options) progress(e Event) {
	if o.Progress != nil {
		o.Progress(e)
	}
}

func (o *Options) warn(id, text, hint string) {
	if o.Warn != nil {
		o.Warn(diag.Diagnostic{ID: id, Severity: diag.Warning, N: 1, Pos: diag.Pos{File: o.Notebook}, Text: text, Hint: hint})
	}
}

// runner is one run of one notebook.
type runner struct {
	o       Options
	nb      *nbformat.Notebook
	record  runRecord
	kernel  *kernel
	outputs *collector
}

func (r *runner) run(ctx context.Context, spec Spec) (err error) {
	for i := range r.nb.Cells {
		r.nb.Cells[i].Clear()
	}
	r.nb.Metadata.Set("kernelspec", map[string]string{"name": spec.Name, "display_name": spec.DisplayName, "language": spec.Language})
	if err := r.save(statusRunning); err != nil {
		return err
	}
	if r.kernel, err = startKernel(ctx, spec, &r.o); err != nil {
		return r.fail(fmt.Errorf("run %s: %w", r.o.Notebook, err))
	}
	defer func() { r.kernel.shutdown() }()
	r.nb.Metadata["language_info"] = r.kernel.languageInfo()
	r.outputs = newCollector(r.nb)
	if err := r.cells(ctx); err != nil {
		return r.fail(err)
	}
	return r.save(statusFinished)
}

// fail stores what was executed and passes err on.
func (r *runner) fail(err error) error {
	if saveErr := r.save(statusFailed); saveErr != nil {
		return errors.Join(err, saveErr)
	}
	return err
}

func (r *runner) cells(ctx context.Context) error {
	for i := range r.nb.Cells {
		c := &r.nb.Cells[i]
		if c.Type != nbformat.Code || strings.TrimSpace(c.Source) == "" || c.HasTag("skip-execution") {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: stopped before cell %d (id %s): %w", r.o.Notebook, i+1, c.ID, context.Cause(ctx))
		}
		if err := r.cell(ctx, i); err != nil {
			return err
		}
		if err := r.save(statusRunning); err != nil {
			return err
		}
	}
	return nil
}

// cell runs cell i and reports progress.
func (r *runner) cell(ctx context.Context, i int) error {
	c := &r.nb.Cells[i]
	e := Event{State: Started, Cell: i + 1, Cells: len(r.nb.Cells), ID: c.ID, Line: firstLine(c.Source)}
	r.o.progress(e)
	start := time.Now()
	err := r.execute(ctx, i)
	r.outputs.flush()
	e.State, e.Elapsed = Finished, time.Since(start)
	if err != nil {
		e.State = Failed
	}
	r.o.progress(e)
	return err
}

// execute sends cell i to the kernel and turns the outcome into an error.
func (r *runner) execute(ctx context.Context, i int) error {
	c := &r.nb.Cells[i]
	place := Place{Notebook: r.o.Notebook, Cell: i + 1, ID: c.ID}
	mayFail := c.HasTag("raises-exception")
	request, err := r.kernel.request(c.Source, !mayFail)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	outputs := r.outputs.begin(i, request.Header.MsgID)
	out := r.kernel.await(ctx, request, r.o.Timeout, r.outputs.take)
	outputs.end(out.reply, r.o.RecordTimes)
	if out.quiet {
		r.o.warn("notebook_no_idle", fmt.Sprintf("cell %d (id %s): the kernel answered but never said that it is idle", i+1, c.ID),
			"outputs of this cell may be missing")
	}
	switch {
	case out.died:
		return r.kernel.diedError(place)
	case errors.Is(out.cause, errTimeout):
		return &TimeoutError{Place: place, Limit: r.o.Timeout, KernelKilled: out.killed}
	case out.cause != nil:
		return fmt.Errorf("%s: interrupted: %w", place, out.cause)
	case out.reply.Status != "ok" && !mayFail:
		return newCellError(place, outputs.complete(out.reply))
	}
	return nil
}

func (r *runner) save(s status) error {
	r.record.Status = s
	if err := r.record.store(r.nb); err != nil {
		return err
	}
	if r.o.Out == "" {
		return nil
	}
	return r.nb.WriteFile(r.o.Out)
}

func firstLine(source string) string {
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}
