package nbformat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rooflab/rooflab/internal/diag"
)

// ReadFile reads a notebook file; see Parse.
func ReadFile(path string) (*Notebook, []diag.Diagnostic, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read notebook: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a notebook; name stands for the file in messages. An error means that nothing can be shown: no JSON, no
// notebook, or a format other than 4. Diagnostics of severity warning were repaired; data_loss means that something in
// the file is malformed and left out.
func Parse(name string, data []byte) (*Notebook, []diag.Diagnostic, error) {
	r := &reader{name: name}
	root, err := parseRoot(name, data)
	if err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(data) {
		r.report(diag.DataLoss, "notebook_utf8", "not valid UTF-8: bad bytes are shown as U+FFFD", "save the file as UTF-8")
	}
	minor, err := r.version(root)
	if err != nil {
		return nil, nil, err
	}
	nb := &Notebook{Minor: max(minor, 5), Metadata: r.metadata("notebook", root["metadata"])}
	for _, key := range []string{"orig_nbformat", "orig_nbformat_minor", "signature"} {
		delete(nb.Metadata, key) // belong to a session, not to the file (nbformat removes them too)
	}
	cells, ok := root["cells"]
	var list []json.RawMessage
	if !ok || json.Unmarshal(cells, &list) != nil {
		r.malformed("notebook: \"cells\" is %s, want a list", kindOf(cells))
	}
	var given []givenID
	for i, raw := range list {
		if c, id, ok := r.cell(i+1, raw); ok {
			nb.Cells, given = append(nb.Cells, c), append(given, givenID{i + 1, id})
		}
	}
	r.ids(nb.Cells, given, minor)
	nb.Extra = without(root, "cells", "metadata", "nbformat", "nbformat_minor")
	return nb, r.diags, nil
}

// Malformed gives the data_loss diagnostics as one error, nil when there are none: for programs that must not go on
// with half a notebook.
func Malformed(diags []diag.Diagnostic) error {
	var errs []error
	for _, d := range diags {
		if d.Severity == diag.DataLoss {
			errs = append(errs, errors.New(d.String()))
		}
	}
	return errors.Join(errs...)
}

func parseRoot(name string, data []byte) (map[string]json.RawMessage, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var root map[string]json.RawMessage
	err := json.Unmarshal(data, &root)
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		line, col := position(data, syntax.Offset)
		return nil, fmt.Errorf("%s:%d:%d: not JSON: %w", name, line, col, err)
	case errors.As(err, &typ):
		return nil, fmt.Errorf("%s: not a notebook: the file is %s, want a JSON object", name, kindOf(data))
	case err != nil:
		return nil, fmt.Errorf("%s: not JSON: %w", name, err)
	case root == nil:
		return nil, fmt.Errorf("%s: not a notebook: the file is null, want a JSON object", name)
	}
	return root, nil
}

// position gives line and column (both from 1, in bytes) of the byte before offset, where the decoder stopped.
func position(data []byte, offset int64) (line, col int) {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// reader collects what is wrong while a notebook is read.
type reader struct {
	name  string
	diags []diag.Diagnostic
}

func (r *reader) report(severity diag.Severity, id, text, hint string) {
	r.diags = append(r.diags, diag.Diagnostic{ID: id, Severity: severity, N: 1, Pos: diag.Pos{File: r.name}, Text: text, Hint: hint})
}

func (r *reader) malformed(format string, args ...any) {
	r.report(diag.DataLoss, "notebook_malformed", fmt.Sprintf(format, args...), "")
}

func (r *reader) repaired(format string, args ...any) {
	r.report(diag.Warning, "notebook_repaired", fmt.Sprintf(format, args...), "")
}

// version checks that the format is 4 and returns the minor version.
func (r *reader) version(root map[string]json.RawMessage) (minor int, err error) {
	major, ok := intOf(root["nbformat"])
	switch {
	case !ok && root["cells"] == nil && root["worksheets"] == nil:
		return 0, fmt.Errorf("%s: not a notebook: neither \"nbformat\" nor \"cells\"", r.name)
	case !ok:
		r.malformed("notebook: \"nbformat\" is %s, want the number 4", kindOf(root["nbformat"]))
	case major < 4:
		return 0, fmt.Errorf("%s: notebook format %d is too old, want 4; convert it with: jupyter nbconvert --to notebook --nbformat 4 FILE", r.name, major)
	case major > 4:
		return 0, fmt.Errorf("%s: notebook format %d is too new, want 4; save it as format 4 with the program that wrote it", r.name, major)
	}
	minor, ok = intOf(root["nbformat_minor"])
	if !ok {
		r.malformed("notebook: \"nbformat_minor\" is %s, want a number", kindOf(root["nbformat_minor"]))
	}
	return minor, nil
}

// cell reads cell n (from 1) and its id as given. It reports false for something that is no cell at all.
func (r *reader) cell(n int, raw json.RawMessage) (Cell, json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		r.malformed("cell %d is %s, want an object", n, kindOf(raw))
		return Cell{}, nil, false
	}
	where := fmt.Sprintf("cell %d", n)
	given := m["id"]
	if id, ok := stringOf(given); ok {
		where += fmt.Sprintf(" (id %s)", id)
	}
	var c Cell
	var ok bool
	if c.Type, ok = stringOf(m["cell_type"]); !ok {
		r.malformed("%s: \"cell_type\" is %s, want code, markdown or raw; taken as raw", where, kindOf(m["cell_type"]))
		c.Type = Raw
	}
	c.Metadata = r.metadata(where, m["metadata"])
	delete(c.Metadata, "trusted")
	known := []string{"id", "cell_type", "metadata"}
	switch c.Type {
	case Code:
		c.ExecutionCount = r.count(where, m)
		c.Outputs = r.outputs(where, m)
		known = append(known, "outputs", "execution_count")
		fallthrough
	case Markdown, Raw:
		c.Source = r.text(where, "source", m)
		c.Attachments = r.attachments(where, m)
		known = append(known, "source", "attachments")
	default: // of a later version: kept as it is, in Extra, right or wrong
		c.Source = new(reader).text(where, "source", m)
	}
	c.Extra = without(m, known...)
	return c, given, true
}

func (r *reader) attachments(where string, m map[string]json.RawMessage) map[string]MimeBundle {
	raw, ok := m["attachments"]
	if !ok {
		return nil
	}
	var files map[string]json.RawMessage
	if json.Unmarshal(raw, &files) != nil || files == nil {
		r.malformed("%s: \"attachments\" is %s, want an object", where, kindOf(raw))
		return nil
	}
	all := map[string]MimeBundle{}
	for _, name := range sortedKeys(files) {
		all[name] = r.bundle(fmt.Sprintf("%s: attachment %q", where, name), files[name])
	}
	return all
}

func (r *reader) outputs(where string, m map[string]json.RawMessage) []Output {
	raw, ok := m["outputs"]
	if !ok {
		r.repaired("%s: required \"outputs\" is missing; taken as empty", where)
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		r.malformed("%s: \"outputs\" is %s, want a list", where, kindOf(raw))
		return nil
	}
	var outputs []Output
	for i, raw := range list {
		if o, ok := r.output(fmt.Sprintf("%s, output %d", where, i+1), raw); ok {
			outputs = append(outputs, o)
		}
	}
	return outputs
}

func (r *reader) output(where string, raw json.RawMessage) (Output, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		r.malformed("%s is %s, want an object", where, kindOf(raw))
		return Output{}, false
	}
	var o Output
	var ok bool
	if o.Type, ok = stringOf(m["output_type"]); !ok {
		r.malformed("%s: \"output_type\" is %s, want a string", where, kindOf(m["output_type"]))
		return Output{}, false
	}
	known := []string{"output_type"}
	switch o.Type {
	case Stream:
		known = append(known, "name", "text")
		o.Text = r.text(where, "text", m)
		if o.Name, ok = stringOf(m["name"]); !ok {
			r.malformed("%s: \"name\" is %s, want stdout or stderr; taken as stdout", where, kindOf(m["name"]))
			o.Name = "stdout"
		}
	case DisplayData, ExecuteResult:
		known = append(known, "data", "metadata")
		o.Data = r.bundle(where+": \"data\"", m["data"])
		o.Metadata = r.metadata(where, m["metadata"])
		if o.Type == ExecuteResult {
			known = append(known, "execution_count")
			o.ExecutionCount = r.count(where, m)
		}
	case Error:
		known = append(known, "ename", "evalue", "traceback")
		o.Ename = r.text(where, "ename", m)
		o.Evalue = r.text(where, "evalue", m)
		if raw := m["traceback"]; json.Unmarshal(raw, &o.Traceback) != nil {
			r.malformed("%s: \"traceback\" is %s, want a list of strings", where, kindOf(raw))
		}
	}
	o.Extra = without(m, known...)
	return o, true
}

// bundle reads a MIME bundle and joins text that is stored as a list of lines.
func (r *reader) bundle(where string, raw json.RawMessage) MimeBundle {
	var b MimeBundle
	if json.Unmarshal(raw, &b) != nil || b == nil {
		r.malformed("%s is %s, want an object", where, kindOf(raw))
		return MimeBundle{}
	}
	for mime, v := range b {
		var lines []*string
		if isJSONMime(mime) || json.Unmarshal(v, &lines) != nil || lines == nil {
			continue
		}
		if s, ok := join(lines); ok {
			b[mime] = appendString(nil, s)
		}
	}
	return b
}

// text reads a field that is a string or a list of strings. What is right of a list is kept.
func (r *reader) text(where, key string, m map[string]json.RawMessage) string {
	raw := m[key]
	if s, ok := stringOf(raw); ok {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		r.malformed("%s: %q is %s, want a string or a list of strings", where, key, kindOf(raw))
		return ""
	}
	var b strings.Builder
	for i, line := range list {
		s, ok := stringOf(line)
		if !ok {
			r.malformed("%s: line %d of %q is %s, want a string", where, i+1, key, kindOf(line))
		}
		b.WriteString(s)
	}
	return b.String()
}

func (r *reader) metadata(where string, raw json.RawMessage) Metadata {
	var m Metadata
	if raw == nil {
		r.repaired("%s: required \"metadata\" is missing; taken as empty", where)
	} else if json.Unmarshal(raw, &m) != nil || m == nil {
		r.malformed("%s: \"metadata\" is %s, want an object", where, kindOf(raw))
	}
	if m == nil {
		m = Metadata{}
	}
	return m
}

func (r *reader) count(where string, m map[string]json.RawMessage) *int {
	raw, ok := m["execution_count"]
	if !ok {
		r.repaired("%s: required \"execution_count\" is missing; taken as null", where)
		return nil
	}
	if string(raw) == "null" {
		return nil
	}
	n, ok := intOf(raw)
	if !ok {
		r.malformed("%s: \"execution_count\" is %s, want a number or null", where, kindOf(raw))
		return nil
	}
	return &n
}

func stringOf(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

func intOf(raw json.RawMessage) (int, bool) {
	var n *int
	if json.Unmarshal(raw, &n) != nil || n == nil {
		return 0, false
	}
	return *n, true
}

func join(lines []*string) (string, bool) {
	var b strings.Builder
	for _, l := range lines {
		if l == nil {
			return "", false
		}
		b.WriteString(*l)
	}
	return b.String(), true
}

// kindOf names what a JSON value is, for messages.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "missing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// without returns the entries of m other than keys, nil when none is left.
func without(m map[string]json.RawMessage, keys ...string) map[string]json.RawMessage {
	for _, k := range keys {
		delete(m, k)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}
