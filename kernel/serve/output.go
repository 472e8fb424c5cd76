package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// Text is collected for a moment, so that a loop that prints lines does not make a message of each.
const (
	flushTime = 20 * time.Millisecond
	flushSize = 64 << 10 // bytes; longer text is cut into messages of this size
)

// execution is a cell that runs or ran, and the Output of it: every message has the cell's request as its parent.
type execution struct {
	server  *Server
	request request
	want    executeRequest
	count   int
	started time.Time

	interrupted chan struct{} // closed when the user interrupts the cell
	interrupt   func()        // closes it
	done        chan struct{} // closed when the cell has been answered

	mu     sync.Mutex        // held while sending: messages leave in the order of their making
	stream string            // the stream printed to last
	text   map[string][]byte // what waits to be sent: of that stream, and starts of characters of the other
	soon   bool              // a flush is on its way
}

func (s *Server) newExecution(r request, want executeRequest) *execution {
	interrupted := make(chan struct{})
	return &execution{
		server: s, request: r, want: want, started: time.Now(),
		interrupted: interrupted, interrupt: sync.OnceFunc(func() { close(interrupted) }),
		done: make(chan struct{}), text: map[string][]byte{},
	}
}

func (e *execution) Stream(name, text string) {
	if e.want.Silent || text == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if name != e.stream {
		e.flush()
		e.stream = name
	}
	e.text[name] = append(e.text[name], text...)
	if len(e.text[name]) >= flushSize {
		e.flush()
	} else if !e.soon {
		e.soon = true
		time.AfterFunc(flushTime, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.soon = false
			e.flush()
		})
	}
}

// flush sends the whole characters that wait.
func (e *execution) flush() {
	text := e.text[e.stream]
	whole := len(text) - cut(text)
	e.print(e.stream, text[:whole])
	e.text[e.stream] = append(text[:0], text[whole:]...)
}

// end sends all that waits: no more is coming that belongs before the cell's answer.
func (e *execution) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	for _, name := range slices.Sorted(maps.Keys(e.text)) {
		e.print(name, e.text[name])
	}
	clear(e.text)
}

func (e *execution) print(name string, text []byte) {
	for len(text) > 0 {
		n := min(flushSize, len(text))
		if n < len(text) {
			n -= cut(text[:n])
		}
		e.server.tell(e.request, "stream", map[string]any{"name": name, "text": string(text[:n])})
		text = text[n:]
	}
}

// cut returns how many bytes at the end are the start of a character that goes on.
func cut(text []byte) int {
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

func (e *execution) Display(b Bundle) { e.show("display_data", b) }

func (e *execution) Update(b Bundle) { e.show("update_display_data", b) }

func (e *execution) Clear(wait bool) {
	if !e.want.Silent {
		e.send("clear_output", map[string]any{"wait": wait})
	}
}

func (e *execution) show(msgType string, b Bundle) {
	if e.want.Silent || len(b.Data) == 0 {
		return
	}
	content := e.server.enrich(b).content()
	content["transient"] = none{}
	if b.DisplayID != "" {
		content["transient"] = map[string]any{"display_id": b.DisplayID}
	}
	if err := e.send(msgType, content); err != nil {
		e.Stream("stderr", fmt.Sprintf("display: %v\n", err))
	}
}

// send publishes a message behind the text before it.
func (e *execution) send(msgType string, content any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	return e.server.publish(e.request, msgType, content)
}

// content is the part that all messages with a value share.
func (b Bundle) content() map[string]any {
	content := map[string]any{"data": b.Data, "metadata": b.Metadata}
	if b.Data == nil {
		content["data"] = none{}
	}
	if b.Metadata == nil {
		content["metadata"] = none{}
	}
	return content
}

// enrich adds formats. A value whose picture fails is sent as it is.
func (s *Server) enrich(b Bundle) (enriched Bundle) {
	if s.Enrich == nil || len(b.Data) == 0 {
		return b
	}
	defer func() {
		if p := recover(); p != nil {
			s.report(fmt.Errorf("add formats to a value: %v", p))
			enriched = b
		}
	}()
	return s.Enrich(b)
}

// none is an empty JSON object.
type none struct{}

// object returns raw, or an empty object in place of nothing.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}
