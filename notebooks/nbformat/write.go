package nbformat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/rooflab/rooflab/internal/atomicfile"
)

// Encode returns the notebook as Jupyter writes it: one space of indent, sorted keys, text as lists of lines,
// characters beyond ASCII and < > & as they are, a newline at the end.
func (nb *Notebook) Encode() ([]byte, error) {
	root := object(nb.Extra)
	cells := make([]any, len(nb.Cells))
	for i := range nb.Cells {
		cells[i] = nb.Cells[i].encode()
	}
	root["cells"] = cells
	root["metadata"] = object(nb.Metadata)
	root["nbformat"] = json.RawMessage("4")
	root["nbformat_minor"] = json.RawMessage(fmt.Sprint(max(nb.Minor, 5)))
	out, err := appendValue(nil, root, 0)
	if err != nil {
		return nil, fmt.Errorf("encode notebook: %w", err)
	}
	return append(out, '\n'), nil
}

// WriteFile stores the notebook under path in one step.
func (nb *Notebook) WriteFile(path string) error {
	data, err := nb.Encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, modeOf(path))
}

// modeOf keeps the permissions of a file that is replaced.
func modeOf(path string) os.FileMode {
	if st, err := os.Stat(path); err == nil {
		return st.Mode().Perm()
	}
	return 0o644
}

func (c *Cell) encode() map[string]any {
	m := object(c.Extra)
	m["id"] = c.ID
	m["cell_type"] = c.Type
	m["metadata"] = object(c.Metadata)
	if c.Type == Code || c.Type == Markdown || c.Type == Raw {
		m["source"] = splitLines(c.Source)
	}
	if c.Attachments != nil {
		files := map[string]any{}
		for name, b := range c.Attachments {
			files[name] = b.encode()
		}
		m["attachments"] = files
	}
	if c.Type == Code {
		outputs := make([]any, len(c.Outputs))
		for i := range c.Outputs {
			outputs[i] = c.Outputs[i].encode()
		}
		m["outputs"] = outputs
		m["execution_count"] = number(c.ExecutionCount)
	}
	return m
}

func (o *Output) encode() map[string]any {
	m := object(o.Extra)
	m["output_type"] = o.Type
	switch o.Type {
	case Stream:
		m["name"], m["text"] = o.Name, splitLines(o.Text)
	case ExecuteResult:
		m["execution_count"] = number(o.ExecutionCount)
		fallthrough
	case DisplayData:
		m["data"], m["metadata"] = o.Data.encode(), object(o.Metadata)
	case Error:
		m["ename"], m["evalue"], m["traceback"] = o.Ename, o.Evalue, stringList(o.Traceback)
	}
	return m
}

// encode splits text into lines for the types for which Jupyter does so.
func (b MimeBundle) encode() map[string]any {
	m := map[string]any{}
	for mime, raw := range b {
		m[mime] = raw
		if strings.HasPrefix(mime, "text/") || mime == "application/javascript" || mime == "image/svg+xml" {
			if s, ok := b.Text(mime); ok {
				m[mime] = splitLines(s)
			}
		}
	}
	return m
}

func object[M ~map[string]json.RawMessage](m M) map[string]any {
	o := make(map[string]any, len(m)+5)
	for k, v := range m {
		o[k] = v
	}
	return o
}

func number(n *int) any {
	if n == nil {
		return nil
	}
	return json.RawMessage(fmt.Sprint(*n))
}

func stringList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// splitLines cuts text after every line end that Python's str.splitlines knows, as nbformat does.
func splitLines(s string) []any {
	lines := []any{}
	for len(s) > 0 {
		n := lineEnd(s)
		lines = append(lines, s[:n])
		s = s[n:]
	}
	return lines
}

// lineEnd gives the length of the first line of s with its line end.
func lineEnd(s string) int {
	for i, r := range s {
		switch r {
		case '\r':
			if strings.HasPrefix(s[i+1:], "\n") {
				return i + 2
			}
			return i + 1
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e:
			return i + 1
		case 0x85:
			return i + 2
		case 0x2028, 0x2029:
			return i + 3
		}
	}
	return len(s)
}

// appendValue appends JSON as Python's json.dumps(indent=1, sort_keys=True, ensure_ascii=False) writes it.
func appendValue(b []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return fmt.Append(b, v), nil
	case string:
		return appendString(b, v), nil
	case json.Number:
		return append(b, pythonNumber(v.String())...), nil
	case json.RawMessage:
		value, err := decode(v)
		if err != nil {
			return nil, err
		}
		return appendValue(b, value, depth)
	case []any:
		return appendList(b, v, depth)
	case map[string]any:
		return appendObject(b, v, depth)
	}
	return nil, fmt.Errorf("unexpected %T", v)
}

func decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("value %.40q is not JSON: %w", raw, err)
	}
	return v, nil
}

func appendList(b []byte, list []any, depth int) ([]byte, error) {
	if len(list) == 0 {
		return append(b, "[]"...), nil
	}
	var err error
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = newline(b, depth+1)
		if b, err = appendValue(b, v, depth+1); err != nil {
			return nil, err
		}
	}
	return append(newline(b, depth), ']'), nil
}

func appendObject(b []byte, m map[string]any, depth int) ([]byte, error) {
	if len(m) == 0 {
		return append(b, "{}"...), nil
	}
	var err error
	b = append(b, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(newline(b, depth+1), k), ": "...)
		if b, err = appendValue(b, m[k], depth+1); err != nil {
			return nil, fmt.Errorf("%q: %w", k, err)
		}
	}
	return append(newline(b, depth), '}'), nil
}

func newline(b []byte, depth int) []byte {
	b = append(b, '\n')
	for range depth {
		b = append(b, ' ')
	}
	return b
}

// appendString appends a JSON string with the escapes Python uses: only what JSON demands.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s { // bytes that are not UTF-8 become U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < 0x20:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}
