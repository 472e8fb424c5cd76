package kineto

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth bounds the nesting of one value. Real events have 3 levels.
const maxDepth = 10_000

// cursor walks over JSON values without looking at what is inside: it counts the open brackets and knows where strings are.
// It can stop at the end of a buffer and go on in the next one.
type cursor struct {
	depth    int  // open brackets
	quoted   bool // inside a string
	unclosed int  // strings that a line end closed
}

// Bytes of a word that hold a certain byte: zeros finds the zero bytes of v; the lowest one it marks is right, which is all that is used.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func zeros(v uint64) uint64 { return (v - ones) &^ v & highs }

// brackets moves over buf from i until the last open bracket is closed, and returns the index after it. While brackets are
// open it returns where to go on when there is more; with more than maxDepth open ones it stops.
func (c *cursor) brackets(buf []byte, i int) int {
	for {
		if c.quoted {
			if i = c.text(buf, i); c.quoted {
				return i
			}
		}
		for ; i+8 <= len(buf); i += 8 {
			w := binary.LittleEndian.Uint64(buf[i:])
			// [ ] { } are the bytes that become 0x7f under the mask, with Y _ y and DEL, which the switch passes over.
			if m := zeros(w^'"'*ones) | zeros((w|0x26*ones)^0x7f*ones); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		if i >= len(buf) {
			return i
		}
		switch buf[i] {
		case '"':
			c.quoted = true
		case '{', '[':
			if c.depth++; c.depth > maxDepth {
				return i
			}
		case '}', ']':
			if c.depth--; c.depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// text moves over the rest of a string and returns the index after it, or where to go on when there is more. A string also
// ends, and is counted, at a line end: JSON allows none inside, and names with a bare quote or backslash
// (pytorch/pytorch#146900, kineto#336) would otherwise turn everything after them inside out.
func (c *cursor) text(buf []byte, i int) int {
	for {
		for ; i+8 <= len(buf); i += 8 {
			w := binary.LittleEndian.Uint64(buf[i:])
			if m := zeros(w^'"'*ones) | zeros(w^'\\'*ones) | zeros(w^'\n'*ones); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		if i >= len(buf) {
			return i
		}
		switch buf[i] {
		case '"':
			c.quoted = false
			return i + 1
		case '\n':
			c.quoted = false
			c.unclosed++
			return i
		case '\\':
			if i+1 == len(buf) {
				return i
			}
			if buf[i+1] != '\n' {
				i++
			}
		}
		i++
	}
}
