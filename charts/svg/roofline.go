package svg

import (
	"math"
	"slices"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/internal/units"
)

// roofline draws measured points under their roofs.
func roofline(c *canvas, r charts.Roofline) float64 {
	h := 430.0
	if c.w < 400 {
		h = 380
	}
	f := frame{44, c.w - 6, 30, h - 48}
	x0, x1, y0, y1 := r.Extent()
	x, y := logScale(x0, x1, f.left, f.right), logScale(y0, y1, f.bottom, f.top)
	c.text(0, 13, "TFLOP/s", "tm", start)
	c.loglog(f, x, y, decades(x0, x1), decades(y0, y1), count, true)
	c.text((f.left+f.right)/2, h-8, r.XLabel, "tm", middle)
	p := &placer{in: box{f.left + 4, f.top, c.w, f.bottom - 4}}
	c.regions(p, r, f, x, y)
	roofs := c.ceilings(p, r, x, y, x0, x1, y0)
	for _, s := range r.Series {
		var pts []point
		for _, m := range s.Points {
			pts = append(pts, point{x(m.Intensity()), y(m.TFLOPs())})
		}
		p.path(pts)
		c.path(pts, "ln thin "+stroke(s.Component))
		for i, m := range s.Points {
			size := 3.0
			if m.Named {
				size = 5
				roof := y(r.Roof(m.Intensity()))
				c.line(pts[i].x, pts[i].y-7, pts[i].x, roof+2, "gapline")
				p.path([]point{pts[i], {pts[i].x, roof}})
			}
			c.circle(pts[i].x, pts[i].y, size, "dot "+solid(s.Component), m.Label+": "+units.Float(m.Intensity(), 1)+" FLOP/byte, "+
				units.Float(m.TFLOPs(), 1)+" TFLOP/s, "+units.Float(r.OfRoof(m), 0)+" % of the roof")
			p.dot(pts[i], size+1)
		}
	}
	slices.SortStableFunc(roofs, func(a, b roof) int { // level ones first: they have less choice
		switch {
		case a.level == b.level:
			return 0
		case a.level:
			return -1
		}
		return 1
	})
	for _, l := range roofs {
		c.ceilingName(p, l, f)
	}
	var paths [][]point
	for _, s := range r.Series {
		var pts []point
		for _, m := range s.Points {
			pts = append(pts, point{x(m.Intensity()), y(m.TFLOPs())})
		}
		paths = append(paths, pts)
		c.roofNames(p, r, s, x, y)
	}
	for i, s := range r.Series {
		if s.Label != "" && len(r.Series) > 1 {
			c.lineName(s.Label, s.Component, i, paths, p)
		}
	}
	return h
}

func (c *canvas) roofNames(p *placer, r charts.Roofline, s charts.RoofSeries, x, y func(float64) float64) {
	for _, m := range s.Points {
		if !m.Named {
			continue
		}
		at := point{x(m.Intensity()), y(m.TFLOPs())}
		share := units.Float(r.OfRoof(m), 0) + units.HardSpace + "% of roof"
		w := max(width(m.Label, textSize, true), width(share, textSize, false))
		got, _ := p.best([]spot{{at.x + 10, at.y + 14, start}, {at.x + 11, at.y - 2, start}, {at.x - 10, at.y + 14, end}, {at.x, at.y + 20, middle},
			{at.x + 11, at.y - 20, start}, {at.x - 10, at.y - 20, end}, {at.x + 14, at.y + 28, start}, {at.x, at.y - 26, middle}}, w, 2)
		c.text(got.x, got.y, m.Label, "tb halo", got.anchor)
		c.text(got.x, got.y+15, share, "t halo", got.anchor)
	}
}

// regions names what limits left and right of the ridge.
func (c *canvas) regions(p *placer, r charts.Roofline, f frame, x, y func(float64) float64) {
	memory, compute := r.Roofs()
	if memory.BytesPerS == 0 || compute.FLOPPerS == 0 {
		return
	}
	ridge := compute.FLOPPerS / memory.BytesPerS
	rx := x(ridge)
	c.line(rx, y(compute.TFLOPsAt(ridge)), rx, f.bottom, "mark")
	left, right, base := "limited by memory", "by compute", f.bottom-10
	wl, wr := width(left, textSize, false), width(right, textSize, false)
	if rx-8-wl < f.left {
		left, wl = "memory", width("memory", textSize, false)
	}
	c.text(rx-8, base, left, "tm halo", end)
	p.take(textBox(rx-8, base, wl, textSize, end))
	if rx+8+wr > c.w {
		right, wr = "compute", width("compute", textSize, false)
	}
	c.text(rx+8, base, right, "tm halo", start)
	p.take(textBox(rx+8, base, wr, textSize, start))
}

// roof is a drawn ceiling.
type roof struct {
	name, classes string
	level, below  bool
	from, to      point
}

// ceilings draws the roofs, measured ones solid, and returns them. A measured one is named below its line where a
// data-sheet roof lies above it.
func (c *canvas) ceilings(p *placer, r charts.Roofline, x, y func(float64) float64, x0, x1, y0 float64) []roof {
	var out []roof
	for _, dashed := range []bool{true, false} {
		for _, l := range r.Ceilings {
			if l.Measured == dashed {
				continue
			}
			from, to := r.Span(l, x0, x1)
			if l.BytesPerS > 0 {
				from = max(from, y0*1e12/l.BytesPerS)
			}
			d := roof{name: l.Text(), classes: "t halo", level: l.FLOPPerS > 0, from: point{x(from), y(l.TFLOPsAt(from))}, to: point{x(to), y(l.TFLOPsAt(to))}}
			line := "roof"
			if dashed {
				d.classes, line = "tm halo", "sheet"
			}
			for _, o := range r.Ceilings {
				d.below = d.below || l.Measured && !o.Measured && (o.BytesPerS > 0) == (l.BytesPerS > 0)
			}
			pts := []point{d.from, d.to}
			c.path(pts, line)
			p.path(pts)
			out = append(out, d)
		}
	}
	return out
}

// ceilingName writes a roof's name along its line, where it touches least.
func (c *canvas) ceilingName(p *placer, l roof, f frame) {
	w := width(l.name, textSize, false)
	if l.level {
		spots := []spot{{c.w - 6, l.from.y - 8, end}}
		if l.below {
			spots = nil
			for d := 17.0; d < 60; d += 5 {
				spots = append(spots, spot{c.w - 6, l.from.y + d, end})
			}
		}
		at, _ := p.best(spots, w, 1)
		if at.y > l.from.y+24 { // pushed away from its line by the diagonal
			c.line(c.w-10, l.from.y+2, c.w-10, at.y-12, "lead")
		}
		c.text(at.x, at.y, l.name, l.classes, at.anchor)
		return
	}
	slope := math.Atan2(l.to.y-l.from.y, l.to.x-l.from.x)
	cos, sin := math.Cos(slope), math.Sin(slope)
	off := -7.0
	if l.below {
		off = 16
	}
	along := math.Hypot(l.to.x-l.from.x, l.to.y-l.from.y)
	var taken []box
	at, least := point{}, math.Inf(1)
	for d := min(along*.12, 40); d == min(along*.12, 40) || d+w < along; d += 10 {
		o := point{l.from.x + d*cos - off*sin, l.from.y + d*sin + off*cos}
		var chain []box // the slanted text as small boxes
		cost := 0.0
		for t := 4.0; t < w; t += 8 {
			mid := point{o.x + t*cos + 4*sin, o.y + t*sin - 4*cos}
			b := box{mid.x - 4, mid.y - 4, mid.x + 4, mid.y + 4}
			chain = append(chain, b)
			cost += p.cost(b)
		}
		if cost < least-1 {
			at, least, taken = o, cost, chain
		}
	}
	if least > 60 && c.besideRoof(p, l, f, w) {
		return
	}
	c.slanted(at.x, at.y, slope*180/math.Pi, l.name, l.classes)
	p.boxes = append(p.boxes, taken...)
}

// besideRoof writes the name of a diagonal left of it with a leader, where there is no room along it.
func (c *canvas) besideRoof(p *placer, l roof, f frame, w float64) bool {
	const lead = 26
	var spots []spot
	for y := l.to.y + 24; y < l.from.y; y += 6 {
		x := l.from.x + (l.to.x-l.from.x)*(y-4-l.from.y)/(l.to.y-l.from.y)
		if x-lead-w > f.left+4 {
			spots = append(spots, spot{x - lead, y, end})
		}
	}
	if len(spots) == 0 {
		return false
	}
	at, _ := p.best(spots, w, 1)
	c.text(at.x, at.y, l.name, l.classes, end)
	c.line(at.x+3, at.y-4, at.x+lead, at.y-4, "lead")
	return true
}
