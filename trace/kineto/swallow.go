package kineto

import (
	"bytes"

	"github.com/rooflab/rooflab/internal/diag"
)

// marks are the texts with which events begin, up to the end of their first key, as this file writes them: {"ph" or { "name".
//
// A quote inside a name that is not escaped (pytorch/pytorch#146900) turns what follows inside out: text counts as strings and strings
// as text, up to the next such quote. Where lines end strings that is one event; in a file that is one line it would be all events
// between two such quotes. Nothing looks like the begin of an event inside a string that is written right, where quotes are
// escaped; so an event that holds one, and is no JSON, ends before it.
type marks struct{ texts [][]byte }

const (
	maxMarks  = 4    // files mix few writers
	maxMark   = 64   // bytes
	learnFrom = 1000 // first events of a file
	maxMended = 1000 // events that are mended by looking at all that follows, which takes long
)

// learn notes how an event begins.
func (m *marks) learn(event []byte) {
	first := bytes.IndexByte(event, '"')
	if first < 0 || first > maxMark || len(m.texts) == maxMarks {
		return
	}
	n := bytes.IndexByte(event[first+1:], '"')
	if n < 0 || first+n+2 > maxMark {
		return
	}
	mark := event[:first+n+2]
	for _, t := range m.texts {
		if bytes.Equal(t, mark) {
			return
		}
	}
	m.texts = append(m.texts, bytes.Clone(mark))
}

// next returns where the next event begins in text, which begins with one; -1 when there is none.
func (m *marks) next(text []byte) int {
	best := -1
	for _, mark := range m.texts {
		for at := 1; at < len(text); at++ {
			n := bytes.Index(text[at:], mark)
			if n < 0 {
				break
			}
			if at += n; follows(text[:at]) {
				if best < 0 || at < best {
					best = at
				}
				break
			}
		}
	}
	return best
}

// follows says whether text ends with the end of an object and a comma.
func follows(text []byte) bool {
	const white = " \t\r\n"
	text, comma := bytes.CutSuffix(bytes.TrimRight(text, white), []byte{','})
	return comma && bytes.HasSuffix(bytes.TrimRight(text, white), []byte{'}'})
}

// mend goes on after n bytes of a broken event, at the begin of the next one.
func (rd *reader) mend(n int) {
	rd.b.Note(diag.Diagnostic{ID: "broken_event", Severity: diag.DataLoss, N: 1, Pos: diag.Pos{File: rd.b.Rank.File, Offset: rd.s.offset()},
		Text: "events with a quote that is not escaped were left out", Hint: "profile again with a newer PyTorch, or without stacks"})
	rd.s.pos += n
	rd.b.Rank.Events++
}
