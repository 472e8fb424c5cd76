package compiled

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/rooflab/rooflab/kernel/proto"
)

// How long a worker may take to start, its streams to end after it, a mark that says where output ends to come, and a
// process that has reported a crash to end. Children of a cell may hold the streams open, and a cell may close them.
const (
	startTime = 20 * time.Second
	drainTime = 300 * time.Millisecond
	markTime  = 200 * time.Millisecond
	crashTime = 300 * time.Millisecond
)

// listener is told what a worker says. Its methods are called one at a time.
type listener interface {
	printed(proto.Chunk)
	event(*worker, proto.FromWorker)
}

// worker is the engine's end of a worker process.
type worker struct {
	cmd    *exec.Cmd
	to     *os.File
	sendMu sync.Mutex

	listener listener
	streams  *proto.Streams
	last     tail // end of stderr since the last cell began, for the epitaph
	crashed  bool // what comes is the report of a crash

	ready  chan struct{}
	exited chan struct{} // closed when the process is gone
	dead   chan struct{} // closed when its output has been passed on, too
	err    error         // of Wait
	buried bool          // the user knows of its death
	loaded map[int]bool  // executions whose files are loaded

	mu      sync.Mutex
	id      int              // of the last request
	waiting map[int]*request // requests without a reply
}

// request is something that the worker was asked for.
type request struct {
	reply   chan proto.FromWorker
	printed chan struct{} // closed when all output before the reply has been passed on
	value   proto.FromWorker
}

// pipes are the four of a worker: stdout, stderr, from the worker, to the worker.
type pipes struct{ r, w [4]*os.File }

func newPipes() (p pipes, err error) {
	for i := range p.r {
		if p.r[i], p.w[i], err = os.Pipe(); err != nil {
			p.close()
			return p, fmt.Errorf("make the pipes of the worker: %w", err)
		}
	}
	return p, nil
}

func (p pipes) close() {
	for i := range p.r {
		p.r[i].Close()
		p.w[i].Close()
	}
}

// startWorker starts the program in a process group of its own: the signals of a terminal are not for it.
func startWorker(program string, env map[string]string, l listener) (*worker, error) {
	p, err := newPipes()
	if err != nil {
		return nil, err
	}
	enlarge(p.w[0])
	enlarge(p.w[1])
	w := &worker{
		cmd: exec.Command(program), to: p.w[3], listener: l,
		ready: make(chan struct{}), exited: make(chan struct{}), dead: make(chan struct{}), loaded: map[int]bool{}, waiting: map[int]*request{},
	}
	key := rand.Text()
	w.streams = proto.NewStreams(key, w.pass, w.printedAll)
	w.cmd.Env = append(os.Environ(), proto.KeyEnv+"="+key)
	for name, value := range env {
		w.cmd.Env = append(w.cmd.Env, name+"="+value)
	}
	w.cmd.Stdout, w.cmd.Stderr = p.w[0], p.w[1]
	w.cmd.ExtraFiles = []*os.File{p.r[3], p.w[2]}
	w.cmd.SysProcAttr = ownGroup()
	if err := w.cmd.Start(); err != nil {
		p.close()
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	for _, f := range []*os.File{p.w[0], p.w[1], p.w[2], p.r[3]} {
		f.Close()
	}
	var readers sync.WaitGroup
	for i := range 2 {
		readers.Go(func() {
			defer p.r[i].Close()
			w.streams.Read(i, p.r[i])
		})
	}
	go w.receive(p, &readers)
	return w, w.awaitReady()
}

func (w *worker) awaitReady() error {
	select {
	case <-w.ready:
		return nil
	case <-w.dead:
		return fmt.Errorf("the worker process did not start: %s\n%s", w.epitaph(), w.last.String())
	case <-time.After(startTime):
		w.kill()
		return fmt.Errorf("the worker process did not start within %v", startTime)
	}
}

// receive reads the worker's messages until its end, and waits for it.
func (w *worker) receive(p pipes, readers *sync.WaitGroup) {
	for {
		var m proto.FromWorker
		if proto.Receive(p.r[2], &m) != nil {
			break
		}
		w.take(m)
	}
	_ = w.cmd.Process.Kill() // without messages it is of no use; as a rule it has ended
	w.err = w.cmd.Wait()
	close(w.exited)
	drained := make(chan struct{})
	go func() {
		readers.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainTime):
	}
	w.streams.Release()
	close(w.dead)
	p.r[2].Close()
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	w.to.Close()
}

// take sorts a message: replies go to who asked, events keep their place among the text that was printed.
func (w *worker) take(m proto.FromWorker) {
	switch m.Ev {
	case "ready":
		close(w.ready)
	case "done", "slow", "mem":
		if r := w.request(m.ID); r != nil {
			r.reply <- m
		}
	default:
		w.streams.Event(m.Seq, func() {
			if m.Ev != "show" {
				w.listener.event(w, m)
			} else if r := w.request(m.ID); r != nil {
				r.value = m
			}
		})
	}
}

func (w *worker) request(id int) *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting[id]
}

// pass hands on what was printed, but for the report of a crash: the cell's error says what is in it.
func (w *worker) pass(c proto.Chunk) {
	if c.Stream == "stderr" {
		w.last.add(c.Text)
		if at := crash.FindStringIndex(c.Text); at != nil && !w.crashed {
			w.crashed = w.dies()
			if w.crashed {
				c.Text = c.Text[:at[0]]
				w.listener.printed(c)
			}
		}
		if w.crashed {
			return
		}
	}
	w.listener.printed(c)
}

// dies tells whether the process that has printed what looks like a crash ends of it.
func (w *worker) dies() bool {
	select {
	case <-w.exited:
		return true
	case <-time.After(crashTime):
		return false
	}
}

func (w *worker) printedAll(id int) {
	if r := w.request(id); r != nil {
		close(r.printed)
	}
}

func (w *worker) alive() bool {
	select {
	case <-w.dead:
		return false
	default:
		return true
	}
}

// kill ends the worker and what it started.
func (w *worker) kill() { killGroup(w.cmd.Process.Pid) }

func (w *worker) send(m proto.ToWorker) error {
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	return proto.Send(w.to, m)
}

// next announces a request, whose number is to be used with do.
func (w *worker) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id++
	w.waiting[w.id] = &request{reply: make(chan proto.FromWorker, 1), printed: make(chan struct{})}
	return w.id
}

var errDead = errors.New("the worker process has ended")

// do sends a request and waits for its reply, and until all that was printed before has been passed on. The value of
// the last expression is in the reply.
func (w *worker) do(m proto.ToWorker) (proto.FromWorker, error) {
	r := w.request(m.ID)
	defer func() {
		w.mu.Lock()
		delete(w.waiting, m.ID)
		w.mu.Unlock()
	}()
	if m.Cell != 0 {
		w.streams.SetCell(m.Cell)
		w.last.reset() // what earlier cells have printed is no report of this one's crash
	}
	if err := w.send(m); err != nil {
		<-w.dead
		return proto.FromWorker{}, errDead
	}
	select {
	case reply := <-r.reply:
		if m.Op == "run" || m.Op == "eval" {
			w.awaitOutput(r)
			reply.Data, reply.Metadata, reply.Display = r.value.Data, r.value.Metadata, r.value.Display
		}
		return reply, nil
	case <-w.dead:
		return proto.FromWorker{}, errDead
	}
}

// awaitOutput waits for the mark that ends a request's output. A cell may have closed its streams: then no mark comes,
// and what is held back for it is let go.
func (w *worker) awaitOutput(r *request) {
	for {
		select {
		case <-r.printed:
			return
		case <-w.dead:
			return
		case <-time.After(markTime):
			if !w.streams.Waiting() {
				return
			}
			w.streams.Release()
		}
	}
}

// resident is the worker's memory in bytes; 0 where that cannot be told.
func (w *worker) resident() int64 {
	var pages, total int64
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", w.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fmt.Sscan(string(text), &total, &pages)
	return pages * int64(os.Getpagesize())
}

// tail keeps the end of a stream.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 128 << 10

func (t *tail) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b = append(t.b, text...); len(t.b) > 2*tailSize {
		t.b = append(t.b[:0:0], t.b[len(t.b)-tailSize:]...)
	}
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
