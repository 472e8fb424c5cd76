package assist

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rooflab/rooflab/kernel/serve"
	"github.com/rooflab/rooflab/kernel/session"
)

// archives finds export data with the go command, all that the tests need with one call.
var archives = sync.OnceValue(func() map[string]string {
	out, _ := exec.Command("go", "list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "fmt", "net/http", "net/url", "go/ast", "time", "sync", "bytes", "github.com/rooflab/rooflab/kernel/display").Output()
	m := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if p, f, ok := strings.Cut(strings.TrimSpace(line), "="); ok && f != "" {
			m[p] = f
		}
	}
	return m
})

func archive(path string) (io.ReadCloser, error) {
	if f := archives()[path]; f != "" {
		return os.Open(f)
	}
	return nil, os.ErrNotExist
}

// afterCells runs cells in a new session.
func afterCells(t testing.TB, cells ...string) *session.Session {
	t.Helper()
	s := session.New(archive)
	for i, c := range cells {
		u, err := s.Compile(i+1, c)
		if err != nil {
			t.Fatalf("cell %d: %v", i+1, err)
		}
		u.Commit()
	}
	return s
}

// packagesOfTests are looked for once.
var packagesOfTests = &library{ctx: context.Background(), goTool: "go"}

// quiet makes an Assist without gopls.
func quiet(o Options) *Assist {
	o.Gopls = "off"
	a := New(o)
	a.lib = packagesOfTests
	return a
}

// question is a test: cells that ran, a cell with a cursor, and lines of expectations.
type question struct {
	name, code string
	cursor     int
	before     []string
	want       []string
}

func questions(t testing.TB, file, signs string) (out []question) {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		q := question{name: f.Name}
		var code []string
		for _, line := range strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n") {
			if line != "" && strings.Contains(signs, line[:1]) && (len(line) == 1 || line[1] == ' ') {
				q.want = append(q.want, line)
			} else {
				code = append(code, line)
			}
		}
		cells := strings.Split(strings.Join(code, "\n"), "\n---\n")
		q.before = cells[:len(cells)-1]
		before, after, ok := strings.Cut(cells[len(cells)-1], "|")
		if !ok || len(q.want) == 0 {
			t.Fatalf("%s: no cursor or no expectation", f.Name)
		}
		q.code, q.cursor = before+after, len(before)
		out = append(out, q)
	}
	return out
}

func texts(c serve.Completion) (out []string) {
	for _, m := range c.Matches {
		out = append(out, m.Text)
	}
	return out
}

func TestComplete(t *testing.T) {
	for _, q := range questions(t, "testdata/complete.txtar", ">=!~") {
		t.Run(q.name, func(t *testing.T) {
			a := quiet(Options{Session: afterCells(t, q.before...), Commands: []string{"%help", "%time"}})
			got := a.Complete(q.code, q.cursor)
			if got.Start < 0 || got.Start > got.End || got.End != q.cursor {
				t.Errorf("range %d to %d, cursor %d", got.Start, got.End, q.cursor)
			}
			all := texts(got)
			for _, w := range q.want {
				judge(t, w, all, got.Matches)
			}
		})
	}
}

func judge(t *testing.T, want string, all []string, matches []serve.Match) {
	t.Helper()
	words := strings.Fields(want[1:])
	shown := strings.Join(all[:min(len(all), 20)], " ")
	switch want[0] {
	case '=':
		if strings.Join(words, " ") != strings.Join(all, " ") {
			t.Errorf("matches are %q, want %q", shown, words)
		}
	case '>':
		if len(all) < len(words) || strings.Join(all[:len(words)], " ") != strings.Join(words, " ") {
			t.Errorf("matches begin with %q, want %q", shown, words)
		}
	case '!':
		for _, w := range words {
			for _, m := range all {
				if m == w {
					t.Errorf("%s is among the matches", w)
				}
			}
		}
	case '~':
		for _, m := range matches {
			if m.Text == words[0] {
				if got := strings.Join([]string{m.Text, m.Type, m.Signature}, " "); got != want[2:] {
					t.Errorf("%q, want %q", got, want[2:])
				}
				return
			}
		}
		t.Errorf("no match %s in %s", words[0], shown)
	}
}
