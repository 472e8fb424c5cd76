package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Spec is an installed kernelspec: what Jupyter knows about a kernel.
type Spec struct {
	Name        string   `json:"name"` // the folder's name, which notebooks refer to
	Dir         string   `json:"dir"`
	DisplayName string   `json:"display_name"`
	Language    string   `json:"language"`
	Argv        []string `json:"argv"`
	Engine      string   `json:"engine,omitempty"` // empty when rooflab did not install it
	Stamp       string   `json:"stamp,omitempty"`  // digest of what it was made of; empty when rooflab did not install it
}

// tool is the go command that the compiled engine uses; empty for other kernels.
func (s Spec) tool() string {
	if i := slices.Index(s.Argv, "--go"); i >= 0 && i+1 < len(s.Argv) && s.Engine == Compiled {
		return s.Argv[i+1]
	}
	return ""
}

// specFile is kernel.json.
type specFile struct {
	Argv          []string     `json:"argv"`
	DisplayName   string       `json:"display_name"`
	Language      string       `json:"language"`
	InterruptMode string       `json:"interrupt_mode"`
	Metadata      specMetadata `json:"metadata"`
}

type specMetadata struct {
	Rooflab *specOrigin `json:"rooflab,omitempty"`
}

type specOrigin struct {
	Engine string `json:"engine"`
	Stamp  string `json:"stamp"`
}

// List returns the Go kernels in all places where Jupyter looks, in its order, first come first. A kernelspec
// hidden by one of the same name further up is listed too.
func List() []Spec {
	specs := []Spec{}
	for _, dir := range searchPath() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // most of the places do not exist
		}
		for _, e := range entries {
			if spec, err := readSpec(filepath.Join(dir, e.Name())); err == nil && strings.EqualFold(spec.Language, "go") {
				specs = append(specs, spec)
			}
		}
	}
	return specs
}

func readSpec(dir string) (Spec, error) {
	text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		return Spec{}, fmt.Errorf("read kernelspec: %w", err)
	}
	var f specFile
	if err := json.Unmarshal(text, &f); err != nil {
		return Spec{}, fmt.Errorf("read kernelspec %s: %w", dir, err)
	}
	spec := Spec{Name: filepath.Base(dir), Dir: dir, DisplayName: f.DisplayName, Language: f.Language, Argv: f.Argv}
	if f.Metadata.Rooflab != nil {
		spec.Engine, spec.Stamp = f.Metadata.Rooflab.Engine, f.Metadata.Rooflab.Stamp
	}
	return spec, nil
}

// searchPath lists the folders where Jupyter looks for kernelspecs, first come first: $JUPYTER_PATH, the user's
// data, the active Python environments and the system. Without Python on hand an environment is recognised by
// $VIRTUAL_ENV, $CONDA_PREFIX or the place of the jupyter command.
func searchPath() []string {
	var roots []string
	roots = append(roots, filepath.SplitList(os.Getenv("JUPYTER_PATH"))...)
	if user, err := userData(); err == nil {
		roots = append(roots, user)
	}
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(env); prefix != "" {
			roots = append(roots, dataOf(prefix))
		}
	}
	if jupyter, err := exec.LookPath("jupyter"); err == nil {
		roots = append(roots, dataOf(filepath.Dir(filepath.Dir(jupyter))))
	}
	roots = append(roots, dataOf("/usr/local"), dataOf("/usr"))
	var dirs []string
	for _, root := range roots {
		if dir := filepath.Join(root, "kernels"); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func dataOf(prefix string) string { return filepath.Join(prefix, "share", "jupyter") }

// userData is Jupyter's data folder of the user.
func userData() (string, error) {
	if dir := os.Getenv("JUPYTER_DATA_DIR"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" && runtime.GOOS != "darwin" {
		return filepath.Join(dir, "jupyter"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find Jupyter's data folder: %w", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Jupyter"), nil
	}
	return filepath.Join(home, ".local", "share", "jupyter"), nil
}
