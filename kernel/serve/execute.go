package serve

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// executeRequest is the content of execute_request.
type executeRequest struct {
	Code            string            `json:"code"`
	Silent          bool              `json:"silent"`
	StoreHistory    *bool             `json:"store_history"` // absent: true
	UserExpressions map[string]string `json:"user_expressions"`
	StopOnError     *bool             `json:"stop_on_error"` // absent: true
}

func isTrue(b *bool) bool { return b == nil || *b }

// execute runs a cell and answers it.
func (s *Server) execute(m *wire.Message) {
	var r executeRequest
	if s.refuse(s.sockets.Shell, m, "execute_reply", m.Decode(&r)) {
		return
	}
	s.parent.Store(m)
	if !r.Silent && isTrue(r.StoreHistory) {
		s.count++
		s.remember(r.Code)
	}
	if !r.Silent {
		s.tell(m, "execute_input", map[string]any{"code": r.Code, "execution_count": s.count})
	}
	s.running.Store(true)
	result, err := s.run(r.Code)
	var behind []*wire.Message
	if err != nil && isTrue(r.StopOnError) && !r.Silent {
		behind = s.waiting()
	}
	s.finish(m, r, result, err)
	s.abort(behind)
}

// run keeps a panic of the engine itself from ending the process.
func (s *Server) run(code string) (b Bundle, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.log, "rooflab kernel: panic in the engine: %v\n%s\n", p, debug.Stack())
			err = fmt.Errorf("%v", p)
		}
	}()
	return s.engine.Run(s.count, code)
}

// finish publishes what is left of a cell's output and answers its request.
func (s *Server) finish(m *wire.Message, r executeRequest, result Bundle, err error) {
	s.running.Store(false)
	s.stdout.flush()
	s.stderr.flush()
	if err != nil {
		content := failure(err)
		s.tell(m, "error", content)
		s.reply(s.sockets.Shell, m, "execute_reply", withCount(content, s.count))
		return
	}
	if len(result.Data) > 0 && !r.Silent {
		content := withCount(result.content(), s.count)
		delete(content, "transient")
		if err := s.publish(m, "execute_result", content); err != nil {
			s.finish(m, r, Bundle{}, fmt.Errorf("show the result: %w", err))
			return
		}
	}
	s.reply(s.sockets.Shell, m, "execute_reply", withCount(ok(map[string]any{
		"user_expressions": s.evaluate(r.UserExpressions), "payload": []any{},
	}), s.count))
}

func withCount(content map[string]any, n int) map[string]any {
	content["execution_count"] = n
	return content
}

// failure is the content that an error message and a reply share.
func failure(err error) map[string]any {
	return map[string]any{"status": "error", "ename": "Error", "evalue": err.Error(), "traceback": []string{err.Error()}}
}

// evaluate runs the expressions that a front end wants to know after a cell.
func (s *Server) evaluate(expressions map[string]string) map[string]any {
	values := map[string]any{}
	for name, code := range expressions {
		b, err := s.run(code)
		if err != nil {
			values[name] = failure(err)
			continue
		}
		content := ok(b.content())
		delete(content, "transient")
		if b.Data == nil {
			content["data"] = none{}
		}
		values[name] = content
	}
	return values
}

// waiting takes the requests that were sent before the answer to a failed cell could be known. Those sent together
// with it may still be on their way, so it waits a moment for them.
func (s *Server) waiting() []*wire.Message {
	var requests []*wire.Message
	patience := time.After(50 * time.Millisecond)
	for {
		select {
		case m := <-s.queue:
			requests = append(requests, m)
		case <-patience:
			return requests
		}
	}
}

// abort refuses the cells behind one that failed and answers every other request.
func (s *Server) abort(requests []*wire.Message) {
	for _, m := range requests {
		if m.Type() != "execute_request" {
			s.handle(s.sockets.Shell, m)
			continue
		}
		s.status(m, "busy")
		s.reply(s.sockets.Shell, m, "execute_reply", map[string]any{"status": "aborted"})
		s.status(m, "idle")
	}
}
