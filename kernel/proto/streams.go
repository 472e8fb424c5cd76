package proto

import (
	"io"
	"sync"
	"unicode/utf8"
)

// Chunk is text that a cell has printed.
type Chunk struct {
	Stream string // stdout or stderr
	Cell   int    // the execution whose goroutine printed it
	Text   string
}

// Streams puts the output of a worker together again: it takes what its two pipes deliver, takes the marks out, and
// passes text and displayed values on in the order in which they were written. It is safe for concurrent use.
type Streams struct {
	out   func(Chunk)
	ended func(id int)

	head   []byte
	mu     sync.Mutex
	turn   int // the turn whose output may be passed on
	cell   int // whose the unmarked output is
	pipes  [2]pipe
	events map[int]func()
	done   map[int]int // requests whose mark has been seen in one pipe
}

type pipe struct {
	rest   []byte // may be the beginning of a mark
	queue  []*span
	closed bool
}

// span is output between two marks.
type span struct {
	turn   int // 0: not marked
	cell   int
	text   []byte
	closed bool
	done   int // instead of output: the mark that ends a request
}

var streamNames = [2]string{"stdout", "stderr"}

// NewStreams makes one for a worker with the given mark key. Out gets the text, ended the requests whose output has been
// passed on. They are called one at a time, and may block to slow the worker down.
func NewStreams(key string, out func(Chunk), ended func(id int)) *Streams {
	return &Streams{out: out, ended: ended, head: []byte(markHead + key), turn: 1, events: map[int]func(){}, done: map[int]int{}}
}

// SetCell says which execution runs now: unmarked output, such as that of child processes, is taken to be its own.
func (s *Streams) SetCell(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cell = n
}

// Read passes a pipe on until it ends: 0 is standard output, 1 is standard error.
func (s *Streams) Read(i int, r io.Reader) {
	buf := make([]byte, 1<<18)
	for {
		n, err := r.Read(buf)
		s.Write(i, buf[:n])
		if err != nil {
			s.Close(i)
			return
		}
	}
}

// Write takes bytes that have been read from a pipe.
func (s *Streams) Write(i int, b []byte) {
	if len(b) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pipes[i]
	if len(p.rest) > 0 {
		b = append(p.rest, b...)
		p.rest = nil
	}
	for {
		before, m, after, found := nextMark(b, s.head)
		s.take(p, before)
		if !found {
			p.rest = append([]byte(nil), after...)
			break
		}
		p.mark(m)
		b = after
	}
	s.advance()
}

// take adds text to the last span of a pipe.
func (s *Streams) take(p *pipe, text []byte) {
	if len(text) == 0 {
		return
	}
	if p.last() == nil || p.last().closed {
		p.queue = append(p.queue, &span{cell: s.cell})
	}
	p.last().text = append(p.last().text, text...)
}

func (p *pipe) last() *span {
	if len(p.queue) == 0 {
		return nil
	}
	return p.queue[len(p.queue)-1]
}

func (p *pipe) mark(m mark) {
	if l := p.last(); l != nil {
		l.closed = true
	}
	switch m.kind {
	case markTurn:
		p.queue = append(p.queue, &span{turn: m.n, cell: m.cell})
	case markDone:
		p.queue = append(p.queue, &span{done: m.n, closed: true})
	}
}

// Event calls f when everything that was printed before the message with this Seq has been passed on.
func (s *Streams) Event(seq int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < s.turn { // no turn, or one that has been given up
		f()
		return
	}
	s.events[seq] = f
	s.advance()
}

// advance passes on what may be passed on.
func (s *Streams) advance() {
	for again := true; again; {
		again = false
		for i := range s.pipes {
			again = s.drain(i) || again
		}
		if f := s.events[s.turn]; f != nil {
			delete(s.events, s.turn)
			s.turn++
			f()
			again = true
		}
	}
}

// drain passes on what stands first in a pipe. It reports whether a turn has ended.
func (s *Streams) drain(i int) (ended bool) {
	p := &s.pipes[i]
	for len(p.queue) > 0 {
		q := p.queue[0]
		if q.turn > s.turn {
			return ended
		}
		if q.done != 0 {
			s.finished(q.done)
		}
		s.pass(i, q)
		if !q.closed {
			return ended
		}
		p.queue[0] = nil
		p.queue = p.queue[1:]
		if q.turn == s.turn {
			s.turn++
			ended = true
		}
	}
	return ended
}

func (s *Streams) finished(id int) {
	if s.done[id]++; s.done[id] == len(s.pipes) {
		delete(s.done, id)
		s.ended(id)
	}
}

// pass hands the text of a span out, but not the first bytes of a character while more may come.
func (s *Streams) pass(i int, q *span) {
	n := len(q.text)
	if !q.closed {
		n -= cutRune(q.text)
	}
	if n == 0 {
		return
	}
	s.out(Chunk{streamNames[i], q.cell, string(q.text[:n])})
	q.text = append(q.text[:0], q.text[n:]...)
	if cap(q.text) > 1<<20 {
		q.text = append([]byte(nil), q.text...)
	}
}

// cutRune is the number of bytes at the end of b that begin a character.
func cutRune(b []byte) int {
	for k := 1; k < utf8.UTFMax && k <= len(b); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-k:]) {
				return k
			}
			return 0
		}
	}
	return 0
}

// Waiting reports whether output is held back because the end of an earlier turn has not arrived.
func (s *Streams) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held() > 0
}

// held is the lowest turn that waits, or 0.
func (s *Streams) held() (turn int) {
	lower := func(n int) {
		if n > s.turn && (turn == 0 || n < turn) {
			turn = n
		}
	}
	for i := range s.pipes {
		if q := s.pipes[i].queue; len(q) > 0 {
			lower(q[0].turn)
		}
	}
	for n := range s.events {
		lower(n)
	}
	return turn
}

// Release passes on all that is held back, in the order of its turns. It is for a worker that has died, and for marks
// that do not come because a cell has closed or replaced a stream.
func (s *Streams) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

func (s *Streams) release() {
	for turn := s.held(); turn > 0; turn = s.held() {
		s.turn = turn
		s.advance()
	}
}

// Close says that a pipe has ended. When both have, nothing is held back any longer.
func (s *Streams) Close(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pipes[i]
	s.take(p, p.rest)
	p.rest, p.closed = nil, true
	if l := p.last(); l != nil {
		l.closed = true
	}
	s.advance()
	if s.pipes[0].closed && s.pipes[1].closed {
		s.release()
	}
}
