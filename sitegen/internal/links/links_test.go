package links

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheckFindsWhatWouldBreak(t *testing.T) {
	files := map[string][]byte{
		"index.html": []byte(`<!doctype html><html><body id="top">
<a href="a.html#x">ok</a><a href="a.html#%C3%BC">ok</a><a href="https://example.org">ok</a>
<a href="gone.html">1</a>
<a href="a.html#gone">2</a>
<img src="https://example.org/x.png">
<img src="data:image/png;base64,AA">
<a href="javascript:alert(1)">3</a>
<p style="color:red" onclick="x()">4</p>
<script>alert(1)</script>
<script type="application/json">{"a":1}</script>
<i id="top"></i><a href="/a.html">5</a>
<svg role="img" aria-labelledby="none"><title>&lt;</title></svg>
<input type=checkbox checked>
</body></html>`),
		"a.html":       []byte(`<p id="x"><b id="ü"></b><br></p>`),
		"assets/s.css": []byte("a{fill:url(#dots)}\n@import 'https://example.org/s.css';\nb{background:url(\"gone.png\")}"),
	}
	var got []string
	for _, d := range Check(files) {
		got = append(got, fmt.Sprintf("%s:%d %s", d.Pos.File, d.Pos.Line, d.ID))
	}
	want := `assets/s.css:2 external_reference
assets/s.css:3 broken_link
index.html:3 broken_link
index.html:4 broken_anchor
index.html:5 external_reference
index.html:7 external_reference
index.html:8 inline_style
index.html:8 inline_script
index.html:9 inline_script
index.html:11 duplicate_id
index.html:11 absolute_link
index.html:12 broken_anchor`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}
