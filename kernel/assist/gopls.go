package assist

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/rooflab/rooflab/kernel/serve"
)

// An answer of gopls is waited for up to the limit, or only this long if there are matches without it. Then it goes on
// reading packages for the next question, until it is given up.
const (
	limit  = 300 * time.Millisecond
	enough = 60 * time.Millisecond
	giveUp = 30 * time.Second
)

var (
	errNoGopls = errors.New("gopls is not installed")
	errClosed  = errors.New("start gopls: the kernel ends")
)

// findGopls looks for gopls on PATH, then where `go install` puts it. It returns "" if there is none.
func findGopls(goTool string) string {
	if p, err := exec.LookPath("gopls"); err == nil {
		return p
	}
	out, err := exec.Command(goTool, "env", "GOBIN", "GOPATH").Output()
	if err != nil {
		return ""
	}
	bin, path, _ := strings.Cut(string(out), "\n")
	dirs := []string{strings.TrimSpace(bin)}
	for _, p := range filepath.SplitList(strings.TrimSpace(path)) {
		dirs = append(dirs, filepath.Join(p, "bin"))
	}
	for _, dir := range dirs {
		if p, err := exec.LookPath(filepath.Join(dir, "gopls")); dir != "" && err == nil {
			return p
		}
	}
	return ""
}

// gopls is the language server as a child. It starts in the background at the first question, and once more if it dies.
type gopls struct {
	command, module, goTool string
	env                     []string

	mu      sync.Mutex
	starts  int
	closed  bool
	scratch string // its workspace, if there is no module
	server  *lsp   // nil until it is ready
	version int
	state   string // what it has of the session
	opened  bool
	busy    bool // with a question
}

// complete asks gopls. A nil channel means that it is not ready, or busy with an older question.
func (g *gopls) complete(doc document, prefix string) <-chan []serve.Match {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.server == nil || g.server.dead() {
		g.start()
		return nil
	}
	if g.busy {
		return nil
	}
	out := make(chan []serve.Match, 1)
	call, err := g.ask(doc)
	if err != nil {
		return nil
	}
	server := g.server
	g.busy = true
	go func() {
		var matches []serve.Match
		select {
		case raw := <-call.answer:
			matches = matchesOf(raw, prefix)
		case <-server.done:
		case <-time.After(giveUp):
			server.cancel(call)
		}
		g.mu.Lock()
		g.busy = false
		g.mu.Unlock()
		out <- matches
	}()
	return out
}

// start runs gopls, and once more when it has died. It is called with the lock held.
func (g *gopls) start() {
	if g.closed || g.starts >= 2 || g.starts > 0 && g.server == nil {
		return // while it starts, the server is nil as well
	}
	g.starts++
	g.server, g.opened, g.busy, g.state = nil, false, false, ""
	go func() {
		server, err := g.launch()
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			return
		}
		if g.closed {
			server.close()
			return
		}
		g.server = server
	}()
}

// launch starts the child and waits until it has read its workspace.
func (g *gopls) launch() (*lsp, error) {
	command := g.command
	if command == "" {
		if command = findGopls(g.goTool); command == "" {
			return nil, errNoGopls
		}
	}
	dir, err := g.workspace()
	if err != nil {
		return nil, err
	}
	c := exec.Command(command)
	c.Dir = dir
	if c.Env = g.env; c.Env == nil {
		c.Env = os.Environ()
	}
	if filepath.IsAbs(g.goTool) {
		c.Env = append(slices.Clip(c.Env), "PATH="+filepath.Dir(g.goTool)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	s, err := startLSP(c)
	if err != nil {
		return nil, err
	}
	uri := "file://" + filepath.ToSlash(dir)
	call, err := s.call("initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": uri, "workspaceFolders": []any{map[string]any{"uri": uri, "name": "notebook"}},
		"capabilities": map[string]any{"workspace": map[string]any{"configuration": false}},
		"initializationOptions": map[string]any{
			"matcher": "CaseSensitive", "completionBudget": "200ms", "diagnosticsTrigger": "Save", "pullDiagnostics": true,
		},
	})
	if err == nil {
		select {
		case <-call.answer:
			err = s.notify("initialized", map[string]any{})
		case <-s.done:
			err = errors.New("start gopls: it ended")
		case <-time.After(time.Minute):
			err = errors.New("start gopls: no answer")
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// workspace is the folder of the notebook's module, else one that is made.
func (g *gopls) workspace() (string, error) {
	if g.module != "" {
		return g.module, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return "", errClosed
	}
	if g.scratch != "" {
		return g.scratch, nil
	}
	dir, err := os.MkdirTemp("", "rooflab-gopls-")
	if err != nil {
		return "", err
	}
	g.scratch = dir
	return dir, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module cells\n\ngo 1.26\n"), 0o644)
}

// ask sends the cell and the question. It is called with the lock held. The files exist only in memory, in a folder of
// their own, so that they are a package beside those of the module.
func (g *gopls) ask(doc document) (*call, error) {
	dir := g.module
	if dir == "" {
		dir = g.scratch
	}
	base := "file://" + filepath.ToSlash(filepath.Join(dir, "rooflabcells"))
	cell, state := base+"/cell.go", base+"/state.go"
	g.version++
	put := func(uri, text string) error {
		if !g.opened {
			return g.server.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
				"uri": uri, "languageId": "go", "version": g.version, "text": text}})
		}
		return g.server.notify("textDocument/didChange", map[string]any{
			"textDocument":   map[string]any{"uri": uri, "version": g.version},
			"contentChanges": []any{map[string]any{"text": text}}})
	}
	if !g.opened || doc.state != g.state {
		if err := put(state, doc.state); err != nil {
			return nil, err
		}
		g.state = doc.state
	}
	if err := put(cell, doc.cell); err != nil {
		return nil, err
	}
	g.opened = true
	return g.server.call("textDocument/completion", map[string]any{
		"textDocument": map[string]any{"uri": cell}, "position": positionOf(doc.cell, doc.cursor)})
}

func (g *gopls) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.server != nil {
		g.server.close()
	}
	if g.scratch != "" {
		_ = os.RemoveAll(g.scratch) // it is in the folder for temporary files
	}
}

// positionOf counts lines, and UTF-16 units in the line, as the protocol does.
func positionOf(text string, off int) map[string]any {
	start := lineStart(text, off)
	return map[string]any{
		"line":      strings.Count(text[:start], "\n"),
		"character": len(utf16.Encode([]rune(text[start:off]))),
	}
}

var goplsKinds = map[int]string{2: "method", 3: "function", 5: "field", 6: "variable", 7: "type", 8: "type", 9: "package", 14: "keyword", 21: "const", 22: "type", 25: "type"}

// matchesOf reads gopls' answer. What does not begin with the prefix is left out, and so are snippets.
func matchesOf(raw json.RawMessage, prefix string) []serve.Match {
	var list struct {
		Items []struct {
			Label, Detail string
			Kind          int
		}
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []serve.Match
	for _, it := range list.Items {
		kind := goplsKinds[it.Kind]
		if kind == "" || !strings.HasPrefix(it.Label, prefix) || strings.ContainsAny(it.Label, " !()") {
			continue
		}
		out = append(out, serve.Match{Text: it.Label, Type: kind, Signature: strings.TrimPrefix(it.Detail, "func")})
	}
	return out
}

// merge adds to our matches those that only gopls has.
func merge(own, more []serve.Match) []serve.Match {
	have := map[string]bool{}
	for _, m := range own {
		have[m.Text] = true
	}
	for _, m := range more {
		if !have[m.Text] {
			have[m.Text] = true
			own = append(own, m)
		}
	}
	return own
}
