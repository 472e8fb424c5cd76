package svg

import (
	"strings"

	"github.com/rooflab/rooflab/data"
)

// Colour is a variable of the palette with its value on light and on dark ground.
type Colour struct{ Name, Light, Dark string }

// Palette returns the variables that the drawings use, for a page's style sheet: contrast of text 4.5:1, of marks 3:1,
// families told apart with normal sight and without red, green or blue cones.
func Palette() []Colour {
	return []Colour{
		{"bg", "#ffffff", "#14171b"}, {"ink", "#191c20", "#e9ebee"}, {"muted", "#565e67", "#a7b0ba"},
		{"rule", "#c9ced4", "#3c434b"}, {"grid", "#e4e7ea", "#2a3037"}, {"panel", "#f5f6f8", "#1c2026"},
		{"c-network", "#b8420c", "#f4774a"}, {"c-experts", "#0a4a9a", "#3e89fa"}, {"c-attention", "#2a8370", "#79f8db"},
		{"c-dense", "#459ad6", "#66c4f9"}, {"c-small", "#b3901e", "#f2cb4f"}, {"c-copy", "#6b2152", "#af759f"},
		{"c-host", "#8d959e", "#7d8791"}, {"c-unknown", "#565e67", "#a7b0ba"},
		{"on-network", "#ffffff", "#14171b"}, {"on-experts", "#ffffff", "#14171b"}, {"on-attention", "#ffffff", "#14171b"},
	}
}

const sans = `"Segoe UI", "Helvetica Neue", Roboto, Arial, sans-serif`

// rule gives a class its properties. The same list makes the style sheet of a page and the attributes of a literal drawing.
type rule struct{ class, props string }

var rules = append([]rule{
	{"t", "fill:var(--ink)"},
	{"tm", "fill:var(--muted)"},
	{"tb", "fill:var(--ink);font-weight:700"},
	{"tv", "fill:var(--ink);font-size:14px;font-weight:700"},
	{"halo", "paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round"},
	{"c-network", "fill:var(--c-network)"},
	{"c-experts", "fill:var(--c-experts)"},
	{"on-network", "fill:var(--on-network)"},
	{"on-experts", "fill:var(--on-experts)"},
	{"on-attention", "fill:var(--on-attention)"},
	{"on-copy", "fill:var(--on-network)"},
	{"on-dense", "fill:#14171b"}, // both values of these two are light enough for dark text
	{"on-small", "fill:#14171b"},
	{"on-ink", "fill:var(--bg)"},
	{"f", "stroke:var(--bg);stroke-width:.5"},
	{"f-ink", "fill:var(--ink)"},
	{"f-muted", "fill:var(--muted)"},
	{"f-out", "stroke:var(--muted);stroke-width:.75"},
	{"ln", "fill:none;stroke-width:2.25;stroke-linejoin:round"},
	{"thin", "stroke-width:1.25"},
	{"dash", "stroke-dasharray:6 4"},
	{"wh", "fill:none;stroke-width:1.5"},
	{"ink", "stroke:var(--ink)"},
	{"dot", "stroke:var(--bg);stroke-width:1.5"},
	{"dia", "fill:var(--bg);stroke:var(--ink);stroke-width:1.5"},
	{"grid", "stroke:var(--grid)"},
	{"axis", "stroke:var(--ink)"},
	{"roof", "fill:none;stroke:var(--ink);stroke-width:2"},
	{"sheet", "fill:none;stroke:var(--muted);stroke-width:1.25;stroke-dasharray:6 4"},
	{"mark", "stroke:var(--rule);stroke-dasharray:2 3"},
	{"gapline", "stroke:var(--muted);stroke-dasharray:2 3"},
	{"lead", "fill:none;stroke:var(--muted)"},
	{"hl", "stroke:var(--muted);stroke-width:1.2"},
	{"dt", "fill:var(--muted)"},
	{"pl", "stroke:#fff;stroke-width:1"},
	{"pd", "fill:#fff"},
}, familyRules()...)

func familyRules() []rule {
	var out []rule
	for _, f := range data.Families() {
		if f == data.Idle {
			continue
		}
		out = append(out, rule{"f-" + short(f), "fill:var(--c-" + short(f) + ")"}, rule{"s-" + short(f), "stroke:var(--c-" + short(f) + ")"})
	}
	return out
}

// short is the family's name in variables and classes.
func short(family string) string {
	if family == data.Copies {
		return "copy"
	}
	return family
}

// CSS returns the rules for drawings on a page; the page defines the variables of Palette.
// On paper patterns are laid over the colours.
func CSS() string {
	var b strings.Builder
	b.WriteString("svg.v{overflow:visible}\nsvg.v text{font:12.5px/1 " + sans + ";font-variant-numeric:tabular-nums lining-nums}\n")
	for _, r := range rules {
		b.WriteString("svg.v ." + r.class + "{" + r.props + "}\n")
	}
	b.WriteString("svg.v .pat{display:none}\n@media print{svg.v .pat{display:inline}")
	for _, f := range []string{"network", "attention", "dense", "small", "copy"} { // text stays readable on a pattern
		b.WriteString("svg.v .on-" + f + "{paint-order:stroke;stroke:var(--c-" + f + ");stroke-width:4px}")
	}
	b.WriteString("}\n")
	return b.String()
}

// literal returns the attributes that a literal drawing has in place of classes, with the colours for light ground.
func literal(classes string) string {
	props, order := map[string]string{}, []string{}
	has := map[string]bool{}
	for _, c := range strings.Fields(classes) {
		has[c] = true
	}
	for _, r := range rules {
		if !has[r.class] {
			continue
		}
		for _, p := range strings.Split(r.props, ";") {
			name, value, _ := strings.Cut(p, ":")
			if _, ok := props[name]; !ok {
				order = append(order, name)
			}
			props[name] = light.Replace(value)
		}
	}
	var b strings.Builder
	for _, name := range order {
		b.WriteString(" " + name + `="` + props[name] + `"`)
	}
	return b.String()
}

var light = func() *strings.Replacer {
	var pairs []string
	for _, c := range Palette() {
		pairs = append(pairs, "var(--"+c.Name+")", c.Light)
	}
	return strings.NewReplacer(pairs...)
}()
