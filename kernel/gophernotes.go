package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rooflab/rooflab/internal/atomicfile"
)

const (
	engineModule = "github.com/gopherdata/gophernotes"
	frontFolder  = "internal/gophernotes" // our part of the program, below the checkout
	bindingsFile = "bindings.go"
	binaryName   = "rooflab-gophernotes"
	stampName    = "rooflab.stamp"
)

// gophernotesBuild is one build of the gophernotes engine.
type gophernotesBuild struct {
	source   string // the checkout
	dir      string // sources of the engine, its binary and the stamp
	outside  bool   // dir is not in the checkout and has a go.mod of its own
	progress io.Writer
}

// newGophernotesBuild chooses where to build: in the checkout, or in the user's cache when the checkout is read-only.
func newGophernotesBuild(source string, progress io.Writer) (*gophernotesBuild, error) {
	b := &gophernotesBuild{source: source, dir: filepath.Join(source, "_build", "gophernotes"), progress: progress}
	if writable(b.dir) {
		return b, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a folder to build in: the checkout is read-only and %w", err)
	}
	b.dir, b.outside = filepath.Join(cache, "rooflab", "gophernotes"), true
	if !writable(b.dir) {
		return nil, fmt.Errorf("find a folder to build in: neither the checkout nor %s can be written", b.dir)
	}
	return b, nil
}

func writable(dir string) bool {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false
	}
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}

func (b *gophernotesBuild) binary() string { return filepath.Join(b.dir, binaryName) }

// run brings the binary up to date and returns the stamp of the sources it was built from.
func (b *gophernotesBuild) run(ctx context.Context) (stamp string, err error) {
	if stamp, err = sourceStamp(ctx, b.source); err != nil {
		return "", err
	}
	if last, err := os.ReadFile(filepath.Join(b.dir, stampName)); err == nil && string(last) == stamp {
		if _, err := os.Stat(b.binary()); err == nil {
			fmt.Fprintln(b.progress, "the engine is up to date")
			return stamp, nil
		}
	}
	if err := b.copyEngine(ctx); err != nil {
		return "", err
	}
	if b.outside {
		if err := b.writeModule(); err != nil {
			return "", err
		}
	}
	fmt.Fprintln(b.progress, "write the bindings of the packages that cells may import")
	bindings := filepath.Join(b.dir, bindingsFile)
	if _, err := goOutput(ctx, b.source, "run", "./internal/bindgen", "-o", bindings); err != nil {
		return "", fmt.Errorf("write the kernel's bindings: %w", err)
	}
	if err := b.compile(ctx); err != nil {
		return "", err
	}
	return stamp, writeFile(filepath.Join(b.dir, stampName), []byte(stamp), 0o644)
}

// copyEngine puts the sources of the program into the build folder, gophernotes' own without its main.go and ours,
// and removes those of an earlier version.
func (b *gophernotesBuild) copyEngine(ctx context.Context) error {
	out, err := goOutput(ctx, b.source, "mod", "download", "-json", engineModule)
	if err != nil {
		return fmt.Errorf("get the sources of gophernotes: %w", err)
	}
	var module struct{ Dir, Version, Error string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("read the answer of go mod download: %w", err)
	}
	if module.Error != "" {
		return fmt.Errorf("get the sources of gophernotes: %s", module.Error)
	}
	fmt.Fprintf(b.progress, "copy gophernotes %s\n", module.Version)
	files := map[string]string{}
	for _, dir := range []string{module.Dir, filepath.Join(b.source, frontFolder)} {
		names, err := goFiles(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			files[name] = filepath.Join(dir, name) // our main.go takes the place of gophernotes'
		}
	}
	for name, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("copy gophernotes: %w", err)
		}
		if err := writeFile(filepath.Join(b.dir, name), text, 0o644); err != nil {
			return err
		}
	}
	old, err := goFiles(b.dir)
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := files[name]; !ok && name != bindingsFile {
			if err := os.Remove(filepath.Join(b.dir, name)); err != nil {
				return fmt.Errorf("remove a file of an earlier build: %w", err)
			}
		}
	}
	return nil
}

// goFiles lists the Go files of a folder that are not tests.
func goFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".go") && !strings.HasSuffix(n, "_test.go") {
			names = append(names, n)
		}
	}
	return names, nil
}

// writeModule makes the build folder a module that takes rooflab from the checkout and everything else in the same
// versions.
func (b *gophernotesBuild) writeModule() error {
	text, err := os.ReadFile(filepath.Join(b.source, "go.mod"))
	if err != nil {
		return fmt.Errorf("read the checkout's go.mod: %w", err)
	}
	own := moduleLine.ReplaceAllString(string(text), "module rooflab.engine/gophernotes")
	own += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %q\n", modulePath, modulePath, b.source)
	if err := writeFile(filepath.Join(b.dir, "go.mod"), []byte(own), 0o644); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(b.source, "go.sum"))
	if err != nil {
		return fmt.Errorf("read the checkout's go.sum: %w", err)
	}
	return writeFile(filepath.Join(b.dir, "go.sum"), sums, 0o644)
}

func (b *gophernotesBuild) compile(ctx context.Context) error {
	fmt.Fprintln(b.progress, "compile the engine (a minute or two the first time)")
	next := b.binary() + ".next"
	args := []string{"build", "-tags", "gophernotes", "-trimpath", "-ldflags=-s -w", "-o", next}
	dir, target := b.source, "./_build/gophernotes"
	if b.outside {
		dir, target = b.dir, "."
		args = append(args, "-mod=mod")
	}
	if _, err := goOutput(ctx, dir, append(args, target)...); err != nil {
		return fmt.Errorf("compile the engine: %w", err)
	}
	if err := os.Rename(next, b.binary()); err != nil {
		return fmt.Errorf("put the engine into place: %w", err)
	}
	return nil
}

// writeFile replaces a file at once: a reader sees the old or the new content. An equal file stays as it is.
func writeFile(path string, text []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	return atomicfile.Write(path, text, mode)
}
