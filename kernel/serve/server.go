package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// How long a running cell may take to end before the engine is closed.
const (
	shutdownTime = 2 * time.Second // Jupyter sends a signal after 2.5 s
	orphanTime   = time.Minute
)

// queued is how many requests of one kind may wait.
const queued = 4096

// Server is one running kernel.
type Server struct {
	// Enrich adds formats to a value before it is sent, such as the picture of a chart. It is set before Serve; nil: none.
	Enrich func(Bundle) Bundle

	sockets *wire.Kernel
	log     io.Writer // the kernel's own messages: the terminal, not the notebook
	info    Info      // until the engine is ready

	ready  chan struct{} // closed when one of the next two is set
	engine Engine
	failed error // why there is no engine

	cells        chan request
	questions    chan request // complete, inspect, is_complete
	commMessages chan request
	asking       chan struct{}      // holds a token while a cell waits for input
	answers      chan *wire.Message // from stdin
	quitting     chan time.Duration // how long the running cell may take to end
	closed       chan struct{}

	count int // of the last cell; belongs to the goroutine that runs them

	order sync.Mutex // held while a status is sent that depends on the running cell

	mu      sync.Mutex
	current *execution
	history []past
	comms   map[string]string // id -> target name
}

// Listen binds the sockets of a connection file.
func Listen(connectionFile string) (*Server, error) {
	c, err := wire.ReadConnection(connectionFile)
	if err != nil {
		return nil, err
	}
	sockets, err := wire.Bind(c)
	if err != nil {
		return nil, fmt.Errorf("listen on the ports of %s: %w", connectionFile, err)
	}
	return &Server{
		sockets: sockets, log: os.Stderr, ready: make(chan struct{}), closed: make(chan struct{}),
		cells: make(chan request, queued), questions: make(chan request, queued), commMessages: make(chan request, queued),
		asking: make(chan struct{}, 1), answers: make(chan *wire.Message, 16), quitting: make(chan time.Duration, 1),
		comms: map[string]string{},
	}, nil
}

// Serve answers requests until a front end, a signal or the end of the parent process asks the kernel to end. The
// engine is started in the background, by the goroutine that runs the cells: until it is ready they wait, and info is
// what front ends are told. When it cannot be started, each cell gets that error. The context of start ends with the
// kernel.
func (s *Server) Serve(info Info, start func(context.Context) (Engine, error)) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // interrupts also when the parent had them ignored
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.info = info
	s.status(request{Message: &wire.Message{}}, "starting")
	go func() {
		s.start(ctx, start)
		s.work()
	}()
	go s.serially(s.questions)
	go s.serially(s.commMessages)
	go s.receive(s.sockets.Shell)
	go s.receive(s.sockets.Control)
	go s.receiveAnswers()
	go s.watchParent()
	for {
		select {
		case sig := <-signals:
			if sig == os.Interrupt {
				s.interrupt()
			} else {
				s.quit(0)
			}
		case limit := <-s.quitting:
			cancel()
			s.close(limit)
			return
		}
	}
}

// start makes the engine. A panic is an error that the first cell shows.
func (s *Server) start(ctx context.Context, start func(context.Context) (Engine, error)) {
	defer close(s.ready)
	defer func() {
		if p := recover(); p != nil {
			s.failed = fmt.Errorf("start the engine: %v", p)
		}
	}()
	if s.engine, s.failed = start(ctx); s.failed != nil {
		s.report(s.failed)
	}
}

// works waits for the engine and tells whether there is one.
func (s *Server) works() bool {
	<-s.ready
	return s.failed == nil
}

// describe says who answers, without waiting for the engine.
func (s *Server) describe() Info {
	select {
	case <-s.ready:
		if s.failed == nil {
			return s.engine.Info()
		}
	default:
	}
	return s.info
}

// receive reads one socket until it is closed.
func (s *Server) receive(socket *wire.Socket) {
	for {
		m, err := s.sockets.Session.Recv(context.Background(), socket)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.report(err)
			continue
		}
		s.dispatch(request{m, socket, time.Now()})
	}
}

func (s *Server) running() *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *Server) setRunning(e *execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = e
}

// begin and finished bracket the time in which a cell runs.
func (s *Server) begin(e *execution) {
	s.order.Lock()
	defer s.order.Unlock()
	s.setRunning(e)
	s.status(e.request, "busy")
}

func (s *Server) finished(e *execution) {
	s.order.Lock()
	defer s.order.Unlock()
	close(e.done)
	s.setRunning(nil)
	s.status(e.request, "idle")
}

// idle ends a request that is no cell. Front ends show the status that came last, so a cell that still runs says busy
// again.
func (s *Server) idle(r request) {
	s.order.Lock()
	defer s.order.Unlock()
	s.status(r, "idle")
	if e := s.running(); e != nil {
		s.status(e.request, "busy")
	}
}

// interrupt ends the running cell. Cells that wait for the engine are given up.
func (s *Server) interrupt() {
	select {
	case <-s.ready:
	default:
		s.interruptStart()
		return
	}
	if e := s.running(); e != nil && s.failed == nil {
		e.interrupt()
		s.engine.Interrupt()
	}
}

// interruptStart answers the cells that were sent before the engine was ready.
func (s *Server) interruptStart() {
	waiting := s.waiting(0)
	for i, r := range waiting {
		content := failure(&CellError{Name: "Interrupted", Value: "interrupted before the kernel was ready"})
		if i > 0 {
			content = map[string]any{"status": "aborted"}
		}
		s.around(r, func() {
			if i == 0 {
				s.tell(r, "error", content)
			}
			content["execution_count"] = 0
			s.reply(r, "execute_reply", content)
		})
	}
}

// quit makes Serve end. A second call changes nothing.
func (s *Server) quit(limit time.Duration) {
	select {
	case s.quitting <- limit:
	default:
	}
}

// close ends the engine and then the sockets. The running cell is interrupted and may take some time to end: it may
// hold something open on another machine, which nobody else will close. Cells behind it are dropped.
func (s *Server) close(limit time.Duration) {
	s.waiting(0)
	s.interrupt()
	s.settle(limit)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s.works() {
			s.engine.Close()
		}
	}()
	select {
	case <-ended:
		s.settle(flushTime * 10) // the answer of a cell that ended with the engine
	case <-time.After(shutdownTime):
	}
	close(s.closed)
	s.sockets.Close()
}

// settle waits for the end of the running cell.
func (s *Server) settle(limit time.Duration) {
	if e := s.running(); e != nil {
		select {
		case <-e.done:
		case <-time.After(limit):
		}
	}
}

// watchParent ends the kernel when the program that started it is gone and cannot end it any more.
func (s *Server) watchParent() {
	parent, err := strconv.Atoi(os.Getenv("JPY_PARENT_PID"))
	if err != nil || parent != os.Getppid() {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if os.Getppid() != parent {
				s.quit(orphanTime)
				return
			}
		case <-s.closed:
			return
		}
	}
}

// publish sends a message on iopub. An error means that the content does not encode.
func (s *Server) publish(parent request, msgType string, content any) error {
	m, err := s.sockets.Session.Reply(parent.Message, msgType, content)
	if err != nil {
		return err
	}
	return s.broadcast(m)
}

func (s *Server) broadcast(m *wire.Message) error {
	m.IDs = [][]byte{[]byte(m.Type())} // the topic
	return s.sockets.Session.Send(s.sockets.IOPub, m)
}

// tell is publish for messages whose loss nobody can be told about.
func (s *Server) tell(parent request, msgType string, content any) {
	s.report(s.publish(parent, msgType, content))
}

func (s *Server) status(parent request, state string) {
	s.tell(parent, "status", map[string]any{"execution_state": state})
}

// reply answers a request on the socket it came from.
func (s *Server) reply(r request, msgType string, content any) {
	s.replyWith(r, msgType, nil, content)
}

func (s *Server) replyWith(r request, msgType string, metadata map[string]any, content any) {
	m, err := s.sockets.Session.Reply(r.Message, msgType, content)
	if err == nil && metadata != nil {
		m.Metadata, err = json.Marshal(metadata)
	}
	if err == nil {
		err = s.sockets.Session.Send(r.from, m)
	}
	if !errors.Is(err, wire.ErrNoPeer) {
		s.report(err)
	}
}

// report tells the terminal what went wrong, if anything did.
func (s *Server) report(err error) {
	if err != nil {
		fmt.Fprintln(s.log, "rooflab kernel:", err)
	}
}
