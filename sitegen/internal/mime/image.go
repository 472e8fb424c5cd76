package mime

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"  // for DecodeConfig
	_ "image/jpeg" // for DecodeConfig
	_ "image/png"  // for DecodeConfig
	"strings"
)

// Image is a picture ready to be written as a file. Width and Height are pixels, 0 when the file does not say.
type Image struct {
	Ext           string // with the dot
	Data          []byte
	Width, Height int
}

// Picture decodes an image output. Text is base64 for raster images and XML for image/svg+xml.
// The bytes must be what the type says; an SVG is meant for <img>, where its scripts cannot run.
func Picture(typ, text string) (Image, error) {
	if typ == "image/svg+xml" {
		if !strings.Contains(strings.ToLower(text), "<svg") {
			return Image{}, fmt.Errorf("image/svg+xml without an <svg> element")
		}
		return Image{Ext: ".svg", Data: []byte(text)}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Map(dropSpace, text))
	if err != nil {
		return Image{}, fmt.Errorf("%s is not base64: %w", typ, err)
	}
	if typ == "image/webp" {
		if len(raw) < 12 || string(raw[:4]) != "RIFF" || string(raw[8:12]) != "WEBP" {
			return Image{}, fmt.Errorf("image/webp output holds something else")
		}
		return Image{Ext: ".webp", Data: raw}, nil
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return Image{}, fmt.Errorf("%s does not decode: %w", typ, err)
	}
	if "image/"+format != typ {
		return Image{}, fmt.Errorf("%s output holds a %s", typ, format)
	}
	return Image{Ext: map[string]string{"png": ".png", "jpeg": ".jpg", "gif": ".gif"}[format], Data: raw, Width: cfg.Width, Height: cfg.Height}, nil
}

func dropSpace(r rune) rune {
	switch r {
	case ' ', '\n', '\r', '\t':
		return -1
	}
	return r
}

// Base returns the type without parameters, in lower case: "text/plain" for "Text/Plain; charset=utf-8".
func Base(typ string) string {
	typ, _, _ = strings.Cut(typ, ";")
	return strings.ToLower(strings.TrimSpace(typ))
}
