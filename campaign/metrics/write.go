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
			b.WriteString("# HELP " + f.Name + " " + escapeHelp.Replace(f.Help) + "\n")
			b.WriteString("# TYPE " + f.Name + " " + f.Type + "\n")
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
	if x.Stamped {
		b.WriteString(" " + strconv.FormatInt(x.Timestamp, 10))
	}
	b.WriteByte('\n')
}

// writeSeries writes what names the series: the name and the labels.
func (x Sample) writeSeries(b *strings.Builder) {
	b.WriteString(x.Name)
	for i, l := range x.Labels {
		if i == 0 {
			b.WriteByte('{')
		} else {
			b.WriteByte(',')
		}
		b.WriteString(l.Name + `="` + escapeLabel.Replace(l.Value) + `"`)
	}
	if len(x.Labels) > 0 {
		b.WriteByte('}')
	}
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
