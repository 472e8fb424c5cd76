package markdown

import (
	"strings"
	"testing"
)

func keep(s string) (string, bool)  { return s, true }
func noImage(string) (string, bool) { return "", false }

func one(t *testing.T, p *Page, src string) string {
	t.Helper()
	secs, err := p.Render(src, keep, noImage)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range secs {
		if s.Level > 0 {
			b.WriteString("<" + s.ID + ":" + s.HTML + ">")
		}
		b.WriteString(s.Body)
	}
	return b.String()
}

func TestMarkdownIsSafeAndReadable(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"raw html does not pass", "a <script>alert(1)</script> b", "<p>a alert(1) b</p>"},
		{"an html block is cleaned and closed", "<div onclick=\"x\">\n<b>a\n<script>alert(1)</script>", "<div>\n<b>a\n</b></div>"},
		{"a line break stays", "a<br>b", "<p>a<br>b</p>"},
		{"javascript links lose their target", "[x](javascript:alert(1))", `<p><a href="">x</a></p>`},
		{"money is no formula", "cost $5 and $7", "<p>cost $5 and $7</p>"},
		{"a formula stays readable", "so $a_1*b*c_2$ holds", `<p>so <code class="math">$a_1*b*c_2$</code> holds</p>`},
		{"a display formula", "$$\nx < y\n$$", "<p><code class=\"math\">$$\nx &lt; y\n$$</code></p>"},
		{"a callout", "> [!NOTE]\n> Only *one* rank.", "<div class=\"callout\"><p class=\"callout-h\">Note</p>\n<p>Only <em>one</em> rank.</p>\n</div>"},
		{"a quote stays a quote", "> said", "<blockquote>\n<p>said</p>\n</blockquote>"},
		{"images are the caller's", "![a & b](https://example.org/x.png)", "<p>[image: a &amp; b]</p>"},
		{"headings open sections", "a\n# Top `x`\nb\n### deep\nc", `<p>a</p><top-x:Top <code>x</code>><p>b</p>` + "\n" + `<h3 id="deep">deep</h3>` + "\n<p>c</p>"},
		{"code is highlighted", "```go\nvar x = 1 // n\n```", `<pre class="src" tabindex="0"><code><span class="l"><span class="kw">var</span> x = <span class="nu">1</span> <span class="co">// n</span></span></code></pre>`},
	} {
		if got := one(t, NewPage(), c.in); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestIDsAreUniqueOnAPageAndSurviveEveryScript(t *testing.T) {
	p := NewPage("cell-x")
	var got []string
	for _, src := range []string{"## Result", "## Result", "## µs über 50 %", "## 结果", "## !!!", "## cell x"} {
		secs, err := p.Render(src, keep, keep)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, secs[0].ID)
	}
	want := "result result-1 us-über-50 结果 section cell-x-1"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	a, b := one(t, p, "x[^1]\n\n[^1]: n"), one(t, p, "x[^1]\n\n[^1]: n")
	if strings.Contains(a, `id="c8-`) || !strings.Contains(a, `id="c7-fn:1"`) || !strings.Contains(b, `id="c8-fn:1"`) {
		t.Errorf("footnotes of two cells share ids:\n%s\n%s", a, b)
	}
}

func TestHighlightKeepsEveryLine(t *testing.T) {
	src := "a := `x\ny`\n\n// end"
	if got := Highlight("go", src); len(got) != 4 || got[2] != "" {
		t.Errorf("%d lines: %q", len(got), got)
	}
	if got := Highlight("no such language", "<a>"); got[0] != "&lt;a&gt;" {
		t.Errorf("%q", got)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("> [!NOTE]\n> $x$ [a](b) ![c](d)\n\n# h\n\n|a|\n|-|\n|$$|\n[^1]: x")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := NewPage().Render(s, keep, noImage); err != nil {
			t.Fatal(err)
		}
	})
}
