package display

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type fake struct {
	printer
	log []string
}

func (f *fake) note(format string, args ...any) { f.log = append(f.log, fmt.Sprintf(format, args...)) }
func (f *fake) Display(id string, values []any) { f.note("display %v", values) }
func (f *fake) Update(id string, values []any)  { f.note("update %v", values) }
func (f *fake) Clear(wait bool)                 { f.note("clear %v", wait) }
func (f *fake) Comm(m CommMessage) error        { f.note("%s %s %v", m.Type, m.Target, m.Data); return nil }
func (f *fake) Input(p string, pw bool) (string, error) {
	f.note("input %s %v", p, pw)
	return "line", nil
}

func connect(t *testing.T) *fake {
	f := &fake{}
	old := connected
	Connect(f)
	t.Cleanup(func() { Connect(old) })
	return f
}

func (f *fake) want(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(f.log, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestConstructorsAlwaysHaveText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.png")
	if err := os.WriteFile(file, []byte("\x89PNG\r\n\x1a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for mimeType, d := range map[string]Data{
		MIMETypeHTML:       HTML("<b>x</b>"),
		MIMETypeMarkdown:   Markdown("# x"),
		MIMETypeLatex:      Latex("x"),
		MIMETypeSVG:        SVG("<svg/>"),
		MIMETypePNG:        File("", file),
		MIMETypeJPEG:       Any("", []byte("\xff\xd8\xff")),
		MIMETypeGIF:        GIF([]byte("GIF89a")),
		MIMETypePDF:        Auto(strings.NewReader("%PDF-1.7")),
		MIMETypeJSON:       JSON(map[string]any{"a": 1}),
		MIMETypeVegaLite:   VegaLite(map[string]any{"mark": "bar"}),
		MIMETypeJavaScript: JavaScript("1"),
		MIMETypeText:       Text("x"),
		"text/x-own":       Any("text/x-own", "own"),
	} {
		if d.Data[mimeType] == nil || d.Data[MIMETypeText] == "" || d.Data[MIMETypeText] == nil {
			t.Errorf("%s: %v", mimeType, d.Data)
		}
	}
	if got := Latex("$x$").Data[MIMETypeLatex]; got != "$x$" {
		t.Errorf("a formula has %v", got)
	}
	if got := Math("x").Data[MIMETypeLatex]; got != "$$x$$" {
		t.Errorf("a formula on its own has %v", got)
	}
}

func TestDisplayAndUpdate(t *testing.T) {
	f := connect(t)
	h := Display(1, "a")
	h.Update(2)
	Clear(true)
	if l, err := Password("pw"); l != "line" || err != nil {
		t.Errorf("%q %v", l, err)
	}
	f.want(t, "display [1 a]", "update [2]", "clear true", "input pw true")
	if other := Display(); other.ID == h.ID {
		t.Error("two displays have the same id")
	}
}

func TestComms(t *testing.T) {
	f := connect(t)
	c, err := OpenComm("target", map[string]any{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	c.OnMessage(func(d map[string]any) { f.note("got %v", d["x"]) })
	c.OnClose(func(map[string]any) { f.note("closed") })
	Receive(CommMessage{Type: "comm_msg", ID: c.ID}, map[string]any{"x": 5})
	Receive(CommMessage{Type: "comm_close", ID: c.ID}, nil)
	Receive(CommMessage{Type: "comm_msg", ID: c.ID}, map[string]any{"x": 6})
	if c.Send(1) == nil {
		t.Error("a closed comm sends")
	}
	HandleComm("mine", func(c *Comm, d map[string]any) { f.note("opened %v", d["y"]) })
	Receive(CommMessage{Type: "comm_open", ID: "1", Target: "mine"}, map[string]any{"y": 7})
	HandleComm("mine", nil)
	Receive(CommMessage{Type: "comm_open", ID: "2", Target: "mine"}, nil)
	f.want(t, "comm_open target map[a:1]", "got 5", "closed", "target mine <nil>", "opened 7", "untarget mine <nil>", "comm_close  <nil>")
}

func ExampleDisplay() {
	// Outside of a notebook, text is printed.
	Display(HTML("<b>bold</b>"), 42)
	// Output: <b>bold</b> 42
}
