package sitegen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/notebooks/nbformat"
	"github.com/rooflab/rooflab/sitegen/internal/markdown"
	"github.com/rooflab/rooflab/sitegen/internal/mime"
)

// outputView is one output of a cell, ready for the template "output"; one field is set.
type outputView struct {
	Item     *item
	Terminal *linesView
	Stderr   bool
	Error    *errorView
	Image    *imageView
	Prose    template.HTML
	Foreign  template.HTML
	Label    string
	LeftOut  string
}

// linesView is terminal text; what is over eight lines is folded after the sixth.
type linesView struct {
	Label      string
	Head, Rest []template.HTML
	RestCount  int
	Cut        *cutView
}

type cutView struct{ Text, Name, Href string }

type errorView struct {
	Where, Message string
	Trace          *linesView
	line           int
}

type imageView struct {
	Src, Alt      string
	Width, Height int
}

const (
	foldOver = 8
	foldTo   = 6
	maxText  = 256 << 10 // bytes of one text output on a page; the rest is in a file beside it
)

// outputs lays out what a cell showed, in order. Neighbouring streams of one name are one.
func (s *site) outputs(c *cell, at place, md *markdown.Page) []outputView {
	var views []outputView
	joined := nbformat.JoinStreams(c.Outputs)
	for i, o := range joined {
		at.slot = "o" + strconv.Itoa(i+1)
		label := "Output of cell " + c.place()
		if len(joined) > 1 {
			label = "Output " + strconv.Itoa(i+1) + " of cell " + c.place()
		}
		switch o.Type {
		case nbformat.Stream:
			if l := s.terminal(o.Text, label, at); l != nil {
				views = append(views, outputView{Terminal: l, Stderr: o.Name == "stderr"})
			}
		case nbformat.Error:
			views = append(views, outputView{Error: s.failure(o, c, at)})
		case nbformat.DisplayData, nbformat.ExecuteResult:
			if v, ok := s.bundle(o, c, at, md, label); ok {
				views = append(views, v)
			}
		default:
			views = append(views, outputView{LeftOut: fmt.Sprintf("An output of type %q is not shown: this program does not know it. It is in the notebook file.", o.Type)})
		}
	}
	return views
}

// place names the cell in the labels that a screen reader reads.
func (c *cell) place() string {
	if c.ExecutionCount != nil {
		return strconv.Itoa(*c.ExecutionCount)
	}
	return c.id
}

func (s *site) terminal(text, label string, at place) *linesView {
	var cut *cutView
	if len(text) > maxText {
		name := at.book.page[:len(at.book.page)-len(".html")] + "." + at.cell.id + "." + at.slot + ".txt"
		s.files["files/"+name] = []byte(text)
		end := strings.LastIndexByte(text[:maxText], '\n')
		if end < 0 {
			end = len(strings.ToValidUTF8(text[:maxText], ""))
		}
		cut = &cutView{"The output goes on; all of it, " + units.Bytes(int64(len(text))) + ":", name, "files/" + name}
		text = text[:end]
	}
	lines := mime.Terminal(text)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return nil
	}
	v := &linesView{Label: label, Head: safe(lines), Cut: cut}
	if len(lines) > foldOver {
		v.Head, v.Rest, v.RestCount = safe(lines[:foldTo]), safe(lines[foldTo:]), len(lines)-foldTo
	}
	return v
}

func safe(lines []string) []template.HTML {
	out := make([]template.HTML, len(lines))
	for i, l := range lines {
		out[i] = template.HTML(l) //nolint:gosec // escaped by mime.Terminal
	}
	return out
}

var (
	cellLine  = regexp.MustCompile(`(?i)\bcell ?\[?([0-9]+)\]?(?:, line |:)([0-9]+)(?:(?:, column |:)([0-9]+))?:?`)
	plainLine = regexp.MustCompile(`(?:^|\s|/)(?:[\w.-]+\.go:)?([0-9]+):([0-9]+): `)
	ansi      = regexp.MustCompile("\x1b\\[[0-9;:]*[A-Za-z]")
)

// failure lays out an error and finds the line of the cell that it names.
func (s *site) failure(o nbformat.Output, c *cell, at place) *errorView {
	message := strings.TrimSpace(ansi.ReplaceAllString(o.Evalue, ""))
	trace := strings.Join(o.Traceback, "\n")
	bare := ansi.ReplaceAllString(trace, "")
	v := &errorView{Message: message}
	if v.Message == "" {
		v.Message = o.Ename
	}
	line, column := position(message, c)
	if line == 0 {
		line, column = position(bare, c)
	}
	if lines := strings.Count(c.Source, "\n") + 1; line > 0 && line <= lines {
		v.line = line
		v.Where = "in cell " + c.place() + ", line " + strconv.Itoa(line)
		if column > 0 {
			v.Where += ", column " + strconv.Itoa(column)
		}
		v.Message = strings.TrimSpace(cellLine.ReplaceAllString(v.Message, ""))
	}
	var kept []string
	for _, l := range strings.Split(trace, "\n") { // what the message says already is not said again
		if bare := strings.TrimSpace(ansi.ReplaceAllString(l, "")); bare != message && bare != o.Ename+": "+message {
			kept = append(kept, l)
		}
	}
	trace = strings.Trim(strings.Join(kept, "\n"), "\n")
	if first, rest, more := strings.Cut(v.Message, "\n"); more {
		v.Message = first
		if !strings.Contains(bare, strings.TrimSpace(rest)) {
			trace = rest + "\n" + trace
		}
	}
	v.Trace = s.terminal(trace, "Report of the error in cell "+c.place(), at)
	return v
}

// position finds line and column in this cell that an error names, 0 when it names none.
func position(text string, c *cell) (line, column int) {
	for _, m := range cellLine.FindAllStringSubmatch(text, -1) {
		if c.ExecutionCount != nil && m[1] != strconv.Itoa(*c.ExecutionCount) {
			continue
		}
		line, _ = strconv.Atoi(m[2])
		column, _ = strconv.Atoi(m[3])
		return line, column
	}
	if m := plainLine.FindStringSubmatch(text); m != nil && !strings.Contains(m[0], ".go:") {
		line, _ = strconv.Atoi(m[1])
		column, _ = strconv.Atoi(m[2])
	}
	return line, column
}

// bundle shows one form of an output: a record of ours, else the richest form that is safe.
func (s *site) bundle(o nbformat.Output, c *cell, at place, md *markdown.Page, label string) (outputView, bool) {
	types := map[string]string{} // by plain type: the key in the bundle
	for _, t := range o.Data.Types() {
		types[mime.Base(t)] = t
	}
	for _, t := range recordTypes {
		key, ok := types[t]
		if !ok {
			continue
		}
		it, err := s.record(t, o.Data[key], at)
		if err == nil {
			return outputView{Item: it}, true
		}
		s.warn(diag.Diagnostic{ID: "record_unusable", Severity: diag.DataLoss, Pos: diag.Pos{File: at.book.file}, Text: fmt.Sprintf("cell %s: %s: %v; its text is shown instead", c.id, t, err)})
	}
	for _, t := range []string{"image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp"} {
		text, ok := o.Data.Text(types[t])
		if !ok {
			continue
		}
		im, err := mime.Picture(t, text)
		if err != nil {
			s.warn(diag.Diagnostic{ID: "image_unusable", Severity: diag.DataLoss, Pos: diag.Pos{File: at.book.file}, Text: fmt.Sprintf("cell %s: %v", c.id, err)})
			continue
		}
		alt := "Picture shown by cell " + c.place()
		if plain, ok := o.Data.Text(types["text/plain"]); ok && !strings.HasPrefix(plain, "<") && len(plain) < 200 {
			alt = strings.TrimSpace(plain)
		}
		return outputView{Image: &imageView{s.asset("image", im.Ext, im.Data), alt, im.Width, im.Height}}, true
	}
	if text, ok := o.Data.Text(types["text/html"]); ok {
		if safe := mime.Foreign(text); safe != "" {
			return outputView{Foreign: template.HTML(safe), Label: label}, true //nolint:gosec // an allowlist of elements, balanced
		}
	}
	if text, ok := o.Data.Text(types["text/markdown"]); ok {
		if h, _, err := s.prose(text, c, at, md); err == nil && h != "" {
			return outputView{Prose: h}, true
		}
	}
	if raw, ok := o.Data[types["application/json"]]; ok {
		var b bytes.Buffer
		if json.Indent(&b, raw, "", "  ") == nil {
			return outputView{Terminal: s.terminal(b.String(), label, at)}, true
		}
	}
	for _, t := range []string{"text/plain", "text/latex"} {
		if text, ok := o.Data.Text(types[t]); ok {
			l := s.terminal(text, label, at)
			return outputView{Terminal: l}, l != nil
		}
	}
	return outputView{LeftOut: leftOut(o.Data)}, true
}

// leftOut says what an output held of which nothing can be shown.
func leftOut(b nbformat.MimeBundle) string {
	if len(b) == 0 {
		return "An empty output."
	}
	var parts []string
	for _, t := range b.Types() {
		parts = append(parts, fmt.Sprintf("%s (%s)", t, units.Bytes(int64(len(b[t])))))
	}
	sort.Strings(parts)
	return "An output is not shown: " + strings.Join(parts, ", ") + ". A page shows no scripts and no types that it does not know; it is in the notebook file."
}
