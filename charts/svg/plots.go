package svg

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/internal/units"
)

// frame is the inside of a plot.
type frame struct{ left, right, top, bottom float64 }

// shares draws one line a component over loads, with every value at its point.
func shares(c *canvas, s charts.Shares) float64 {
	h := 300.0
	if c.w <= 360 {
		h = 260
	}
	f := frame{24, c.w, 34, h - 44}
	var top float64
	for _, l := range s.Lines {
		for _, p := range l.Points {
			top = max(top, p.Pct(), p.HighPct)
		}
	}
	marks := ticks(top)
	y := func(v float64) float64 { return f.bottom - (f.bottom-f.top)*v/marks[len(marks)-1] }
	if len(s.Lines) > 2 { // names at the right ends
		for _, l := range s.Lines {
			f.right = min(f.right, c.w-width(l.Name(), textSize, true)-2)
		}
	}
	inset := min(34, (f.right-f.left)/float64(2*len(s.Loads)))
	x := func(i int) float64 {
		return f.left + inset + (f.right-f.left-2*inset)*float64(i)/float64(max(len(s.Loads)-1, 1))
	}
	c.text(0, 13, "% of "+s.Base, "tm", start)
	for i, v := range marks {
		cls := "grid"
		if i == 0 {
			cls = "axis"
		}
		c.line(f.left, y(v), f.right, y(v), cls)
		c.text(f.left-6, y(v)+4, count(v), "tm", end)
	}
	for i, l := range loadNames(s.Loads, x(1)-x(0)-8) {
		c.text(x(i), h-26, l, "t", middle)
	}
	if s.XLabel != "" {
		c.text((f.left+f.right)/2, h-6, s.XLabel, "tm", middle)
	}
	p := &placer{in: box{f.left - 24, 0, f.right, f.bottom - 2}}
	p.take(textBox(0, 13, width("% of "+s.Base, textSize, false), textSize, start))
	for _, v := range marks {
		p.take(textBox(f.left-6, y(v)+4, width(count(v), textSize, false), textSize, end))
	}
	paths := make([][]point, len(s.Lines))
	for k, l := range s.Lines {
		for i, pt := range l.Points {
			paths[k] = append(paths[k], point{x(i), y(pt.Pct())})
			p.dot(point{x(i), y(pt.Pct())}, 4.5)
		}
		c.path(paths[k], "ln "+stroke(l.Component))
		p.path(paths[k])
		if end := paths[k][len(paths[k])-1]; len(s.Lines) > 2 {
			p.take(box{end.x + 4, end.y - 9, end.x + 34, end.y + 9}) // the leader to the name
		}
	}
	for k, l := range s.Lines {
		for i, pt := range l.Points {
			at := paths[k][i]
			if pt.HighPct > 0 {
				c.line(at.x, y(pt.LowPct), at.x, y(pt.HighPct), "wh "+stroke(l.Component))
			}
			c.circle(at.x, at.y, 4.5, "dot "+solid(l.Component), s.Loads[i]+": "+l.Name()+" "+pt.Text()+" %")
		}
	}
	c.shareValues(p, s, paths)
	if len(s.Lines) > 2 {
		c.endNames(s, paths)
	} else {
		c.shareNames(p, s, paths)
	}
	return h
}

// loadNames shortens "C = 1", "C = 16", "C = 64" to "C = 1", "16", "64" where room is less than the longest needs.
func loadNames(loads []string, room float64) []string {
	fits := true
	cut := strings.LastIndexByte(loads[0], ' ') + 1
	for _, l := range loads {
		fits = fits && width(l, textSize, false) <= room
		if !strings.HasPrefix(l, loads[0][:cut]) {
			cut = 0
		}
	}
	if fits || cut == 0 {
		return loads
	}
	out := slices.Clone(loads)
	for i := range out[1:] {
		out[i+1] = out[i+1][cut:]
	}
	return out
}

func (c *canvas) shareValues(p *placer, s charts.Shares, paths [][]point) {
	for k, l := range s.Lines {
		for i, pt := range l.Points {
			at, w := paths[k][i], width(pt.Text(), valueSize, true)
			above, below := spot{at.x, at.y - 10, middle}, spot{at.x, at.y + 20, middle}
			first := []spot{above, below}
			for o := range paths { // away from a line close by
				if o != k && paths[o][i].y < at.y && at.y-paths[o][i].y < 40 {
					first = []spot{below, above}
				}
			}
			got, cost := p.best(append(first, spot{at.x + 9, at.y + 5, start}, spot{at.x - 9, at.y + 5, end}), w, 1)
			if cost < 25 { // a value without room is in the table
				c.text(got.x, got.y, pt.Text(), "tv halo", got.anchor)
			}
		}
	}
}

// endNames writes the names right of the last points, apart from one another, with leaders.
func (c *canvas) endNames(s charts.Shares, paths [][]point) {
	order := make([]int, len(paths))
	for k := range order {
		order[k] = k
	}
	last := func(k int) point { return paths[k][len(paths[k])-1] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(last(a).y, last(b).y) })
	ys := make([]float64, len(order))
	for i, k := range order {
		ys[i] = last(k).y
		if i > 0 {
			ys[i] = max(ys[i], ys[i-1]+16)
		}
	}
	if n := len(ys); n > 0 { // the lowest stays above the axis, and pushes the others up
		ys[n-1] = min(ys[n-1], max(last(order[n-1]).y, ys[0]+16*float64(n-1)))
		for i := n - 2; i >= 0; i-- {
			ys[i] = min(ys[i], ys[i+1]-16)
		}
	}
	for i, k := range order {
		at := last(k)
		c.path([]point{{at.x + 7, at.y}, {at.x + 24, ys[i]}, {at.x + 30, ys[i]}}, "lead")
		c.text(at.x+34, ys[i]+4, s.Lines[k].Name(), named(s.Lines[k].Component)+" halo", start)
	}
}

// shareNames writes each line's name once: where the line is the highest or the lowest by the widest margin, outside its value.
func (c *canvas) shareNames(p *placer, s charts.Shares, paths [][]point) {
	for k, l := range s.Lines {
		w := width(l.Name(), textSize, true)
		type place struct {
			margin float64
			spot   spot
		}
		var places []place
		for i, at := range paths[k] {
			over, under := math.Inf(1), math.Inf(1) // distance to the nearest line above and below
			for o := range paths {
				switch d := at.y - paths[o][i].y; {
				case o == k:
				case d >= 0:
					over = min(over, d)
				default:
					under = min(under, -d)
				}
			}
			x := min(max(at.x, w/2), c.w-w/2)
			if math.IsInf(over, 1) && math.IsInf(under, 1) { // the only line
				under = at.y
			}
			places = append(places, place{min(under, 1e3), spot{x, at.y - 28, middle}}, place{min(over, 1e3), spot{x, at.y + 38, middle}})
			if !math.IsInf(over, 1) {
				places[len(places)-2].margin = 0 // a line runs above: not the place for a name
			}
			if !math.IsInf(under, 1) {
				places[len(places)-1].margin = 0
			}
		}
		slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.margin, a.margin) })
		var spots []spot
		for _, pl := range places {
			spots = append(spots, pl.spot)
		}
		at, _ := p.best(spots, w, 1)
		c.text(at.x, at.y, l.Name(), named(l.Component)+" halo", at.anchor)
	}
}

func stroke(component string) string { return "s-" + short(charts.FamilyOf(component)) }
func solid(component string) string  { return "f-" + short(charts.FamilyOf(component)) }

// loglog draws grid and tick labels of a plot with two logarithmic axes.
func (c *canvas) loglog(f frame, x, y func(float64) float64, xs, ys []float64, xText func(float64) string, verticals bool) {
	for _, v := range ys {
		c.line(f.left, y(v), f.right, y(v), "grid")
		c.text(f.left-6, y(v)+4, count(v), "tm", end)
	}
	taken := math.Inf(-1)
	for _, v := range xs {
		if verticals {
			c.line(x(v), f.top, x(v), f.bottom, "grid")
		} else {
			c.line(x(v), f.bottom, x(v), f.bottom+4, "axis")
		}
		w := width(xText(v), textSize, false)
		if at := min(max(x(v), f.left-10+w/2), c.w-w/2); at-w/2 > taken {
			c.text(at, f.bottom+17, xText(v), "tm", middle)
			taken = at + w/2 + 8
		}
	}
	c.line(f.left, f.bottom, f.right, f.bottom, "axis")
	if verticals {
		c.line(f.left, f.top, f.left, f.bottom, "axis")
	}
}

// latency draws time over message size, one line a setting.
func latency(c *canvas, l charts.Latency) float64 {
	h, head := 430.0, 54.0
	if c.w < 400 {
		h = 380
	}
	if len(l.Markers) == 0 {
		head = 30
	}
	x0, x1, y0, y1 := l.Extent()
	f := frame{44, c.w - 6, head, h - 48}
	x, y := logScale(x0, x1, f.left, f.right), logScale(y0, y1, f.bottom, f.top)
	c.text(0, 13, "µs a call", "tm", start)
	c.loglog(f, x, y, decades(x0, x1), decades(y0, y1), func(v float64) string { return sizeText(int64(v)) }, false)
	c.text((f.left+f.right)/2, h-8, l.XLabel, "tm", middle)
	p := &placer{in: box{f.left, f.top - 4, c.w, f.bottom - 4}}
	c.markers(l, f, x, p)
	paths := make([][]point, len(l.Series))
	for i, s := range l.Series {
		for _, pt := range s.Points {
			paths[i] = append(paths[i], point{x(float64(pt.Bytes)), y(float64(pt.Ns) / 1e3)})
		}
		style := map[string]string{charts.Alternative: "dash ", charts.Reference: "thin "}[s.Style]
		c.path(paths[i], "ln "+style+stroke(s.Component))
		p.path(paths[i])
	}
	for _, s := range l.Series {
		for _, m := range l.Markers {
			if ns, ok := s.At(m.Bytes); ok {
				at := point{x(float64(m.Bytes)), y(float64(ns) / 1e3)}
				c.circle(at.x, at.y, 3.5, "dot "+solid(s.Component), s.Label+", "+m.Label+": "+units.Us(ns, 1)+" µs")
				p.dot(at, 4)
			}
		}
	}
	for _, o := range l.Observed {
		at := point{x(float64(o.Bytes)), y(float64(o.Ns) / 1e3)}
		c.diamond(at.x, at.y, o.Label+", "+units.Bytes(o.Bytes)+": "+units.Us(o.Ns, 1)+" µs")
		p.dot(at, 6)
	}
	c.latencyNames(l, paths, p, x, y)
	return h
}

// sizeText formats a power of ten: "10 kB".
func sizeText(n int64) string {
	for _, u := range []struct {
		n    int64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= u.n {
			return units.Count(n/u.n) + units.HardSpace + u.name
		}
	}
	return units.Count(n) + units.HardSpace + "B"
}

// markers draws the sizes that occur in the server; names that would touch go to a second line.
func (c *canvas) markers(l charts.Latency, f frame, x func(float64) float64, p *placer) {
	row := [2]float64{math.Inf(-1), math.Inf(-1)} // right end of the last name in each line
	for _, m := range l.Markers {
		w := width(m.Label, textSize, false)
		at := min(max(x(float64(m.Bytes)), w/2), c.w-w/2)
		line, base := 0, f.top-22
		if at-w/2 < row[0]+6 {
			line, base = 1, f.top-7
		}
		row[line] = at + w/2
		mx := x(float64(m.Bytes))
		c.line(mx, base+5, mx, f.bottom, "mark")
		c.text(at, base, m.Label, "t", middle)
		p.take(textBox(at, base, w, textSize, middle))
	}
}

// latencyNames writes the values at the largest marker, the named observations and the names of the lines.
func (c *canvas) latencyNames(l charts.Latency, paths [][]point, p *placer, x, y func(float64) float64) {
	if n := len(l.Markers); n > 0 {
		last := slices.MaxFunc(l.Markers, func(a, b charts.SizeMarker) int { return int(a.Bytes - b.Bytes) })
		for _, s := range l.Series {
			if ns, ok := s.At(last.Bytes); ok {
				at, text := point{x(float64(last.Bytes)), y(float64(ns) / 1e3)}, units.Us(ns, 0)
				got, _ := p.best([]spot{{at.x + 9, at.y + 6, start}, {at.x + 9, at.y + 16, start}, {at.x + 7, at.y - 6, start}, {at.x - 9, at.y + 16, end}}, width(text, textSize, false), 1)
				c.text(got.x, got.y, text, "t halo", got.anchor)
			}
		}
	}
	for _, o := range l.Observed {
		if o.Named {
			at, text := point{x(float64(o.Bytes)), y(float64(o.Ns) / 1e3)}, units.Us(o.Ns, 0)+" "+o.Label
			got, _ := p.best([]spot{{at.x - 10, at.y - 1, end}, {at.x - 10, at.y - 10, end}, {at.x, at.y - 12, middle}, {at.x + 10, at.y - 8, start}}, width(text, textSize, false), 1)
			c.text(got.x, got.y, text, "t halo", got.anchor)
		}
	}
	for i, s := range l.Series {
		c.lineName(s.Label, s.Component, i, paths, p)
	}
}

// lineName writes a line's name beside it: rather clearly apart from other lines, rather in one row than in two.
func (c *canvas) lineName(label, component string, own int, paths [][]point, p *placer) {
	type form struct {
		rows  []string
		apart float64
	}
	forms := []form{{[]string{label}, 12}}
	if a, b, ok := halves(label); ok {
		forms = append(forms, form{[]string{a, b}, 12}, form{[]string{a, b}, 6})
	}
	forms = append(forms, form{[]string{label}, 6}, form{[]string{label}, 0})
	var at spot
	var rows []string
	least := math.Inf(1)
	for _, f := range forms {
		w := 0.0
		for _, r := range f.rows {
			w = max(w, width(r, textSize, true))
		}
		if got, cost := p.try(besideLine(paths, own, w, len(f.rows), f.apart, c.w), w, len(f.rows)); cost < least-30 {
			at, least, rows = got, cost, f.rows
		}
		if least < 30 {
			break
		}
	}
	for i, r := range rows {
		y := at.y + 15*float64(i)
		b := textBox(at.x, y, width(r, textSize, true), textSize, at.anchor)
		p.take(box{b.x0 - 8, b.y0 - 8, b.x1 + 8, b.y1 + 8}) // names of lines keep their distance
		c.text(at.x, y, r, named(component)+" halo", at.anchor)
	}
}

// halves splits a text at the space nearest to its middle.
func halves(s string) (a, b string, ok bool) {
	best := -1
	for i, r := range s {
		if r == ' ' && (best < 0 || math.Abs(float64(i-len(s)/2)) < math.Abs(float64(best-len(s)/2))) {
			best = i
		}
	}
	if best < 0 {
		return "", "", false
	}
	return s[:best], s[best+1:], true
}

// besideLine returns places for a name along its line, from the right end, that are nearer to it than to others by apart.
func besideLine(paths [][]point, own int, w float64, rows int, apart, right float64) []spot {
	pts := paths[own]
	var out []spot
	for k := len(pts) - 1; k >= 0; k-- {
		prev := pts[max(k-1, 0)]
		for _, t := range []float64{0, .5} {
			x, y := pts[k].x+t*(prev.x-pts[k].x), pts[k].y+t*(prev.y-pts[k].y)
			for _, s := range []spot{{x - 8, y - 6, end}, {x + 8, y + 14, start}, {x, y - 12, middle}, {x, y + 20, middle}, {right, y + 16, end}, {right, y + 26, end}} {
				b := textBox(s.x, s.y, w, textSize, s.anchor)
				b.y1 += float64(rows-1) * 15
				if nearestPath(paths, b, apart) == own {
					out = append(out, s)
				}
			}
		}
	}
	if len(out) == 0 {
		out = append(out, spot{right, pts[len(pts)-1].y - 8, end})
	}
	return out
}

// nearestPath returns the path that a label would be read to belong to, or -1 when a second one is as near but for apart.
func nearestPath(paths [][]point, b box, apart float64) int {
	dist := make([]float64, len(paths))
	for i, pts := range paths {
		dist[i] = math.Inf(1)
		for k := 1; k < len(pts); k++ {
			for t := 0.0; t <= 1; t += .1 {
				x, y := pts[k-1].x+t*(pts[k].x-pts[k-1].x), pts[k-1].y+t*(pts[k].y-pts[k-1].y)
				dx, dy := max(b.x0-x, 0, x-b.x1), max(b.y0-y, 0, y-b.y1)
				dist[i] = min(dist[i], math.Hypot(dx, dy))
			}
		}
	}
	own := 0
	for i, d := range dist {
		if d < dist[own] {
			own = i
		}
	}
	for i, d := range dist {
		if i != own && d < dist[own]+apart {
			return -1
		}
	}
	return own
}
