package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// How long a running cell may take to end before the process does.
const (
	shutdownTime = 2 * time.Second // Jupyter sends a signal after 2.5 s
	orphanTime   = time.Minute
)

// Server is one running kernel.
type Server struct {
	sockets *wire.Kernel
	log     io.Writer // the kernel's own messages: the terminal, not the notebook
	engine  Engine

	parent  atomic.Pointer[wire.Message] // the request whose cell ran last: output belongs to it
	running atomic.Bool
	count   int
	history []past
	stdout  *capture
	stderr  *capture
	queue   chan *wire.Message // from shell
	quit    chan struct{}      // closed when a front end asks the kernel to end
	once    sync.Once
}

// Listen binds the sockets of a connection file. From then on, what the process writes to os.Stdout and os.Stderr,
// also through package log, goes to the notebook.
func Listen(connectionFile string) (*Server, error) {
	c, err := wire.ReadConnection(connectionFile)
	if err != nil {
		return nil, err
	}
	sockets, err := wire.Bind(c)
	if err != nil {
		return nil, fmt.Errorf("listen on the ports of %s: %w", connectionFile, err)
	}
	s := &Server{sockets: sockets, log: os.Stderr, queue: make(chan *wire.Message, 4096), quit: make(chan struct{})}
	s.parent.Store(&wire.Message{})
	if s.stdout, err = newCapture(func(text string) { s.stream("stdout", text) }); err != nil {
		return nil, fmt.Errorf("capture stdout: %w", err)
	}
	if s.stderr, err = newCapture(func(text string) { s.stream("stderr", text) }); err != nil {
		return nil, fmt.Errorf("capture stderr: %w", err)
	}
	os.Stdout, os.Stderr = s.stdout.w, s.stderr.w
	log.SetOutput(os.Stderr)
	return s, nil
}

// Serve answers requests until a front end asks the kernel to end. The engine is made by the goroutine that runs
// the cells.
func (s *Server) Serve(newEngine func() Engine) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // also when the parent had it ignored
	defer signal.Stop(interrupts)
	ready := make(chan struct{})
	go func() {
		s.engine = newEngine()
		close(ready)
		s.work()
	}()
	<-ready
	go s.receive(s.sockets.Shell, func(m *wire.Message) { s.queue <- m })
	go s.receive(s.sockets.Control, s.control)
	go s.watchParent()
	for {
		select {
		case <-interrupts:
			s.interrupt()
		case <-s.quit:
			s.settle(shutdownTime)
			s.stdout.flush()
			s.stderr.flush()
			s.sockets.Close()
			return
		}
	}
}

// receive reads one socket until it is closed.
func (s *Server) receive(socket *wire.Socket, do func(*wire.Message)) {
	for {
		m, err := s.sockets.Session.Recv(context.Background(), socket)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(s.log, "rooflab kernel:", err)
			continue
		}
		do(m)
	}
}

// work runs the queue. When a cell ends this goroutine, another goes on.
func (s *Server) work() {
	var current *wire.Message
	returned := false
	defer func() {
		if !returned {
			go s.work()
		}
	}()
	defer func() {
		if !returned && current != nil {
			s.finish(current, executeRequest{}, Bundle{}, errors.New("the cell called runtime.Goexit"))
			s.status(current, "idle")
		}
	}()
	for m := range s.queue {
		current = m
		s.handle(s.sockets.Shell, m)
	}
	returned = true
}

// interrupt ends the running cell, and says so when that takes long: a compiled function that waits cannot be ended.
func (s *Server) interrupt() {
	if !s.running.Load() {
		return
	}
	s.engine.Interrupt()
	cell := s.parent.Load()
	time.AfterFunc(3*time.Second, func() {
		if s.running.Load() && s.parent.Load() == cell {
			s.stream("stderr", "interrupt: the cell waits in a call that cannot be ended; "+
				"it stops when the call returns. Restart the kernel to stop it now.\n")
		}
	})
}

// settle interrupts a running cell and waits for its end: it may hold something open on another machine, which nobody
// else will close.
func (s *Server) settle(limit time.Duration) {
	s.interrupt()
	for end := time.Now().Add(limit); s.running.Load() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// watchParent ends the kernel when the program that started it is gone and cannot end it any more.
func (s *Server) watchParent() {
	parent, err := strconv.Atoi(os.Getenv("JPY_PARENT_PID"))
	if err != nil || parent != os.Getppid() {
		return
	}
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			s.settle(orphanTime)
			os.Exit(1)
		}
	}
}

// publish sends a message on iopub.
func (s *Server) publish(parent *wire.Message, msgType string, content any) error {
	m, err := s.sockets.Session.Reply(parent, msgType, content)
	if err != nil {
		return err
	}
	m.IDs = [][]byte{[]byte(msgType)} // the topic
	return s.sockets.Session.Send(s.sockets.IOPub, m)
}

// tell is publish for messages whose loss nobody can be told about.
func (s *Server) tell(parent *wire.Message, msgType string, content any) {
	if err := s.publish(parent, msgType, content); err != nil {
		fmt.Fprintln(s.log, "rooflab kernel:", err)
	}
}

func (s *Server) status(parent *wire.Message, state string) {
	s.tell(parent, "status", map[string]any{"execution_state": state})
}

func (s *Server) stream(name, text string) {
	s.tell(s.parent.Load(), "stream", map[string]any{"name": name, "text": text})
}

// reply answers a request on the socket it came from.
func (s *Server) reply(to *wire.Socket, request *wire.Message, msgType string, content any) {
	m, err := s.sockets.Session.Reply(request, msgType, content)
	if err == nil {
		err = s.sockets.Session.Send(to, m)
	}
	if err != nil && !errors.Is(err, wire.ErrNoPeer) {
		fmt.Fprintln(s.log, "rooflab kernel:", err)
	}
}

// Display shows a value below the cell, after what was printed before.
func (s *Server) Display(b Bundle) error {
	s.stdout.flush()
	s.stderr.flush()
	return s.publish(s.parent.Load(), "display_data", b.content())
}

func (b Bundle) content() map[string]any {
	content := map[string]any{"data": b.Data, "metadata": b.Metadata, "transient": map[string]any{}}
	if b.Metadata == nil {
		content["metadata"] = map[string]any{}
	}
	return content
}
