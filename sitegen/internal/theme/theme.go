// Package theme holds how the site looks: templates, style sheet and the small script that remembers the colours.
// It does not read notebooks and does not compute figures; templates are given finished views.
package theme

import (
	"embed"
	"html/template"
	"regexp"
	"sync"

	"github.com/rooflab/rooflab/data"
)

//go:embed site.css
var CSS []byte

// Script keeps the choice of colours over pages. Every page is complete without it.
//
//go:embed site.js
var Script []byte

//go:embed *.html
var files embed.FS

// Templates returns the parsed templates: "page" and the parts it uses.
var Templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("site").Funcs(template.FuncMap{"text": Text, "family": family}).ParseFS(files, "*.html")
})

var (
	beforeUnit = regexp.MustCompile(`([0-9]) (%|ms|µs|ns|s|GB/s|TB/s|kB|MB|GB|FLOP/byte|TFLOP/s|tokens|streams|steps|points)\b`)
	percent    = regexp.MustCompile(`([0-9]) %`)
	equals     = regexp.MustCompile(`\b([CMN]) = ([0-9])`)
	code       = regexp.MustCompile("`([^`]+)`")
	bold       = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	hyphened   = regexp.MustCompile(`(?i)\b(all-reduce|all-gather|all-to-all|reduce-scatter)\b`)
)

// Text makes HTML of a record's text: escaped, with `code` and **bold**, numbers kept with their units.
func Text(s string) template.HTML {
	s = template.HTMLEscapeString(s)
	s = beforeUnit.ReplaceAllString(s, "$1\u00a0$2")
	s = percent.ReplaceAllString(s, "$1\u00a0%")
	s = equals.ReplaceAllString(s, "$1\u00a0=\u00a0$2")
	s = code.ReplaceAllString(s, "<code>$1</code>")
	s = bold.ReplaceAllString(s, "<b>$1</b>")
	s = hyphened.ReplaceAllString(s, `<span class="nb">$1</span>`)
	return template.HTML(s) //nolint:gosec // escaped above; only fixed tags were added
}

// family is the name of a family in classes and variables, as charts/svg spells it.
func family(name string) string {
	if name == data.Copies {
		return "copy"
	}
	return name
}
