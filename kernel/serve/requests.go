package serve

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rooflab/rooflab/kernel/wire"
)

// handle answers one request between the statuses busy and idle. A request of an unknown type gets no answer, as
// the protocol has it.
func (s *Server) handle(from *wire.Socket, m *wire.Message) {
	s.status(m, "busy")
	switch m.Type() {
	case "kernel_info_request":
		s.reply(from, m, "kernel_info_reply", s.kernelInfo())
	case "execute_request":
		s.execute(m)
	case "complete_request":
		s.complete(from, m)
	case "is_complete_request":
		s.isComplete(from, m)
	case "inspect_request":
		s.inspect(from, m)
	case "history_request":
		s.answerHistory(from, m)
	case "comm_info_request":
		s.reply(from, m, "comm_info_reply", ok(map[string]any{"comms": none{}}))
	case "comm_open":
		s.refuseComm(m)
	case "interrupt_request":
		s.interrupt()
		s.reply(from, m, "interrupt_reply", ok(nil))
	case "shutdown_request":
		s.shutdown(from, m)
	}
	s.status(m, "idle") // not deferred: a cell that ends the goroutine is answered by work
}

// control answers what may overtake the cells. It runs beside them, so it must not touch what they do: every other
// request belongs on shell and is refused.
func (s *Server) control(m *wire.Message) {
	switch m.Type() {
	case "kernel_info_request", "interrupt_request", "shutdown_request":
		s.handle(s.sockets.Control, m)
		return
	}
	s.status(m, "busy")
	if m.Type() == "debug_request" {
		s.reply(s.sockets.Control, m, "debug_reply", noDebugger(m))
	} else if name, isRequest := strings.CutSuffix(m.Type(), "_request"); isRequest {
		s.reply(s.sockets.Control, m, name+"_reply", failure(fmt.Errorf("%s on the control channel: send it on shell", m.Type())))
	}
	s.status(m, "idle")
}

// noDebugger is the answer to a message of the debug adapter protocol.
func noDebugger(m *wire.Message) map[string]any {
	var r struct {
		Seq     int    `json:"seq"`
		Command string `json:"command"`
	}
	_ = m.Decode(&r) // what cannot be read is refused as well
	return map[string]any{"type": "response", "request_seq": r.Seq, "success": false, "command": r.Command, "message": "this kernel has no debugger"}
}

// none is an empty JSON object.
type none struct{}

func ok(content map[string]any) map[string]any {
	if content == nil {
		content = map[string]any{}
	}
	content["status"] = "ok"
	return content
}

func (s *Server) kernelInfo() map[string]any {
	info := s.engine.Info()
	return ok(map[string]any{
		"protocol_version":       wire.ProtocolVersion,
		"implementation":         info.Name,
		"implementation_version": info.Version,
		"banner":                 info.Banner,
		"help_links":             []any{},
		"language_info": map[string]any{
			"name": "go", "version": info.LanguageVersion, "file_extension": ".go",
			"mimetype": "text/x-go", "pygments_lexer": "go", "codemirror_mode": "go",
		},
	})
}

// position is a place in a cell; Jupyter counts characters.
type position struct {
	Code   string `json:"code"`
	Cursor int    `json:"cursor_pos"`
}

func (s *Server) complete(from *wire.Socket, m *wire.Message) {
	var p position
	if s.refuse(from, m, "complete_reply", m.Decode(&p)) {
		return
	}
	matches, start := s.engine.Complete(p.Code, byteOffset(p.Code, p.Cursor))
	if matches == nil {
		matches = []string{}
	}
	s.reply(from, m, "complete_reply", ok(map[string]any{
		"matches": matches, "metadata": none{},
		"cursor_start": utf8.RuneCountInString(p.Code[:start]), "cursor_end": p.Cursor,
	}))
}

func (s *Server) inspect(from *wire.Socket, m *wire.Message) {
	var p position
	if s.refuse(from, m, "inspect_reply", m.Decode(&p)) {
		return
	}
	content := map[string]any{"found": false, "data": none{}, "metadata": none{}}
	if text := s.engine.Inspect(p.Code, byteOffset(p.Code, p.Cursor)); text != "" {
		content["found"], content["data"] = true, map[string]any{"text/plain": text}
	}
	s.reply(from, m, "inspect_reply", ok(content))
}

// byteOffset returns where the nth character starts, or the end of a shorter text.
func byteOffset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

func (s *Server) isComplete(from *wire.Socket, m *wire.Message) {
	var p position
	if s.refuse(from, m, "is_complete_reply", m.Decode(&p)) {
		return
	}
	state, indent := s.engine.State(p.Code)
	s.reply(from, m, "is_complete_reply", map[string]any{"status": state, "indent": indent})
}

// refuse answers a request that cannot be read, and tells whether it did.
func (s *Server) refuse(from *wire.Socket, m *wire.Message, msgType string, err error) bool {
	if err != nil {
		s.reply(from, m, msgType, failure(err))
	}
	return err != nil
}

// refuseComm closes a comm: no cell can answer one.
func (s *Server) refuseComm(m *wire.Message) {
	var comm struct {
		ID string `json:"comm_id"`
	}
	if m.Decode(&comm) == nil {
		s.tell(m, "comm_close", map[string]any{"comm_id": comm.ID, "data": none{}})
	}
}

func (s *Server) shutdown(from *wire.Socket, m *wire.Message) {
	var content struct {
		Restart bool `json:"restart"`
	}
	if s.refuse(from, m, "shutdown_reply", m.Decode(&content)) {
		return
	}
	s.reply(from, m, "shutdown_reply", ok(map[string]any{"restart": content.Restart}))
	s.once.Do(func() { close(s.quit) })
}
