package session

import (
	"go/token"
	"slices"
	"sort"
	"strings"
)

// edit replaces text[off:end]. Edits at one place are applied in the order in which they were made.
type edit struct {
	off, end int
	text     string
}

// edits is a list of changes to the checked text. Nothing is printed anew: lines and comments stay what they are.
type edits struct {
	list   []edit
	sorted bool
}

func (c *checker) replace(from, to token.Pos, text string) {
	c.edits.list = append(c.edits.list, edit{c.tfile.Offset(from), c.tfile.Offset(to), text})
	c.edits.sorted = false
}

func (c *checker) insert(at token.Pos, text string) { c.replace(at, at, text) }

// cover replaces a range together with all edits that were made inside it, but not what was inserted before it.
func (c *checker) cover(from, to token.Pos, text string) {
	off, end := c.tfile.Offset(from), c.tfile.Offset(to)
	c.edits.list = slices.DeleteFunc(c.edits.list, func(e edit) bool { return off <= e.off && e.end <= end && e.end > off })
	c.replace(from, to, text)
}

// textIn gives the checked text between two positions with the edits inside it applied.
func (c *checker) textIn(from, to token.Pos) string {
	return c.edited(c.tfile.Offset(from), c.tfile.Offset(to))
}

func (c *checker) edited(off, end int) string {
	l := c.edits.list
	if !c.edits.sorted {
		sort.SliceStable(l, func(i, j int) bool { return l[i].off < l[j].off })
		c.edits.sorted = true
	}
	var b strings.Builder
	for i := sort.Search(len(l), func(i int) bool { return l[i].off >= off }); i < len(l) && l[i].off <= end; i++ {
		e := l[i]
		if e.end > end || e.off < off { // not ours, or inside a replaced part
			continue
		}
		b.WriteString(c.text[off:e.off])
		b.WriteString(e.text)
		off = e.end
	}
	b.WriteString(c.text[off:end])
	return b.String()
}
