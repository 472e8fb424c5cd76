// Package links checks a built site: every link and anchor resolves, ids are unique, nothing is loaded from outside
// and no page holds an inline script or style. It reads the pages that sitegen writes; it is no general HTML parser
// and follows no link out of the site.
package links

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"sort"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

type reference struct {
	page, attr, to string
	line           int
	link           bool // followed on a click; everything else is loaded with the page
}

type page struct {
	name string
	ids  map[string]bool
	refs []reference
}

type checker struct {
	files map[string][]byte
	pages map[string]*page
	found []diag.Diagnostic
}

// Check looks at the files of a site, by slash-separated path. Findings come in the order of path and line.
func Check(files map[string][]byte) []diag.Diagnostic {
	c := &checker{files: files, pages: map[string]*page{}}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		switch path.Ext(name) {
		case ".html":
			c.read(name, files[name])
		case ".css":
			c.stylesheet(name, files[name])
		}
	}
	for _, name := range names {
		if p := c.pages[name]; p != nil {
			for _, r := range p.refs {
				c.follow(r)
			}
		}
	}
	sort.SliceStable(c.found, func(i, j int) bool {
		a, b := c.found[i].Pos, c.found[j].Pos
		return a.File < b.File || a.File == b.File && a.Line < b.Line
	})
	return c.found
}

func (c *checker) report(id, file string, line int, hint, format string, args ...any) {
	c.found = append(c.found, diag.Diagnostic{ID: id, Severity: diag.Warning, N: 1, Pos: diag.Pos{File: file, Line: line}, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (c *checker) read(name string, src []byte) {
	p := &page{name: name, ids: map[string]bool{}}
	c.pages[name] = p
	d := xml.NewDecoder(bytes.NewReader(src))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	line, at := 1, int64(0)
	for {
		tok, err := d.RawToken()
		off := d.InputOffset()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.report("unreadable_page", name, line, "build the site again", "the page cannot be read: %v", err)
			return
		}
		if el, ok := tok.(xml.StartElement); ok {
			c.element(p, el, line)
		}
		line += bytes.Count(src[at:off], []byte("\n"))
		at = off
	}
}

func (c *checker) element(p *page, el xml.StartElement, line int) {
	tag := strings.ToLower(el.Name.Local)
	attrs := map[string]string{}
	for _, a := range el.Attr {
		name := strings.ToLower(a.Name.Local)
		attrs[name] = a.Value
		switch {
		case name == "id":
			if p.ids[a.Value] {
				c.report("duplicate_id", p.name, line, "give the cells or headings different names", "id %q is used twice", a.Value)
			}
			p.ids[a.Value] = true
		case name == "href" || name == "src" || name == "action" || name == "poster" || name == "data" && tag == "object":
			p.refs = append(p.refs, reference{p.name, name, a.Value, line, tag == "a" && name == "href"})
		case name == "srcset":
			p.refs = append(p.refs, reference{p.name, name, strings.Fields(a.Value + " ")[0], line, false})
		case name == "for" || name == "aria-labelledby" || name == "aria-describedby" || name == "aria-controls":
			for _, id := range strings.Fields(a.Value) {
				p.refs = append(p.refs, reference{p.name, name, "#" + id, line, true})
			}
		case name == "style":
			c.report("inline_style", p.name, line, "", "a style attribute on <%s>", tag)
		case strings.HasPrefix(name, "on"):
			c.report("inline_script", p.name, line, "", "a script attribute %s on <%s>", name, tag)
		}
	}
	if _, loads := attrs["src"]; tag == "script" && !loads && attrs["type"] != "application/json" {
		c.report("inline_script", p.name, line, "", "an inline script")
	}
	if tag == "style" {
		c.report("inline_style", p.name, line, "", "a <style> element")
	}
}

var cssURL = regexp.MustCompile(`url\(\s*['"]?([^'")]*)|@import\s+['"]([^'"]*)`)

func (c *checker) stylesheet(name string, src []byte) {
	for _, m := range cssURL.FindAllSubmatchIndex(src, -1) {
		to := ""
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 {
				to = string(src[m[i]:m[i+1]])
			}
		}
		if strings.HasPrefix(to, "#") { // an SVG pattern of the page
			continue
		}
		c.follow(reference{name, "url()", to, 1 + bytes.Count(src[:m[0]], []byte("\n")), false})
	}
}

func (c *checker) follow(r reference) {
	u, err := url.Parse(r.to)
	switch {
	case err != nil:
		c.report("broken_link", r.page, r.line, "", "%s %q is no link: %v", r.attr, r.to, err)
		return
	case u.Scheme == "data" && !r.link:
		return
	case u.Scheme != "" || u.Host != "":
		web := u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto"
		if !r.link || !web {
			c.report("external_reference", r.page, r.line, "a site loads nothing from outside", "%s %q leaves the site", r.attr, r.to)
		}
		return
	case strings.HasPrefix(u.Path, "/"):
		c.report("absolute_link", r.page, r.line, "use a relative link", "%s %q works on one host only", r.attr, r.to)
		return
	}
	target := r.page
	if u.Path != "" {
		target = path.Join(path.Dir(r.page), u.Path)
	}
	if _, ok := c.files[target]; !ok {
		c.report("broken_link", r.page, r.line, "", "%s %q: the site has no %s", r.attr, r.to, target)
		return
	}
	if p := c.pages[target]; u.Fragment != "" && (p == nil || !p.ids[u.Fragment]) {
		c.report("broken_anchor", r.page, r.line, "", "%s %q: %s has no id %q", r.attr, r.to, target, u.Fragment)
	}
}
