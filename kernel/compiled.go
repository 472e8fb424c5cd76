package kernel

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/kernel/build"
)

// programName is the copy of the rooflab binary in the kernelspec's folder.
const programName = "rooflab"

// installCompiled builds the worker, compiles what cells usually import, and installs a copy of the rooflab binary.
func installCompiled(ctx context.Context, o Options, dir string) (Spec, error) {
	tool, err := goTool()
	if err != nil {
		return Spec{}, err
	}
	if o.Program == "" || strings.HasSuffix(o.Program, ".test") {
		return Spec{}, fmt.Errorf("install the compiled engine: %q is not the rooflab binary", o.Program)
	}
	stamp, err := fileStamp(o.Program)
	if err != nil {
		return Spec{}, err
	}
	copied := filepath.Join(dir, programName)
	argv := []string{copied, "kernel", "run", "--go", tool}
	source, err := findSource(o.Source)
	switch {
	case err == nil:
		argv = append(argv, "--source", source)
	case o.Source != "":
		return Spec{}, err
	default:
		fmt.Fprintln(o.Progress, "no rooflab checkout here: cells will not be able to import rooflab's packages (see --source)")
	}
	start := time.Now()
	if err := prepare(ctx, o.Progress, tool, source); err != nil {
		return Spec{}, err
	}
	fmt.Fprintf(o.Progress, "ready after %.1f s\n", time.Since(start).Seconds())
	return writeSpec(dir, o.Program, copied, specFile{
		Argv:     append(argv, "{connection_file}"),
		Metadata: specMetadata{Rooflab: &specOrigin{Engine: Compiled, Stamp: stamp}},
	})
}

// goTool is the absolute path of the go command: Jupyter's PATH is not the shell's.
func goTool() (string, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", errNoGo
	}
	return filepath.Abs(tool)
}

// fileStamp is a digest of a file.
func fileStamp(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the rooflab binary: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// prepare builds the worker and the packages that cells usually import, and tests whether compiled cells work.
func prepare(ctx context.Context, progress io.Writer, tool, source string) error {
	dir, err := os.MkdirTemp("", "rooflab-install-") // a folder outside any module
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(dir)
	b, err := build.New(ctx, build.Options{
		Go: tool, Dir: dir, Sources: Sources, RooflabSource: source,
		Progress: func(text string) { fmt.Fprintln(progress, text) },
	})
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Warm(ctx)
}
