package vllm

import (
	"bufio"
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

// maxEvent bounds one event of a stream.
const maxEvent = 4 << 20

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

// Chunk is one piece of a streamed answer.
type Chunk struct {
	At           int64 // arrival, in ns since the epoch of the clock (see Stream)
	Text         string
	FinishReason string
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
	s := Stream{Sent: time.Since(base).Nanoseconds()}
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
	now := func() int64 { return time.Since(base).Nanoseconds() }
	err = readStream(resp.Body, &s, now, each)
	if err != nil && !errors.Is(err, ErrServer) && !errors.Is(err, ErrGarbage) && !errors.Is(err, ErrCut) {
		err = c.explain(http.MethodPost, path, err)
	}
	return s, err
}

// readStream reads events until [DONE]. s.Replay selects the clock: comments of the stream or now.
func readStream(r io.Reader, s *Stream, now func() int64, each func(Chunk)) error {
	events := eventReader{br: bufio.NewReaderSize(r, 16<<10)}
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
			at = now()
		} else if text, ok := strings.CutPrefix(event.comment, ArrivalPrefix); ok {
			if at, err = strconv.ParseInt(text, 10, 64); err != nil {
				return fmt.Errorf("%w: arrival %.40q", ErrGarbage, text)
			}
		}
		if event.data == nil {
			continue
		}
		if string(event.data) == "[DONE]" {
			return failed
		}
		var f frame
		if err := json.Unmarshal(event.data, &f); err != nil {
			return fmt.Errorf("%w: %.60q", ErrGarbage, event.data)
		}
		if f.Error != nil { // [DONE] follows
			e := statusError(http.MethodPost, "/v1/completions", http.StatusOK, event.data)
			failed = fmt.Errorf("%w: %s", ErrServer, e.Message)
			continue
		}
		s.frame(f, at, each)
	}
}

type frame struct {
	Choices []struct {
		Text         string
		FinishReason *string `json:"finish_reason"`
	}
	Usage *Usage
	Error json.RawMessage
}

func (s *Stream) frame(f frame, at int64, each func(Chunk)) {
	if f.Usage != nil { // in the last frame, or in every one with continuous usage
		s.Usage, s.Counted = *f.Usage, true
	}
	if len(f.Choices) == 0 {
		return
	}
	c := Chunk{At: at, Text: f.Choices[0].Text}
	if r := f.Choices[0].FinishReason; r != nil {
		c.FinishReason = *r
	}
	s.Chunks++
	each(c)
}

// event is what stands between two blank lines: the data lines joined, and the last comment.
type event struct {
	data    []byte // nil when there is none
	comment string
}

type eventReader struct{ br *bufio.Reader }

// next returns the next event; io.EOF at the end, also when the last event has no blank line after it.
func (r eventReader) next() (event, error) {
	var e event
	size := 0
	for {
		line, err := r.line()
		if err != nil {
			return event{}, err
		}
		if size += len(line); size > maxEvent {
			return event{}, fmt.Errorf("%w: an event is longer than %d bytes", ErrGarbage, maxEvent)
		}
		switch {
		case len(line) == 0:
			if e.data != nil || e.comment != "" {
				return e, nil
			}
		case line[0] == ':':
			e.comment = string(bytes.TrimPrefix(line[1:], []byte(" ")))
		case bytes.HasPrefix(line, []byte("data:")):
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, bytes.TrimPrefix(line[5:], []byte(" "))...)
		case bytes.HasPrefix(line, []byte("event:")), bytes.HasPrefix(line, []byte("id:")), bytes.HasPrefix(line, []byte("retry:")):
		default:
			return event{}, fmt.Errorf("%w: %.60q", ErrGarbage, line)
		}
	}
}

// line reads one line without its end. The bytes are valid until the next call.
func (r eventReader) line() ([]byte, error) {
	line, err := r.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) && len(long) < maxEvent {
			long = append(long, line...)
			line, err = r.br.ReadSlice('\n')
		}
		line = append(long, line...)
		if len(line) > maxEvent {
			return nil, fmt.Errorf("%w: a line is longer than %d bytes", ErrGarbage, maxEvent)
		}
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
