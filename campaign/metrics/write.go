package metrics

import (
	"math"
	"strconv"
	"strings"
)

// Text writes a scrape as a Python server does: values with a decimal point, labels as they stand.
func (s Scrape) Text() string {
	var b strings.Builder
	for _, f := range s.Families {
		if f.Help != "" || f.Type != "" {
			b.WriteString("# HELP " + quoted(f.Name) + " " + escapeHelp.Replace(f.Help) + "\n")
			b.WriteString("# TYPE " + quoted(f.Name) + " " + f.Type + "\n")
		}
		for _, x := range f.Samples {
			x.write(&b)
		}
	}
	return b.String()
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (x Sample) write(b *strings.Builder) {
	x.writeSeries(b)
	b.WriteString(" " + number(x.Value))
	if x.Timestamp != "" {
		b.WriteString(" " + x.Timestamp)
	}
	b.WriteByte('\n')
}

// writeSeries writes what names the series: the name and the labels. A name that needs quotes stands between the braces.
func (x Sample) writeSeries(b *strings.Builder) {
	var inside []string
	if isName(x.Name) {
		b.WriteString(x.Name)
	} else {
		inside = append(inside, quoted(x.Name))
	}
	for _, l := range x.Labels {
		inside = append(inside, quoted(l.Name)+`="`+escapeLabel.Replace(l.Value)+`"`)
	}
	if len(inside) > 0 {
		b.WriteString("{" + strings.Join(inside, ",") + "}")
	}
}

// quoted puts a name that is no plain one between quotes.
func quoted(name string) string {
	if isName(name) {
		return name
	}
	return `"` + escapeLabel.Replace(name) + `"`
}

// number formats a value as Python's repr does: 5.0, 1.79604468058e+09, +Inf.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a >= 1e6 || a < 1e-4) {
		format = 'e'
	}
	s := strconv.FormatFloat(v, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
