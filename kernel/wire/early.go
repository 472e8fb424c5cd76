package wire

import (
	"bytes"
	"time"
)

// A front end that restarts a kernel keeps its sockets, and ZeroMQ connects them again a tenth of a second or more
// after the new kernel listens. JupyterLab asks for kernel_info in the meantime and waits for ever when the status
// that belongs to the answer was published before its subscription came back. So a new Pub repeats to each new
// subscriber what it has published since it began to listen.
const (
	earlyTime  = 3 * time.Second
	earlyCount = 256 // messages; a cell that prints right away is not kept whole
)

// early is what a Pub has published in its first seconds. A nil one keeps nothing.
type early struct {
	until    time.Time
	messages [][][]byte
}

func (e *early) keep(frames [][]byte) {
	switch {
	case e == nil:
	case time.Now().After(e.until):
		e.messages = nil
	case len(e.messages) < earlyCount:
		e.messages = append(e.messages, frames)
	}
}

// subscribe changes what a subscriber gets. While the socket is new, it gets what it has missed.
func (s *Socket) subscribe(c *conn, topic []byte, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.subscribe(topic, on)
	if !on || s.early == nil || time.Now().After(s.early.until) {
		return
	}
	for _, frames := range s.early.messages {
		if bytes.HasPrefix(frames[0], topic) {
			c.out.tryPush(item{frames: frames})
		}
	}
}
