// Package assist answers what editors ask about a cell while it is being written: what may stand at the cursor, what the
// name under it is, and whether the cell is complete.
//
// The answers come from go/types: the cell becomes one Go file, checked against the names that the session has, as far
// as a broken cell can be checked. If gopls is installed it runs as a child and adds what it knows; it is never waited
// for longer than a person would notice.
//
// It does not compile or run cells, and it never changes the session.
package assist

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/kernel/serve"
	"github.com/rooflab/rooflab/kernel/session"
)

// goArguments are the commands whose arguments are Go.
var goArguments = []string{"%timeit"}

// Options say what there is to know.
type Options struct {
	Session  *session.Session
	Module   string   // a folder of the module that cells import from; may be empty
	Env      []string // environment of the go command and of gopls; nil for this process's
	Go       string   // the go command; "go" if empty
	Gopls    string   // the gopls command; if empty one is looked for; "off" does without
	Commands []string // what may follow at the beginning of a line, such as %help
}

// Assist answers for one session. Its methods may be called while cells are compiled and run, and by several goroutines.
type Assist struct {
	opts     Options
	lib      *library
	stop     func() // ends the go commands of lib
	gopls    *gopls
	patience time.Duration // for archives of packages that no cell has imported yet
}

// New makes an Assist. It starts nothing: that happens at the first question.
func New(o Options) *Assist {
	if o.Go == "" {
		o.Go = "go"
	}
	o.Module = inModule(o.Module)
	ctx, stop := context.WithCancel(context.Background())
	a := &Assist{opts: o, stop: stop, lib: &library{ctx: ctx, goTool: o.Go, module: o.Module, env: o.Env}, patience: 80 * time.Millisecond}
	if o.Gopls != "off" {
		a.gopls = &gopls{command: o.Gopls, module: o.Module, env: o.Env, goTool: o.Go}
	}
	return a
}

// inModule returns an absolute folder, or nothing if it is in no module.
func inModule(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for up := dir; ; up = filepath.Dir(up) {
		for _, name := range []string{"go.mod", "go.work"} {
			if st, err := os.Stat(filepath.Join(up, name)); err == nil && st.Mode().IsRegular() {
				return dir
			}
		}
		if up == filepath.Dir(up) {
			return ""
		}
	}
}

// Refresh looks for packages again: the module has changed.
func (a *Assist) Refresh() { go a.lib.modules() }

// Close ends what was started.
func (a *Assist) Close() {
	a.stop()
	if a.gopls != nil {
		a.gopls.close()
	}
}

// Complete returns what may stand at the cursor, a byte offset in code, the most likely first.
func (a *Assist) Complete(code string, cursor int) serve.Completion {
	cursor = onRune(code, cursor)
	none := serve.Completion{Start: cursor, End: cursor}
	if out, ok := a.completeCommand(code, cursor); ok {
		return out
	}
	text, foreign := blank(code, goArguments...)
	if foreign || atBlanked(code, text, cursor) {
		return none
	}
	for _, l := range lex(text) {
		if l.off < cursor && (cursor < l.end || l.open && cursor <= l.end || cursor == l.end && endsInside(l, text)) {
			if path, start, ok := importPath(text, l, cursor); ok {
				return serve.Completion{Matches: a.importPaths(path), Start: start, End: cursor}
			}
			if opaque(l) {
				return none
			}
		}
	}
	start := before(text, cursor)
	c := parseMarked(text, cursor)
	if c == nil {
		return none
	}
	a.check(c)
	var ask <-chan []serve.Match
	prefix := text[start:cursor]
	if a.gopls != nil {
		ask = a.gopls.complete(goplsText(c), prefix)
	}
	q := &query{a: a, checked: c, prefix: prefix, pos: c.pos(cursor)}
	matches := q.candidates()
	if ask != nil {
		matches = merge(matches, inTime(ask, len(matches) > 0))
	}
	return serve.Completion{Matches: matches, Start: start, End: cursor}
}

// inTime waits for gopls: not for long if there is an answer already.
func inTime(ask <-chan []serve.Match, have bool) []serve.Match {
	wait := limit
	if have {
		wait = enough
	}
	select {
	case m := <-ask:
		return m
	case <-time.After(wait):
		return nil
	}
}

// onRune moves an offset into the text and to the beginning of a character.
func onRune(code string, off int) int {
	off = max(0, min(off, len(code)))
	for off > 0 && off < len(code) && code[off]&0xC0 == 0x80 {
		off--
	}
	return off
}

// atBlanked tells whether what is before the cursor in its line is no Go.
func atBlanked(code, text string, cursor int) bool {
	start := lineStart(code, cursor)
	return strings.TrimSpace(text[start:cursor]) == "" && strings.TrimSpace(code[start:cursor]) != ""
}
