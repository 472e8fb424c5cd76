package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rooflab/rooflab/kernel/build"
)

// DefaultName is the name of the kernel that rooflab's notebooks ask for.
const DefaultName = "rooflab-go"

// Options say what to install and where.
type Options struct {
	Engine   string    // Compiled or Gophernotes; empty: the compiled one where it works
	Prefix   string    // install below PREFIX/share/jupyter; empty: Jupyter's data folder of the user
	Source   string    // root folder of a checkout; empty: the one around the working directory
	Name     string    // name of the kernelspec; empty: DefaultName
	Program  string    // the rooflab binary, which is the compiled engine's kernel
	Progress io.Writer // a line for each step; nil: none
}

// The engines.
const (
	Compiled    = "compiled"    // compiles each cell (kernel/compiled)
	Gophernotes = "gophernotes" // interprets (internal/gophernotes)
)

// specNames are the names that Jupyter allows.
var specNames = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// Install builds an engine and installs it as a kernelspec, which it returns. The kernelspec's folder holds the program,
// so that it can be started from anywhere. When nothing has changed since the last build, nothing is built.
func Install(ctx context.Context, o Options) (Spec, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if !specNames.MatchString(o.Name) {
		return Spec{}, fmt.Errorf("install kernel %q: a name has letters, digits, dots, dashes and underscores only", o.Name)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	data, err := dataFolder(o.Prefix)
	if err != nil {
		return Spec{}, err
	}
	dir := filepath.Join(data, "kernels", o.Name)
	switch o.Engine {
	case "":
		return installBest(ctx, o, dir)
	case Compiled:
		return installCompiled(ctx, o, dir)
	case Gophernotes:
		return installGophernotes(ctx, o, dir)
	}
	return Spec{}, fmt.Errorf("install engine %q: there are %s and %s", o.Engine, Compiled, Gophernotes)
}

// installBest installs the compiled engine, or the interpreter on a machine where that cannot work, and says why.
func installBest(ctx context.Context, o Options, dir string) (Spec, error) {
	done, err := installCompiled(ctx, o, dir)
	if err == nil || !build.Unavailable(err) || errors.Is(err, build.ErrNoGo) { // both are built with Go
		return done, err
	}
	fmt.Fprintf(o.Progress, "the compiled engine does not work here: %v\n"+
		"installing the interpreter gophernotes in its place; for the compiled one, mend that and run this again\n", err)
	return installGophernotes(ctx, o, dir)
}

func installGophernotes(ctx context.Context, o Options, dir string) (Spec, error) {
	source, err := findSource(o.Source)
	if err != nil {
		return Spec{}, err
	}
	b, err := newGophernotesBuild(source, o.Progress)
	if err != nil {
		return Spec{}, err
	}
	stamp, err := b.run(ctx)
	if err != nil {
		return Spec{}, err
	}
	binary := filepath.Join(dir, binaryName)
	return writeSpec(dir, b.binary(), binary, specFile{
		Argv:     []string{binary, "{connection_file}"}, // absolute: Jupyter's PATH is not the shell's
		Metadata: specMetadata{Rooflab: &specOrigin{Engine: Gophernotes, Stamp: stamp}},
	})
}

func dataFolder(prefix string) (string, error) {
	if prefix == "" {
		return userData()
	}
	abs, err := filepath.Abs(prefix) // Jupyter starts kernels from other folders
	return dataOf(abs), err
}

// writeSpec fills the kernelspec's folder. kernel.json comes last: until then Jupyter does not see the kernel.
func writeSpec(dir, program, copied string, f specFile) (Spec, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Spec{}, fmt.Errorf("make the kernelspec's folder: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return Spec{}, fmt.Errorf("copy the engine: %w", err)
	}
	if err := writeFile(copied, content, 0o755); err != nil {
		return Spec{}, err
	}
	if err := writeTree(dir, specFiles); err != nil {
		return Spec{}, err
	}
	f.DisplayName, f.Language, f.InterruptMode = "Go (rooflab)", "go", "message"
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return Spec{}, err
	}
	if err := writeFile(filepath.Join(dir, "kernel.json"), append(text, '\n'), 0o644); err != nil {
		return Spec{}, err
	}
	return readSpec(dir)
}

// writeTree copies files into a folder.
func writeTree(dir string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return fmt.Errorf("fill the kernelspec's folder: %w", err)
			}
			return nil
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return writeFile(to, text, 0o644)
	})
}
