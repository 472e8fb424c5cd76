package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// DefaultName is the name of the kernel that rooflab's notebooks ask for.
const DefaultName = "rooflab-go"

// Options say what to install and where.
type Options struct {
	Engine   string    // "gophernotes", also when empty
	Prefix   string    // install below PREFIX/share/jupyter; empty: Jupyter's data folder of the user
	Source   string    // root folder of a checkout; empty: the one around the working directory
	Name     string    // name of the kernelspec; empty: DefaultName
	Progress io.Writer // a line for each step; nil: none
}

// Installed says what Install did.
type Installed struct {
	Spec   Spec
	Binary string // the engine
}

// specNames are the names that Jupyter allows.
var specNames = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// Install builds the engine from the checkout and installs it as a kernelspec. The kernelspec's folder holds the
// binary, so that it does not need the checkout any more. When nothing has changed since the last build in this
// checkout, nothing is built.
func Install(ctx context.Context, o Options) (Installed, error) {
	if o.Engine != "" && o.Engine != "gophernotes" {
		return Installed{}, fmt.Errorf("install engine %q: there is only gophernotes", o.Engine)
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if !specNames.MatchString(o.Name) {
		return Installed{}, fmt.Errorf("install kernel %q: a name has letters, digits, dots, dashes and underscores only", o.Name)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	data, err := dataFolder(o.Prefix)
	if err != nil {
		return Installed{}, err
	}
	source, err := findSource(o.Source)
	if err != nil {
		return Installed{}, err
	}
	b, err := newBuild(source, o.Progress)
	if err != nil {
		return Installed{}, err
	}
	stamp, err := b.run(ctx)
	if err != nil {
		return Installed{}, err
	}
	return writeSpec(filepath.Join(data, "kernels", o.Name), b.binary(), stamp)
}

func dataFolder(prefix string) (string, error) {
	if prefix == "" {
		return userData()
	}
	abs, err := filepath.Abs(prefix) // Jupyter starts kernels from other folders
	return dataOf(abs), err
}

// writeSpec fills the kernelspec's folder. kernel.json comes last: until then Jupyter does not see the kernel.
func writeSpec(dir, engine, stamp string) (Installed, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Installed{}, fmt.Errorf("make the kernelspec's folder: %w", err)
	}
	program, err := os.ReadFile(engine)
	if err != nil {
		return Installed{}, fmt.Errorf("copy the engine: %w", err)
	}
	binary := filepath.Join(dir, binaryName)
	if err := writeFile(binary, program, 0o755); err != nil {
		return Installed{}, err
	}
	text, err := json.MarshalIndent(specFile{
		Argv:          []string{binary, "{connection_file}"}, // absolute: Jupyter's PATH is not the shell's
		DisplayName:   "Go (rooflab)",
		Language:      "go",
		InterruptMode: "message",
		Metadata:      specMetadata{Rooflab: &specOrigin{Engine: "gophernotes", Stamp: stamp}},
	}, "", "  ")
	if err != nil {
		return Installed{}, err
	}
	if err := writeFile(filepath.Join(dir, "kernel.json"), append(text, '\n'), 0o644); err != nil {
		return Installed{}, err
	}
	spec, err := readSpec(dir)
	return Installed{Spec: spec, Binary: binary}, err
}
