package compiled

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rooflab/rooflab/kernel/assist"
	"github.com/rooflab/rooflab/kernel/build"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/serve"
	"github.com/rooflab/rooflab/kernel/session"
)

// Options say how an engine works.
type Options struct {
	Go      string // the go command; empty: the one on PATH
	Dir     string // the notebook's folder
	Source  string // root folder of a rooflab checkout whose packages cells may import; empty: none
	Sources fs.FS  // of the worker and the support packages
	Replay  bool   // run the notebook's cells again after the death of the worker
}

// Engine runs cells in a worker process.
type Engine struct {
	options Options
	build   *build.Builder
	program string // the worker's executable

	session *session.Session
	mods    map[int]proto.Mod // built cells
	deps    map[int][]int     // cells that a cell refers to
	log     []past            // cells that ran to their end, in order
	number  int               // of the last execution whose number is not that of its cell
	env     map[string]string // set by %env
	memory  []growth
	moves   []session.Move // code that was compiled with another cell than it stands in now

	mu         sync.Mutex
	closeBuild func()  // ends what build does in the background, and removes the session's files; nil: start has failed
	worker     *worker // nil before the first start
	assist     *assist.Assist
	running    *execution
	outputs    map[int]serve.Output // by number of the execution; goroutines print after their cell
	counts     map[int]int          // number of an execution -> number beside its cell, where they differ
	targets    map[string]bool      // names of comms that cells answer to
	closed     bool
}

// past is a cell that ran.
type past struct {
	number int
	code   string
}

// growth is what a cell added to the worker's resident memory, in bytes.
type growth struct {
	number int
	bytes  int64
}

// unnumbered is where the numbers of executions begin that have no number of their own in the notebook.
const unnumbered = 1 << 20

// New makes an engine and starts its worker; the end of ctx breaks that off. The caller closes the engine.
func New(ctx context.Context, o Options) (*Engine, error) {
	e := &Engine{
		options: o, number: unnumbered, env: map[string]string{},
		outputs: map[int]serve.Output{}, counts: map[int]int{},
	}
	if err := e.start(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// start readies the tools, an empty session and a worker. The rest of the standard library is compiled in the
// background, if it is not there yet.
func (e *Engine) start(ctx context.Context) error {
	b, err := build.New(ctx, build.Options{
		Go: e.options.Go, Dir: e.options.Dir, Sources: e.options.Sources,
		RooflabSource: e.options.Source, Progress: e.progress,
	})
	if err != nil {
		return err
	}
	if e.program, err = b.Worker(ctx); err != nil {
		b.Close()
		return err
	}
	warm, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.WarmAll(warm) // without it the first import of a package takes longer, no more
	}()
	e.setBuild(func() {
		stop()
		<-ended
		b.Close()
	})
	s := session.New(func(path string) (io.ReadCloser, error) { return b.ArchiveContext(e.cellContext(), path) })
	s.Cgo = func(n int, file []byte) ([]byte, error) {
		return b.CgoTypes(e.cellContext(), build.Unit{Cell: n, Pkg: session.PkgPath(n), Source: file})
	}
	e.mu.Lock()
	e.build, e.session = b, s
	e.mu.Unlock()
	e.mods, e.deps = map[int]proto.Mod{}, map[int][]int{}
	e.log, e.memory, e.moves = nil, nil, nil
	module, env := b.Workspace()
	e.setAssist(assist.New(assist.Options{
		Session: s, Module: module, Env: env, Go: b.Toolchain.Go, Commands: commandNames(),
	}))
	return e.startWorker()
}

// cellContext ends when the running cell is interrupted.
func (e *Engine) cellContext() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == nil {
		return context.Background()
	}
	return e.running.ctx
}

// setBuild closes what was built with until now, and says how the next is closed.
func (e *Engine) setBuild(end func()) {
	e.mu.Lock()
	old := e.closeBuild
	e.closeBuild = end
	e.mu.Unlock()
	if old != nil {
		old()
	}
}

func (e *Engine) setAssist(a *assist.Assist) {
	e.mu.Lock()
	old := e.assist
	e.assist = a
	e.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// startWorker puts a new worker in the place of the old one.
func (e *Engine) startWorker() error {
	w, err := startWorker(e.program, e.env, e)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		w.kill()
		return errClosed
	}
	e.worker, e.targets = w, map[string]bool{}
	return nil
}

func (e *Engine) Info() serve.Info { return Describe(e.options.Go) }

// Describe is what an engine that uses this go command says about itself.
func Describe(program string) serve.Info {
	version := goVersion(program)
	return serve.Info{Name: "rooflab", Version: version, LanguageVersion: version,
		Banner: "Go " + version + ", compiled. %help lists what is not Go."}
}

// goVersion reads the version beside a go command, without running it.
func goVersion(program string) string {
	if path, err := filepath.EvalSymlinks(program); err == nil && program != "" {
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "..", "VERSION")); err == nil {
			line, _, _ := strings.Cut(string(text), "\n")
			return strings.TrimPrefix(line, "go")
		}
	}
	return strings.TrimPrefix(runtime.Version(), "go")
}

// Close ends the worker and removes the session's files.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	if e.running != nil {
		e.running.cancel(errClosed)
	}
	w := e.worker
	e.mu.Unlock()
	if w != nil {
		w.kill()
		<-w.dead
	}
	e.setAssist(nil)
	e.setBuild(nil)
}

var (
	errInterrupted = errors.New("interrupted")
	errClosed      = errors.New("the kernel is being shut down")
)

// execution is a cell that runs now.
type execution struct {
	number  int
	out     serve.Output
	ctx     context.Context // ends when the cell is interrupted
	cancel  context.CancelCauseFunc
	steps   *steps    // of its building; nil: the user is not told of them
	request int       // the worker's request that runs; 0: none
	stopped time.Time // of the first interrupt
}

func (e *Engine) assistant() *assist.Assist {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.assist
}

// Complete returns what may stand at the cursor.
func (e *Engine) Complete(code string, cursor int) serve.Completion {
	return e.assistant().Complete(code, cursor)
}

// Inspect describes what the cursor is at.
func (e *Engine) Inspect(code string, cursor, detail int) serve.Bundle {
	return e.assistant().Inspect(code, cursor, detail)
}

// State tells whether a cell is complete.
func (e *Engine) State(code string) (state, indent string) { return e.assistant().State(code) }
