package serve

import (
	"encoding/json"
)

// commContent is the content of comm_open, comm_msg and comm_close.
type commContent struct {
	ID     string          `json:"comm_id"`
	Target string          `json:"target_name,omitempty"`
	Data   json.RawMessage `json:"data"`
}

// Comm sends a message of the kernel's end. It keeps the order with what is printed, also in silent cells: a comm is
// no output.
func (e *execution) Comm(m CommMessage) {
	e.server.noteComm(m)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	e.server.sendComm(e.request, m)
}

func (s *Server) sendComm(parent request, m CommMessage) {
	reply, err := s.sockets.Session.Reply(parent.Message, m.Type, commContent{m.ID, m.Target, object(m.Data)})
	if err == nil {
		reply.Metadata, reply.Buffers = m.Metadata, m.Buffers
		err = s.broadcast(reply)
	}
	s.report(err)
}

// noteComm keeps the list of the comms that are open, as comm_info tells it.
func (s *Server) noteComm(m CommMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Type {
	case "comm_open":
		s.comms[m.ID] = m.Target
	case "comm_close":
		delete(s.comms, m.ID)
	}
}

func (s *Server) knowsComm(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.comms[id]
	return known
}

// comm hands a front end's message to the engine. A comm that nobody answers to is closed; messages of comms that are
// not open are late, and dropped.
func (s *Server) comm(r request) {
	var c commContent
	if err := r.Decode(&c); err != nil {
		s.report(err)
		return
	}
	m := CommMessage{Type: r.Type(), ID: c.ID, Target: c.Target, Data: object(c.Data), Metadata: r.Metadata, Buffers: r.Buffers}
	<-s.ready
	if m.Type == "comm_open" {
		if targets, ok := s.engine.(CommTargets); !ok || !targets.HasTarget(m.Target) {
			s.sendComm(r, CommMessage{Type: "comm_close", ID: m.ID})
			return
		}
	} else if !s.knowsComm(m.ID) {
		return
	}
	s.noteComm(m)
	s.engine.Comm(m)
}

func (s *Server) commInfo(r request) {
	var want struct {
		Target string `json:"target_name"` // absent: all
	}
	if s.refuse(r, "comm_info_reply", r.Decode(&want)) {
		return
	}
	comms := map[string]any{}
	s.mu.Lock()
	for id, target := range s.comms {
		if want.Target == "" || want.Target == target {
			comms[id] = map[string]any{"target_name": target}
		}
	}
	s.mu.Unlock()
	s.reply(r, "comm_info_reply", ok(map[string]any{"comms": comms}))
}
