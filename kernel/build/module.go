package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rooflab/rooflab/internal/atomicfile"
)

// module is where imports are resolved: the module of the notebook's folder, or a scratch module of ours.
type module struct {
	dir     string // where the go command runs
	mod     string // go.mod
	work    string // go.work, or empty
	scratch bool
}

func (b *Builder) findModule() module {
	t := b.Toolchain
	if t.module != "" || t.work != "" {
		return module{dir: b.o.Dir, mod: t.module, work: t.work}
	}
	sum := sha256.Sum256([]byte(b.o.Dir))
	dir := filepath.Join(b.o.Cache, "scratch", hex.EncodeToString(sum[:8]))
	return module{dir: dir, mod: filepath.Join(dir, "go.mod"), work: filepath.Join(dir, "go.work"), scratch: true}
}

// env is the environment of the go command in this module. The user's own GOWORK stays as it is.
func (m module) env(env []string) []string {
	if !m.scratch {
		return env
	}
	work := m.work
	if _, err := os.Stat(work); err != nil {
		work = "off"
	}
	return append(without(env, "GOWORK"), "GOWORK="+work)
}

// Workspace is where the go command finds what cells can import, and the environment to run it in, without network.
func (b *Builder) Workspace() (dir string, env []string) {
	_ = b.module.prepare(b.Toolchain.Lang, b.o.RooflabSource) // the next cell says what is wrong with it
	return b.module.dir, offline(b.module.env(b.env))
}

// files are those that decide which version of a module is used.
func (m module) files() []string {
	root := filepath.Dir(m.mod)
	files := []string{m.mod, filepath.Join(root, "go.sum"), filepath.Join(root, "vendor", "modules.txt")}
	if m.work != "" {
		files = append(files, m.work, m.work+".sum")
	}
	return files
}

var goLine = regexp.MustCompile(`(?m)^go\s+(\S+)`)

// prepare makes the scratch module. Packages of rooflab come from the checkout, if one is known: a workspace of
// both keeps the versions that the checkout asks for.
func (m module) prepare(lang, source string) error {
	if !m.scratch {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return fmt.Errorf("make the notebook's module: %w", err)
	}
	version := lang[2:]
	if source != "" {
		text, err := os.ReadFile(filepath.Join(source, "go.mod"))
		if err != nil {
			source = "" // the checkout is gone
		} else if g := goLine.FindSubmatch(text); g != nil {
			version = string(g[1])
		}
	}
	if _, err := os.Stat(m.mod); err != nil {
		if err := atomicfile.Write(m.mod, []byte("module notebook\n\ngo "+lang[2:]+"\n"), 0o644); err != nil {
			return err
		}
	}
	if source == "" {
		if err := os.Remove(m.work); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("make the notebook's module: %w", err)
		}
		return nil
	}
	text := fmt.Appendf(nil, "go %s\n\nuse (\n\t.\n\t%q\n)\n", version, source)
	if old, err := os.ReadFile(m.work); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return atomicfile.Write(m.work, text, 0o644)
}

// Get adds a module, github.com/a/b or github.com/a/b@v1.2.3, to the module of the notebook's folder, because the
// user asked for it. The network is used as the user's settings say. It returns what the go command has reported.
// The error is a *ChangedError when a package that is in use would change: the new version is used after a restart.
func (b *Builder) Get(ctx context.Context, what ...string) (report string, err error) {
	if len(what) == 0 {
		return "", errors.New("get: name a module, for example github.com/a/b@v1.2.3")
	}
	args := []string{"get", "--"}
	for _, w := range what {
		if strings.HasPrefix(w, "-") {
			return "", fmt.Errorf("get %s: name modules only", w)
		}
		if w == Module && b.o.Version != "" {
			w += "@" + b.o.Version // packages of rooflab fit the running version
		}
		args = append(args, w)
	}
	if err := b.module.prepare(b.Toolchain.Lang, b.o.RooflabSource); err != nil {
		return "", err
	}
	cmd := command(ctx, b.module.dir, b.module.env(b.env), b.Toolchain.Go, args...)
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	report = strings.TrimSpace(string(text))
	if err != nil {
		return "", fmt.Errorf("get %s: %s", strings.Join(what, " "), plainGet(report))
	}
	b.listing.Lock()
	b.mu.Lock()
	b.forget() // what nobody uses yet is taken from the new versions
	var used []string
	for path, a := range b.known {
		if !a.base && a.cell > 0 && !strings.HasPrefix(path, cellPrefix) {
			used = append(used, path)
		}
	}
	b.mu.Unlock()
	defer b.listing.Unlock()
	if len(used) == 0 {
		return report, nil
	}
	pkgs, err := b.list(ctx, used...)
	if err != nil {
		return report, err
	}
	return report, b.take(pkgs, used)
}

// plainGet keeps the lines of go get that say what is wrong.
func plainGet(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "go: "))
		if line != "" && !strings.HasPrefix(line, "downloading ") && !strings.HasPrefix(line, "added ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return text
	}
	return strings.Join(lines, "\n")
}
