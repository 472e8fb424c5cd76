package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// ask is a completion request, as far as a replay reads it. Unknown fields are accepted, as vLLM does.
type ask struct {
	Model         string
	Prompt        json.RawMessage
	MaxTokens     *int `json:"max_tokens"`
	MinTokens     int  `json:"min_tokens"`
	Stream        bool
	StreamOptions *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// refusal is an answer that says no, in vLLM's words.
type refusal struct {
	status               int
	kind, param, message string
}

func bad(param, format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, "BadRequestError", param, fmt.Sprintf(format, args...)}
}

func malformed(param, message string) *refusal {
	return &refusal{http.StatusBadRequest, "Bad Request", param, "1 validation error:\n  " + message}
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	a, prompt, no := s.parse(r)
	if no != nil {
		refuse(w, no.status, no.kind, no.param, no.message)
		return
	}
	s.mu.Lock()
	s.ids++
	id := s.ids
	s.mu.Unlock()
	q := &request{ctx: r.Context(), prompt: prompt, max: *a.MaxTokens}
	q.streams, _ = strconv.Atoi(r.Header.Get(vllm.StreamsHeader)) // absent or wrong: not declared
	q.hold, _ = strconv.Atoi(r.Header.Get(vllm.HoldHeader))
	s.engine.add(q)
	out := &writer{server: s, w: w, ask: a, q: q, id: fmt.Sprintf("cmpl-%016x", id)}
	for {
		select {
		case <-r.Context().Done():
			s.engine.changed()
			return
		case <-q.wake:
		}
		for _, b := range s.engine.take(q) {
			out.burst(b)
			if b.last {
				out.end()
				return
			}
		}
		out.flush()
	}
}

// parse checks a request in vLLM's order.
func (s *Server) parse(r *http.Request) (ask, int, *refusal) {
	var a ask
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return a, 0, malformed("", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return a, 0, malformed("", err.Error())
	}
	if err := json.Unmarshal(body, &a); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return a, 0, malformed("", fmt.Sprintf("{'type': 'type_error', 'loc': ('body', '%s'), 'msg': 'Input should be a valid %v'}", wrong.Field, wrong.Type))
		}
		return a, 0, malformed("", fmt.Sprintf("{'type': 'json_invalid', 'loc': ('body', %d), 'msg': 'JSON decode error'}", len(body)))
	}
	if a.StreamOptions != nil && !a.Stream {
		return a, 0, malformed("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)")
	}
	if len(a.Prompt) == 0 || string(a.Prompt) == "null" {
		return a, 0, malformed("", "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	if a.Model != "" && a.Model != s.rec.model {
		return a, 0, &refusal{http.StatusNotFound, "NotFoundError", "model", fmt.Sprintf("The model `%s` does not exist.", a.Model)}
	}
	prompt, no := s.promptTokens(a.Prompt)
	if no != nil {
		return a, 0, no
	}
	no = s.lengths(&a, prompt)
	return a, prompt, no
}

// promptTokens counts a prompt's tokens. A text counts one token a byte: a replay has no tokeniser.
func (s *Server) promptTokens(raw json.RawMessage) (int, *refusal) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return len(text), nil
	}
	var ids []int
	if json.Unmarshal(raw, &ids) != nil {
		return 0, malformed("prompt", "a replay answers one prompt a request, as a text or as token ids")
	}
	for _, id := range ids {
		if id < 0 || id >= s.rec.vocab {
			return 0, bad("", "Token id %d is out of vocabulary", id)
		}
	}
	return len(ids), nil
}

func (s *Server) lengths(a *ask, prompt int) *refusal {
	if a.MaxTokens == nil {
		n := 16 // the API's default
		a.MaxTokens = &n
	}
	n, limit := *a.MaxTokens, s.rec.maxLen
	switch {
	case n < 1:
		return bad("max_tokens", "max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%d)", n, n)
	case limit > 0 && n > limit:
		return bad("max_tokens", "max_tokens=%d cannot be greater than max_model_len=max_total_tokens=%d. Please request fewer output tokens. (parameter=max_tokens, value=%d)", n, limit, n)
	case limit > 0 && prompt+n > limit:
		return bad("input_tokens", "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %d input tokens, for a total of %d tokens. "+
			"Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)", limit, n, prompt, prompt+n, prompt)
	case a.MinTokens > n:
		return bad("", "min_tokens must be less than or equal to max_tokens=%d, got %d.", n, a.MinTokens)
	}
	return nil
}

// writer writes one answer, streamed or whole.
type writer struct {
	server *Server
	w      http.ResponseWriter
	ask    ask
	q      *request
	id     string
	buf    bytes.Buffer
	sent   int
	began  bool
}

// token is the text of the i-th token: a replay has nothing to say.
func token(i int) string { return " t" + strconv.Itoa(i) }

func (o *writer) begin() {
	o.began = true
	h := o.w.Header()
	h.Set(vllm.SentHeader, strconv.FormatInt(o.q.sent, 10))
	if o.q.nearest != 0 {
		h.Set(vllm.NearestHeader, strconv.Itoa(o.q.nearest))
	}
	if o.ask.Stream {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
	}
}

func (o *writer) burst(b burst) {
	if !o.began {
		o.begin()
	}
	if !o.ask.Stream {
		o.sent += b.n
		return
	}
	for i := range b.n {
		o.sent++
		o.chunk(b.at+int64(i)*b.gap, b.last && i == b.n-1)
		if o.buf.Len() > 32<<10 {
			o.flush()
		}
	}
}

// chunk writes the arrival as an event of its own, which clients skip as a comment, and the chunk.
func (o *writer) chunk(at int64, last bool) {
	finish := "null"
	if last {
		finish = `"length"`
	}
	b := &o.buf
	b.WriteString(": " + vllm.ArrivalPrefix)
	b.Write(strconv.AppendInt(b.AvailableBuffer(), at, 10))
	b.WriteString("\n\n")
	o.head()
	b.WriteString(`"choices":[{"index":0,"text":"`)
	b.WriteString(token(o.sent))
	b.WriteString(`","logprobs":null,"finish_reason":` + finish + `,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`)
	if u := o.ask.StreamOptions; u != nil && u.ContinuousUsage {
		b.WriteString(`,"usage":` + o.usage())
	} else {
		b.WriteString(`,"usage":null`) // as vLLM 0.20 does in every chunk
	}
	b.WriteString("}\n\n")
}

func (o *writer) head() {
	o.buf.WriteString(`data: {"id":"` + o.id + `","object":"text_completion","created":`)
	o.buf.Write(strconv.AppendInt(o.buf.AvailableBuffer(), o.server.rec.created, 10))
	o.buf.WriteString(`,"model":"` + o.server.rec.model + `",`)
}

func (o *writer) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, o.q.prompt, o.q.prompt+o.sent, o.sent)
}

func (o *writer) end() {
	if !o.ask.Stream {
		o.whole()
		return
	}
	if u := o.ask.StreamOptions; u != nil && u.IncludeUsage {
		o.head()
		o.buf.WriteString(`"choices":[],"usage":` + o.usage() + "}\n\n")
	}
	o.buf.WriteString("data: [DONE]\n\n")
	o.flush()
}

// whole writes the answer to a request that does not stream, in the form of vLLM 0.20.
func (o *writer) whole() {
	var text strings.Builder
	for i := range o.sent {
		text.WriteString(token(i + 1))
	}
	answer(o.w, http.StatusOK, fmt.Sprintf(`{"id":"%s","object":"text_completion","created":%d,"model":"%s","choices":[{"index":0,"text":"%s","logprobs":null,`+
		`"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],"service_tier":null,"system_fingerprint":null,`+
		`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null},"kv_transfer_params":null}`,
		o.id, o.server.rec.created, o.server.rec.model, text.String(), o.q.prompt, o.q.prompt+o.sent, o.sent))
}

func (o *writer) flush() {
	if o.buf.Len() == 0 {
		return
	}
	o.w.Write(o.buf.Bytes()) // a client that hung up is noticed by its context
	o.buf.Reset()
	http.NewResponseController(o.w).Flush() // not supported by the writer: then it is sent at the end
}
