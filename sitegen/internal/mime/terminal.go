// Package mime turns the parts of a notebook output into HTML that is safe to publish: terminal text, foreign HTML, images.
// It does not know notebooks, pages or records, and it never lets a script, a style or a request through.
package mime

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is what SGR sequences have switched on. Colours count from 1 (black) to 16 (bright white); 0 is the default.
type style struct {
	fg, bg                                         uint8
	bold, dim, italic, underline, inverse, through bool
}

type cell struct {
	r rune
	s style
}

// Terminal shows text as a terminal would: carriage returns and backspaces overwrite, SGR sequences become classes,
// other control sequences vanish. It returns one HTML fragment a line; every line is balanced in itself.
// A final newline does not open another line.
func Terminal(text string) []string {
	t := terminal{}
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == '\x1b':
			n = t.escape(text)
		case r == '\r' && strings.HasPrefix(text[n:], "\n"):
		case r == '\n':
			t.newline()
		case r == '\r':
			t.col = 0
		case r == '\b':
			t.col = max(0, t.col-1)
		case r == '\t' || !unicode.IsControl(r):
			t.put(r)
		}
		text = text[n:]
	}
	if len(t.line) > 0 {
		t.newline()
	}
	return t.lines
}

type terminal struct {
	lines []string
	line  []cell
	col   int
	now   style
}

func (t *terminal) put(r rune) {
	c := cell{r, t.now}
	if t.col < len(t.line) {
		t.line[t.col] = c
	} else {
		t.line = append(t.line, c)
	}
	t.col++
}

func (t *terminal) newline() {
	var b strings.Builder
	for i := 0; i < len(t.line); {
		j := i
		var run strings.Builder
		for ; j < len(t.line) && t.line[j].s == t.line[i].s; j++ {
			run.WriteRune(t.line[j].r)
		}
		text := html.EscapeString(run.String())
		if class := t.line[i].s.class(); class != "" {
			text = `<span class="` + class + `">` + text + `</span>`
		}
		b.WriteString(text)
		i = j
	}
	t.lines = append(t.lines, b.String())
	t.line, t.col = t.line[:0], 0
}

// escape reads the sequence at the start of text and returns its length.
func (t *terminal) escape(text string) int {
	if len(text) < 2 {
		return 1
	}
	switch text[1] {
	case '[':
		i := 2
		for i < len(text) && text[i] >= 0x20 && text[i] < 0x40 {
			i++
		}
		if i == len(text) {
			return i
		}
		switch args := text[2:i]; text[i] {
		case 'm':
			t.sgr(args)
		case 'K':
			if (args == "" || args == "0") && t.col < len(t.line) {
				t.line = t.line[:t.col]
			}
		}
		if text[i] < 0x40 || text[i] > 0x7e { // not a final byte: the sequence is broken, keep what follows
			return i
		}
		return i + 1
	case ']': // a title or a link, up to BEL or ESC \
		for i := 2; i < len(text); i++ {
			if text[i] == '\a' {
				return i + 1
			}
			if text[i] == '\x1b' {
				return min(i+2, len(text))
			}
			if text[i] == '\n' {
				return i
			}
		}
		return len(text)
	}
	return 2
}

func (t *terminal) sgr(args string) {
	var codes []int
	for _, a := range strings.FieldsFunc(args+";", func(r rune) bool { return r == ';' || r == ':' }) {
		n, err := strconv.Atoi(a)
		if err != nil {
			return
		}
		codes = append(codes, n)
	}
	if len(codes) == 0 {
		codes = []int{0}
	}
	for i := 0; i < len(codes); i++ {
		s := &t.now
		switch c := codes[i]; {
		case c == 0:
			*s = style{}
		case c == 1:
			s.bold = true
		case c == 2:
			s.dim = true
		case c == 3:
			s.italic = true
		case c == 4:
			s.underline = true
		case c == 7:
			s.inverse = true
		case c == 9:
			s.through = true
		case c == 22:
			s.bold, s.dim = false, false
		case c == 23:
			s.italic = false
		case c == 24:
			s.underline = false
		case c == 27:
			s.inverse = false
		case c == 29:
			s.through = false
		case c >= 30 && c <= 37:
			s.fg = uint8(c - 29)
		case c >= 90 && c <= 97:
			s.fg = uint8(c - 81)
		case c >= 40 && c <= 47:
			s.bg = uint8(c - 39)
		case c >= 100 && c <= 107:
			s.bg = uint8(c - 91)
		case c == 39:
			s.fg = 0
		case c == 49:
			s.bg = 0
		case c == 38 || c == 48:
			colour, used := extended(codes[i+1:])
			i += used
			if c == 38 {
				s.fg = colour
			} else {
				s.bg = colour
			}
		}
	}
}

// extended reads "5;n" or "2;r;g;b" and returns the nearest of the sixteen colours and how many codes it took.
func extended(codes []int) (colour uint8, used int) {
	switch {
	case len(codes) >= 2 && codes[0] == 5:
		n := codes[1]
		switch {
		case n >= 0 && n < 16:
			return uint8(n + 1), 2
		case n >= 16 && n < 232:
			n -= 16
			level := [6]int{0, 95, 135, 175, 215, 255}
			return nearest(level[n/36], level[n/6%6], level[n%6]), 2
		case n < 256 && n >= 0:
			g := 8 + 10*(n-232)
			return nearest(g, g, g), 2
		}
		return 0, 2
	case len(codes) >= 4 && codes[0] == 2:
		return nearest(codes[1], codes[2], codes[3]), 4
	}
	return 0, len(codes)
}

var palette = [16][3]int{
	{0, 0, 0}, {170, 0, 0}, {0, 170, 0}, {170, 85, 0}, {0, 0, 170}, {170, 0, 170}, {0, 170, 170}, {170, 170, 170},
	{85, 85, 85}, {255, 85, 85}, {85, 255, 85}, {255, 255, 85}, {85, 85, 255}, {255, 85, 255}, {85, 255, 255}, {255, 255, 255},
}

func nearest(r, g, b int) uint8 {
	best, at := 1<<30, 0
	for i, p := range palette {
		d := (p[0]-r)*(p[0]-r) + (p[1]-g)*(p[1]-g) + (p[2]-b)*(p[2]-b)
		if d < best {
			best, at = d, i
		}
	}
	return uint8(at + 1)
}

func (s style) class() string {
	var names []string
	add := func(on bool, name string) {
		if on {
			names = append(names, name)
		}
	}
	if s.inverse {
		s.fg, s.bg = s.bg, s.fg
	}
	add(s.fg > 0, "a-fg"+strconv.Itoa(int(s.fg)))
	add(s.bg > 0, "a-bg"+strconv.Itoa(int(s.bg)))
	add(s.inverse && s.fg == 0 && s.bg == 0, "a-inv")
	add(s.bold, "a-b")
	add(s.dim, "a-d")
	add(s.italic, "a-i")
	add(s.underline, "a-u")
	add(s.through, "a-s")
	return strings.Join(names, " ")
}
