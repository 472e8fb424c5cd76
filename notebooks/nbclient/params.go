package nbclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/token"
	"strings"

	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// Tags that parameters go by, the same as papermill's.
const (
	tagParameters = "parameters"
	tagInjected   = "injected-parameters"
)

// Param is a value for a variable of the notebook's parameters cell.
type Param struct {
	Name  string
	Value any // a bool, number, string, nil, or a list of these

	text string // as written on a command line; for a variable declared as string this counts
}

// ParseParam reads "name=value". The value is JSON (5, 0.5, true, "text", [1, 64, 256]); anything else is a string as it
// stands. For a Go variable declared as string the text counts even if it reads as a number; for one declared as a
// slice, words between commas are a list: C=1,64,256.
func ParseParam(s string) (Param, error) {
	name, text, ok := strings.Cut(s, "=")
	if !ok || !token.IsIdentifier(name) {
		return Param{}, fmt.Errorf("parameter %q: want name=value", s)
	}
	value, err := decodeParam([]byte(text))
	if err != nil {
		value = text
	}
	return Param{Name: name, Value: value, text: text}, nil
}

func decodeParam(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("text after the value")
	}
	return v, nil
}

// inject puts a cell with the values right after the parameters cell, or in the place of the one of an earlier run.
// It returns warnings.
func inject(nb *nbformat.Notebook, params []Param, language string) (warnings []string, err error) {
	if len(params) == 0 {
		return nil, nil
	}
	at, declared := -1, ""
	for i := range nb.Cells {
		if c := &nb.Cells[i]; c.Type == nbformat.Code && c.HasTag(tagParameters) {
			at, declared = i, c.Source
			break
		}
	}
	if at < 0 {
		warnings = append(warnings, "no cell is tagged \"parameters\": the values go to the top")
	}
	source, more, err := parameterCode(params, language, declared, at >= 0)
	if err != nil {
		return nil, err
	}
	for i := range nb.Cells {
		if nb.Cells[i].HasTag(tagInjected) {
			nb.Cells[i].Source = source
			return append(warnings, more...), nil
		}
	}
	cell := nbformat.Cell{Type: nbformat.Code, Source: source, Metadata: nbformat.Metadata{}}
	if err := cell.Metadata.Set("tags", []string{tagInjected}); err != nil {
		return nil, err
	}
	cell.ID = freeID(nb)
	cells := append([]nbformat.Cell{}, nb.Cells[:at+1]...)
	nb.Cells = append(append(cells, cell), nb.Cells[at+1:]...)
	return append(warnings, more...), nil
}

// freeID is the id of the injected cell: always the same, so that links to it last.
func freeID(nb *nbformat.Notebook) string {
	id := tagInjected
	for n := 2; ; n++ {
		taken := false
		for i := range nb.Cells {
			taken = taken || nb.Cells[i].ID == id
		}
		if !taken {
			return id
		}
		id = fmt.Sprintf("%s-%d", tagInjected, n)
	}
}

// parameterCode writes the injected cell. Of values with the same name the last counts.
func parameterCode(params []Param, language, declared string, hasCell bool) (source string, warnings []string, err error) {
	var assign func(Param) (string, error)
	comment := "# "
	switch language {
	case "go":
		comment = "// "
		assign, err = goAssigner(declared, hasCell)
		if err != nil {
			return "", nil, err
		}
	case "python":
		assign = pythonAssign
	default:
		return "", nil, fmt.Errorf("parameters for a notebook in %q: only Go and Python are known", language)
	}
	var lines []string
	index := map[string]int{}
	for _, p := range params {
		if !token.IsIdentifier(p.Name) {
			return "", nil, fmt.Errorf("parameter %q: not a variable name", p.Name)
		}
		if p.Value, err = normal(p.Value); err != nil {
			return "", nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		line, err := assign(p)
		if err != nil {
			return "", nil, err
		}
		if language == "python" && hasCell && !strings.Contains(declared, p.Name) {
			warnings = append(warnings, fmt.Sprintf("parameter %s does not appear in the parameters cell", p.Name))
		}
		if i, ok := index[p.Name]; ok {
			lines[i] = line
			continue
		}
		index[p.Name] = len(lines)
		lines = append(lines, line)
	}
	return comment + "Parameters\n" + strings.Join(lines, "\n"), warnings, nil
}

// normal brings a value to the types of decoded JSON, numbers as json.Number.
func normal(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("value %v has no JSON form: %w", v, err)
	}
	out, err := decodeParam(raw)
	if err != nil {
		return nil, err
	}
	list, isList := out.([]any)
	if !isList {
		list = []any{out}
	}
	for _, e := range list {
		switch e.(type) {
		case []any, map[string]any:
			return nil, fmt.Errorf("value %s: want a bool, number or string, or a list of these", raw)
		}
	}
	return out, nil
}

func pythonAssign(p Param) (string, error) { return p.Name + " = " + pythonLiteral(p.Value), nil }

func pythonLiteral(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		return v.String()
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = pythonLiteral(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return pythonString(fmt.Sprint(v))
}

// pythonString writes a string literal; the escapes of JSON mean the same in Python, as long as no surrogates occur.
func pythonString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
