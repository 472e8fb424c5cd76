package svg

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// breakdown draws one bar a load. Names stand in the parts where they fit; below the last bar, leaders name the others.
func breakdown(c *canvas, b charts.Breakdown) float64 {
	const height, gap = 34, 26
	var full float64
	for _, bar := range b.Bars {
		full = max(full, stepMs(bar, bar.TotalNs()), float64(bar.MaxNs)/1e6)
	}
	px := (c.w - 4) / full
	y := 4.0
	for i, bar := range b.Bars {
		y += c.heads(y, bar)
		small := c.stack(bar, y, height, px, i == len(b.Bars)-1)
		right := stepMs(bar, bar.TotalNs()) * px
		if bar.MaxNs > 0 {
			lo, hi := float64(bar.MinNs)/1e6*px, float64(bar.MaxNs)/1e6*px
			c.line(lo, y+height+5, hi, y+height+5, "wh ink")
			c.line(lo, y+height+2, lo, y+height+8, "wh ink")
			c.line(hi, y+height+2, hi, y+height+8, "wh ink")
			right = max(right, hi)
		}
		if bar.Beside != "" && right+12+width(bar.Beside, textSize, false) <= c.w {
			c.text(right+12, y+height/2+4.5, bar.Beside, "tm", start)
		}
		y += height
		if i == len(b.Bars)-1 {
			y += c.leaders(small, y)
		} else {
			y += gap
		}
	}
	return y + 2
}

func stepMs(bar charts.BreakdownBar, ns int64) float64 { return float64(ns) / float64(bar.Steps) / 1e6 }

// heads writes the line over a bar, in two lines where it is too long for one, and returns its height.
func (c *canvas) heads(y float64, bar charts.BreakdownBar) float64 {
	line := []span{{bar.Label, "tb"}, {bar.StepMs() + " ms a step", "t"}}
	if bar.Note == "" {
		c.spans(0, y+13, line...)
		return 20
	}
	w := width(bar.Label, textSize, true) + width(line[1].text+bar.Note, textSize, false) + 16
	if w <= c.w {
		c.spans(0, y+13, append(line, span{bar.Note, "tm"})...)
		return 20
	}
	c.spans(0, y+13, line...)
	h := 20.0
	for _, l := range wrap(bar.Note, c.w) {
		c.text(0, y+h+9, l, "tm", start)
		h += 16
	}
	return h
}

// wrap breaks a text at spaces into lines of at most w pixels, where it can.
func wrap(s string, w float64) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		if n := len(lines); n > 0 && width(lines[n-1]+" "+word, textSize, false) <= w {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// part is a family's rectangle without room for its name.
type part struct {
	mid  float64
	name string
}

// stack draws the parts of a bar and returns those whose names did not fit, left to right.
func (c *canvas) stack(bar charts.BreakdownBar, y, height, px float64, last bool) []part {
	x := 0.0
	var small []part
	for _, f := range charts.ByFamily(bar.Segments) {
		w := stepMs(bar, f.Ns) * px
		name, ms := data.FamilyLabel(f.Family), units.MsPer(f.Ns, int64(bar.Steps), 2)
		c.block(x, y, w, height, f.Family, bar.Label+": "+name+" "+ms+" ms")
		long := name + " " + ms
		plain := f.Family == data.Idle || f.Family == data.Unknown // text would not be read on a pattern
		switch {
		case !plain && width(long, textSize, true)+16 <= w:
			c.text(x+8, y+height/2+4.5, long, "tb on-"+short(f.Family), start)
		case last:
			small = append(small, part{x + w/2, long})
		case !plain && width(ms, textSize, true)+10 <= w:
			c.text(x+w/2, y+height/2+4.5, ms, "tb on-"+short(f.Family), middle)
		}
		x += w
	}
	return small
}

// leaders names parts below a bar, on the side that has room, and returns the height that they took.
func (c *canvas) leaders(parts []part, y float64) float64 {
	if len(parts) == 0 {
		return 10
	}
	var widest float64
	for _, p := range parts {
		widest = max(widest, width(p.name, textSize, false))
	}
	left := parts[0].mid-10-widest >= 0
	if !left {
		slices.Reverse(parts) // to the right, the rightmost part is named first, so that no leader crosses a name
	}
	for k, p := range parts {
		ly := y + 24 + 17*float64(k)
		if left {
			c.path([]point{{p.mid, y}, {p.mid, ly - 4}, {p.mid - 6, ly - 4}}, "lead")
			c.text(p.mid-10, ly, p.name, "t", end)
			continue
		}
		x := min(p.mid+10, c.w-width(p.name, textSize, false))
		c.path([]point{{p.mid, y}, {p.mid, ly - 4}, {p.mid + 6, ly - 4}}, "lead")
		c.text(x, ly, p.name, "t", start)
	}
	return 24 + 17*float64(len(parts)-1) + 6
}

// layers draws one narrow column a layer, with the families named right of the last one.
func layers(c *canvas, l charts.Layers) float64 {
	h, left, top, bottom := 320.0, 34.0, 28.0, 42.0
	perLayer := func(ns int64) float64 { return float64(ns) / float64(l.Steps) / 1e3 }
	var most float64
	sum := map[string]int64{}
	for _, col := range l.Columns {
		most = max(most, perLayer(col.TotalNs()))
		for _, f := range charts.ByFamily(col.Segments) {
			sum[f.Family] += f.Ns
		}
	}
	label := func(f string) string {
		return data.FamilyLabel(f) + " " + units.Fixed(sum[f], 1e3*int64(l.Steps*len(l.Columns)), 0)
	}
	var right float64
	for _, f := range data.Families() {
		if sum[f] > 0 {
			right = max(right, width(label(f), textSize, true)+22)
		}
	}
	marks := ticks(most)
	scale := marks[len(marks)-1]
	y := func(v float64) float64 { return top + (h-top-bottom)*(1-v/scale) }
	for _, v := range marks {
		left = max(left, width(count(v), textSize, false)+10)
	}
	c.text(0, 13, "µs a layer; means at the right", "tm", start)
	for i, v := range marks {
		cls := "grid"
		if i == 0 {
			cls = "axis"
		}
		c.line(left, y(v), c.w-right, y(v), cls)
		c.text(left-6, y(v)+4, count(v), "tm", end)
	}
	step := (c.w - right - left) / float64(len(l.Columns))
	var lastMid []part
	for i, col := range l.Columns {
		var at float64
		lastMid = nil
		for _, f := range charts.ByFamily(col.Segments) {
			v := perLayer(f.Ns)
			x, w := left+step*float64(i), step
			if step > 4 {
				x, w = x+.5, w-1
			}
			c.column(x, y(at+v), w, y(at)-y(at+v), f.Family, "Layer "+col.Label+": "+data.FamilyLabel(f.Family)+" "+units.Fixed(f.Ns, 1e3*int64(l.Steps), 1)+" µs")
			lastMid = append(lastMid, part{y(at + v/2), f.Family})
			at += v
		}
	}
	c.columnNames(lastMid, c.w-right, label)
	every := int(math.Ceil(40 / step))
	for _, nice := range []int{1, 2, 5, 10, 20, 50, 100} {
		if nice >= every {
			every = nice
			break
		}
	}
	for i := 0; i < len(l.Columns); i += every {
		x := left + step*(float64(i)+.5)
		c.line(x, h-bottom, x, h-bottom+4, "axis")
		c.text(x, h-bottom+17, l.Columns[i].Label, "tm", middle)
	}
	c.text((left+c.w-right)/2, h-6, "layer", "tm", middle)
	return h
}

// column draws a part of a narrow column without outline, which would eat it.
func (c *canvas) column(x, y, w, h float64, family, tip string) {
	switch {
	case h <= 0:
	case family == data.Idle || family == data.Unknown:
		c.block(x, y, w, h, family, tip)
	default:
		c.el("rect", box4(x, y, w, max(h, .3)), "f-"+short(family), tip)
	}
}

// columnNames writes the families beside the last column, at their heights where they do not collide.
func (c *canvas) columnNames(parts []part, x float64, label func(string) string) {
	ys := make([]float64, len(parts))
	for i, p := range parts { // from the bottom up
		ys[i] = p.mid
		if i > 0 {
			ys[i] = min(ys[i], ys[i-1]-16)
		}
	}
	for i := len(parts) - 2; i >= 0; i-- { // nothing above the head line
		if over := 24 - ys[len(parts)-1]; over > 0 && i == len(parts)-2 {
			ys[len(parts)-1] += over
		}
		ys[i] = max(ys[i], ys[i+1]+16)
	}
	for i, p := range parts {
		c.path([]point{{x + 2, p.mid}, {x + 10, ys[i]}, {x + 16, ys[i]}}, "lead")
		cls := "t"
		if strings.Contains(named(p.name), " ") { // a colour of its own
			cls = named(p.name)
		}
		c.text(x+20, ys[i]+4, label(p.name), cls, start)
	}
}

func count(v float64) string {
	if v == math.Trunc(v) {
		return units.Count(int64(v))
	}
	return units.Float(v, max(1, int(math.Ceil(-math.Log10(v)))))
}

// bars draws groups of horizontal bars from zero, each with its value at the end.
func bars(c *canvas, b charts.Bars) float64 {
	const height = 16.0
	var top, room float64
	for _, r := range b.Rows {
		for _, v := range r.Values {
			if v.Missing == "" {
				top = max(top, v.Value)
			}
			room = max(room, width(b.Text(v), textSize, true)+width(v.Label, textSize, false)+16)
		}
	}
	y := 26.0
	c.text(0, 13, b.Unit, "tm", start)
	px := (c.w - room) / max(top, 1e-300)
	for _, r := range b.Rows {
		c.text(0, y+14, r.Label, "tb", start)
		y += 20
		for i, v := range r.Values {
			x := 0.0
			if v.Missing == "" {
				x = v.Value * px
				tip := fmt.Sprintf("%s %s %s %s", r.Label, v.Label, b.Text(v), b.Unit)
				switch {
				case v.Component != "":
					c.block(0, y, x, height, charts.FamilyOf(v.Component), tip)
				case i == 0:
					c.rect(0, y, x, height, "f-ink", tip)
				default:
					c.rect(0, y, x, height, "f-muted", tip)
				}
				x += 6
			}
			text := []span{{b.Text(v), "tb"}, {v.Label, "tm"}}
			if v.Missing != "" {
				x, text = 6, []span{{join(v.Label, v.Missing), "tm"}}
			}
			c.spans(x, y+12.5, text...)
			y += height + 3
		}
		c.line(0, y-3-float64(len(r.Values))*(height+3), 0, y, "axis")
		y += 12
	}
	return y - 6
}

func join(label, text string) string {
	if label == "" {
		return text
	}
	return label + ": " + text
}
