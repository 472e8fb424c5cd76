package mime

import (
	"strings"
	"testing"
)

func TestTerminalShowsWhatATerminalShows(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"progress bar keeps its last state", "  1%\r 50%\r100%\n", "100%"},
		{"backspaces overwrite", "abc\b\bXY", "aXY"},
		{"windows line ends", "a\r\nb\r\n", "a|b"},
		{"erase to the end", "loading\r\x1b[Kdone", "done"},
		{"colours become classes", "\x1b[01;32mok\x1b[m <b>", `<span class="a-fg3 a-b">ok</span> &lt;b&gt;`},
		{"256 colours fall on the nearest of sixteen", "\x1b[38;5;196mred", `<span class="a-fg2">red</span>`},
		{"true colour", "\x1b[38;2;250;250;250mw", `<span class="a-fg16">w</span>`},
		{"a style goes on over the line end, every line balanced", "\x1b[1ma\nb", `<span class="a-b">a</span>|<span class="a-b">b</span>`},
		{"links of terminals vanish", "\x1b]8;;javascript:alert(1)\x07text\x1b]8;;\x07", "text"},
		{"a cut sequence is dropped", "x\x1b[31", "x"},
		{"clear screen and cursor moves vanish", "\x1b[2J\x1b[Hx", "x"},
		{"inverse swaps the colours", "\x1b[31;7mx", `<span class="a-bg2">x</span>`},
		{"empty", "", ""},
	} {
		if got := strings.Join(Terminal(c.in), "|"); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestForeignHTMLIsInertAndBalanced(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"scripts go with their text", `a<script>alert(1)</script>`, `a`},
		{"handlers go", `<p onclick="x()">a</p>`, `<p>a</p>`},
		{"ids and styles go", `<p id="main" style="position:fixed">a</p>`, `<p>a</p>`},
		{"javascript links go", `<a href="javascript:alert(1)">a</a>`, `a`},
		{"outside images go", `<p>a<img src="https://example.org/x.png"></p>`, `<p>a</p>`},
		{"forms go", `<form action="https://example.org"><input name="a"></form>a`, `a`},
		{"open elements are closed", `<div><p>a`, `<div><p>a</p></div>`},
		{"surplus ends go", `</div></main>a</p>`, `a`},
		{"crossed ends are put in order", `<b><i>a</b>c</i>`, `<b><i>a</i></b>c`},
		{"nothing readable is nothing", `<div><script>1</script> </div>`, ``},
		{"inline svg goes", `<svg onload="alert(1)"><script>1</script></svg>a`, `a`},
		{"h1 belongs to the page", `<h1>a</h1>`, `<h3>a</h3>`},
		{"tables stay", `<table class="dataframe"><tr><th scope="row">a</th><td colspan="2">b</td></tr></table>`, `<table class="dataframe"><tr><th scope="row">a</th><td colspan="2">b</td></tr></table>`},
	} {
		if got := Foreign(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPicturesMustBeWhatTheySay(t *testing.T) {
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	if im, err := Picture("image/png", png[:40]+"\n"+png[40:]); err != nil || im.Ext != ".png" || im.Width != 1 {
		t.Errorf("png: %+v, %v", im, err)
	}
	for _, c := range []struct{ typ, text string }{{"image/jpeg", png}, {"image/png", "%%%"}, {"image/png", "AAAA"}, {"image/svg+xml", "<html>"}, {"image/webp", png}} {
		if _, err := Picture(c.typ, c.text); err == nil {
			t.Errorf("%s %q was accepted", c.typ, c.text)
		}
	}
}

func FuzzTerminal(f *testing.F) {
	f.Add("\x1b[31mx\x1b[0m\r\b\x1b]0;t\x07")
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range Terminal(s) {
			if strings.Count(l, "<span") != strings.Count(l, "</span>") || strings.Contains(l, "\x1b") {
				t.Fatalf("unbalanced or raw: %q", l)
			}
		}
	})
}

func FuzzForeign(f *testing.F) {
	f.Add(`<div><table><tr><td><p onclick=x>a</div><svg><style></p>`)
	f.Fuzz(func(t *testing.T, s string) {
		got := Foreign(s)
		open := 0
		for _, m := range tag.FindAllStringSubmatch(got, -1) {
			switch {
			case void[m[1]]:
			case strings.HasPrefix(m[0], "</"):
				open--
			default:
				open++
			}
			if open < 0 {
				break
			}
		}
		low := strings.ToLower(got)
		if open != 0 || strings.Contains(low, "<script") || strings.Contains(low, "<style") {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
