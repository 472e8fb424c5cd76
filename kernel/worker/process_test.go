package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/build"
	"github.com/rooflab/rooflab/kernel/proto"
)

// tools makes the worker and cells, once for all tests.
type tools struct {
	*build.Builder
	cache, worker string
}

var built = sync.OnceValues(func() (*tools, error) {
	cache, err := os.MkdirTemp("", "worker-test-")
	if err != nil {
		return nil, err
	}
	t := &tools{cache: cache}
	if t.Builder, err = build.New(context.Background(), build.Options{Dir: cache, Cache: cache, Sources: os.DirFS("..")}); err == nil {
		t.worker, err = t.Worker(context.Background())
	}
	return t, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if t, err := built(); err == nil {
		t.Close()
		os.RemoveAll(t.cache)
	}
	os.Exit(code)
}

// cell builds a cell as the session would emit it: imports, declarations and statements.
func (t *tools) cell(n int, imports, decls, body string) (proto.Mod, error) {
	src := "package " + prefix + prefix + "main\nimport rt \"github.com/rooflab/rooflab/kernel/rt\"\n"
	for _, i := range strings.Fields(imports) {
		src += fmt.Sprintf("import %q\n", i)
	}
	src += fmt.Sprintf("/*line cell[%d]:100:1*/%s\n//go:noinline\nfunc %[3]s(c *rt.Cell) {\n/*line cell[%[1]d]:1:1*/%[4]s\n}\n"+
		"//go:noinline\nfunc %[5]s() []any { return nil }\nfunc main() { %[3]s(nil); %[5]s() }\n", n, decls, prefix+prefix+"Run", body, prefix+prefix+"Tab")
	cell, err := t.Cell(context.Background(), build.Unit{Cell: n, Pkg: fmt.Sprintf("nb/c%d", n), Source: []byte(src)})
	return cell.Mod, err
}

// process is a worker under test.
type process struct {
	t       *testing.T
	tools   *tools
	cmd     *exec.Cmd
	to      *os.File
	streams *proto.Streams
	replies chan proto.FromWorker
	ended   chan int
	exited  chan struct{}
	id      int

	mu     sync.Mutex
	log    strings.Builder                       // what came, in order
	answer func(proto.FromWorker) proto.ToWorker // to input
}

func start(t *testing.T, env ...string) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	tools, err := built()
	if err != nil {
		t.Fatal(err)
	}
	const key = "5e5e5e5e5e5e5e5e"
	p := &process{t: t, tools: tools, replies: make(chan proto.FromWorker, 4), ended: make(chan int, 4), exited: make(chan struct{})}
	p.streams = proto.NewStreams(key, func(c proto.Chunk) { p.note("%s %d %q", c.Stream, c.Cell, c.Text) }, func(id int) { p.ended <- id })
	var r, w [4]*os.File
	for i := range r {
		if r[i], w[i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	p.cmd = exec.Command(tools.worker)
	p.cmd.Env = append(append(os.Environ(), proto.KeyEnv+"="+key), env...)
	p.cmd.Stdout, p.cmd.Stderr = w[0], w[1]
	p.cmd.ExtraFiles = []*os.File{r[3], w[2]}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{w[0], w[1], w[2], r[3]} {
		f.Close()
	}
	p.to = w[3]
	go p.streams.Read(0, r[0])
	go p.streams.Read(1, r[1])
	go p.receive(r[2])
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
	})
	if m := <-p.replies; m.Ev != "ready" {
		t.Fatalf("the worker did not start: %+v", m)
	}
	return p
}

func (p *process) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(&p.log, format+"\n", args...)
}

func (p *process) receive(r *os.File) {
	for {
		var m proto.FromWorker
		if proto.Receive(r, &m) != nil {
			p.cmd.Wait()
			close(p.replies)
			close(p.exited)
			return
		}
		switch {
		case m.Seq == 0:
			p.replies <- m
		case m.Ev == "input":
			p.streams.Event(m.Seq, func() {
				p.note("input %d %q", m.Cell, m.Prompt)
				a := p.answer(m)
				a.Op, a.ID = "input", m.ID
				go p.send(a)
			})
		default:
			p.streams.Event(m.Seq, func() { p.note("%s %d %v", m.Ev, m.Cell, m.Data) })
		}
	}
}

func (p *process) send(m proto.ToWorker) {
	if err := proto.Send(p.to, m); err != nil {
		p.t.Error(err)
	}
}

// start sends a cell.
func (p *process) start(n int, imports, decls, body string) (id int) {
	p.t.Helper()
	mod, err := p.tools.cell(n, imports, decls, body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.log.Reset()
	p.mu.Unlock()
	p.id++
	p.streams.SetCell(n)
	p.send(proto.ToWorker{Op: "run", ID: p.id, Cell: n, Load: []proto.Mod{mod}, Pkg: mod.Pkg})
	return p.id
}

// wait returns how the cell has ended, and all that came, in order. A nil reply says that the worker has died.
func (p *process) wait() (log string, reply *proto.FromWorker) {
	p.t.Helper()
	select {
	case m, ok := <-p.replies:
		if ok {
			<-p.ended
			reply = &m
		}
	case <-time.After(30 * time.Second):
		p.t.Fatal("the cell does not end")
	}
	return p.logged(), reply
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return merge(p.log.String())
}

// merge joins neighbouring pieces of the same stream and cell.
func merge(log string) string {
	var out []string
	last := ""
	for _, l := range strings.Split(strings.TrimSuffix(log, "\n"), "\n") {
		head, text, _ := strings.Cut(l, " \"")
		if strings.HasPrefix(l, "std") && head == last {
			out[len(out)-1] = strings.TrimSuffix(out[len(out)-1], "\"") + text
			continue
		}
		last = head
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

// run executes a cell that ends well.
func (p *process) run(n int, imports, decls, body string) string {
	p.t.Helper()
	p.start(n, imports, decls, body)
	log, reply := p.wait()
	if reply == nil || reply.Err != nil {
		p.t.Fatalf("cell %d: %+v\n%s", n, reply, log)
	}
	return log
}

// fail executes a cell that ends with an error.
func (p *process) fail(n int, imports, decls, body string) (string, *proto.RunError) {
	p.t.Helper()
	p.start(n, imports, decls, body)
	log, reply := p.wait()
	if reply == nil || reply.Err == nil {
		p.t.Fatalf("cell %d: no error but %+v\n%s", n, reply, log)
	}
	return log, reply.Err
}

// interrupt executes a cell and interrupts it when it has printed "go".
func (p *process) interrupt(n int, imports, decls, body string) (log string, e *proto.RunError, took time.Duration) {
	p.t.Helper()
	id := p.start(n, "fmt "+imports, decls, "fmt.Fprint(rt.Stdout(), \"go\")\n"+body)
	for !strings.Contains(p.logged(), "go") {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	t0 := time.Now()
	p.send(proto.ToWorker{Op: "stop", ID: id})
	log, reply := p.wait()
	if reply == nil || reply.Err == nil {
		p.t.Fatalf("cell %d: no error but %+v\n%s", n, reply, log)
	}
	return log, reply.Err, time.Since(t0)
}
