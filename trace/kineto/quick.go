package kineto

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// field is a member that is needed, as a bit of what was seen; 0 is any other.
type field uint16

const (
	sawPh field = 1 << iota
	sawCat
	sawName
	sawPid
	sawTid
	sawTs
	sawDur
	sawArgs
	sawCorrelation // of args, as the next two
	sawDevice
	sawStream
)

func fieldOf(key []byte) field {
	switch string(key) {
	case "ph":
		return sawPh
	case "cat":
		return sawCat
	case "name":
		return sawName
	case "pid":
		return sawPid
	case "tid":
		return sawTid
	case "ts":
		return sawTs
	case "dur":
		return sawDur
	case "args":
		return sawArgs
	case "correlation":
		return sawCorrelation
	case "device":
		return sawDevice
	case "stream":
		return sawStream
	}
	return 0
}

// habit is how the n-th member of an object began the last time: the text before its value. Most begin the same way again.
type habit struct {
	text  [40]byte
	n     int
	field field
}

// member returns which field begins at i and where its value does; 0 when its key is not plain.
func (h *habit) member(buf []byte, i int) (f field, value int) {
	if value = i + h.n; value < len(buf) && h.n > 0 && buf[value] > ' ' && string(buf[i:value]) == string(h.text[:h.n]) {
		return h.field, value
	}
	key, value := plainKey(buf, i)
	h.field, h.n = fieldOf(key), 0
	if value > 0 && value-i <= len(h.text) {
		h.n = copy(h.text[:], buf[i:value])
	}
	return h.field, value
}

// habits are those of events and of their args.
type habits struct{ event, args [16]habit }

// quick decodes the event at the start of buf in one pass and returns its length. It knows plain JSON only and returns 0,
// having done nothing, when buf ends within the event or holds something it leaves to the exact reader: escapes, a field twice,
// a number with an exponent, a value of another type than profilers write, text that is no JSON. On valid JSON both agree.
func (d *decoder) quick(buf []byte) int {
	if len(buf) < 2 || buf[0] != '{' {
		return 0
	}
	var ev event
	var seen field
	for i, n := 1, 0; ; i, n = i+1, n+1 {
		f, at := d.habits.event[n%16].member(buf, i)
		if at == 0 || seen&f != 0 {
			return 0
		}
		seen |= f
		value, end, kind := plainValue(buf, at)
		if kind != '"' && f&(sawPh|sawCat|sawName) != 0 || kind != '0' && f&(sawTs|sawDur) != 0 ||
			kind != '"' && kind != '0' && f&(sawPid|sawTid) != 0 || kind != '{' && f == sawArgs {
			return 0
		}
		switch f {
		case sawPh:
			if ev.ph = view(value); ev.ph != "X" && end > 0 {
				return d.skip(buf, end)
			}
		case sawCat:
			if ev.cat = d.category(view(value)); ev.cat == catOther && end > 0 {
				return d.skip(buf, end)
			}
		case sawName:
			ev.name = view(value)
		case sawPid:
			ev.pid = view(value)
		case sawTid:
			ev.tid = view(value)
		case sawTs:
			ev.ts = view(value)
		case sawDur:
			ev.dur = view(value)
		case sawArgs:
			end = d.quickArgs(&ev, buf, at)
		default:
			if kind == '{' || kind == '[' {
				end = d.skip(buf, at+1)
			}
		}
		if end == 0 {
			return 0
		}
		switch i = blank(buf, end); {
		case i == len(buf):
			return 0
		case buf[i] == '}':
			if ev.ph == "X" && ev.cat != catOther {
				d.record(&ev)
			}
			return i + 1
		case buf[i] != ',':
			return 0
		}
	}
}

// quickArgs notes what is needed of the object at i and returns the index after it, 0 for what quick does not know.
func (d *decoder) quickArgs(ev *event, buf []byte, i int) int {
	if end := blank(buf, i+1); end < len(buf) && buf[end] == '}' {
		return end + 1
	}
	const all = sawCorrelation | sawDevice | sawStream
	var seen field
	for n := 0; ; n++ {
		f, at := d.habits.args[n%16].member(buf, i+1)
		if at == 0 {
			return 0
		}
		value, end, kind := plainValue(buf, at)
		if kind == '{' || kind == '[' {
			end = d.skip(buf, at+1)
		}
		if end == 0 {
			return 0
		}
		if f &= all &^ seen; f != 0 { // of a key that stands twice the first one counts, as in gjson.Get
			if kind != '0' {
				return 0
			}
			switch f {
			case sawCorrelation:
				ev.correlation, ev.hasCorre = view(value), true
			case sawDevice:
				ev.device, ev.hasDevice = view(value), true
			case sawStream:
				ev.stream, ev.hasStream = view(value), true
			}
			if seen |= f; seen == all {
				return d.skip(buf, end)
			}
		}
		switch i = blank(buf, end); {
		case i == len(buf):
			return 0
		case buf[i] == '}':
			return i + 1
		case buf[i] != ',':
			return 0
		}
	}
}

// skip returns the index after the bracket that closes the one before i, 0 when buf ends before it or something odd stands there.
// Where an object closes at the next brace, as most do, a few searches prove it: no other brace before it, and each line whole
// strings only. Everything else is left to the cursor.
func (d *decoder) skip(buf []byte, i int) int {
	if n := bytes.IndexByte(buf[i:], '}'); n >= 0 && closes(buf[i:i+n]) {
		return i + n + 1
	}
	c := cursor{depth: 1}
	end := c.brackets(buf, i)
	if c.depth > 0 || c.unclosed > 0 || d.marks.next(buf[i:end]) > 0 {
		return 0
	}
	return end
}

// blank returns the index of the first byte from i on that is not white space.
func blank(buf []byte, i int) int {
	for i < len(buf) && buf[i] <= ' ' { // JSON has no other bytes up to it outside strings
		i++
	}
	return i
}

// plainKey reads a key and its colon from i on and returns the key and where its value begins; 0 when it is not a plain one.
func plainKey(buf []byte, i int) (key []byte, value int) {
	if i = blank(buf, i); i+9 > len(buf) || buf[i] != '"' {
		return nil, 0
	}
	i++
	w := binary.LittleEndian.Uint64(buf[i:])
	if zeros(w^'\\'*ones) != 0 {
		return nil, 0
	}
	n := bits.TrailingZeros64(zeros(w^'"'*ones)) >> 3
	if n == 8 { // longer than a word
		if n = bytes.IndexByte(buf[i:], '"'); n < 0 || !plainText(buf[i:i+n]) {
			return nil, 0
		}
	}
	key = buf[i : i+n]
	if i = blank(buf, i+n+1); i >= len(buf) || buf[i] != ':' {
		return nil, 0
	}
	if i = blank(buf, i+1); i == len(buf) {
		return nil, 0
	}
	return key, i
}

// plainValue reads the value at i: a string without its quotes (kind "), a number (0), a literal (n). Of an object or array it
// only says the kind. end is 0 for what is not plain.
func plainValue(buf []byte, i int) (value []byte, end int, kind byte) {
	switch c := buf[i]; {
	case c == '"':
		n := bytes.IndexByte(buf[i+1:], '"')
		if n < 0 {
			return nil, 0, c
		}
		value = buf[i+1 : i+1+n]
		if plainText(value) {
			return value, i + n + 2, c
		}
		return nil, 0, c
	case c == '{' || c == '[':
		return nil, 0, c
	case c == '-' || c >= '0' && c <= '9':
		end = i + 1
		for end < len(buf) && (buf[end] >= '0' && buf[end] <= '9' || buf[end] == '.') {
			end++
		}
		return buf[i:end], end, '0'
	}
	for _, word := range literals {
		if bytes.HasPrefix(buf[i:], word) {
			return nil, i + len(word), 'n'
		}
	}
	return nil, 0, 0
}

var literals = [][]byte{[]byte("null"), []byte("true"), []byte("false")}

// plainText says whether a string has neither an escape nor a line end in it.
func plainText(text []byte) bool {
	if len(text) > 32 { // by words
		return bytes.IndexByte(text, '\\') < 0 && bytes.IndexByte(text, '\n') < 0
	}
	for _, c := range text {
		if c == '\\' || c == '\n' {
			return false
		}
	}
	return true
}

// closes says that the brace after text is outside strings and closes the object that text is in.
func closes(text []byte) bool {
	if bytes.IndexByte(text, '{') >= 0 || bytes.IndexByte(text, '\\') >= 0 {
		return false
	}
	for len(text) > 0 {
		line := text
		if n := bytes.IndexByte(text, '\n'); n >= 0 {
			line, text = text[:n], text[n+1:]
		} else {
			text = nil
		}
		if bytes.Count(line, quote)%2 != 0 {
			return false
		}
	}
	return true
}

var quote = []byte{'"'}
