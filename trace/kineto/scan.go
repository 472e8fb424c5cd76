package kineto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent is the largest single value (an event, or one value at the top) that is read unless the caller says otherwise.
const maxEvent = 64 << 20

// scanner finds the boundaries of JSON values in a stream. It holds one value at a time and does not check what is inside.
type scanner struct {
	src      *ahead
	mem      []byte // chunk that buf is part of; nil when buf is long
	long     []byte // for values that are longer than the headroom of a chunk
	buf      []byte
	pos      int   // buf[pos:] is read and not consumed
	base     int64 // offset of buf[0] in the stream
	read     int64 // bytes of the file used for the stream up to the end of buf
	packed   bool  // the stream comes out of gzip
	limit    int   // bytes of one value
	err      error // what ended the stream
	unclosed int   // strings that a line end closed
	cur      cursor
}

// offset is the place of the next byte in the (decompressed) stream.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

// fill reads more. buf[keep:] stays and moves to the start of buf; pos moves with it.
func (s *scanner) fill(keep int) error {
	if s.err != nil {
		return s.err
	}
	rest := s.buf[keep:]
	if len(rest) > s.limit {
		return tooLarge(s.limit)
	}
	c := <-s.src.full
	s.base += int64(keep)
	s.pos -= keep
	s.err, s.read = c.err, c.read
	if len(rest) <= headroom {
		from := headroom - len(rest)
		copy(c.mem[from:], rest)
		s.recycle(s.mem)
		s.mem, s.buf = c.mem, c.mem[from:c.end]
	} else {
		if s.mem != nil || keep > 0 {
			s.long = append(s.long[:0], rest...)
		}
		s.long = append(s.long, c.mem[headroom:c.end]...)
		s.recycle(s.mem)
		s.recycle(c.mem)
		s.mem, s.buf = nil, s.long
	}
	if c.end == headroom {
		return s.err
	}
	return s.bomb()
}

func (s *scanner) recycle(mem []byte) {
	if mem != nil {
		s.src.free <- mem
	}
}

// bomb refuses gzip data that unpacks to much more than any trace does (20 to 40 times; gzip's own limit is 1,032).
func (s *scanner) bomb() error {
	size := s.base + int64(len(s.buf))
	if s.packed && size > bombSize && size/bombRatio > s.read {
		return &limitError{fmt.Sprintf("the gzip data unpacks to more than %d times its size; this is no profiler trace", bombRatio)}
	}
	return nil
}

// peek returns the next byte that is not white space, without consuming it.
func (s *scanner) peek() (byte, error) {
	start := s.offset()
	for {
		for s.pos < len(s.buf) {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\n', '\r':
				s.pos++
			default:
				return c, nil
			}
		}
		if s.offset()-start > int64(s.limit) {
			return 0, tooLarge(s.limit)
		}
		if err := s.fill(s.pos); err != nil {
			return 0, unexpected(err)
		}
	}
}

// unexpected makes an end of input in the middle of a value an error that says so.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// expect consumes one of the bytes in want.
func (s *scanner) expect(want string) (byte, error) {
	c, err := s.peek()
	if err != nil {
		return 0, err
	}
	for i := range len(want) {
		if c == want[i] {
			s.pos++
			return c, nil
		}
	}
	return 0, &syntaxError{s.offset(), fmt.Sprintf("expected %s, found %q", wants(want), c)}
}

func wants(set string) string {
	text := ""
	for i := range len(set) {
		if i > 0 {
			text += " or "
		}
		text += string(set[i])
	}
	return text
}

// value returns the next complete value: an object, array, string, number or literal. It is valid until the next call.
func (s *scanner) value() ([]byte, error) {
	c, err := s.peek()
	if err != nil {
		return nil, err
	}
	switch c {
	case '{', '[':
		return s.walk(cursor{depth: 1}, (*cursor).brackets)
	case '"':
		return s.quoted()
	}
	return s.bare()
}

func (s *scanner) quoted() ([]byte, error) { return s.walk(cursor{quoted: true}, (*cursor).text) }

// walk returns the value that begins with the bracket or quote at pos.
func (s *scanner) walk(c cursor, step func(*cursor, []byte, int) int) ([]byte, error) {
	start, i := s.pos, s.pos+1
	s.cur = c
	for {
		i = step(&s.cur, s.buf, i)
		switch {
		case s.cur.depth == 0 && !s.cur.quoted:
			if i-start > s.limit {
				return nil, tooLarge(s.limit)
			}
			s.pos = i
			s.unclosed += s.cur.unclosed
			return s.buf[start:i], nil
		case s.cur.depth > maxDepth:
			return nil, errTooDeep
		}
		if err := s.fill(start); err != nil {
			s.unclosed += s.cur.unclosed
			return nil, unexpected(err)
		}
		i -= start
		start = 0
	}
}

// skipTo consumes everything before the next c.
func (s *scanner) skipTo(c byte) error {
	for {
		if at := bytes.IndexByte(s.buf[s.pos:], c); at >= 0 {
			s.pos += at
			return nil
		}
		s.pos = len(s.buf)
		if err := s.fill(s.pos); err != nil {
			return unexpected(err)
		}
	}
}

// bare reads a number or literal: everything up to a separator.
func (s *scanner) bare() ([]byte, error) {
	start, i := s.pos, s.pos
	for {
		for ; i < len(s.buf); i++ {
			switch s.buf[i] {
			case ',', ']', '}', ' ', '\t', '\n', '\r', ':', '"', '{', '[':
				if i == start {
					return nil, &syntaxError{s.offset(), fmt.Sprintf("expected a value, found %q", s.buf[i])}
				}
				s.pos = i
				return s.buf[start:i], nil
			}
		}
		if err := s.fill(start); err != nil {
			return nil, unexpected(err)
		}
		i -= start
		start = 0
	}
}
