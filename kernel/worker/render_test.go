package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/kernel/display"
)

type (
	box    struct{ s string }
	all    struct{}
	broken struct{}
	whole  struct{}
	simple map[string]any
	tree   map[string]any
)

func (b box) HTML() string     { return "<b>" + b.s + "</b>" }
func (all) Markdown() string   { return "# m" }
func (all) Latex() string      { return "$l$" }
func (all) SVG() string        { return "<svg/>" }
func (all) PNG() []byte        { return []byte("png") }
func (all) JPEG() []byte       { return []byte("jpeg") }
func (all) PDF() []byte        { return []byte("pdf") }
func (all) JavaScript() string { return "1" }
func (all) String() string     { return "all of it" }
func (broken) HTML() string    { panic("no html") }
func (broken) String() string  { panic("no text") }
func (whole) Render() display.Data {
	return display.Data{Data: display.MIMEMap{"text/html": "w"}, Metadata: display.MIMEMap{"k": 1}}
}
func (s simple) SimpleRender() map[string]any { return s }
func (t tree) JSON() map[string]any           { return t }

// shown is a bundle as the kernel gets it.
func shown(t *testing.T, vals ...any) string {
	t.Helper()
	b := render(vals)
	j, err := json.Marshal(b.Data)
	if err != nil {
		t.Fatal(err)
	}
	return string(j)
}

func TestRender(t *testing.T) {
	var nilBox *box
	gray := image.NewGray(image.Rect(0, 0, 2, 3))
	gray.Pix[0] = 9
	for _, c := range []struct {
		name string
		vals []any
		want string
	}{
		{"value", []any{42}, `{"text/plain":"42"}`},
		{"nothing", []any{nil, nil}, `null`},
		{"value and nil error", []any{7, nil}, `{"text/plain":"7"}`},
		{"value and error", []any{0, errors.New("bad")}, `{"text/plain":"0 bad"}`},
		{"error", []any{errors.New("bad")}, `{"text/plain":"bad"}`},
		{"two values", []any{7, "seven"}, `{"text/plain":"7 seven"}`},
		{"own format", []any{box{"x"}}, `{"text/html":"\u003cb\u003ex\u003c/b\u003e","text/plain":"{x}"}`},
		{"own format and nil", []any{box{"x"}, nil}, `{"text/html":"\u003cb\u003ex\u003c/b\u003e","text/plain":"{x}"}`},
		{"all formats", []any{all{}}, `{"application/javascript":"1","application/pdf":"cGRm","image/jpeg":"anBlZw==","image/png":"cG5n","image/svg+xml":"\u003csvg/\u003e",` +
			`"text/latex":"$l$","text/markdown":"# m","text/plain":"all of it"}`},
		{"panicking methods", []any{broken{}}, `{"text/plain":"%!v(PANIC=String method: no text)"}`},
		{"nil pointer", []any{nilBox}, `{"text/plain":"\u003cnil\u003e"}`},
		{"data", []any{display.HTML("<i>")}, `{"text/html":"\u003ci\u003e","text/plain":"\u003ci\u003e"}`},
		{"renderer", []any{whole{}}, `{"text/html":"w","text/plain":"{}"}`},
		{"simple renderer", []any{simple{"application/vnd.x+json": map[string]any{"a": 1}, "text/plain": "t"}}, `{"application/vnd.x+json":{"a":1},"text/plain":"t"}`},
		{"json", []any{tree{"a": []int{1}}}, `{"application/json":{"a":[1]},"text/plain":"map[a:[1]]"}`},
		{"json that cannot be encoded", []any{tree{"a": math.NaN()}}, `{"text/plain":"map[a:NaN]"}`},
		{"bytes of a picture", []any{[]byte("\x89PNG\r\n\x1a\nrest")}, `{"image/png":"iVBORw0KGgpyZXN0","text/plain":"image/png, 12 bytes"}`},
		{"bytes", []any{[]byte("ab")}, `{"text/plain":"[97 98]"}`},
		{"handle", []any{display.Handle{ID: "1"}}, `null`},
		{"names of cells", []any{fmt.Errorf("nb/c7.%sf", prefix)}, `{"text/plain":"main.f"}`},
	} {
		t.Run(c.name, func(t *testing.T) { equal(t, shown(t, c.vals...), c.want) })
	}
	b := render([]any{gray})
	if !strings.HasPrefix(string(b.Data["image/png"].(json.RawMessage)), `"iVBORw0KGgo`) || fmt.Sprint(b.Metadata) != "map[image/png:map[height:3 width:2]]" {
		t.Errorf("a picture: %v %v", b.Data, b.Metadata)
	}
}

func TestTextIsBounded(t *testing.T) {
	m := map[string]any{"a": 1}
	m["self"] = m
	s := []any{1, nil}
	s[1] = s
	type node struct {
		next *node
		any  any
	}
	n := &node{}
	n.next, n.any = n, n
	deep := any(0)
	for range 100000 {
		deep = []any{deep}
	}
	many := make([]int, 1<<22)
	for name, v := range map[string]any{"map": m, "slice": s, "deep": deep, "many": many, "long": strings.Repeat("世", maxText)} {
		text, whole := plain(v)
		if whole || len(text) > 2*maxText || !strings.Contains(text, "…") {
			t.Errorf("%s: whole %v, %d bytes: %.80q", name, whole, len(text), text)
		}
	}
	for _, v := range []any{n, []int{1, 2}, map[int][]string{1: {"a"}}, struct{ p *node }{n}, [][]int{{1}, {1}}, []any{m["a"], m["a"]}} {
		if text, whole := plain(v); !whole || text != fmt.Sprint(v) {
			t.Errorf("got %q, want %q", text, fmt.Sprint(v))
		}
	}
}

func TestBuiltinPrint(t *testing.T) {
	var b []byte
	for _, v := range []any{1, -2, uint8(3), true, "s", 1.5, 1e100, float32(0.1), 2i} {
		b = append(appendPrinted(b, v), ' ')
	}
	equal(t, string(b), "1 -2 3 true s 1.5 1e+100 0.1 (0+2i) ")
}

func TestMemoryLimitIsRead(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "100": 100, "2K": 2048, "3M": 3 << 20, "4G": 4 << 30, "x": -1, "-1": -1, "9999999999G": -1} {
		n, err := parseSize(s)
		if want < 0 != (err != nil) || err == nil && n != want {
			t.Errorf("%s: %d %v", s, n, err)
		}
	}
	if freeMemory() <= 0 {
		if _, err := os.Stat("/proc/meminfo"); err == nil {
			t.Error("the free memory of this machine is not known")
		}
	}
}
