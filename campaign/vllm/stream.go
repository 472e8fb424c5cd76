package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Completion is a request of fixed length: token ids in, MaxTokens out whatever the model says.
type Completion struct {
	Model     string
	Prompt    []int // token ids: no tokeniser between the request and its length
	MaxTokens int
	Streams   int // for a replay: how many streams the load has; 0 = not said
	Hold      int // for a replay: tokens after which it waits for a profile to start; 0 = it does not wait
}

type completionBody struct {
	Model         string      `json:"model"`
	Prompt        []int       `json:"prompt"`
	MaxTokens     int         `json:"max_tokens"`
	MinTokens     int         `json:"min_tokens"` // the same: 0.32 clamps max_tokens silently but refuses min_tokens
	IgnoreEOS     bool        `json:"ignore_eos"`
	Temperature   int         `json:"temperature"`
	Stream        bool        `json:"stream"`
	StreamOptions streamUsage `json:"stream_options"`
}

type streamUsage struct {
	IncludeUsage bool `json:"include_usage"`
}

// Chunk is one piece of a streamed answer. It holds one token, or more where the server sends several at once.
type Chunk struct {
	At           int64  // arrival, in ns since the epoch of the clock (see Stream)
	FinishReason string // of the last one: "length", "abort", ...
}

// Usage is the server's own count of tokens.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// Stream is one finished stream. Times are ns on one clock: the monotonic clock of this process, from the client's
// given base, or the replay's clock when the server is a replay.
type Stream struct {
	Sent    int64
	Chunks  int
	Usage   Usage
	Counted bool // the server sent its usage
	Replay  bool
	Nearest int // the recorded number of streams that stood in; 0 = the load was recorded or the server is no replay
}

// Errors of a stream, wrapped with what happened.
var (
	ErrCut     = errors.New("the stream ended before [DONE]")
	ErrServer  = errors.New("the server reported an error inside the stream")
	ErrGarbage = errors.New("the stream holds something that is no event of vLLM")
)

// Stream sends a completion and calls each for every chunk in order. What arrived before an error is returned with it.
// base is the zero of the clock for servers that are no replay.
func (c *Client) Stream(ctx context.Context, req Completion, base time.Time, each func(Chunk)) (Stream, error) {
	body, err := json.Marshal(completionBody{req.Model, req.Prompt, req.MaxTokens, req.MaxTokens, true, 0, true, streamUsage{true}})
	if err != nil {
		return Stream{}, err
	}
	header := http.Header{}
	if req.Streams > 0 {
		header.Set(StreamsHeader, strconv.Itoa(req.Streams))
	}
	if req.Hold > 0 {
		header.Set(HoldHeader, strconv.Itoa(req.Hold))
	}
	const path = "/v1/completions"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := func() int64 { return time.Since(base).Nanoseconds() }
	s := Stream{Sent: now()}
	resp, err := c.send(ctx, http.MethodPost, path, body, header)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return s, statusError(http.MethodPost, path, resp.StatusCode, b)
	}
	if t := resp.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
		return s, fmt.Errorf("%w: content type %q instead of text/event-stream", ErrGarbage, t)
	}
	if resp.Header.Get(ReplayHeader) != "" {
		s.Replay = true
		s.Nearest, _ = strconv.Atoi(resp.Header.Get(NearestHeader))
		if s.Sent, err = strconv.ParseInt(resp.Header.Get(SentHeader), 10, 64); err != nil {
			return s, fmt.Errorf("the replay did not say when the request was sent: %w", err)
		}
	}
	err = readStream(resp.Body, &s, now, each)
	switch {
	case err == nil || errors.Is(err, ErrServer): // [DONE] was read, or the server is about to go
		finish(resp.Body, cancel)
	case !errors.Is(err, ErrGarbage) && !errors.Is(err, ErrCut):
		err = c.explain(http.MethodPost, path, err)
	}
	return s, err
}

// finish reads the end of an answer that follows after [DONE]: only then can its connection serve the next request.
// A server that does not end its answer loses the connection.
func finish(body io.Reader, cancel func()) {
	late := time.AfterFunc(time.Second, cancel)
	defer late.Stop()
	io.Copy(io.Discard, io.LimitReader(body, 64<<10)) // the answer is complete already, whatever comes now
}

// readStream reads events until [DONE]. s.Replay selects the clock: comments of the stream or now.
func readStream(r io.Reader, s *Stream, now func() int64, each func(Chunk)) error {
	events := newEventReader(r, now)
	at := s.Sent
	var failed error
	for {
		event, err := events.next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if failed != nil {
				return failed // the server died after it had said so
			}
			return fmt.Errorf("%w after %d chunks", ErrCut, s.Chunks)
		}
		if err != nil {
			return err
		}
		if !s.Replay {
			at = event.at
		} else if text, ok := bytes.CutPrefix(event.comment, []byte(ArrivalPrefix)); ok {
			if at, err = strconv.ParseInt(string(text), 10, 64); err != nil {
				return fmt.Errorf("%w: arrival %.40q", ErrGarbage, text)
			}
		}
		if len(event.data) == 0 {
			continue
		}
		if string(event.data) == "[DONE]" {
			return failed
		}
		chunk, ok := scanFrame(event.data)
		f := frame{chunk: chunk}
		if !ok {
			if f, err = parseFrame(event.data); err != nil {
				return err
			}
		}
		if f.failed != nil { // [DONE] follows
			failed = f.failed
			continue
		}
		s.frame(f, at, each)
	}
}

func (s *Stream) frame(f frame, at int64, each func(Chunk)) {
	if f.usage != nil { // in the last frame, or in every one with continuous usage
		s.Usage, s.Counted = *f.usage, true
	}
	if f.chunk {
		s.Chunks++
		each(Chunk{At: at, FinishReason: f.finish})
	}
}
