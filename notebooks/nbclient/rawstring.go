package nbclient

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// rawString decodes a JSON string without touching bytes that are not UTF-8: the kernel may have cut a character in
// two, and the second half comes with the next message.
func rawString(raw json.RawMessage) []byte {
	if utf8.Valid(raw) {
		var s string
		json.Unmarshal(raw, &s) // anything but a string gives no text
		return []byte(s)
	}
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	raw = raw[1 : len(raw)-1]
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++ // valid JSON: something follows
		switch raw[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, n := escaped(raw[i+1:])
			out = utf8.AppendRune(out, r)
			i += n
		default: // " \ /
			out = append(out, raw[i])
		}
	}
	return out
}

// escaped reads what follows \u, with the second half of a surrogate pair, and says how many bytes that was.
func escaped(b []byte) (rune, int) {
	r := hex4(b)
	if utf16.IsSurrogate(r) && len(b) >= 10 && b[4] == '\\' && b[5] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(b[6:])); pair != utf8.RuneError {
			return pair, 10
		}
	}
	return r, 4 // a lone surrogate becomes U+FFFD when it is appended
}

func hex4(b []byte) rune {
	n, err := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
