package serve

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rooflab/rooflab/kernel/wire"
)

// request is a message from a front end, and where its answer goes.
type request struct {
	*wire.Message
	from    *wire.Socket
	arrived time.Time
}

// dispatch sends a request where it is answered. Cells run one after the other; nothing else waits for them, so that a
// front end that connects, completes or moves a slider does not notice a long cell.
func (s *Server) dispatch(r request) {
	switch r.Type() {
	case "execute_request":
		if r.from == s.sockets.Control {
			err := errors.New("execute_request on the control channel: send it on shell")
			s.around(r, func() { s.refuse(r, "execute_reply", err) })
			return
		}
		s.cells <- r
	case "complete_request", "inspect_request", "is_complete_request":
		s.questions <- r
	case "comm_open", "comm_msg", "comm_close":
		s.commMessages <- r
	case "interrupt_request":
		s.interrupt() // before anything that waits for a slow front end
		s.around(r, func() { s.reply(r, "interrupt_reply", ok(nil)) })
	case "shutdown_request":
		s.shutdown(r)
	default:
		s.around(r, func() { s.answer(r) })
	}
}

// serially answers the requests of one queue, one at a time.
func (s *Server) serially(requests <-chan request) {
	for {
		select {
		case r := <-requests:
			s.around(r, func() { s.answer(r) })
		case <-s.closed:
			return
		}
	}
}

// answer answers what needs no running cell. A request of an unknown type gets no answer, as the protocol has it.
func (s *Server) answer(r request) {
	switch r.Type() {
	case "kernel_info_request":
		s.reply(r, "kernel_info_reply", s.kernelInfo())
	case "complete_request":
		s.complete(r)
	case "is_complete_request":
		s.isComplete(r)
	case "inspect_request":
		s.inspect(r)
	case "history_request":
		s.answerHistory(r)
	case "comm_info_request":
		s.commInfo(r)
	case "comm_open", "comm_msg", "comm_close":
		s.comm(r)
	case "debug_request":
		s.reply(r, "debug_reply", noDebugger(r))
	}
}

// around says busy before a request is answered and idle behind it. A panic of the engine ends neither.
func (s *Server) around(r request, answer func()) {
	s.status(r, "busy")
	defer s.idle(r)
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic in the engine: %v", p)
			s.report(fmt.Errorf("%w\n%s", err, debug.Stack()))
			if name, isRequest := strings.CutSuffix(r.Type(), "_request"); isRequest {
				s.refuse(r, name+"_reply", err)
			}
		}
	}()
	answer()
}

// refuse answers a request with an error, if there is one, and tells whether it did.
func (s *Server) refuse(r request, msgType string, err error) bool {
	if err != nil {
		s.reply(r, msgType, failure(err))
	}
	return err != nil
}

// noDebugger is the answer to a message of the debug adapter protocol.
func noDebugger(m request) map[string]any {
	var r struct {
		Seq     int    `json:"seq"`
		Command string `json:"command"`
	}
	_ = m.Decode(&r) // what cannot be read is refused as well
	return map[string]any{"type": "response", "request_seq": r.Seq, "success": false, "command": r.Command, "message": "this kernel has no debugger"}
}

func ok(content map[string]any) map[string]any {
	if content == nil {
		content = map[string]any{}
	}
	content["status"] = "ok"
	return content
}

func (s *Server) kernelInfo() map[string]any {
	info := s.describe()
	return ok(map[string]any{
		"protocol_version":       wire.ProtocolVersion,
		"implementation":         info.Name,
		"implementation_version": info.Version,
		"banner":                 info.Banner,
		"supported_features":     []string{},
		"help_links": []any{
			map[string]string{"text": "Go documentation", "url": "https://go.dev/doc/"},
			map[string]string{"text": "Go standard library", "url": "https://pkg.go.dev/std"},
			map[string]string{"text": "Go language specification", "url": "https://go.dev/ref/spec"},
		},
		"language_info": map[string]any{
			"name": "go", "version": info.LanguageVersion, "file_extension": ".go",
			"mimetype": "text/x-go", "pygments_lexer": "go", "codemirror_mode": "go",
		},
	})
}

// position is a place in a cell; Jupyter counts characters.
type position struct {
	Code   string `json:"code"`
	Cursor *int   `json:"cursor_pos"`   // absent: the end
	Detail int    `json:"detail_level"` // of inspect_request
}

// cursor is the place in bytes.
func (p position) cursor() int {
	if p.Cursor == nil {
		return len(p.Code)
	}
	return byteOffset(p.Code, *p.Cursor)
}

// byteOffset returns where the nth character starts, or the end of a shorter text.
func byteOffset(text string, n int) int {
	for i := range text {
		if n <= 0 {
			return i
		}
		n--
	}
	return len(text)
}

// characters returns how many characters are before a byte offset, which may be none.
func characters(text string, offset int) int {
	return utf8.RuneCountInString(text[:min(max(offset, 0), len(text))])
}

func (s *Server) complete(r request) {
	var p position
	if s.refuse(r, "complete_reply", r.Decode(&p)) {
		return
	}
	cursor := p.cursor()
	c := Completion{Start: cursor, End: cursor}
	if s.works() {
		if found := s.engine.Complete(p.Code, cursor); len(found.Matches) > 0 {
			c = found
		}
	}
	start, end := characters(p.Code, c.Start), characters(p.Code, c.End)
	texts, types := []string{}, []any{}
	for _, m := range c.Matches {
		texts = append(texts, m.Text)
		types = append(types, map[string]any{"start": start, "end": end, "text": m.Text, "type": m.Type, "signature": m.Signature})
	}
	s.reply(r, "complete_reply", ok(map[string]any{
		"matches": texts, "cursor_start": start, "cursor_end": end,
		"metadata": map[string]any{"_jupyter_types_experimental": types},
	}))
}

func (s *Server) inspect(r request) {
	var p position
	if s.refuse(r, "inspect_reply", r.Decode(&p)) {
		return
	}
	var b Bundle
	if s.works() {
		b = s.engine.Inspect(p.Code, p.cursor(), p.Detail)
	}
	content := b.content()
	content["found"] = len(b.Data) > 0
	s.reply(r, "inspect_reply", ok(content))
}

func (s *Server) isComplete(r request) {
	var p position
	if s.refuse(r, "is_complete_reply", r.Decode(&p)) {
		return
	}
	content := map[string]any{"status": "unknown"}
	if s.works() {
		state, indent := s.engine.State(p.Code)
		content["status"] = state
		if state == "incomplete" {
			content["indent"] = indent
		}
	}
	s.reply(r, "is_complete_reply", content)
}

func (s *Server) shutdown(r request) {
	s.around(r, func() {
		var content struct {
			Restart bool `json:"restart"`
		}
		if s.refuse(r, "shutdown_reply", r.Decode(&content)) {
			return
		}
		s.reply(r, "shutdown_reply", ok(map[string]any{"restart": content.Restart}))
		s.quit(shutdownTime)
	})
}
