package svg

import (
	"math"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Heights of a timeline.
const (
	laneHeight = 30.0
	laneGap    = 6.0
)

// timeline draws true time from left to right; where names would not fit, from top to bottom.
func timeline(c *canvas, t charts.Timeline) float64 {
	if c.w < 500 {
		return upright(c, t)
	}
	total := float64(t.EndNs())
	px := (c.w - 2) / total
	gap := laneGap
	for i := range t.Lanes[1:] {
		if _, _, ok := c.besideLane(t, i+1, px); !ok {
			gap = 22 // room for the name above the lane
		}
	}
	laneY := func(i int) float64 { return 26 + float64(i)*(laneHeight+gap) }
	c.text(0, 13, t.Lanes[0], "tm", start)
	for _, s := range merged(t.Slices, .6/px) {
		c.block(float64(s.StartNs)*px, laneY(s.Lane), float64(s.DurNs)*px, laneHeight, charts.FamilyOf(s.Component), tip(s))
	}
	c.laneNames(t, px, laneY)
	bottom := laneY(len(t.Lanes)-1) + laneHeight
	bottom = c.groups(t, px, laneY, bottom)
	return c.timeAxis(total, px, bottom+6)
}

func tip(s charts.Slice) string {
	text := data.ComponentLabel(s.Component) + " " + units.Us(s.DurNs, 1) + " µs"
	if s.Name != "" {
		text += ": " + s.Name
	}
	return text
}

// merged joins neighbours of one family that are both narrower than least ns: they cannot be told apart.
func merged(slices []charts.Slice, least float64) []charts.Slice {
	var out []charts.Slice
	last := map[int]int{} // lane -> index in out
	for _, s := range slices {
		if i, ok := last[s.Lane]; ok {
			o := &out[i]
			touching := float64(s.StartNs-o.StartNs-o.DurNs) < least
			if touching && float64(s.DurNs) < least && float64(o.DurNs) < least && charts.FamilyOf(o.Component) == charts.FamilyOf(s.Component) {
				o.DurNs = s.StartNs + s.DurNs - o.StartNs
				continue
			}
		}
		last[s.Lane] = len(out)
		out = append(out, s)
	}
	return out
}

// laneNames writes the names of the other lanes: beside their work where there is room, else above.
func (c *canvas) laneNames(t charts.Timeline, px float64, laneY func(int) float64) {
	for i, name := range t.Lanes[1:] {
		if x, anchor, ok := c.besideLane(t, i+1, px); ok {
			c.text(x, laneY(i+1)+laneHeight/2+4.5, name, "tm", anchor)
		} else {
			c.text(0, laneY(i+1)-6, name, "tm", start)
		}
	}
}

// besideLane returns where the name of a lane fits: right of its work, or left of it.
func (c *canvas) besideLane(t charts.Timeline, lane int, px float64) (x float64, anchor string, ok bool) {
	from, to := math.Inf(1), 0.0
	for _, s := range t.Slices {
		if s.Lane == lane {
			from, to = min(from, float64(s.StartNs)*px), max(to, float64(s.StartNs+s.DurNs)*px)
		}
	}
	w := width(t.Lanes[lane], textSize, false)
	if to+8+w <= c.w {
		return to + 8, start, true
	}
	return from - 8, end, from-8-w >= 0
}

// groups names stretches: in the bar when one slice is the whole group and the name fits, below with a brace otherwise.
func (c *canvas) groups(t charts.Timeline, px float64, laneY func(int) float64, bottom float64) float64 {
	base := bottom + 14
	var rows []row
	lowest := bottom + 4
	for _, g := range t.Groups {
		a, b := float64(g.StartNs)*px, float64(g.EndNs)*px
		if s, ok := only(t, g); ok {
			if name, fits := inside(g, b-a); fits {
				c.text(a+8, laneY(g.Lane)+laneHeight/2+4.5, name, "tb on-"+short(charts.FamilyOf(s.Component)), start)
				continue
			}
		}
		name, note := g.Label+", "+units.Us(g.EndNs-g.StartNs, 0)+units.HardSpace+"µs", g.Note
		if c.w < 1000 {
			note = ""
			if g.Short != "" {
				name = g.Short + ", " + units.Us(g.EndNs-g.StartNs, 0) + units.HardSpace + "µs"
			}
		}
		c.path([]point{{a + .5, base - 5}, {a + .5, base}, {b - .5, base}, {b - .5, base - 5}}, "lead")
		w := max(width(name, textSize, false), width(note, textSize, false))
		x := max(0, min(a, c.w-w))
		level, lead := fit(rows, x, w, a, b)
		if level == len(rows) {
			rows = append(rows, nil)
		}
		rows[level] = append(rows[level], [2]float64{x, x + w})
		y := base + 16 + 34*float64(level)
		if level > 0 {
			for i := range level {
				rows[i] = append(rows[i], [2]float64{lead - 3, lead + 3})
			}
			c.line(lead, base, lead, y-11, "lead")
		}
		c.text(x, y, name, "t halo", start)
		lowest = max(lowest, y+8)
		if note != "" {
			c.text(x, y+16, note, "tm halo", start)
			lowest = max(lowest, y+24)
		}
	}
	return lowest
}

// row holds the stretches of a line of names that are taken.
type row [][2]float64

func (r row) free(from, to float64) bool {
	for _, t := range r {
		if from < t[1]+8 && to > t[0]-8 {
			return false
		}
	}
	return true
}

// fit returns the first row with room for a text, and where in a..b its leader passes the rows above.
func fit(rows []row, x, w, a, b float64) (level int, lead float64) {
	for level = range len(rows) + 1 {
		if level < len(rows) && !rows[level].free(x, x+w) {
			continue
		}
		for _, lead = range between((a+b)/2, a+2, b-2) {
			clear := true
			for _, r := range rows[:level] {
				clear = clear && r.free(lead+5, lead-5) // closer than two texts may be
			}
			if clear {
				return level, lead
			}
		}
	}
	return len(rows), (a + b) / 2
}

// between returns the middle and then points from both ends inwards.
func between(mid, a, b float64) []float64 {
	out := []float64{mid}
	for d := 0.0; a+d < b-d; d += 3 {
		out = append(out, b-d, a+d)
	}
	return out
}

// only returns the slice that is the whole group.
func only(t charts.Timeline, g charts.Group) (charts.Slice, bool) {
	var found charts.Slice
	n := 0
	for _, s := range t.Slices {
		if s.Lane == g.Lane && s.StartNs < g.EndNs && s.StartNs+s.DurNs > g.StartNs {
			found = s
			n++
		}
	}
	f := charts.FamilyOf(found.Component)
	return found, n == 1 && f != data.Idle && f != data.Unknown
}

// inside returns the longest form of a group's name that fits into w pixels.
func inside(g charts.Group, w float64) (string, bool) {
	us := units.Us(g.EndNs-g.StartNs, 0)
	forms := []string{g.Label + " " + us + units.HardSpace + "µs"}
	if g.Short != "" {
		forms = append(forms, g.Short+" "+us+units.HardSpace+"µs", g.Short+" "+us)
	} else {
		forms = append(forms, g.Label+" "+us)
	}
	for _, f := range forms {
		if width(f, textSize, true)+14 <= w {
			return f, true
		}
	}
	return "", false
}

func (c *canvas) timeAxis(total, px, y float64) float64 {
	c.line(0, y, c.w-2, y, "axis")
	last := units.Fixed(int64(total), 1e3, 0) + units.HardSpace + "µs"
	step := timeStep(total/1e3, (c.w-2)/90)
	room := c.w - 2 - width(last, textSize, false) - 12
	for v := 0.0; v*1e3 <= total; v += step {
		x := v * 1e3 * px
		if x+width(count(v), textSize, false)/2 > room {
			break
		}
		c.line(x, y, x, y+4, "axis")
		anchor := middle
		if v == 0 {
			anchor = start
		}
		c.text(x, y+17, count(v), "tm", anchor)
	}
	c.line(c.w-2, y, c.w-2, y+4, "axis")
	c.text(c.w-2, y+17, last, "tm", end)
	return y + 24
}

// timeStep returns a round step in µs that gives at most n ticks.
func timeStep(us, n float64) float64 {
	for mag := math.Pow(10, math.Floor(math.Log10(us/n))); ; mag *= 10 {
		for _, s := range []float64{1, 2, 5} {
			if us/(s*mag) <= n {
				return s * mag
			}
		}
	}
}

// upright draws the timeline from top to bottom, with all names at the right.
func upright(c *canvas, t charts.Timeline) float64 {
	const top, height, left = 24.0, 560.0, 34.0
	total := float64(t.EndNs())
	px := height / total
	lanes := float64(len(t.Lanes))
	names := 0.0
	for _, g := range t.Groups {
		names = max(names, width(upName(g), textSize, true))
	}
	pitch := min(58, (c.w-left-names-26)/lanes)
	bar := pitch - 4
	laneX := func(i int) float64 { return left + float64(i)*pitch }
	c.text(0, 13, "µs", "tm", start)
	for i := range t.Lanes {
		text := "stream " + units.Count(int64(i+1))
		if width(text, textSize, false) > bar {
			text = units.Count(int64(i + 1))
		}
		c.text(laneX(i), 13, text, "tm", start)
	}
	for v, step := 0.0, timeStep(total/1e3, 8); v*1e3 <= total; v += step {
		y := top + v*1e3*px
		c.line(left-5, y, left-1, y, "axis")
		c.text(left-8, y+4, count(v), "tm", end)
	}
	edge := laneX(len(t.Lanes)-1) + bar
	below := math.Inf(-1)
	for _, g := range t.Groups { // leaders first: the slices of other lanes cover them
		y := top + (float64(g.StartNs)+float64(g.EndNs-g.StartNs)/2)*px
		below = max(y+4, below+17)
		c.path([]point{{laneX(g.Lane) + bar + 1, y}, {edge + 6, y}, {edge + 12, below - 4}}, "lead")
		cls := "t"
		if _, ok := only(t, g); ok {
			cls = "tb"
		}
		c.text(edge+16, below, upName(g), cls, start)
	}
	for _, s := range merged(t.Slices, .6/px) {
		y, h := top+float64(s.StartNs)*px, max(float64(s.DurNs)*px-.3, .6)
		c.block(laneX(s.Lane), y, bar, h, charts.FamilyOf(s.Component), tip(s))
	}
	return max(top+height, below+6) + 4
}

func upName(g charts.Group) string {
	name := g.Label
	if g.Short != "" {
		name = g.Short
	}
	return name + " " + units.Us(g.EndNs-g.StartNs, 0) + units.HardSpace + "µs"
}
