package serve

import (
	"path"
	"slices"

	"github.com/rooflab/rooflab/kernel/wire"
)

// historyLimit is how many cells of the session are kept for front ends that ask for them.
const historyLimit = 1000

// past is one cell that ran.
type past struct {
	count int
	code  string
}

// remember keeps a cell for the arrow keys of consoles.
func (s *Server) remember(code string) {
	if s.history = append(s.history, past{s.count, code}); len(s.history) > historyLimit {
		s.history = slices.Delete(s.history, 0, len(s.history)-historyLimit)
	}
}

// historyRequest is the content of history_request. There is one session: the running one.
type historyRequest struct {
	Access  string `json:"hist_access_type"` // "tail", "range" or "search"
	N       int    `json:"n"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"` // 0: to the end
	Pattern string `json:"pattern"`
	Unique  bool   `json:"unique"`
	Output  bool   `json:"output"`
}

func (s *Server) answerHistory(from *wire.Socket, m *wire.Message) {
	var r historyRequest
	if s.refuse(from, m, "history_reply", m.Decode(&r)) {
		return
	}
	entries := []any{}
	for _, p := range r.choose(s.history) {
		var input any = p.code
		if r.Output {
			input = []any{p.code, nil} // outputs are not kept
		}
		entries = append(entries, []any{0, p.count, input})
	}
	s.reply(from, m, "history_reply", ok(map[string]any{"history": entries}))
}

func (r historyRequest) choose(all []past) []past {
	var chosen []past
	for _, p := range all {
		switch r.Access {
		case "range":
			if p.count < r.Start || r.Stop > 0 && p.count >= r.Stop {
				continue
			}
		case "search":
			if match, err := path.Match(r.Pattern, p.code); err == nil && !match {
				continue
			}
		}
		if r.Unique {
			chosen = slices.DeleteFunc(chosen, func(q past) bool { return q.code == p.code })
		}
		chosen = append(chosen, p)
	}
	if r.Access != "range" && r.N > 0 && len(chosen) > r.N {
		chosen = chosen[len(chosen)-r.N:]
	}
	return chosen
}
