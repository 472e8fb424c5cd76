package serve

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"sync"
)

// Stdio is for an engine that runs cells in its own process: it takes what the process writes to os.Stdout and
// os.Stderr, also through package log, to the output of a cell.
type Stdio struct{ stdout, stderr *capture }

// CaptureStdio takes over the standard streams of the process. Until To is called, what comes is dropped. A server is
// made before, so that its own messages go to the terminal.
func CaptureStdio() (*Stdio, error) {
	stdout, err := newCapture("stdout")
	if err != nil {
		return nil, err
	}
	stderr, err := newCapture("stderr")
	if err != nil {
		return nil, err
	}
	os.Stdout, os.Stderr = stdout.w, stderr.w
	log.SetOutput(os.Stderr)
	return &Stdio{stdout, stderr}, nil
}

// To makes out the place of what is written from now on.
func (s *Stdio) To(out Output) {
	for _, c := range []*capture{s.stdout, s.stderr} {
		c.flush()
		c.mu.Lock()
		c.out = out
		c.mu.Unlock()
	}
}

// Flush returns when everything written so far has been handed to the output.
func (s *Stdio) Flush() {
	s.stdout.flush()
	s.stderr.flush()
}

// capture is one stream: a pipe, and what reads it.
type capture struct {
	name string
	w    *os.File // what the process writes to
	r    *os.File

	flushing sync.Mutex // one at a time
	mark     []byte     // a line no program prints: what came before it has been handed over
	seen     chan struct{}
	ended    chan struct{}

	mu  sync.Mutex
	out Output
}

func newCapture(name string) (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", name, err)
	}
	c := &capture{name: name, w: w, r: r, seen: make(chan struct{}, 1), ended: make(chan struct{})}
	c.mark = []byte("\x00" + rand.Text() + "\x00")
	go c.read()
	return c, nil
}

func (c *capture) flush() {
	c.flushing.Lock()
	defer c.flushing.Unlock()
	if _, err := c.w.Write(c.mark); err != nil {
		return // the cell closed the stream
	}
	select {
	case <-c.seen:
	case <-c.ended:
	}
}

func (c *capture) read() {
	defer close(c.ended)
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := c.r.Read(buf)
		text = append(text, buf[:n]...)
		for {
			before, after, found := bytes.Cut(text, c.mark)
			if !found {
				break
			}
			c.send(before)
			text = append(text[:0], after...)
			c.seen <- struct{}{}
		}
		if err != nil {
			c.send(text)
			return
		}
		whole := len(text) - held(text, c.mark)
		c.send(text[:whole])
		text = append(text[:0], text[whole:]...)
	}
}

func (c *capture) send(text []byte) {
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	if out != nil && len(text) > 0 {
		out.Stream(c.name, string(text))
	}
}

// held returns how many bytes at the end may be the start of a mark and must wait for more.
func held(text, mark []byte) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if bytes.HasPrefix(mark, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}
