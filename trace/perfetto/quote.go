package perfetto

import (
	"bytes"
	"encoding/json"
)

// quote writes a text as JSON; bytes that are no UTF-8 become U+FFFD, "<" and ">" of templates stay readable.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string always encodes
		return `""`
	}
	return string(bytes.TrimRight(b.Bytes(), "\n"))
}
