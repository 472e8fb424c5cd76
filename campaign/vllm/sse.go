package vllm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one event of a stream.
const maxEvent = 4 << 20

// event is what stands between two blank lines: the data lines joined, and the last comment.
// Its bytes are valid until the next one is read.
type event struct {
	data    []byte // nil when there is none
	comment []byte
	at      int64 // when the last data line arrived
}

// eventReader reads server-sent events. The time of an event is taken right after the read that completed it, before
// anything is parsed: events of one packet arrive together.
type eventReader struct {
	br            *bufio.Reader
	in            *timedReader
	data, comment []byte // reused from event to event
}

func newEventReader(r io.Reader, now func() int64) *eventReader {
	in := &timedReader{r: r, now: now}
	return &eventReader{br: bufio.NewReaderSize(in, 4<<10), in: in}
}

// timedReader keeps the time at which the last read returned.
type timedReader struct {
	r   io.Reader
	now func() int64
	at  int64
}

func (t *timedReader) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	t.at = t.now()
	return n, err
}

// next returns the next event; io.EOF at the end, also when the last event has no blank line after it. Only [DONE]
// needs none: a server that hangs up right after it has said all.
func (r *eventReader) next() (event, error) {
	var e event
	r.data, r.comment = r.data[:0], r.comment[:0]
	size := 0
	for {
		line, err := r.line()
		if err != nil {
			if errors.Is(err, io.EOF) && string(e.data) == "[DONE]" {
				return e, nil
			}
			return event{}, err
		}
		if size += len(line); size > maxEvent {
			return event{}, fmt.Errorf("%w: an event is longer than %d bytes", ErrGarbage, maxEvent)
		}
		switch {
		case len(line) == 0:
			if e.data != nil || len(e.comment) > 0 {
				return e, nil
			}
		case line[0] == ':':
			r.comment = append(r.comment[:0], bytes.TrimPrefix(line[1:], blank)...)
			e.comment = r.comment
		case bytes.HasPrefix(line, dataField):
			if e.data != nil {
				r.data = append(r.data, '\n')
			}
			r.data = append(r.data, bytes.TrimPrefix(line[len(dataField):], blank)...)
			e.data, e.at = r.data, r.in.at
		case bytes.HasPrefix(line, []byte("event:")), bytes.HasPrefix(line, []byte("id:")), bytes.HasPrefix(line, []byte("retry:")):
		default:
			return event{}, fmt.Errorf("%w: %.60q", ErrGarbage, line)
		}
	}
}

var (
	dataField = []byte("data:")
	blank     = []byte(" ")
)

// line reads one line without its end, which a last line "data: [DONE]" need not have. The bytes are valid until the next call.
func (r *eventReader) line() ([]byte, error) {
	line, err := r.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) && len(long) < maxEvent {
			long = append(long, line...)
			line, err = r.br.ReadSlice('\n')
		}
		line = append(long, line...)
		if len(line) > maxEvent {
			return nil, fmt.Errorf("%w: a line is longer than %d bytes", ErrGarbage, maxEvent)
		}
	}
	if errors.Is(err, io.EOF) && string(bytes.TrimSpace(line)) == "data: [DONE]" {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
