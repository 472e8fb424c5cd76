package build

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/internal/atomicfile"
	"github.com/rooflab/rooflab/kernel/link"
	"github.com/rooflab/rooflab/kernel/proto"
)

// Code that is loaded in parts has had faults that give wrong answers in silence, and what the loader relies on changes
// between Go releases. So a
// toolchain is tried once before it is used: small cells, written as the session writes them, in a worker that is
// thrown away.

//go:embed selftest/*.go.txt
var selfTests embed.FS

// selfTest tries the toolchain and keeps the verdict beside the worker.
func (b *Builder) selfTest(ctx context.Context, worker string) error {
	verdict := filepath.Join(b.home, "selftest")
	if text, err := os.ReadFile(verdict); err == nil {
		if string(text) == "ok" {
			return nil
		}
		return b.broken(string(text))
	}
	b.o.Progress("try cells with " + b.Toolchain.Version)
	err := b.try(ctx, worker)
	if err != nil && ctx.Err() == nil && b.trySlow(ctx, worker) {
		err = nil // it was the short way of linking that does not work on this system
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return atomicfile.Write(verdict, []byte("ok"), 0o644)
	}
	var f *fault
	if !errors.As(err, &f) { // perhaps an accident (a full disk, a killed process): tried again at the next start
		return b.broken(err.Error())
	}
	if err := atomicfile.Write(verdict, []byte(f.text), 0o644); err != nil {
		return err
	}
	return b.broken(f.text)
}

// trySlow tries links by the C compiler, and keeps to them if cells work then.
func (b *Builder) trySlow(ctx context.Context, worker string) bool {
	libs := filepath.Join(b.home, "libs")
	if os.RemoveAll(libs) != nil || os.MkdirAll(libs, 0o755) != nil || b.makeHelper(ctx, b.coreDir(), true) != nil {
		return false
	}
	if b.try(ctx, worker) == nil {
		return true
	}
	b.makeHelper(ctx, b.coreDir(), false)
	return false
}

// fault is what a self-test has found.
type fault struct{ text string }

func (f *fault) Error() string { return f.text }

// knownFaults are the issues that the tests look for; a test's message begins with the key.
var knownFaults = map[string]string{
	"assertion":   "golang/go#80107",
	"type switch": "golang/go#80107",
	"std type":    "golang/go#81303",
}

func (b *Builder) broken(text string) error {
	name, _, _ := strings.Cut(text, ":")
	issue := ""
	if i := knownFaults[name]; i != "" {
		issue = " (see " + i + ")"
	}
	return fmt.Errorf("%w: %s fails the test of cells%s: %s. Use another release of Go, or the other engine: rooflab kernel install --engine gophernotes",
		ErrBroken, b.Toolchain.Version, issue, text)
}

const selfCell = 2000000000 // numbers that no session uses

func selfPath(n int) string { return fmt.Sprintf("%sc%d", cellPrefix, selfCell+n) }

// try runs the tests: cells that share types and values with each other and with libraries, then a cell whose package
// has another fingerprint than the one that is loaded.
func (b *Builder) try(ctx context.Context, worker string) error {
	defer b.dropSelf()
	w, err := startThrowAway(ctx, worker)
	if err != nil {
		return err
	}
	defer w.end()
	for n := 1; n <= 5; n++ {
		if n == 4 { // the packages that cells 4 and 5 import
			if err := b.tryPackages(ctx); err != nil {
				return err
			}
		}
		m, err := b.tryCell(ctx, w, n)
		if err != nil {
			return err
		}
		if m.Err != nil {
			return &fault{m.Err.Value}
		}
	}
	if err := b.tryPackage(ctx, 7, "package dep\nfunc F() int { return 2 }\ntype T struct{ A, B int }\n"); err != nil {
		return err
	}
	var changed *ChangedError
	if _, err = b.tryCell(ctx, w, 6); err == nil {
		return &fault{"fingerprint: a package of another version than the one that is loaded was linked"}
	} else if !errors.As(err, &changed) {
		return err
	}
	return nil
}

func (b *Builder) tryCell(ctx context.Context, w *throwAway, n int) (proto.FromWorker, error) {
	src, err := selfTests.ReadFile(fmt.Sprintf("selftest/cell%d.go.txt", n))
	if err != nil {
		return proto.FromWorker{}, err
	}
	built, err := b.Cell(ctx, Unit{Cell: selfCell + n, Pkg: selfPath(n), Source: src})
	if ctx.Err() != nil {
		return proto.FromWorker{}, ctx.Err()
	}
	if err != nil {
		return proto.FromWorker{}, fmt.Errorf("build a cell: %w", err)
	}
	return w.run(n, built.Mod)
}

// tryPackages makes two packages that are in libraries of their own: cell 4 imports the first, cell 5 both.
func (b *Builder) tryPackages(ctx context.Context) error {
	for _, n := range []int{7, 8} {
		src, err := selfTests.ReadFile(fmt.Sprintf("selftest/package%d.go.txt", n))
		if err != nil {
			return err
		}
		if err := b.tryPackage(ctx, n, string(src)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) tryPackage(ctx context.Context, n int, src string) error {
	j, err := b.newJob(Unit{Pkg: selfPath(n), Source: []byte(src)})
	if err != nil {
		return err
	}
	if err := b.compile(ctx, j); err != nil {
		return fmt.Errorf("build a package: %w", err)
	}
	id, err := digestFile(j.base + ".a")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[j.Pkg] = &archive{file: j.base + ".a", id: id, deps: b.all(j.imports)}
	return err
}

// dropSelf removes the tests' packages from those that cells may import.
func (b *Builder) dropSelf() {
	b.linking.Lock()
	defer b.linking.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := 1; n <= 8; n++ {
		delete(b.known, selfPath(n))
		delete(b.libs.cells, selfPath(n))
	}
	b.libs.loaded = nil // they refer to the packages of the tests
	maps.DeleteFunc(b.libs.owner, func(_ string, l *link.Library) bool { return l != b.libs.core })
}

// throwAway is a worker for the tests alone.
type throwAway struct {
	cmd    *exec.Cmd
	to     *os.File
	from   *os.File
	stderr bytes.Buffer
}

func startThrowAway(ctx context.Context, program string) (*throwAway, error) {
	toRead, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, fromWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w := &throwAway{cmd: command(ctx, "", append(without(os.Environ(), "GODEBUG"), "GODEBUG=clobberfree=1"), program), to: to, from: from}
	w.cmd.Stderr = &w.stderr
	w.cmd.WaitDelay = time.Second
	w.cmd.ExtraFiles = []*os.File{toRead, fromWrite}
	err = w.cmd.Start()
	toRead.Close()
	fromWrite.Close() // so that the end of the worker ends the reading
	if err != nil {
		return nil, err
	}
	from.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := w.receive("ready"); err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// receive waits for an event; others are passed over.
func (w *throwAway) receive(ev string) (proto.FromWorker, error) {
	for {
		var m proto.FromWorker
		if err := proto.Receive(w.from, &m); err != nil {
			w.cmd.Wait()
			text := strings.TrimSpace(w.stderr.String())
			if len(text) > 400 {
				text = text[:400] + "..."
			}
			if w.cmd.ProcessState.ExitCode() == 2 { // how Go's runtime ends a program that it has found broken
				line, _, _ := strings.Cut(text, "\n")
				return m, &fault{"crash: " + line}
			}
			if text == "" {
				text = err.Error()
			}
			return m, fmt.Errorf("the worker has ended: %s", text)
		}
		if m.Ev == ev {
			return m, nil
		}
	}
}

func (w *throwAway) run(n int, mod proto.Mod) (proto.FromWorker, error) {
	err := proto.Send(w.to, proto.ToWorker{Op: "run", ID: n, Cell: selfCell + n, Load: []proto.Mod{mod}, Pkg: mod.Pkg})
	if err != nil {
		return proto.FromWorker{}, fmt.Errorf("the worker has ended: %w", err)
	}
	return w.receive("done")
}

func (w *throwAway) end() {
	w.to.Close()
	w.cmd.Cancel()
	w.cmd.Wait()
	w.from.Close()
}
