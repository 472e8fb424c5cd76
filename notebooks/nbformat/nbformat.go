// Package nbformat reads and writes Jupyter notebooks of format 4.
//
// Reading is tolerant: what is wrong is repaired or left out and reported as a diagnostic that names the cell (from 1),
// so that one bad cell does not hide the others. Formats 4.0 to 4.4 are upgraded to 4.5; cell ids that are missing are
// made from the cell's content, so that the same file always gets the same ids. Fields the format does not define,
// and cell and output types of a later minor version, are kept.
//
// Writing gives the bytes Jupyter itself writes (one space of indent, sorted keys, text as lists of lines), so that
// opening and saving in JupyterLab leaves no difference in git.
//
// It does not run notebooks, render outputs, check signatures, or convert formats 1 to 3.
package nbformat

import (
	"encoding/json"
	"sort"
	"strings"
)

// Cell types. Others are kept as they are.
const (
	Code     = "code"
	Markdown = "markdown"
	Raw      = "raw"
)

// Output types. Others are kept as they are.
const (
	Stream        = "stream"
	DisplayData   = "display_data"
	ExecuteResult = "execute_result"
	Error         = "error"
)

// Notebook is a notebook of format 4.5 (or a later minor version, which is then kept in Minor).
type Notebook struct {
	Cells    []Cell
	Metadata Metadata
	Minor    int                        // minor version written to the file; 0 means 5
	Extra    map[string]json.RawMessage // top-level fields the format does not define
}

// Cell is one cell. Outputs and ExecutionCount belong to code cells, Attachments to the others.
type Cell struct {
	ID             string // 1 to 64 of A-Z a-z 0-9 - _, unique in the notebook
	Type           string
	Source         string
	Metadata       Metadata
	ExecutionCount *int // nil: not executed
	Outputs        []Output
	Attachments    map[string]MimeBundle
	Extra          map[string]json.RawMessage
}

// Output is one output of a code cell; which fields count depends on Type.
type Output struct {
	Type           string
	Name, Text     string     // stream: "stdout" or "stderr", and what was printed
	Data           MimeBundle // display_data, execute_result
	Metadata       Metadata   // display_data, execute_result
	ExecutionCount *int       // execute_result
	Ename, Evalue  string     // error
	Traceback      []string   // error; may hold ANSI colours
	Extra          map[string]json.RawMessage
}

// Metadata is a JSON object whose values are kept as read.
type Metadata map[string]json.RawMessage

// Get decodes the value of key into v and reports whether it was there and fitted.
func (m Metadata) Get(key string, v any) bool {
	raw, ok := m[key]
	return ok && json.Unmarshal(raw, v) == nil
}

// Set stores the JSON form of v under key. The map must not be nil.
func (m Metadata) Set(key string, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		m[key] = raw
	}
	return err
}

// MimeBundle holds one value in several forms, by MIME type: a JSON string for text and base64 data, any JSON value
// for application/json and application/*+json.
type MimeBundle map[string]json.RawMessage

// Text returns the value of a MIME type when it is a string.
func (b MimeBundle) Text(mime string) (string, bool) {
	var s string
	raw, ok := b[mime]
	if !ok || len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// Types lists the MIME types in alphabetical order.
func (b MimeBundle) Types() []string { return sortedKeys(b) }

// Tags returns the cell's tags.
func (c *Cell) Tags() []string {
	var tags []string
	c.Metadata.Get("tags", &tags)
	return tags
}

// HasTag reports whether the cell carries the tag.
func (c *Cell) HasTag(tag string) bool {
	for _, t := range c.Tags() {
		if t == tag {
			return true
		}
	}
	return false
}

// Kernel returns the name of the kernelspec the notebook asks for, "" when it names none.
func (nb *Notebook) Kernel() string {
	var spec struct{ Name string }
	nb.Metadata.Get("kernelspec", &spec)
	return spec.Name
}

// Language returns the notebook's language in lower case, "" when it names none.
func (nb *Notebook) Language() string {
	var info struct{ Name string }
	if nb.Metadata.Get("language_info", &info); info.Name != "" {
		return strings.ToLower(info.Name)
	}
	var spec struct{ Language string }
	nb.Metadata.Get("kernelspec", &spec)
	return strings.ToLower(spec.Language)
}

// Strip removes what running the notebook left behind: outputs, execution counts, times and widget state.
// Cells keep their ids and other metadata.
func (nb *Notebook) Strip() {
	for i := range nb.Cells {
		nb.Cells[i].Clear()
	}
	delete(nb.Metadata, "widgets")
}

// Clear removes the outputs, the execution count and the execution times of a code cell.
func (c *Cell) Clear() {
	if c.Type == Code {
		c.Outputs, c.ExecutionCount = nil, nil
		delete(c.Metadata, "execution")
	}
}

// JoinStreams joins neighbouring stream outputs of the same name. Where a kernel cuts its text depends on timing.
func JoinStreams(outputs []Output) []Output {
	var joined []Output
	for _, o := range outputs {
		if n := len(joined); o.Type == Stream && n > 0 && joined[n-1].Type == Stream && joined[n-1].Name == o.Name {
			joined[n-1].Text += o.Text
			continue
		}
		joined = append(joined, o)
	}
	return joined
}

// isJSONMime reports whether values of a MIME type are JSON and not text.
func isJSONMime(mime string) bool {
	return mime == "application/json" || strings.HasPrefix(mime, "application/") && strings.HasSuffix(mime, "+json")
}

func sortedKeys[M ~map[string]V, V any](m M) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
