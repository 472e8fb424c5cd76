package svg_test

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/assets"
	"github.com/rooflab/rooflab/charts/internal/firstscreen"
	"github.com/rooflab/rooflab/charts/svg"
)

// TestPage writes a page with all figures at all widths, light and dark, to be looked at: go test -run Page -look DIR.
func TestPage(t *testing.T) {
	if *look == "" {
		t.Skip("only with -look DIR")
	}
	var css strings.Builder
	css.WriteString(":root{color-scheme:light dark;font:16px/1.5 sans-serif;--sans:sans-serif}:root.dark{color-scheme:dark}:root.light{color-scheme:light}html{background:var(--bg);color:var(--ink)}figure{margin:24px 0}.stage[hidden]{display:none}\n:root{")
	for _, c := range svg.Palette() {
		fmt.Fprintf(&css, "--%s:light-dark(%s,%s);", c.Name, c.Light, c.Dark)
	}
	css.WriteString("}\n" + svg.CSS())
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(*look, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("page.css", css.String())
	write("charts.js", string(assets.ChartsJS()))
	if raw, err := assets.ECharts(); err == nil {
		write("echarts.min.js", string(raw))
	}
	write("click.js", `addEventListener("load", function () { if (location.hash !== "#explore") return;
		document.querySelectorAll("button.explore").forEach(function (b) { b.click(); }); });`)
	for _, scheme := range []string{"light", "dark"} {
		var b strings.Builder
		fmt.Fprintf(&b, `<!doctype html><html lang="en" class="%s"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:">`+
			`<title>Figures</title><link rel="stylesheet" href="page.css"><script defer src="charts.js"></script><script defer src="click.js"></script>`, scheme)
		for _, c := range firstscreen.Charts(t) {
			fmt.Fprintf(&b, `<figure data-chart><h3>%s</h3><div class="draw">`, html.EscapeString(c.Title))
			for _, w := range widths {
				b.Write(render(t, c, svg.Options{Width: w}))
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, `</div><script type="application/json">%s</script></figure>`, c.Option)
		}
		write(scheme+".html", b.String())
	}
}
