// Package analyze reads trace files and composes readers, classification and breakdown: one call from files to a report.
// It does not find files, name ranks or judge figures.
package analyze

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

// file is one trace on its way to a report.
type file struct {
	path string
	rank *trace.Rank
	cls  *classify.Result
	out  breakdown.Rank
	err  error
}

// Options say how files are read and what of them is analysed. The zero value has the usual limits and takes everything.
type Options struct {
	MaxEventBytes int         // bytes of one event of a trace; 0 means 64 MB
	Step          *int        // figures of this step of each file (from 0) only
	Host          bool        // what the CPU did as well: breakdown.Rank.Host
	Progress      func(n int) // told that n more bytes of a file are read, from several goroutines; may be nil

	// ITL gives the median time between tokens in ns that was measured without profiler at the load of a file, 0 when it is not
	// known: a step that is more than 5 % off is said to be changed by the profiler. It is called from several goroutines; may be nil.
	ITL func(path string) int64
}

// Analysis is a report with the events behind it: Traces[i] and Classes[i] belong to Report.Ranks[i].
type Analysis struct {
	Report  breakdown.Report
	Traces  []*trace.Rank
	Classes []*classify.Result
}

// Only keeps one rank, in each load.
func (a *Analysis) Only(rank int) (*Analysis, error) {
	out := &Analysis{Report: a.Report.Only(rank)}
	known := ""
	for i, r := range a.Report.Ranks {
		known += fmt.Sprintf(", %d", r.Rank)
		if r.Rank == rank {
			out.Traces, out.Classes = append(out.Traces, a.Traces[i]), append(out.Classes, a.Classes[i])
		}
	}
	if len(out.Traces) == 0 {
		return nil, fmt.Errorf("take rank %d: no file is of it; the ranks are %s", rank, known[2:])
	}
	return out, nil
}

// Ranks reads the files at once and returns their ranks in the order given. A *kineto.TruncatedError comes with the ranks.
func Ranks(paths ...string) ([]*trace.Rank, error) { return Options{}.Ranks(paths...) }

// Ranks is the function Ranks with these options.
func (o Options) Ranks(paths ...string) ([]*trace.Rank, error) {
	files, err := o.read(paths, func(*file) {})
	if files == nil {
		return nil, err
	}
	ranks := make([]*trace.Rank, len(files))
	for i, f := range files {
		ranks[i] = f.rank
	}
	return ranks, err
}

// Files analyses one or several traces: the ranks of one run, or several loads. Ranks are ordered by load, then rank.
// A file of engine steps without GPU work is analysed by the operators of its CPU: see trace.Rank.OnCPU.
// Two files of one rank are refused unless their steps differ in size (then they are two loads).
// A *kineto.TruncatedError comes with a report of what could be read; with any other error the report is nil.
func Files(paths ...string) (*breakdown.Report, error) { return Options{}.Files(paths...) }

// Files is the function Files with these options.
func (o Options) Files(paths ...string) (*breakdown.Report, error) {
	a, err := o.Analyze(paths...)
	if a == nil {
		return nil, err
	}
	return &a.Report, err
}

// Analyze is Files that keeps the events of the report. The Analysis is nil where the report of Files is.
func (o Options) Analyze(paths ...string) (*Analysis, error) {
	files, err := o.read(paths, func(f *file) {
		f.cls = classify.Run(f.rank)
		if o.Step == nil {
			f.out = breakdown.Of(f.rank, f.cls)
			if o.ITL != nil {
				f.out.SetITL(o.ITL(f.path))
			}
			return
		}
		t, cls, err := breakdown.OneStep(f.rank, f.cls, *o.Step)
		if err != nil {
			f.err = err
			return
		}
		first, _ := f.rank.Span()
		f.rank, f.cls = t, cls
		f.out = breakdown.Of(t, cls)
		f.out.Step = o.Step
		f.out.StepTable[0].Index, f.out.StepTable[0].StartNs = *o.Step, t.Steps[0].Start-first
	})
	if files == nil {
		return nil, err
	}
	runs, dup := split(files)
	if dup != nil {
		return nil, dup
	}
	a := &Analysis{Report: breakdown.Report{Schema: 1}}
	for _, run := range runs {
		first := len(a.Traces)
		for _, f := range run {
			a.Report.Ranks = append(a.Report.Ranks, f.out)
			a.Traces = append(a.Traces, f.rank)
			a.Classes = append(a.Classes, f.cls)
		}
		if len(run) > 1 {
			c := match(run, first)
			if a.Report.Collectives == nil {
				a.Report.Collectives = c
			} else {
				a.Report.More = append(a.Report.More, *c)
			}
		}
	}
	return a, err
}

// read reads all files, two at a time on two cores, and runs next on each. files is nil when one cannot be used at all.
func (o Options) read(paths []string, next func(*file)) (files []*file, err error) {
	if len(paths) == 0 {
		return nil, errors.New("analyze: no files given; expected one or more traces (.json or .json.gz)")
	}
	files = make([]*file, len(paths))
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, path := range paths {
		files[i] = &file{path: path}
		wg.Add(1)
		go func(f *file) {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			f.load(o, next)
		}(files[i])
	}
	wg.Wait()
	for _, f := range files {
		var cut *kineto.TruncatedError
		switch {
		case f.err == nil:
		case errors.As(f.err, &cut) && len(f.rank.Kernels) > 0:
			err = errors.Join(err, f.err)
		default:
			return nil, f.err
		}
	}
	return files, err
}

// load reads one file. A panic becomes its error: a goroutine's panic would end a notebook's kernel.
func (f *file) load(o Options, next func(*file)) {
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("read %s: internal error: %v; please report it with the file", f.path, p)
		}
	}()
	read := kineto.Options{MaxEventBytes: o.MaxEventBytes, Host: o.Host, Progress: o.Progress}
	if f.rank, f.err = read.ReadFile(f.path); f.onCPU() && !o.Host {
		read.Host, read.Progress = true, nil
		f.rank, f.err = read.ReadFile(f.path)
	}
	if f.onCPU() {
		f.rank = f.rank.OnCPU()
		var none *kineto.NoGPUError
		var cut *kineto.TruncatedError
		switch {
		case errors.As(f.err, &none):
			f.err = nil
		case errors.As(f.err, &cut):
			cut.CPU = len(f.rank.Operators)
		}
	}
	if f.rank != nil && len(f.rank.Kernels) > 0 {
		next(f)
	}
}

// onCPU says whether the file holds engine steps and no GPU work: then it is the operators of the CPU that are analysed.
// A file that names a GPU is of a server that has one: its GPU events were not recorded, or are lost.
func (f *file) onCPU() bool {
	return f.rank != nil && len(f.rank.Kernels) == 0 && f.rank.Device == "" && slices.ContainsFunc(f.rank.Steps, func(s trace.Step) bool { return s.Kind != trace.Idle })
}

// split makes runs: all files are one run when their ranks differ; else the files of each load are one.
func split(files []*file) ([][]*file, error) {
	sorted := slices.Clone(files)
	if distinct(files) == nil {
		slices.SortStableFunc(sorted, func(a, b *file) int { return cmp.Compare(a.rank.Rank, b.rank.Rank) })
		return [][]*file{sorted}, nil
	}
	slices.SortStableFunc(sorted, func(a, b *file) int {
		x, y := load(a), load(b)
		return cmp.Or(cmp.Compare(x.ContextTokens, y.ContextTokens), cmp.Compare(x.GenerationTokens, y.GenerationTokens), cmp.Compare(a.rank.Rank, b.rank.Rank))
	})
	var runs [][]*file
	for i, f := range sorted {
		if i == 0 || load(sorted[i-1]) != load(f) {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], f)
	}
	for _, run := range runs {
		if err := distinct(run); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// load is the kind and size of most steps.
func load(f *file) breakdown.StepGroup {
	if len(f.out.Steps) == 0 {
		return breakdown.StepGroup{}
	}
	g := f.out.Steps[0]
	g.N, g.Partial = 0, 0
	return g
}

func distinct(files []*file) error {
	seen := map[int]string{}
	for _, f := range files {
		if other, ok := seen[f.rank.Rank]; ok {
			return fmt.Errorf("analyze: %s and %s are both rank %d at the same load (%s); give one file a rank, and analyze two runs one after the other", other, f.path, f.rank.Rank, f.out.Load())
		}
		seen[f.rank.Rank] = f.path
	}
	return nil
}

// match splits the collectives of a run; first is the place of its first rank in the report.
func match(run []*file, first int) *breakdown.Collectives {
	var ranks []*trace.Rank
	var cls []*classify.Result
	for _, f := range run {
		ranks = append(ranks, f.rank)
		cls = append(cls, f.cls)
	}
	c, _ := breakdown.Match(ranks, cls) // two ranks or more: no error
	for i := range c.Ranks {
		c.Ranks[i] += first
	}
	for _, other := range c.Others {
		for i := range other.Ranks {
			other.Ranks[i] += first
		}
	}
	return c
}
