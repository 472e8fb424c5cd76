// Package display shows values of cells in a notebook: HTML, Markdown, pictures and the like. Its names are those of
// the package of the same name in gophernotes, as far as they exist there.
//
//	display.Display(display.HTML("<b>bold</b>"))
//	h := display.Display("0 %")
//	h.Update("100 %")
//
// In notebooks Display and display are known without an import. Outside of a kernel, values are printed as text.
// It does not draw or encode anything, and it does not decide in which formats a value of the user's is shown.
package display

import "fmt"

// MIME types.
const (
	MIMETypeHTML       = "text/html"
	MIMETypeJavaScript = "application/javascript"
	MIMETypeJPEG       = "image/jpeg"
	MIMETypeGIF        = "image/gif"
	MIMETypeJSON       = "application/json"
	MIMETypeLatex      = "text/latex"
	MIMETypeMarkdown   = "text/markdown"
	MIMETypePNG        = "image/png"
	MIMETypePDF        = "application/pdf"
	MIMETypeSVG        = "image/svg+xml"
	MIMETypeText       = "text/plain"
	MIMETypeVegaLite   = "application/vnd.vegalite.v5+json"
)

// MIMEMap holds one value in several formats: MIME type to a string, []byte or something that encodes to JSON.
type MIMEMap = map[string]any

// Data is a value ready to be shown. It is an alias, so that libraries can return it without importing this package.
// In Transient, "display_id" names the output for later updates.
type Data = struct {
	Data      MIMEMap
	Metadata  MIMEMap
	Transient MIMEMap
}

// Renderer and the interfaces below are what the kernel looks for in a value that is shown. They are aliases: the
// signatures are what counts.
type Renderer = interface{ Render() Data }

// SimpleRenderer gives all formats at once.
type SimpleRenderer = interface{ SimpleRender() MIMEMap }

// MIMEBundler is SimpleRenderer under the name that Jupyter uses.
type MIMEBundler = interface{ MIMEBundle() MIMEMap }

// Interfaces for one format each.
type (
	HTMLer       = interface{ HTML() string }
	JavaScripter = interface{ JavaScript() string }
	JPEGer       = interface{ JPEG() []byte }
	JSONer       = interface{ JSON() map[string]any }
	Latexer      = interface{ Latex() string }
	Markdowner   = interface{ Markdown() string }
	PNGer        = interface{ PNG() []byte }
	PDFer        = interface{ PDF() []byte }
	SVGer        = interface{ SVG() string }
)

// Handle is a place in a notebook where a value is shown.
type Handle struct{ ID string }

// Display shows values below the cell. The handle is for replacing what is shown.
func Display(values ...any) Handle {
	h := Handle{newID()}
	screen().Display(h.ID, values)
	return h
}

// Update shows other values in the same place, in every cell that displays it.
func (h Handle) Update(values ...any) { screen().Update(h.ID, values) }

// Clear removes what the cell has shown and printed. With wait it does so when the next output comes, which makes
// animations that do not flicker.
func Clear(wait bool) { screen().Clear(wait) }

// Input asks the user for a line.
func Input(prompt string) (string, error) { return screen().Input(prompt, false) }

// Password asks the user for a line that is not shown.
func Password(prompt string) (string, error) { return screen().Input(prompt, true) }

// MakeData is a value in one format, and as text in the way of fmt.Sprint.
func MakeData(mimeType string, data any) Data {
	d := Data{Data: MIMEMap{mimeType: data}}
	if mimeType == MIMETypeText {
		return d
	}
	if b, ok := data.([]byte); ok {
		d.Data[MIMETypeText] = fmt.Sprintf("%s, %d bytes", mimeType, len(b))
	} else {
		d.Data[MIMETypeText] = fmt.Sprint(data)
	}
	return d
}

// MakeData3 is a value in one format, and as the given text.
func MakeData3(mimeType, plaintext string, data any) Data {
	return Data{Data: MIMEMap{MIMETypeText: plaintext, mimeType: data}}
}

// MIME is a value in all given formats, with metadata by MIME type or none.
func MIME(data, metadata MIMEMap) Data { return Data{Data: data, Metadata: metadata} }

// Text is plain text.
func Text(text string) Data { return MakeData(MIMETypeText, text) }

// HTML is a piece of HTML.
func HTML(html string) Data { return MakeData(MIMETypeHTML, html) }

// JavaScript is code that the front end runs, if it trusts the notebook.
func JavaScript(javascript string) Data { return MakeData(MIMETypeJavaScript, javascript) }

// JSON is shown as a tree.
func JSON(json map[string]any) Data { return MakeData(MIMETypeJSON, json) }

// VegaLite is a chart: a specification of Vega-Lite 5.
func VegaLite(spec map[string]any) Data {
	return MakeData3(MIMETypeVegaLite, "a Vega-Lite chart", spec)
}

// Latex is text with a formula.
func Latex(latex string) Data { return MakeData3(MIMETypeLatex, latex, "$"+trimDollars(latex)+"$") }

// Math is a formula on a line of its own.
func Math(latex string) Data { return MakeData3(MIMETypeLatex, latex, "$$"+trimDollars(latex)+"$$") }

func trimDollars(s string) string {
	for len(s) > 0 && s[0] == '$' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] == '$' {
		s = s[:len(s)-1]
	}
	return s
}

// Markdown is text in Markdown.
func Markdown(markdown string) Data { return MakeData(MIMETypeMarkdown, markdown) }

// SVG is a drawing.
func SVG(svg string) Data { return MakeData3(MIMETypeSVG, "an SVG drawing", svg) }

// PNG is a picture.
func PNG(png []byte) Data { return MakeData(MIMETypePNG, png) }

// JPEG is a picture.
func JPEG(jpeg []byte) Data { return MakeData(MIMETypeJPEG, jpeg) }

// GIF is a picture, which may move.
func GIF(gif []byte) Data { return MakeData(MIMETypeGIF, gif) }

// PDF is a document.
func PDF(pdf []byte) Data { return MakeData(MIMETypePDF, pdf) }
