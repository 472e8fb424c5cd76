package svg

import "math"

// box is a rectangle that is taken: a label, a mark.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) overlap(o box) float64 {
	w := min(b.x1, o.x1) - max(b.x0, o.x0)
	h := min(b.y1, o.y1) - max(b.y0, o.y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h
}

// textBox returns the room of a text of one line at its base line.
func textBox(x, y, w, size float64, anchor string) box {
	switch anchor {
	case middle:
		x -= w / 2
	case end:
		x -= w
	}
	return box{x, y - size*.8, x + w, y + size*.25}
}

type segment struct{ a, b point }

// length returns how much of the segment lies in the box, in pixels.
func (s segment) length(b box) float64 {
	t0, t1 := 0.0, 1.0
	dx, dy := s.b.x-s.a.x, s.b.y-s.a.y
	for _, e := range [][2]float64{{-dx, s.a.x - b.x0}, {dx, b.x1 - s.a.x}, {-dy, s.a.y - b.y0}, {dy, b.y1 - s.a.y}} {
		if e[0] == 0 {
			if e[1] < 0 {
				return 0
			}
			continue
		}
		t := e[1] / e[0]
		if e[0] < 0 {
			t0 = max(t0, t)
		} else {
			t1 = min(t1, t)
		}
	}
	if t0 >= t1 {
		return 0
	}
	return (t1 - t0) * math.Hypot(dx, dy)
}

// placer finds room for labels beside the marks of a plot.
type placer struct {
	in    box // where labels may be
	boxes []box
	lines []segment
}

func (p *placer) take(b box) { p.boxes = append(p.boxes, b) }

func (p *placer) dot(at point, r float64) { p.take(box{at.x - r, at.y - r, at.x + r, at.y + r}) }

func (p *placer) path(pts []point) {
	for i := 1; i < len(pts); i++ {
		p.lines = append(p.lines, segment{pts[i-1], pts[i]})
	}
}

// spot is a possible place of a label: base line of its first line.
type spot struct {
	x, y   float64
	anchor string
}

// best returns the first of the spots that collides least; rows is the number of text lines, 15 px apart.
// The cost is 0 when nothing is touched.
func (p *placer) best(spots []spot, w float64, rows int) (spot, float64) {
	found, cost := p.try(spots, w, rows)
	b := textBox(found.x, found.y, w, textSize, found.anchor)
	b.y1 += float64(rows-1) * 15
	p.take(b)
	return found, cost
}

// try is best without taking the place.
func (p *placer) try(spots []spot, w float64, rows int) (spot, float64) {
	var found spot
	least := math.Inf(1)
	for i, s := range spots {
		b := textBox(s.x, s.y, w, textSize, s.anchor)
		b.y1 += float64(rows-1) * 15
		if cost := p.cost(b); cost+float64(i)*.01 < least {
			least, found = cost+float64(i)*.01, s
		}
	}
	if least < 1 {
		least = 0
	}
	return found, least
}

func (p *placer) cost(b box) float64 {
	area := (b.x1 - b.x0) * (b.y1 - b.y0)
	cost := 20 * (area - b.overlap(p.in)) // outside the plot
	for _, o := range p.boxes {
		cost += 2 * b.overlap(o)
	}
	near := box{b.x0 - 2, b.y0 - 1, b.x1 + 2, b.y1 + 1}
	for _, l := range p.lines {
		cost += 6 * l.length(near)
	}
	return cost
}
