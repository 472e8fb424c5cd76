package assist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPackagesOfTheModuleAreOfferedAndDescribed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.org/mine\n\ngo 1.24\n",
		"geo/geo.go":         "// Package geo measures.\npackage geo\n\n// Area is in square metres.\nfunc Area(w, h float64) float64 { return w * h }\n",
		"internal/deep/a.go": "package deep\n",
		"go-odd/odd.go":      "package odd\n",
		"cmd/tool/main.go":   "package main\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := New(Options{Session: afterCells(t), Module: dir, Gopls: "off"})
	code := `import "example.org/mine/`
	var got []string
	for range 200 { // they are listed in the background
		if got = texts(a.Complete(code, len(code))); len(got) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if want := []string{"example.org/mine/geo", "example.org/mine/go-odd", "example.org/mine/internal/deep"}; !slices.Equal(got, want) {
		t.Errorf("paths are %v, want %v", got, want)
	}
	c := a.Complete("geo.Ar", 6)
	if len(c.Matches) != 1 || c.Matches[0].Text != "Area" || c.Matches[0].Signature != `(w, h float64) float64 (import "example.org/mine/geo")` {
		t.Errorf("matches are %v", c.Matches)
	}
	if got := texts(a.Complete("od", 2)); !slices.Contains(got, "odd") {
		t.Errorf("matches are %v", got)
	}
	if text, _ := a.Inspect("geo.Area", 6, 1).Data["text/plain"].(string); !strings.Contains(text, "square metres") || !strings.Contains(text, "return w * h") {
		t.Errorf("the description is %q", text)
	}
}
