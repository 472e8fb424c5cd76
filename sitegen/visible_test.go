package sitegen

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

func sharedDir(t testing.TB) string { return sharedtest.Dir(t) }

var (
	hidden = regexp.MustCompile(`(?s)<(script|style|head)\b.*?</(script|style|head)>|<!--.*?-->`)
	tags   = regexp.MustCompile(`<[^>]*>`)
)

// visible is the text of a page as a reader without styles sees it.
func visible(page string) string {
	page = hidden.ReplaceAllString(page, "")
	return squeeze(html.UnescapeString(tags.ReplaceAllString(page, "")))
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
