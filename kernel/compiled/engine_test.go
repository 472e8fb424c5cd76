package compiled

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/kernel/serve"
)

// paper is an Output that keeps what it is told.
type paper struct {
	mu  sync.Mutex
	all strings.Builder // both streams and the texts of displayed values, in order
	err strings.Builder // stderr
}

func (p *paper) Stream(name, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.WriteString(text)
	if name == "stderr" {
		p.err.WriteString(text)
	}
}

func (p *paper) Display(b serve.Bundle)             { p.Stream("display", "<"+text(b)+">") }
func (p *paper) Update(b serve.Bundle)              { p.Stream("display", "<update "+text(b)+">") }
func (p *paper) Clear(bool)                         { p.Stream("display", "<clear>") }
func (p *paper) Input(string, bool) (string, error) { return "", serve.ErrNoInput }
func (p *paper) Comm(serve.CommMessage)             {}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

func (p *paper) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

func text(b serve.Bundle) string { return fmt.Sprint(b.Data["text/plain"]) }

// harness runs cells on an engine.
type harness struct {
	*Engine
	t     testing.TB
	count int
}

// newHarness starts an engine whose cells may import rooflab's packages.
func newHarness(t testing.TB, o Options) *harness {
	t.Helper()
	o.Source, o.Dir, o.Sources = sharedtest.Root(), cmp.Or(o.Dir, t.TempDir()), os.DirFS("..")
	e, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &harness{Engine: e, t: t}
}

// outcome is what a cell did.
type outcome struct {
	*paper
	serve.Result
	err *serve.CellError
}

// shown is the output and, behind a "=", the result.
func (o outcome) shown() string {
	s := o.paper.String()
	if o.Value.Data != nil {
		s += "=" + text(o.Value)
	}
	return s
}

// said is all that an error tells.
func (o outcome) said() string {
	if o.err == nil {
		return ""
	}
	return o.err.Error() + "\n" + strings.Join(o.err.Traceback, "\n")
}

func (h *harness) cell(code string) outcome {
	h.count++
	return h.run(serve.Cell{Count: h.count, Code: code})
}

func (h *harness) run(c serve.Cell) outcome {
	o := outcome{paper: &paper{}}
	var err error
	o.Result, err = h.Run(c, o.paper)
	if err != nil && !errors.As(err, &o.err) {
		h.t.Fatalf("%s: the error is no CellError: %v", c.Code, err)
	}
	return o
}

// want runs a cell that must succeed and show a text.
func (h *harness) want(code, shown string) {
	h.t.Helper()
	if o := h.cell(code); o.err != nil || o.shown() != shown {
		h.t.Errorf("%s\ngot  %q %s\nwant %q", code, o.shown(), o.said(), shown)
	}
}

// fails runs a cell that must fail with one text in its error.
func (h *harness) fails(code, said string) outcome {
	h.t.Helper()
	o := h.cell(code)
	if !strings.Contains(o.said(), said) || o.err == nil {
		h.t.Errorf("%s\ngot  %q\nwant %q", code, o.said(), said)
	}
	return o
}

// TestCells runs the cells of testdata/*.txt, one notebook a file. A cell is followed by a line ">>>" and what it
// shows, or "!" and a part of its error; "----" ends it.
func TestCells(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			h := newHarness(t, Options{})
			for _, c := range strings.Split(string(data), "\n----\n") {
				code, want, _ := strings.Cut(c, "\n>>>\n")
				want = strings.TrimSuffix(want, "\n")
				if said, fails := strings.CutPrefix(want, "!"); fails {
					h.fails(code, said)
					continue
				}
				o := h.cell(code)
				if got := strings.TrimSuffix(o.shown(), "\n"); o.err != nil || got != want {
					t.Errorf("%s\ngot  %q %s\nwant %q", code, got, o.said(), want)
				}
			}
		})
	}
}
