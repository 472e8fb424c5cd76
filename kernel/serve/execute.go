package serve

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"time"
)

// abortTime is how long after its arrival a cell that failed waits for the cells sent together with it: those of Run
// All may still be on their way.
const abortTime = 50 * time.Millisecond

// executeRequest is the content of execute_request.
type executeRequest struct {
	Code            string            `json:"code"`
	Silent          bool              `json:"silent"`
	StoreHistory    *bool             `json:"store_history"` // absent: true
	UserExpressions map[string]string `json:"user_expressions"`
	AllowStdin      bool              `json:"allow_stdin"`
	StopOnError     *bool             `json:"stop_on_error"` // absent: true
}

func isTrue(b *bool) bool { return b == nil || *b }

func (r executeRequest) counts() bool { return !r.Silent && isTrue(r.StoreHistory) }
func (r executeRequest) stops() bool  { return !r.Silent && isTrue(r.StopOnError) }

// work makes the engine and runs the cells, all on one goroutine. When a cell ends it with runtime.Goexit, another
// goes on.
func (s *Server) work() {
	returned := false
	defer func() {
		if returned {
			return
		}
		if e := s.running(); e != nil {
			s.finish(e, Result{}, errors.New("the cell called runtime.Goexit"))
		}
		go s.work()
	}()
	for {
		select {
		case r := <-s.cells:
			s.execute(r)
		case <-s.closed:
			returned = true
			return
		}
	}
}

// execute runs a cell and answers it.
func (s *Server) execute(r request) {
	var want executeRequest
	if err := r.Decode(&want); err != nil {
		s.around(r, func() { s.reply(r, "execute_reply", s.counted(failure(err))) })
		return
	}
	e := s.newExecution(r, want)
	if want.counts() {
		s.count++
		s.remember(s.count, want.Code)
	}
	e.count = s.count
	s.begin(e)
	if !want.Silent {
		s.tell(r, "execute_input", map[string]any{"code": want.Code, "execution_count": e.count})
	}
	result, err := s.run(Cell{Count: e.count, Code: want.Code, Silent: want.Silent}, e)
	s.finish(e, result, err)
}

// run keeps a panic of the engine itself from ending the process.
func (s *Server) run(c Cell, out Output) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.report(fmt.Errorf("panic in the engine: %v\n%s", p, debug.Stack()))
			err = fmt.Errorf("%v", p)
		}
	}()
	if s.failed != nil {
		return Result{}, s.failed
	}
	return s.engine.Run(c, out)
}

// finish publishes what is left of a cell's output, answers its request, and refuses the cells behind one that failed.
func (s *Server) finish(e *execution, result Result, err error) {
	e.end()
	if err == nil {
		err = e.showResult(result.Value)
	}
	metadata := map[string]any{"started": timestamp(e.started)}
	maps.Copy(metadata, result.Metadata)
	if err != nil {
		s.finishFailed(e, metadata, failure(err))
		return
	}
	content := ok(map[string]any{"user_expressions": s.evaluate(e), "payload": result.Payload})
	if result.Payload == nil {
		content["payload"] = []any{}
	}
	s.replyWith(e.request, "execute_reply", metadata, s.counted(content))
	s.finished(e)
}

func (s *Server) finishFailed(e *execution, metadata, content map[string]any) {
	if !e.want.Silent {
		s.tell(e.request, "error", content)
	}
	var behind []request
	if e.want.stops() {
		behind = s.waiting(time.Until(e.request.arrived.Add(abortTime)))
	}
	s.replyWith(e.request, "execute_reply", metadata, s.counted(maps.Clone(content)))
	s.finished(e)
	s.abort(behind)
}

// showResult publishes the value of a cell.
func (e *execution) showResult(b Bundle) error {
	if e.want.Silent || len(b.Data) == 0 {
		return nil
	}
	if e.want.counts() {
		e.server.rememberOutput(e.count, b)
	}
	content := e.server.enrich(b).content()
	content["execution_count"] = e.count
	if b.DisplayID != "" {
		content["transient"] = map[string]any{"display_id": b.DisplayID}
	}
	if err := e.send("execute_result", content); err != nil {
		return fmt.Errorf("show the result: %w", err)
	}
	return nil
}

// counted adds the number of the last cell to the content of a reply.
func (s *Server) counted(content map[string]any) map[string]any {
	content["execution_count"] = s.count
	return content
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// failure is the content that an error message and a reply share.
func failure(err error) map[string]any {
	c := &CellError{Name: "Error", Value: err.Error()}
	trace := []string{c.Value}
	if errors.As(err, &c) {
		if trace = c.Traceback; len(trace) == 0 {
			trace = []string{c.Error()}
		}
	}
	return map[string]any{
		"status": "error", "traceback": trace,
		"ename": colours.ReplaceAllString(c.Name, ""), "evalue": colours.ReplaceAllString(c.Value, ""),
	}
}

// evaluate runs the expressions that a front end wants to know after a cell. What they print is nobody's output.
func (s *Server) evaluate(e *execution) map[string]any {
	values := map[string]any{}
	quiet := s.newExecution(e.request, executeRequest{Silent: true})
	for _, name := range slices.Sorted(maps.Keys(e.want.UserExpressions)) {
		result, err := s.run(Cell{Count: e.count, Code: e.want.UserExpressions[name], Silent: true}, quiet)
		if err != nil {
			values[name] = failure(err)
			continue
		}
		values[name] = ok(s.enrich(result.Value).content())
	}
	return values
}

// waiting takes the cells that are queued, waiting for more of them for the time given.
func (s *Server) waiting(patience time.Duration) []request {
	var requests []request
	timeout := time.After(patience)
	for {
		select {
		case r := <-s.cells:
			requests = append(requests, r)
			continue
		default:
		}
		select {
		case r := <-s.cells:
			requests = append(requests, r)
		case <-timeout:
			return requests
		}
	}
}

// abort refuses cells that another one's failure makes pointless.
func (s *Server) abort(requests []request) {
	for _, r := range requests {
		s.around(r, func() { s.reply(r, "execute_reply", s.counted(map[string]any{"status": "aborted"})) })
	}
}

// timestamp is a time as Jupyter writes it.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
