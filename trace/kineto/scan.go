package kineto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxValue is the largest single value (an event, or one value at the top) that is read; it bounds the memory of a reader.
const maxValue = 64 << 20

// scanner finds the boundaries of JSON values in a stream. It holds one value at a time and does not check what is inside.
type scanner struct {
	r        io.Reader
	buf      []byte
	pos, end int   // buf[pos:end] is read and not consumed
	base     int64 // offset of buf[0] in the stream
	err      error // what ended the stream
	unclosed int   // strings that a line end closed
}

func newScanner(r io.Reader) *scanner { return &scanner{r: r, buf: make([]byte, 256<<10)} }

// offset is the place of the next byte in the (decompressed) stream.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

// fill reads more, keeping buf[keep:end]; pos and the returned keep move with it.
func (s *scanner) fill(keep int) (int, error) {
	if s.err != nil {
		return keep, s.err
	}
	if keep > 0 {
		copy(s.buf, s.buf[keep:s.end])
		s.base += int64(keep)
		s.pos -= keep
		s.end -= keep
		keep = 0
	}
	got := 0
	if s.end == len(s.buf) {
		if len(s.buf) >= maxValue {
			return keep, errTooLarge
		}
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	// A long value is looked at again from its start after each fill: read a good part of its length at once.
	enough := min(s.end+1+s.end/4, len(s.buf))
	for empty := 0; s.end < enough && s.err == nil; {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			s.err = io.ErrNoProgress
		}
		got += n
	}
	if got > 0 {
		return keep, nil
	}
	return keep, s.err
}

// peek returns the next byte that is not white space, without consuming it.
func (s *scanner) peek() (byte, error) {
	for {
		for s.pos < s.end {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\n', '\r':
				s.pos++
			default:
				return c, nil
			}
		}
		if _, err := s.fill(s.pos); err != nil {
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
		return s.nested()
	case '"':
		return s.quoted()
	}
	return s.bare()
}

// class sorts bytes for nested: everything that is 0 is skipped.
var class = [256]byte{'"': 1, '{': 2, '[': 2, '}': 3, ']': 3}

func (s *scanner) nested() ([]byte, error) {
	start, i, depth := s.pos, s.pos, 0
	for {
		buf := s.buf[:s.end]
		for i < len(buf) {
			switch class[buf[i]] {
			case 1:
				stop := s.stringEnd(buf, i+1)
				if stop < 0 {
					goto more
				}
				i = stop
				continue
			case 2:
				depth++
			case 3:
				if depth--; depth == 0 {
					s.pos = i + 1
					return buf[start : i+1], nil
				}
			}
			i++
		}
	more:
		keep, err := s.fill(start)
		i -= start - keep
		start = keep
		if err != nil {
			return nil, unexpected(err)
		}
	}
}

// stringEnd returns the index after the string whose text begins at i, or -1 when buf ends before. A string also ends, and is
// counted, at a line end: JSON allows none inside, and names with a bare quote or backslash (pytorch/pytorch#146900, kineto#336)
// would otherwise turn everything after them inside out.
func (s *scanner) stringEnd(buf []byte, i int) int {
	if quote := bytes.IndexByte(buf[i:], '"'); quote > 24 { // a long name: search by words, not by bytes
		if text := buf[i : i+quote]; bytes.IndexByte(text, '\\') < 0 && bytes.IndexByte(text, '\n') < 0 {
			return i + quote + 1
		}
	}
	for i < len(buf) {
		switch buf[i] {
		case '"':
			return i + 1
		case '\n':
			s.unclosed++
			return i
		case '\\':
			if i+1 < len(buf) && buf[i+1] != '\n' {
				i++
			}
		}
		i++
	}
	return -1
}

// skipTo consumes everything before the next c.
func (s *scanner) skipTo(c byte) error {
	for {
		if at := bytes.IndexByte(s.buf[s.pos:s.end], c); at >= 0 {
			s.pos += at
			return nil
		}
		s.pos = s.end
		if _, err := s.fill(s.pos); err != nil {
			return unexpected(err)
		}
	}
}

func (s *scanner) quoted() ([]byte, error) {
	start := s.pos
	for {
		if stop := s.stringEnd(s.buf[:s.end], start+1); stop > 0 {
			s.pos = stop
			return s.buf[start:stop], nil
		}
		keep, err := s.fill(start)
		start = keep
		if err != nil {
			return nil, unexpected(err)
		}
	}
}

// bare reads a number or literal: everything up to a separator.
func (s *scanner) bare() ([]byte, error) {
	start, i := s.pos, s.pos
	for {
		for ; i < s.end; i++ {
			switch s.buf[i] {
			case ',', ']', '}', ' ', '\t', '\n', '\r', ':', '"', '{', '[':
				if i == start {
					return nil, &syntaxError{s.offset(), fmt.Sprintf("expected a value, found %q", s.buf[i])}
				}
				s.pos = i
				return s.buf[start:i], nil
			}
		}
		keep, err := s.fill(start)
		i -= start - keep
		start = keep
		if err != nil {
			return nil, unexpected(err)
		}
	}
}
