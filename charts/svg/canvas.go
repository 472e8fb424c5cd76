package svg

import (
	"bytes"
	"encoding/xml"
	"math"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
)

// canvas collects the elements of one drawing, w pixels wide. y grows downwards; a text's y is its base line.
type canvas struct {
	w       float64
	id      string // prefix of all ids in the drawing
	literal bool
	body    strings.Builder
	used    map[string]bool   // patterns that the drawing refers to
	styles  map[string]string // literal attributes by class
}

// num writes a coordinate with at most one decimal.
func num(v float64) string {
	s := strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a bytes.Buffer does not fail
	return b.String()
}

func (c *canvas) style(classes string) string {
	if c.literal {
		attrs, ok := c.styles[classes]
		if !ok {
			attrs = literal(classes)
			c.styles[classes] = attrs
		}
		return attrs
	}
	return ` class="` + classes + `"`
}

// el writes an element; attrs is already in XML form. The tip is shown on pointing.
func (c *canvas) el(tag, attrs, classes, tip string) {
	c.body.WriteString("<" + tag + attrs + c.style(classes))
	if tip == "" {
		c.body.WriteString("/>")
		return
	}
	c.body.WriteString("><title>" + escape(tip) + "</title></" + tag + ">")
}

func attr(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		b.WriteString(" " + pairs[i] + `="` + pairs[i+1] + `"`)
	}
	return b.String()
}

// Anchors of a text.
const (
	start  = "start"
	middle = "middle"
	end    = "end"
)

func (c *canvas) text(x, y float64, s, classes, anchor string) {
	a := attr("x", num(x), "y", num(y))
	if anchor != start {
		a += attr("text-anchor", anchor)
	}
	c.body.WriteString("<text" + a + c.style(classes) + ">" + escape(s) + "</text>")
}

// span is a stretch of text with its own class.
type span struct{ text, classes string }

// spans writes stretches of text after one another, 8 px apart.
func (c *canvas) spans(x, y float64, parts ...span) {
	c.body.WriteString("<text" + attr("x", num(x), "y", num(y)) + c.style("t") + ">")
	for i, p := range parts {
		dx := ""
		if i > 0 {
			dx = attr("dx", "8")
		}
		c.body.WriteString("<tspan" + dx + c.style(p.classes) + ">" + escape(p.text) + "</tspan>")
	}
	c.body.WriteString("</text>")
}

// slanted writes a text along a line that falls by angle degrees (negative: rises).
func (c *canvas) slanted(x, y, angle float64, s, classes string) {
	c.body.WriteString(`<text transform="translate(` + num(x) + " " + num(y) + ") rotate(" + num(angle) + `)"` + c.style(classes) + ">" + escape(s) + "</text>")
}

func (c *canvas) line(x1, y1, x2, y2 float64, classes string) {
	c.el("line", attr("x1", num(x1), "y1", num(y1), "x2", num(x2), "y2", num(y2)), classes, "")
}

type point struct{ x, y float64 }

func (c *canvas) path(pts []point, classes string) {
	var d strings.Builder
	for i, p := range pts {
		if i == 0 {
			d.WriteString("M")
		} else {
			d.WriteString("L")
		}
		d.WriteString(num(p.x) + " " + num(p.y))
	}
	c.el("path", attr("d", d.String()), classes, "")
}

func (c *canvas) circle(x, y, r float64, classes, tip string) {
	c.el("circle", attr("cx", num(x), "cy", num(y), "r", num(r)), classes, tip)
}

func (c *canvas) diamond(x, y float64, tip string) {
	d := "M" + num(x) + " " + num(y-5) + "L" + num(x+5) + " " + num(y) + "L" + num(x) + " " + num(y+5) + "L" + num(x-5) + " " + num(y) + "Z"
	c.el("path", attr("d", d), "dia", tip)
}

// rect writes a filled rectangle without outline, at least 0.6 px wide.
func (c *canvas) rect(x, y, w, h float64, classes, tip string) {
	if w <= 0 || h <= 0 {
		return
	}
	c.el("rect", box4(x, y, max(w, .6), h), classes, tip)
}

func box4(x, y, w, h float64) string {
	return attr("x", num(x), "y", num(y), "width", num(w), "height", num(h))
}

// block writes a rectangle of a family: its colour, a hatch for idle, dots for what was not recognised.
// On a page, patterns for paper are laid over it.
func (c *canvas) block(x, y, w, h float64, family, tip string) {
	if w <= 0 || h <= 0 {
		return
	}
	w = max(w, .6)
	switch family {
	case data.Idle, data.Unknown:
		p := map[string]string{data.Idle: "hatch", data.Unknown: "dots"}[family]
		c.el("rect", box4(x, y, w, h)+attr("fill", c.pattern(p)), "f-out", tip)
	default:
		c.rect(x, y, w, h, "f f-"+short(family), tip)
		if !c.literal && family != data.Experts && w > 3 {
			c.el("rect", box4(x, y, w, h)+attr("fill", c.pattern(short(family))), "pat", "")
		}
	}
}

func (c *canvas) pattern(name string) string {
	c.used[name] = true
	return "url(#" + c.id + "-" + name + ")"
}

// Patterns in drawing order; the last five are for paper.
var patterns = []struct {
	name      string
	size      int
	rotate    string
	tag, form string
	class     string
}{
	{"hatch", 6, "45", "line", ` x1="0" y1="0" x2="0" y2="6"`, "hl"},
	{"dots", 4, "", "circle", ` cx="2" cy="2" r="1"`, "dt"},
	{"network", 7, "45", "line", ` x1="0" y1="0" x2="0" y2="7"`, "pl"},
	{"attention", 5, "", "line", ` x1="0" y1="0" x2="0" y2="5"`, "pl"},
	{"dense", 5, "", "circle", ` cx="2" cy="2" r="1"`, "pd"},
	{"small", 5, "", "line", ` x1="0" y1="0" x2="5" y2="0"`, "pl"},
	{"copy", 5, "-45", "line", ` x1="0" y1="0" x2="0" y2="5"`, "pl"},
}

func (c *canvas) defs() string {
	var b strings.Builder
	for _, p := range patterns {
		if !c.used[p.name] {
			continue
		}
		n := strconv.Itoa(p.size)
		b.WriteString(`<pattern id="` + c.id + "-" + p.name + `" width="` + n + `" height="` + n + `" patternUnits="userSpaceOnUse"`)
		if p.rotate != "" {
			b.WriteString(` patternTransform="rotate(` + p.rotate + `)"`)
		}
		b.WriteString("><" + p.tag + p.form + c.style(p.class) + "/></pattern>")
	}
	if b.Len() == 0 {
		return ""
	}
	return "<defs>" + b.String() + "</defs>"
}

// document wraps the elements as an SVG of height h. A literal drawing has its own ground with a margin.
func (c *canvas) document(ch charts.Chart, h float64) []byte {
	w, hh := num(c.w), num(math.Ceil(h))
	view, ground, extra := "0 0 "+w+" "+hh, "", ` class="v w`+w+`"`
	if c.literal {
		w, hh = num(c.w+2*margin), num(math.Ceil(h)+2*margin)
		view = num(-margin) + " " + num(-margin) + " " + w + " " + hh
		ground = `<rect x="` + num(-margin) + `" y="` + num(-margin) + `" width="` + w + `" height="` + hh + `" fill="#ffffff"/>`
		extra = ` font-family='` + sans + `' font-size="12.5px"`
	}
	return []byte(`<svg xmlns="http://www.w3.org/2000/svg"` + extra + ` width="` + w + `" height="` + hh + `" viewBox="` + view +
		`" role="img" aria-labelledby="` + c.id + `-t ` + c.id + `-d"><title id="` + c.id + `-t">` + escape(ch.Title) +
		`</title><desc id="` + c.id + `-d">` + escape(ch.Desc) + "</desc>" + c.defs() + ground + c.body.String() + "</svg>")
}

// margin is the empty rim of a literal drawing, in pixels.
const margin = 12
