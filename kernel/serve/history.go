package serve

import (
	"regexp"
	"slices"
	"strings"
)

// historyLimit is how many cells of the session are kept for front ends that ask for them.
const historyLimit = 1000

// thisSession is the number of the running session, the only one there is. Front ends may also call it 0.
const thisSession = 1

// past is one cell that ran.
type past struct {
	count  int
	code   string
	output any // the text of its result, or nil
}

// remember keeps a cell for the arrow keys of consoles.
func (s *Server) remember(count int, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, past{count: count, code: code})
	if len(s.history) > historyLimit {
		s.history = slices.Delete(s.history, 0, len(s.history)-historyLimit)
	}
}

// rememberOutput adds the result of a cell.
func (s *Server) rememberOutput(count int, b Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.history); n > 0 && s.history[n-1].count == count {
		s.history[n-1].output = b.Data["text/plain"]
	}
}

// historyRequest is the content of history_request.
type historyRequest struct {
	Access  string `json:"hist_access_type"` // "tail", "range" or "search"
	N       int    `json:"n"`
	Session int    `json:"session"` // of a range; 0 and below count from the running one
	Start   int    `json:"start"`
	Stop    int    `json:"stop"` // 0: to the end
	Pattern string `json:"pattern"`
	Unique  bool   `json:"unique"`
	Output  bool   `json:"output"`
}

func (s *Server) answerHistory(r request) {
	var want historyRequest
	if s.refuse(r, "history_reply", r.Decode(&want)) {
		return
	}
	s.mu.Lock()
	chosen := want.choose(slices.Clone(s.history))
	s.mu.Unlock()
	entries := []any{}
	for _, p := range chosen {
		var input any = p.code
		if want.Output {
			input = []any{p.code, p.output}
		}
		entries = append(entries, []any{thisSession, p.count, input})
	}
	s.reply(r, "history_reply", ok(map[string]any{"history": entries}))
}

func (r historyRequest) choose(all []past) []past {
	if r.Access == "range" && r.Session != 0 && r.Session != thisSession {
		return nil
	}
	var chosen []past
	for _, p := range all {
		switch r.Access {
		case "range":
			if p.count < r.Start || r.Stop > 0 && p.count >= r.Stop {
				continue
			}
		case "search":
			if !matches(r.Pattern, p.code) {
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

// matches tells whether the whole text is described by a pattern with * and ? in it, as the history of consoles has it.
func matches(pattern, text string) bool {
	wild := strings.NewReplacer(`\*`, `.*`, `\?`, `.`)
	match, err := regexp.MatchString(`(?s)^`+wild.Replace(regexp.QuoteMeta(pattern))+`$`, text)
	return err == nil && match
}
