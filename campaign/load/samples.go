package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Sample is one request as the client saw it. Times are ns from the beginning of the pass; of a replay, on its own clock.
type Sample struct {
	Request   int     // its place in the load, from 0
	Scheduled int64   // when an open loop was to send it
	Sent      int64   // when it was sent
	Arrivals  []int64 // of every chunk
	Ended     int64   // when the answer had ended, on the client's clock
	Prompt    int     // tokens
	Tokens    int     // of the answer, as the server counts; without its count, and when the answer was cut: chunks
	Error     string  // why it failed; "" when it did not
	Cut       bool    // the pass was stopped before its end

	nearest int
}

func (q Sample) last() int64 { return q.Arrivals[len(q.Arrivals)-1] }

func (q Sample) ttft() int64 { return q.Arrivals[0] - q.Sent }

func (q Sample) e2el() int64 { return q.last() - q.Sent }

func (q Sample) tpot() int64 {
	if q.Tokens < 2 {
		return 0
	}
	return (q.last() - q.Arrivals[0]) / int64(q.Tokens-1)
}

// tokensPerChunk returns the most tokens a chunk of a finished answer had on average, 0 without any.
func tokensPerChunk(samples []Sample) float64 {
	most := 0.0
	for _, q := range samples {
		if q.Error == "" && !q.Cut && len(q.Arrivals) > 0 {
			most = max(most, float64(q.Tokens)/float64(len(q.Arrivals)))
		}
	}
	return most
}

// line is a sample as a line of JSON. Gaps are shorter than times: the first is TTFT, the others are ITLs.
type line struct {
	Request     int     `json:"request"`
	ScheduledNs int64   `json:"scheduled_ns,omitempty"`
	SentNs      int64   `json:"sent_ns"`
	GapsNs      []int64 `json:"gaps_ns"`
	EndedNs     int64   `json:"ended_ns"`
	Prompt      int     `json:"prompt_tokens"`
	Tokens      int     `json:"tokens"`
	Error       string  `json:"error,omitempty"`
	Cut         bool    `json:"cut,omitempty"`
}

// WriteSamples writes one line of JSON a request: when it was sent, and the gaps between arrivals, all in ns.
func WriteSamples(w io.Writer, samples []Sample) error {
	out := bufio.NewWriter(w)
	for _, q := range samples {
		l := line{q.Request, q.Scheduled, q.Sent, make([]int64, len(q.Arrivals)), q.Ended, q.Prompt, q.Tokens, q.Error, q.Cut}
		was := q.Sent
		for i, at := range q.Arrivals {
			l.GapsNs[i], was = at-was, at
		}
		text, err := json.Marshal(l)
		if err != nil {
			return fmt.Errorf("write request %d: %w", q.Request, err)
		}
		out.Write(append(text, '\n')) // Flush tells
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write requests: %w", err)
	}
	return nil
}

// ReadSamples reads what WriteSamples wrote. Lines before a broken one are returned with the error.
func ReadSamples(r io.Reader) ([]Sample, error) {
	var samples []Sample
	for in := json.NewDecoder(r); ; {
		var l line
		err := in.Decode(&l)
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return samples, fmt.Errorf("read request %d: %w", len(samples)+1, err)
		}
		q := Sample{l.Request, l.ScheduledNs, l.SentNs, l.GapsNs, l.EndedNs, l.Prompt, l.Tokens, l.Error, l.Cut, 0}
		was := q.Sent
		for i, gap := range q.Arrivals {
			was += gap
			q.Arrivals[i] = was
		}
		samples = append(samples, q)
	}
}
