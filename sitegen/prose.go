package sitegen

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/sitegen/internal/markdown"
	"github.com/rooflab/rooflab/sitegen/internal/mime"
)

// sections renders Markdown of a cell with links and images that hold on the site.
func (s *site) sections(src string, c *cell, at place, md *markdown.Page) ([]markdown.Section, error) {
	return md.Render(src,
		func(dest string) (string, bool) { return s.link(dest, c, at) },
		func(dest string) (string, bool) { return s.picture(dest, c, at) })
}

// prose renders Markdown as one piece, headings of level 1 and 2 as h2, and returns those headings.
func (s *site) prose(src string, c *cell, at place, md *markdown.Page) (template.HTML, []markdown.Heading, error) {
	secs, err := s.sections(src, c, at, md)
	if err != nil {
		return "", nil, err
	}
	return joined(secs), headings(secs), nil
}

func joined(secs []markdown.Section) template.HTML {
	var b strings.Builder
	for _, sec := range secs {
		if sec.Level > 0 {
			fmt.Fprintf(&b, "<h2 id=\"%s\">%s</h2>\n", template.HTMLEscapeString(sec.ID), sec.HTML)
		}
		b.WriteString(sec.Body)
	}
	return template.HTML(b.String()) //nolint:gosec // rendered in safe mode by package markdown
}

func headings(secs []markdown.Section) []markdown.Heading {
	var hs []markdown.Heading
	for _, sec := range secs {
		if sec.Level > 0 {
			hs = append(hs, sec.Heading)
		}
	}
	return hs
}

// link maps the target of a link in a cell: other notebooks become their pages, files of the campaign are published,
// web addresses stay. Whatever would leave the campaign's folder keeps its text only.
func (s *site) link(dest string, c *cell, at place) (string, bool) {
	u, err := url.Parse(dest)
	if err != nil {
		return s.refuse(dest, c, at, "it is no link")
	}
	switch {
	case u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto":
		return dest, true
	case u.Scheme != "" || u.Host != "":
		return s.refuse(dest, c, at, "only web addresses and files of the campaign can be linked")
	case u.Path == "" && u.Fragment != "":
		if !at.here {
			return at.book.page + "#" + u.EscapedFragment(), true
		}
		return dest, true
	case u.Path == "":
		return s.refuse(dest, c, at, "it is empty")
	}
	if strings.HasSuffix(u.Path, ".ipynb") && !strings.Contains(u.Path, "/") {
		n := s.book(u.Path)
		if n == nil {
			s.deadLink(dest, c, at, "the campaign has no such notebook")
			return "", false
		}
		to := n.page
		if n.err != nil {
			return "index.html#notebooks", true
		}
		if f := u.EscapedFragment(); f != "" {
			to += "#" + f
		}
		return to, true
	}
	return s.publish(u.Path, dest, c, at)
}

// publish copies a file of the campaign into the site, so that a link to it holds.
func (s *site) publish(p, dest string, c *cell, at place) (string, bool) {
	inside := path.Join("notebooks", p)
	if path.IsAbs(p) || !filepath.IsLocal(filepath.FromSlash(inside)) {
		return s.refuse(dest, c, at, "it leaves the campaign's folder")
	}
	root, err := os.OpenRoot(s.dir) // follows no link out of the folder
	if err != nil {
		return s.refuse(dest, c, at, err.Error())
	}
	defer root.Close()
	raw, err := fs.ReadFile(root.FS(), inside)
	if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(p, "../") { // evidence in the campaign: the link must hold
		s.deadLink(dest, c, at, "the campaign has no file "+inside)
		return "", false
	}
	if errors.Is(err, fs.ErrNotExist) {
		return s.refuse(dest, c, at, "there is no such file beside the notebook")
	}
	if err != nil {
		return s.refuse(dest, c, at, "the file cannot be read")
	}
	to := "files/" + inside
	s.files[to] = raw
	return (&url.URL{Path: to}).EscapedPath(), true
}

// picture maps an image in a cell: attachments and files of the campaign, nothing from outside.
func (s *site) picture(dest string, c *cell, at place) (string, bool) {
	if name, ok := strings.CutPrefix(dest, "attachment:"); ok {
		if decoded, err := url.PathUnescape(name); err == nil {
			name = decoded
		}
		bundle := c.Attachments[name]
		for _, t := range bundle.Types() {
			text, _ := bundle.Text(t)
			im, err := mime.Picture(mime.Base(t), text)
			if err == nil {
				return s.asset("image", im.Ext, im.Data), true
			}
		}
		return s.refuse(dest, c, at, "the cell has no such picture attached")
	}
	u, err := url.Parse(dest)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return s.refuse(dest, c, at, "a site loads nothing from outside; attach the picture to the cell")
	}
	switch strings.ToLower(path.Ext(u.Path)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg":
		return s.publish(u.Path, dest, c, at)
	}
	return s.refuse(dest, c, at, "it is no picture")
}

func (s *site) refuse(dest string, c *cell, at place, why string) (string, bool) {
	s.warn(diag.Diagnostic{ID: "link_dropped", Severity: diag.Warning, Pos: diag.Pos{File: at.book.file}, Text: fmt.Sprintf("cell %s: %q is not linked: %s", c.id, short(dest), why)})
	return "", false
}

func (s *site) deadLink(dest string, c *cell, at place, why string) {
	s.broken = append(s.broken, diag.Diagnostic{ID: "broken_link", Severity: diag.Warning, N: 1, Pos: diag.Pos{File: at.book.file}, Text: fmt.Sprintf("cell %s: link %q: %s", c.id, short(dest), why)})
}

func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
