package kineto

import (
	"fmt"
	"io"
)

const (
	chunkSize = 256 << 10 // fits the cache of a core: what one core unpacks the other finds there
	headroom  = 64 << 10  // free bytes before a chunk for the event that the chunk before left unfinished
	chunks    = 4
)

// chunk is a piece of the stream: mem[headroom:end].
type chunk struct {
	mem  []byte
	end  int
	read int64 // bytes of the file that were used up to here
	err  error // what ended the stream; set on the last chunk only
}

// ahead reads a stream in its own goroutine, so that unpacking and scanning run at the same time. The chunks go round.
type ahead struct {
	full       chan chunk
	free       chan []byte
	quit, done chan struct{}
}

// readAhead begins to read r in chunks of size bytes; used says how much of the file behind r is consumed.
func readAhead(r io.Reader, used func() int64, size int) *ahead {
	a := &ahead{full: make(chan chunk, chunks), free: make(chan []byte, chunks), quit: make(chan struct{}), done: make(chan struct{})}
	for range chunks {
		a.free <- make([]byte, headroom+size)
	}
	go a.run(r, used)
	return a
}

// close ends the goroutine; r is not used afterwards.
func (a *ahead) close() {
	close(a.quit)
	<-a.done
}

func (a *ahead) run(r io.Reader, used func() int64) {
	defer close(a.done)
	defer func() { // a panic would end the process: it becomes the end of the stream
		if p := recover(); p != nil {
			a.send(chunk{end: headroom, mem: make([]byte, headroom), err: fmt.Errorf("internal error: %v", p)})
		}
	}()
	for {
		var mem []byte
		select {
		case mem = <-a.free:
		case <-a.quit:
			return
		}
		n, err := readFull(r, mem[headroom:])
		if !a.send(chunk{mem, headroom + n, used(), err}) || err != nil {
			return
		}
	}
}

func (a *ahead) send(c chunk) bool {
	select {
	case a.full <- c:
		return true
	case <-a.quit:
		return false
	}
}

// readFull fills buf, or says why it could not. Chunks are full so that the same input is cut at the same places.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for empty := 0; n < len(buf) && err == nil; {
		var got int
		got, err = r.Read(buf[n:])
		n += got
		if got > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}
