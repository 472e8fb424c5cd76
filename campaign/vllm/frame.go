package vllm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// frame is what one event of a stream says.
type frame struct {
	chunk  bool   // it holds a piece of the answer
	finish string // why the answer ended
	usage  *Usage
	failed error // the server's own report of an error
}

// parseFrame reads any event.
func parseFrame(data []byte) (frame, error) {
	var f struct {
		Choices []struct {
			FinishReason *string `json:"finish_reason"`
		}
		Usage *Usage
		Error json.RawMessage
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return frame{}, fmt.Errorf("%w: %.60q", ErrGarbage, data)
	}
	if f.Error != nil && string(f.Error) != "null" {
		e := statusError(http.MethodPost, "/v1/completions", http.StatusOK, data)
		return frame{failed: fmt.Errorf("%w: %s", ErrServer, e.Message)}, nil
	}
	out := frame{chunk: len(f.Choices) > 0, usage: f.Usage}
	if out.chunk && f.Choices[0].FinishReason != nil {
		out.finish = *f.Choices[0].FinishReason
	}
	return out, nil
}

// scanFrame reads the events that come with every token, without allocating: a piece of the answer, or none, and nothing
// else to tell. ok is false for all others, and for members that it does not know; parseFrame reads those.
func scanFrame(data []byte) (chunk, ok bool) {
	if !json.Valid(data) {
		return false, false
	}
	seen := false
	for m := members(data); m.next(); {
		switch string(m.key) {
		case "id", "object", "created", "model", "system_fingerprint":
		case "usage":
			if string(m.value) != "null" {
				return false, false
			}
		case "choices":
			if seen {
				return false, false
			}
			seen = true
			if chunk, ok = scanChoices(m.value); !ok {
				return false, false
			}
		default:
			return false, false
		}
	}
	return chunk, seen
}

// scanChoices reads a list of one choice, which does not say that the answer ended, or of none.
func scanChoices(list []byte) (chunk, ok bool) {
	c := cursor{list, 0}
	if c.peek() != '[' {
		return false, false
	}
	c.i++
	if c.peek() == ']' {
		return false, true
	}
	choice := c.value()
	if choice[0] != '{' || c.peek() != ']' {
		return false, false
	}
	for m := members(choice); m.next(); {
		switch string(m.key) {
		case "index", "text", "logprobs", "stop_reason", "prompt_logprobs", "prompt_token_ids", "token_ids":
		case "finish_reason":
			if string(m.value) != "null" {
				return false, false
			}
		default:
			return false, false
		}
	}
	return true, true
}

// member walks over the members of an object. Keys are without their quotes and with their escapes.
type member struct {
	cursor
	key, value []byte
}

// members begins before the first member of an object in valid JSON. Anything else has none.
func members(valid []byte) member { return member{cursor: cursor{valid, 0}} }

func (m *member) next() bool {
	if c := m.peek(); c != ',' && (c != '{' || m.key != nil) {
		return false
	}
	m.i++
	if m.peek() == '}' {
		return false
	}
	key := m.cursor.value()
	m.key = key[1 : len(key)-1]
	m.peek()
	m.i++ // the colon
	m.value = m.cursor.value()
	return true
}

// cursor is a place in valid JSON.
type cursor struct {
	json []byte
	i    int
}

// peek returns the next byte that is no space, or 0 at the end.
func (c *cursor) peek() byte {
	for ; c.i < len(c.json); c.i++ {
		switch b := c.json[c.i]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// value returns the next value and goes behind it.
func (c *cursor) value() []byte {
	c.peek()
	from, depth := c.i, 0
	for c.i < len(c.json) {
		switch c.json[c.i] {
		case '"':
			c.text()
		case '{', '[':
			depth++
			c.i++
		case '}', ']':
			if depth == 0 { // of what is around a number or a word
				return c.json[from:c.i]
			}
			depth--
			c.i++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return c.json[from:c.i]
			}
			c.i++
			continue
		default:
			c.i++
			continue
		}
		if depth == 0 {
			return c.json[from:c.i]
		}
	}
	return c.json[from:c.i]
}

// text goes behind a string.
func (c *cursor) text() {
	for c.i++; c.json[c.i] != '"'; c.i++ {
		if c.json[c.i] == '\\' {
			c.i++
		}
	}
	c.i++
}
