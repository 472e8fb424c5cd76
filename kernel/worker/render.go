package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"reflect"
	"runtime"
	"strings"

	"github.com/rooflab/rooflab/kernel/display"
)

// bundle is a value in several formats.
type bundle struct{ Data, Metadata, Transient map[string]any }

func (b *bundle) empty() bool { return len(b.Data) == 0 }

func (b *bundle) set(mimeType string, v any) {
	if b.Data == nil {
		b.Data = map[string]any{}
	}
	b.Data[mimeType] = v
}

// render makes what a notebook shows for the values of one expression: nothing if all are nil; the formats of the
// value that has some, if it is the only one beside nils; text otherwise.
func render(vals []any) *bundle {
	b := &bundle{}
	var only any
	n := 0
	for _, v := range vals {
		if _, ok := v.(display.Handle); v != nil && !ok { // what Display returns is no result
			only = v
			n++
		}
	}
	switch n {
	case 0:
		return b
	case 1:
		b.add(only)
		if _, ok := b.Data[display.MIMETypeText]; !ok {
			text, _ := plain(only)
			b.set(display.MIMETypeText, text)
		}
	default:
		var texts []string
		for _, v := range vals {
			text, _ := plain(v)
			texts = append(texts, text)
		}
		b.set(display.MIMETypeText, strings.Join(texts, " "))
	}
	b.encode()
	return b
}

// add collects the formats that a value offers by its methods. A method that panics gives none.
func (b *bundle) add(v any) {
	if x, ok := v.(display.Data); ok {
		b.merge(x.Data, x.Metadata, x.Transient)
		return
	}
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
		return
	}
	try := func(method string, f func()) {
		defer func() {
			if r := recover(); r != nil {
				fmt.Fprintf(stderr, "method %s of %T: panic: %s\n", method, v, clean(panicText(r)))
			}
		}()
		f()
	}
	if x, ok := v.(display.Renderer); ok {
		try("Render", func() { d := x.Render(); b.merge(d.Data, d.Metadata, d.Transient) })
	}
	if x, ok := v.(display.SimpleRenderer); ok {
		try("SimpleRender", func() { b.merge(x.SimpleRender(), nil, nil) })
	}
	if x, ok := v.(display.MIMEBundler); ok {
		try("MIMEBundle", func() { b.merge(x.MIMEBundle(), nil, nil) })
	}
	if x, ok := v.(display.HTMLer); ok {
		try("HTML", func() { b.set(display.MIMETypeHTML, x.HTML()) })
	}
	if x, ok := v.(display.JavaScripter); ok {
		try("JavaScript", func() { b.set(display.MIMETypeJavaScript, x.JavaScript()) })
	}
	if x, ok := v.(display.SVGer); ok {
		try("SVG", func() { b.set(display.MIMETypeSVG, x.SVG()) })
	}
	if x, ok := v.(display.Markdowner); ok {
		try("Markdown", func() { b.set(display.MIMETypeMarkdown, x.Markdown()) })
	}
	if x, ok := v.(display.Latexer); ok {
		try("Latex", func() { b.set(display.MIMETypeLatex, x.Latex()) })
	}
	if x, ok := v.(display.PNGer); ok {
		try("PNG", func() { b.set(display.MIMETypePNG, x.PNG()) })
	}
	if x, ok := v.(display.JPEGer); ok {
		try("JPEG", func() { b.set(display.MIMETypeJPEG, x.JPEG()) })
	}
	if x, ok := v.(display.PDFer); ok {
		try("PDF", func() { b.set(display.MIMETypePDF, x.PDF()) })
	}
	if x, ok := v.(display.JSONer); ok {
		try("JSON", func() { b.set(display.MIMETypeJSON, x.JSON()) })
	}
	switch x := v.(type) {
	case image.Image:
		if b.empty() {
			try("At", func() { b.picture(x) })
		}
	case []byte:
		if t := display.Sniff(x); t != "" && t != display.MIMETypeSVG && t != display.MIMETypePDF {
			b.merge(display.MakeData(t, x).Data, nil, nil)
		}
	}
}

func (b *bundle) merge(data, metadata, transient map[string]any) {
	into := func(to *map[string]any, from map[string]any) {
		for k, v := range from {
			if *to == nil {
				*to = map[string]any{}
			}
			(*to)[k] = v
		}
	}
	into(&b.Data, data)
	into(&b.Metadata, metadata)
	into(&b.Transient, transient)
}

func (b *bundle) picture(m image.Image) {
	if m.Bounds().Empty() {
		return
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		b.set(display.MIMETypeText, "an image that cannot be encoded: "+err.Error())
		return
	}
	b.set(display.MIMETypePNG, buf.Bytes())
	b.set(display.MIMETypeText, fmt.Sprintf("%T %v", m, m.Bounds()))
	size := map[string]any{"width": m.Bounds().Dx(), "height": m.Bounds().Dy()}
	b.merge(nil, map[string]any{display.MIMETypePNG: size}, nil)
}

// encode turns the values into JSON here, so that one that cannot be encoded only loses its own format.
func (b *bundle) encode() {
	for k, v := range b.Data {
		if k == display.MIMETypeText {
			if s, ok := v.(string); ok {
				b.Data[k] = clean(s)
			}
		}
		j, err := encodeJSON(b.Data[k])
		if err != nil {
			delete(b.Data, k)
			fmt.Fprintf(stderr, "this value has no %s: %v\n", k, err)
			continue
		}
		b.Data[k] = j
	}
	if j, err := encodeJSON(b.Metadata); err != nil || len(b.Metadata) > 0 && j == nil {
		fmt.Fprintf(stderr, "the metadata of this value cannot be encoded: %v\n", err)
		b.Metadata = nil
	}
}

func encodeJSON(v any) (j json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(runtime.Error); ok {
				err = e
			} else {
				err = fmt.Errorf("panic: %s", panicText(r))
			}
		}
	}()
	return json.Marshal(v)
}
