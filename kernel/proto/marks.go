package proto

import (
	"bytes"
	"strconv"
)

// KeyEnv is the environment variable that gives a worker its mark key: 16 or more random letters and digits, new for
// each worker, so that no output of a cell looks like a mark. Without it the worker writes no marks.
const KeyEnv = "ROOFLAB_MARK_KEY"

// Output comes in turns, numbered from 1 across both pipes and the messages that display something. A mark in a pipe
// says which turn begins or ends there:
//
//	T turn,cell  a turn begins; it ends the turn before if that one is in the same pipe
//	E turn       the turn ends
//	D id         all output of request id is above
//
// What is between an end and the next beginning was not written by the worker's own writers: a child process, the
// runtime, a library that uses os.Stdout as a file.
const (
	markTurn byte = 'T'
	markEnd  byte = 'E'
	markDone byte = 'D'
)

const (
	markHead = "\x00\x1e"
	markTail = "\x1e\x00"
	markMax  = 48 // longest body: a letter and two numbers
)

// AppendTurn appends the mark that begins a turn.
func AppendTurn(b []byte, key string, turn, cell int) []byte {
	b = append(append(append(b, markHead...), key...), markTurn)
	b = append(strconv.AppendInt(b, int64(turn), 10), ',')
	return append(strconv.AppendInt(b, int64(cell), 10), markTail...)
}

// AppendEnd appends the mark that ends a turn.
func AppendEnd(b []byte, key string, turn int) []byte { return appendOne(b, key, markEnd, turn) }

// AppendDone appends the mark that ends the output of a request.
func AppendDone(b []byte, key string, id int) []byte { return appendOne(b, key, markDone, id) }

func appendOne(b []byte, key string, kind byte, n int) []byte {
	b = append(append(append(b, markHead...), key...), kind)
	return append(strconv.AppendInt(b, int64(n), 10), markTail...)
}

type mark struct {
	kind byte
	n    int
	cell int
}

// nextMark looks for the first mark in b that begins with head. Before and after are what stands around it; if there
// is no whole mark, after is the end of b that may be the beginning of one.
func nextMark(b, head []byte) (before []byte, m mark, after []byte, found bool) {
	for from := 0; ; {
		i := bytes.Index(b[from:], head)
		if i < 0 {
			k := len(b) - prefixAtEnd(b[from:], head)
			return b[:k], mark{}, b[k:], false
		}
		i += from
		body := b[i+len(head):]
		end := bytes.Index(body[:min(len(body), markMax)], []byte(markTail))
		if end < 0 && len(body) < markMax {
			return b[:i], mark{}, b[i:], false
		}
		if end >= 0 {
			if m, ok := parseMark(body[:end]); ok {
				return b[:i], m, body[end+len(markTail):], true
			}
		}
		from = i + len(head) // no mark after all
	}
}

func parseMark(body []byte) (m mark, ok bool) {
	if len(body) < 2 {
		return m, false
	}
	m.kind = body[0]
	first, second, two := bytes.Cut(body[1:], []byte(","))
	if two != (m.kind == markTurn) || bytes.IndexByte([]byte{markTurn, markEnd, markDone}, m.kind) < 0 {
		return m, false
	}
	var err error
	if m.n, err = strconv.Atoi(string(first)); err != nil || m.n < 0 {
		return m, false
	}
	if two {
		m.cell, err = strconv.Atoi(string(second))
	}
	return m, err == nil
}

// prefixAtEnd is the length of the longest end of b that is a beginning of head.
func prefixAtEnd(b, head []byte) int {
	for k := min(len(head)-1, len(b)); k > 0; k-- {
		if bytes.HasSuffix(b, head[:k]) {
			return k
		}
	}
	return 0
}
