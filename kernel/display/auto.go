package display

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Any is a value in the given format: a string, []byte, io.WriterTo or io.Reader, or a value that renders itself. For
// bytes without a format, the first ones decide.
func Any(mimeType string, data any) Data {
	switch x := data.(type) {
	case Data:
		return x
	case Renderer:
		return x.Render()
	}
	if d := screen().Render(data); len(d.Data) > 0 {
		return d
	}
	switch x := data.(type) {
	case string:
		return fromString(mimeType, x)
	case []byte:
		return fromBytes(mimeType, x)
	case io.WriterTo:
		var b bytes.Buffer
		if _, err := x.WriteTo(&b); err != nil {
			return Text(err.Error())
		}
		return fromBytes(mimeType, b.Bytes())
	case io.Reader:
		b, err := io.ReadAll(x)
		if err != nil {
			return Text(err.Error())
		}
		return fromBytes(mimeType, b)
	}
	if mimeType != "" {
		return MakeData(mimeType, data)
	}
	return Text(fmt.Sprint(data))
}

// Auto is Any without a format.
func Auto(data any) Data { return Any("", data) }

// File is the content of a file in the given format. It panics if the file cannot be read.
func File(mimeType, path string) Data {
	b, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return fromBytes(mimeType, b)
}

func fromString(mimeType, s string) Data {
	if mimeType == "" {
		mimeType = MIMETypeText
	}
	return MakeData(mimeType, s)
}

func fromBytes(mimeType string, b []byte) Data {
	if mimeType == "" {
		mimeType = Sniff(b)
	}
	switch mimeType {
	case "":
		return Text(string(b))
	case MIMETypePNG, MIMETypeJPEG, MIMETypeGIF, MIMETypePDF:
		return MakeData(mimeType, b)
	}
	return MakeData(mimeType, string(b))
}

// Sniff tells the format of bytes by how they begin, or "" for text and what it does not know.
func Sniff(b []byte) string {
	for _, f := range []struct{ begin, mimeType string }{
		{"\x89PNG\r\n\x1a\n", MIMETypePNG},
		{"\xff\xd8\xff", MIMETypeJPEG},
		{"GIF87a", MIMETypeGIF},
		{"GIF89a", MIMETypeGIF},
		{"%PDF-", MIMETypePDF},
		{"<svg", MIMETypeSVG},
	} {
		if bytes.HasPrefix(b, []byte(f.begin)) {
			return f.mimeType
		}
	}
	return ""
}
