package assist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/serve"
)

// withGopls makes an Assist that uses gopls, or skips the test. $GOPLS names a gopls that is not on PATH.
func withGopls(t *testing.T, o Options) *Assist {
	t.Helper()
	if o.Gopls = os.Getenv("GOPLS"); o.Gopls == "" {
		o.Gopls = findGopls("go")
	}
	if o.Gopls == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("gopls is not installed; CI must have it (make test sets it up)")
		}
		t.Skip("gopls is not installed (go install golang.org/x/tools/gopls@latest)")
	}
	a := New(o)
	t.Cleanup(a.Close)
	a.Complete("x", 1) // starts it
	for range 600 {
		a.gopls.mu.Lock()
		ready := a.gopls.server != nil
		a.gopls.mu.Unlock()
		if ready {
			return a
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("gopls does not start")
	return nil
}

// goplsHas waits until gopls has answered with a match: it reads packages in the background.
func goplsHas(t *testing.T, a *Assist, code, want string) serve.Match {
	t.Helper()
	var got []serve.Match
	for range 20 {
		c := parseMarked(code, len(code))
		a.check(c)
		ch := a.gopls.complete(goplsText(c), code[before(code, len(code)):])
		if ch == nil {
			t.Fatal("gopls has ended")
		}
		got = <-ch
		if i := slices.IndexFunc(got, func(m serve.Match) bool { return m.Text == want }); i >= 0 {
			return got[i]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%q: no %s in %v", code, want, got)
	return serve.Match{}
}

func TestGoplsSeesTheSession(t *testing.T) {
	s := afterCells(t, "import (\n\"fmt\"\n\"net/http\"\n)\nfmt.Print()", "type point struct { x, y int; next *point }\nfunc (p *point) move(dx int) {}\nvar p point\nvar client http.Client\nconst limit = 5")
	a := withGopls(t, Options{Session: s})
	goplsHas(t, a, "p.mo", "move")
	goplsHas(t, a, "client.Tim", "Timeout")
	goplsHas(t, a, "fmt.Printl", "Println")
	if m := goplsHas(t, a, "s := \"é😀\"; lim", "limit"); m.Type != "const" {
		t.Errorf("limit is a %s", m.Type)
	}
	goplsHas(t, a, "func f(q *point) {\n\tq.next.m", "move")
}

func TestGoplsResolvesThePackagesOfTheModule(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.org/mine\n\ngo 1.24\n",
		"geo/geo.go":  "// Package geo measures.\npackage geo\n\n// Area is in square metres.\nfunc Area(w, h float64) float64 { return w * h }\n",
		"notes/x.txt": "",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := withGopls(t, Options{Session: afterCells(t), Module: dir})
	goplsHas(t, a, "import \"example.org/mine/geo\"\ngeo.Ar", "Area")
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("the module's folder has changed: %v", entries)
	}
}

func TestGoplsThatDiesIsStartedOnceMore(t *testing.T) {
	a := withGopls(t, Options{Session: afterCells(t)})
	kill := func() {
		a.gopls.mu.Lock()
		server := a.gopls.server
		a.gopls.mu.Unlock()
		_ = server.cmd.Process.Kill()
		<-server.done
	}
	kill()
	if got := texts(a.Complete("strings.ToUp", 12)); !slices.Contains(got, "ToUpper") {
		t.Errorf("without gopls: %v", got)
	}
	for range 300 {
		a.gopls.mu.Lock()
		ready := a.gopls.server != nil && !a.gopls.server.dead()
		a.gopls.mu.Unlock()
		if ready {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	goplsHas(t, a, "import \"strings\"\nstrings.ToUp", "ToUpper")
	kill()
	a.Complete("x", 1)
	if a.gopls.starts != 2 {
		t.Errorf("started %d times", a.gopls.starts)
	}
}

// A command in gopls' place that says nothing costs nothing.
func TestGoplsThatNeverAnswersIsNotWaitedFor(t *testing.T) {
	script := filepath.Join(t.TempDir(), "gopls")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec cat >/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := New(Options{Session: afterCells(t), Gopls: script})
	defer a.Close()
	for range 3 {
		if got := texts(a.Complete("strings.ToUp", 12)); !slices.Contains(got, "ToUpper") {
			t.Errorf("matches are %v", got)
		}
	}
}

func TestGoplsTextDeclaresTheSession(t *testing.T) {
	s := afterCells(t, "import \"net/http\"\ntype pair[K comparable, V any] struct { k K; v V }\nfunc (p pair[K, V]) key() K { return p.k }\ntype num = int", "m := map[string]*http.Request{}\nvar q pair[string, num]\nfunc use(r http.Request, p ...pair[int, int]) {}")
	a := quiet(Options{Session: s})
	c := parseMarked("func use() { m. }", 15)
	a.check(c)
	doc := goplsText(c)
	for _, want := range []string{"import http \"net/http\"\n", "func use() { m. }"} {
		if !strings.Contains(doc.cell, want) {
			t.Errorf("the cell lacks %q:\n%s", want, doc.cell)
		}
	}
	if at := doc.cell[:doc.cursor]; !strings.HasSuffix(at, "m.") {
		t.Errorf("the cursor is behind %q", at)
	}
	for _, want := range []string{
		"import http_0 \"net/http\"\n", "var m map[string]*http_0.Request\n", "type pair[K comparable, V any] struct{k K; v V}\n",
		"func (pair[K, V]) key() K { panic(0) }\n", "type num = int\n",
	} {
		if !strings.Contains(doc.state, want) {
			t.Errorf("the state lacks %q:\n%s", want, doc.state)
		}
	}
	if strings.Contains(doc.state, "func use") {
		t.Error("the state declares what the cell declares")
	}
}
