package mime

import (
	"html"
	"regexp"
	"strings"
	"sync"

	"github.com/microcosm-cc/bluemonday"
)

// policy is built on first use; a bluemonday policy may be shared once it is complete.
var policy = sync.OnceValue(func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "div", "span", "pre", "code", "kbd", "samp", "var", "b", "strong", "i", "em", "u", "s", "small", "sub", "sup", "mark",
		"blockquote", "ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "h3", "h4", "h5", "h6", "details", "summary", "a", "img")
	number := regexp.MustCompile(`^[0-9]{1,3}$`)
	p.AllowAttrs("colspan", "rowspan").Matching(number).OnElements("td", "th")
	p.AllowAttrs("scope").Matching(regexp.MustCompile(`^(row|col|rowgroup|colgroup)$`)).OnElements("th")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^(dataframe|num)$`)).OnElements("table", "td", "th")
	p.AllowAttrs("alt").OnElements("img")
	p.AllowAttrs("src").Matching(regexp.MustCompile(`^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$`)).OnElements("img")
	p.AllowDataURIImages()
	p.AllowAttrs("href").Matching(regexp.MustCompile(`^(https?://|mailto:)`)).OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireNoFollowOnLinks(true)
	return p
})

var (
	tag     = regexp.MustCompile(`</?([a-z][a-z0-9]*)[^>]*>`)
	visible = regexp.MustCompile(`(?i)<img|[^\s]`)
	headers = regexp.MustCompile(`<(/?)h[12](\s[^>]*)?>`)
)

// Foreign makes HTML of unknown origin publishable: an allowlist of elements without id, style, script or outside
// resources, and no element left open or closed too often. It returns "" when nothing readable is left.
func Foreign(s string) string {
	s = headers.ReplaceAllString(s, "<${1}h3>") // h1 and h2 belong to the page
	s = balance(policy().Sanitize(s))
	if !strings.Contains(s, "<img") && !visible.MatchString(html.UnescapeString(tag.ReplaceAllString(s, ""))) {
		return ""
	}
	return s
}

var void = map[string]bool{"br": true, "hr": true, "img": true}

// balance drops end tags without a start and adds the ones that are missing. It works on the sanitiser's own spelling
// and writes nothing but the tags it was given and their ends.
func balance(s string) string {
	var b strings.Builder
	var open []string
	last := 0
	for _, m := range tag.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[last:m[0]])
		last = m[1]
		whole, name := s[m[0]:m[1]], s[m[2]:m[3]]
		switch {
		case void[name]:
			b.WriteString(whole)
		case whole[1] != '/':
			open = append(open, name)
			b.WriteString(whole)
		default:
			at := lastIndex(open, name)
			if at < 0 {
				continue
			}
			for i := len(open) - 1; i >= at; i-- {
				b.WriteString("</" + open[i] + ">")
			}
			open = open[:at]
		}
	}
	b.WriteString(s[last:])
	for i := len(open) - 1; i >= 0; i-- {
		b.WriteString("</" + open[i] + ">")
	}
	return b.String()
}

func lastIndex(names []string, name string) int {
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] == name {
			return i
		}
	}
	return -1
}
