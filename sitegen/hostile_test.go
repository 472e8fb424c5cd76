package sitegen

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const evil = `</script><script>document.title='PWNED'</script>`

// hostile is a notebook of everything that should not be trusted.
func hostile(t testing.TB) []byte {
	b := &nb{}
	b.md("same", "# Title "+evil+"\n\n## Twice\n\n## Twice\n\n<div onclick=\"document.title='PWNED'\">open\n\n[x](javascript:document.title='PWNED') [y](file:///etc/passwd) [z](../../../../etc/passwd) ![p](https://example.org/beacon.png) ![q](attachment:../../x.png) cost $5 and $7")
	b.code("same", "fmt.Println(\""+evil+"\")", []any{stdout(evil + "\n\x1b[31m" + strings.Repeat("\x1b[1m\x1b[38;5;200m", 2000) + "bomb\x1b]8;;javascript:alert(1)\aend")})
	b.code("html", "html", []any{
		bundle("text/html", "<div><table><tr><td>unclosed "+evil+"<svg onload=\"document.title='PWNED'\"><img src=x onerror=\"document.title='PWNED'\"><img src=\"https://example.org/b.png\"><form action=\"https://example.org\"><input></form></main>"),
		bundle("application/javascript", "document.title='PWNED'", "text/plain", "<IPython.core.display.Javascript object>"),
		bundle("application/javascript", "document.title='PWNED'"),
		bundle("application/vnd.jupyter.widget-view+json", map[string]any{"model_id": "x"}),
		bundle("image/svg+xml", "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"document.title='PWNED'\"><script>document.title='PWNED'</script></svg>"),
		bundle("image/png", "bm90IGEgcG5n"),
		bundle("text/markdown", "<script>document.title='PWNED'</script> [a](javascript:document.title='PWNED')"),
	})
	b.code("big", "big", []any{stdout(strings.Repeat("0123456789abcde\n", 1<<16))})
	b.code("records", "records", []any{
		bundle("application/vnd.rooflab.chart+json", map[string]any{"kind": "bars", "id": "x\"><script>alert(1)</script>", "title": evil, "option": map[string]any{"title": evil, "f": "__f__function(){alert(1)}__f__"}}, "text/plain", "the chart as text"),
		bundle("application/vnd.rooflab.bottlenecks+json", map[string]any{"loads": []any{map[string]any{"label": "C = 1", "steps": 1, "summed_ns": 5}}, "rows": []any{map[string]any{"label": "short", "ns": []int{}}}}, "text/plain", "the table as text"),
		bundle("application/vnd.rooflab.table+json", map[string]any{"id": "../../x", "title": evil, "columns": []any{map[string]any{"head": evil}}, "rows": []any{map[string]any{"cells": []string{evil, "too", "many"}}}}),
		bundle("application/vnd.rooflab.findings+json", map[string]any{"items": []any{map[string]any{"id": "a\" onclick=\"x", "claim": evil, "verdict": evil}}}),
		bundle("application/vnd.rooflab.tiers+json", map[string]any{"loads": []string{"C = 1", "C = 2"}, "items": []any{map[string]any{"change": evil, "gains": []any{map[string]any{"step_ns": 1, "after_ns": -5}}}}}),
	})
	b.code("error", "x", []any{map[string]any{"output_type": "error", "ename": evil, "evalue": evil, "traceback": []string{evil}}}, "raises-exception")
	return b.json(t)
}

func writeHostile(t testing.TB) string {
	t.Helper()
	dir := writeCampaign(t)
	if err := os.WriteFile(filepath.Join(dir, "notebooks", "50-hostile.ipynb"), hostile(t), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHostileNotebookIsInert(t *testing.T) {
	in := writeHostile(t)
	out, r := build(t, in)
	page := read(t, out, "50-hostile.html")
	text := visible(page)
	for _, want := range []string{
		"cost $5 and $7", "bomb", "end", "unclosed", "An output is not shown: application/javascript", "<IPython.core.display.Javascript object>",
		"application/vnd.jupyter.widget-view+json", "the chart as text", "the table as text", "An output is not shown: image/png", "The output goes on; all of it, 1.0 MB", "16378 more lines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	bare := strings.ReplaceAll(page, `<script src="assets/`, "")
	for _, never := range []string{"<script>", "onclick=", "onload=", "onerror=", "=\"javascript:", "example.org", "<form", "etc/passwd\"", "</main></div>"} {
		if strings.Contains(bare, never) {
			t.Errorf("the page holds %q", never)
		}
	}
	if found, err := Check(out); err != nil || len(found) > 0 {
		t.Errorf("check: %v %v", found, err)
	}
	if _, err := os.Stat(filepath.Join(out, "..", "x.csv")); err == nil {
		t.Error("a record wrote outside the site")
	}
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	ids := map[string]bool{}
	for _, w := range r.Warnings {
		ids[w.ID] = true
	}
	for _, id := range []string{"notebook_repaired", "link_dropped", "record_unusable", "image_unusable"} {
		if !ids[id] {
			t.Errorf("no warning %s in %v", id, r.Warnings)
		}
	}
}

func TestNaNIsAnUnreadableNotebookAndTheOthersAreBuilt(t *testing.T) {
	in := writeCampaign(t)
	bad := strings.Replace(string(hostile(t)), `"execution_count": 1`, `"execution_count": NaN`, 1)
	if json.Valid([]byte(bad)) {
		t.Fatal("the fixture is valid JSON")
	}
	if err := os.WriteFile(filepath.Join(in, "notebooks", "60-nan.ipynb"), []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	r, err := Build(t.Context(), Options{In: in, Out: out})
	if err == nil || !strings.Contains(err.Error(), "notebooks/60-nan.ipynb") || !strings.Contains(err.Error(), "1 of 4 notebooks") {
		t.Fatalf("error: %v", err)
	}
	if len(r.Pages) != 5 || !strings.Contains(read(t, out, "index.html"), "60-nan cannot be read and has no page") {
		t.Errorf("pages %v; the start page must name the notebook", r.Pages)
	}
}

func TestControlCharactersDoNotStopTheBuild(t *testing.T) {
	in := writeCampaign(t)
	b := &nb{}
	b.md("title", "# Head\x01ing\x0c\n\n## Part \x1b[31m\n\ntext \x00\ufffe")
	b.code("odd", "x := \"\x07\"", []any{
		stdout("progress 5 %\b\b\b\b10 %\x0c\x00"),
		bundle("application/vnd.rooflab.table+json", map[string]any{"id": "odd", "title": "T\x01", "columns": []any{map[string]any{"head": "k\x1b[31m"}}, "rows": []any{map[string]any{"cells": []string{"kernel\x07\x1b[0m"}}}}),
	})
	if err := os.WriteFile(filepath.Join(in, "notebooks", "50-odd.ipynb"), b.json(t), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := build(t, in)
	page := read(t, out, "50-odd.html")
	if at := strings.IndexFunc(page, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }); at >= 0 {
		t.Errorf("the page holds %q", page[max(at-20, 0):at+1])
	}
	if !strings.Contains(visible(page), "kernel\ufffd") {
		t.Error("the page does not show where a character was replaced")
	}
}
