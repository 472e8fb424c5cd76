package display

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNoKernel is returned where a notebook would be needed.
var ErrNoKernel = errors.New("this program does not run in a notebook")

// CommMessage is what goes over a comm. Data is what encodes to a JSON object. Two more types tell the kernel, not the
// front end, that a cell answers to a target, or no longer does: target and untarget.
type CommMessage struct {
	Type    string // comm_open, comm_msg or comm_close
	ID      string
	Target  string // comm_open, target and untarget
	Data    any
	Buffers [][]byte
}

// Comm is a channel between a cell and code in the front end, such as a widget.
type Comm struct {
	ID     string
	Target string

	mu        sync.Mutex
	closed    bool
	onMessage func(data map[string]any)
	onClose   func(data map[string]any)
}

// comms are the open ones, and who answers to which target.
var comms = struct {
	sync.Mutex
	open    map[string]*Comm
	targets map[string]func(c *Comm, data map[string]any)
}{open: map[string]*Comm{}, targets: map[string]func(*Comm, map[string]any){}}

// OpenComm opens a channel to what answers to target in the front end.
func OpenComm(target string, data any) (*Comm, error) {
	c := &Comm{ID: newID(), Target: target}
	comms.Lock()
	comms.open[c.ID] = c
	comms.Unlock()
	err := screen().Comm(CommMessage{Type: "comm_open", ID: c.ID, Target: target, Data: data})
	if err != nil {
		c.forget()
		return nil, fmt.Errorf("open comm %s: %w", target, err)
	}
	return c, nil
}

// HandleComm makes f answer to front ends that open a channel to target. A nil f takes the target back.
func HandleComm(target string, f func(c *Comm, data map[string]any)) {
	m := CommMessage{Type: "target", Target: target}
	comms.Lock()
	if f == nil {
		m.Type = "untarget"
		delete(comms.targets, target)
	} else {
		comms.targets[target] = f
	}
	comms.Unlock()
	_ = screen().Comm(m) // without a kernel nobody will open one
}

// Send sends a message. Buffers are sent as they are.
func (c *Comm) Send(data any, buffers ...[]byte) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return fmt.Errorf("send to comm %s: it is closed", c.Target)
	}
	return screen().Comm(CommMessage{Type: "comm_msg", ID: c.ID, Data: data, Buffers: buffers})
}

// Close closes the channel.
func (c *Comm) Close(data any) error {
	if !c.forget() {
		return nil
	}
	return screen().Comm(CommMessage{Type: "comm_close", ID: c.ID, Data: data})
}

// OnMessage says what is to be done with messages from the front end.
func (c *Comm) OnMessage(f func(data map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onMessage = f
}

// OnClose says what is to be done when the front end has closed the channel.
func (c *Comm) OnClose(f func(data map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onClose = f
}

// forget reports whether the channel was open.
func (c *Comm) forget() bool {
	comms.Lock()
	delete(comms.open, c.ID)
	comms.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	was := !c.closed
	c.closed = true
	return was
}

// Receive is for the kernel: it handles a message from a front end. A channel that nobody answers to is closed.
func Receive(m CommMessage, data map[string]any) {
	comms.Lock()
	c, f := comms.open[m.ID], comms.targets[m.Target]
	if m.Type == "comm_open" && f != nil {
		c = &Comm{ID: m.ID, Target: m.Target}
		comms.open[m.ID] = c
	}
	comms.Unlock()
	if c == nil {
		if m.Type == "comm_open" {
			_ = screen().Comm(CommMessage{Type: "comm_close", ID: m.ID}) // nobody is there to be told of an error
		}
		return
	}
	switch m.Type {
	case "comm_open":
		f(c, data)
	case "comm_msg":
		c.mu.Lock()
		f := c.onMessage
		c.mu.Unlock()
		if f != nil {
			f(data)
		}
	case "comm_close":
		c.mu.Lock()
		f := c.onClose
		c.mu.Unlock()
		if c.forget() && f != nil {
			f(data)
		}
	}
}
