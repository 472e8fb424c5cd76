package serve

import (
	"bytes"
	"crypto/rand"
	"os"
	"sync"
	"unicode/utf8"
)

// capture takes what the process writes to one of its standard streams. Text is published as it comes, cut at
// characters only.
type capture struct {
	w       *os.File // what the process writes to
	r       *os.File
	publish func(text string)

	mu    sync.Mutex // one flush at a time
	mark  []byte     // a line no program prints: what came before it has been published
	seen  chan struct{}
	ended chan struct{}
}

func newCapture(publish func(text string)) (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{w: w, r: r, publish: publish, seen: make(chan struct{}, 1), ended: make(chan struct{})}
	c.mark = []byte("\x00" + rand.Text() + "\x00")
	go c.read()
	return c, nil
}

// flush returns when everything written so far has been published.
func (c *capture) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	if len(text) > 0 {
		c.publish(string(text))
	}
}

// held returns how many bytes at the end must wait for more: the start of a mark or of a character.
func held(text, mark []byte) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if bytes.HasPrefix(mark, text[len(text)-n:]) {
			return n
		}
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
