package nbclient

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Spec is an installed kernelspec: how to start a kernel.
type Spec struct {
	Name          string            `json:"-"` // name of its folder
	Dir           string            `json:"-"` // its folder
	Argv          []string          `json:"argv"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"` // "message"; anything else means by signal
	Env           map[string]string `json:"env"`
}

// KernelNotFoundError means that no kernelspec has the name asked for.
type KernelNotFoundError struct {
	Name      string
	Installed []string // names of what is there, sorted
}

func (e *KernelNotFoundError) Error() string {
	have := "no kernel is installed"
	if len(e.Installed) > 0 {
		have = "installed are " + strings.Join(e.Installed, ", ")
	}
	return fmt.Sprintf("kernel %q not found: %s; install the Go kernel with: rooflab kernel install", e.Name, have)
}

// FindKernel looks a kernelspec up by name: first in extraDirs, then where Jupyter looks. An extra directory may be
// the kernelspec itself, a folder of kernelspecs, or a Jupyter data folder (with "kernels" in it).
func FindKernel(name string, extraDirs ...string) (Spec, error) {
	var names []string
	for _, dir := range specDirs(extraDirs) {
		spec, err := readSpec(dir)
		if err != nil {
			return Spec{}, err
		}
		if strings.EqualFold(spec.Name, name) { // kernel names are not case-sensitive
			return spec, nil
		}
		names = append(names, spec.Name)
	}
	slices.Sort(names)
	return Spec{}, &KernelNotFoundError{Name: name, Installed: slices.Compact(names)}
}

// specDirs lists the folders that hold a kernel.json, in the order of the search.
func specDirs(extra []string) []string {
	var dirs []string
	for _, dir := range extra {
		dirs = append(dirs, below(filepath.Dir(dir), filepath.Base(dir))...)
		dirs = append(dirs, below(dir, "*")...)
		dirs = append(dirs, below(filepath.Join(dir, "kernels"), "*")...)
	}
	for _, data := range dataDirs() {
		dirs = append(dirs, below(filepath.Join(data, "kernels"), "*")...)
	}
	return dirs
}

func below(dir, pattern string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, pattern, "kernel.json")) // a bad pattern finds nothing
	for i, f := range files {
		files[i] = filepath.Dir(f)
	}
	return files
}

// dataDirs lists Jupyter's data folders: $JUPYTER_PATH, the user's, the active Python environment's, the system's.
func dataDirs() []string {
	dirs := filepath.SplitList(os.Getenv("JUPYTER_PATH"))
	if dir := os.Getenv("JUPYTER_DATA_DIR"); dir != "" {
		dirs = append(dirs, dir)
	} else {
		if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
			dirs = append(dirs, filepath.Join(dir, "jupyter"))
		}
		if home, err := os.UserHomeDir(); err == nil {
			dirs = append(dirs, filepath.Join(home, ".local/share/jupyter"), filepath.Join(home, "Library/Jupyter"))
		}
	}
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(env); prefix != "" {
			dirs = append(dirs, filepath.Join(prefix, "share/jupyter"))
		}
	}
	if jupyter, err := exec.LookPath("jupyter"); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(jupyter)), "share/jupyter"))
	}
	return append(dirs, "/usr/local/share/jupyter", "/usr/share/jupyter")
}

func readSpec(dir string) (Spec, error) {
	path := filepath.Join(dir, "kernel.json")
	spec := Spec{Name: filepath.Base(dir), Dir: dir}
	data, err := os.ReadFile(path)
	if err != nil {
		return spec, fmt.Errorf("read kernelspec: %w", err)
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return spec, fmt.Errorf("read kernelspec %s: %w", path, err)
	}
	if len(spec.Argv) == 0 {
		return spec, fmt.Errorf("kernelspec %s names no program: \"argv\" is empty", path)
	}
	return spec, nil
}

// command is the program and arguments to start, for a connection file.
func (s Spec) command(connectionFile string) []string {
	if abs, err := filepath.Abs(s.Dir); err == nil { // the kernel starts in another folder
		s.Dir = abs
	}
	fill := strings.NewReplacer("{connection_file}", connectionFile, "{resource_dir}", s.Dir)
	argv := make([]string, len(s.Argv))
	for i, arg := range s.Argv {
		argv[i] = fill.Replace(arg)
	}
	if argv[0] == "python" || argv[0] == "python3" {
		argv[0] = s.python(argv[0])
	}
	return argv
}

// python finds the interpreter of the environment that a kernelspec belongs to (PREFIX/share/jupyter/kernels/NAME):
// ipykernel writes just "python" and means that one.
func (s Spec) python(name string) string {
	prefix := filepath.Join(s.Dir, "..", "..", "..", "..")
	if path := filepath.Join(prefix, "bin", name); filepath.Base(filepath.Dir(s.Dir)) == "kernels" && isFile(path) {
		return path
	}
	return name
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// environ is the kernel's environment: ours, what the kernelspec adds (with ${NAME} filled in), what the caller adds.
func (s Spec) environ(extra []string) []string {
	env := os.Environ()
	for _, name := range sortedKeys(s.Env) {
		value := os.Expand(s.Env[name], func(v string) string {
			if v == "$" {
				return "$" // written as $$
			}
			return os.Getenv(v)
		})
		env = append(env, name+"="+value)
	}
	env = append(env, fmt.Sprintf("JPY_PARENT_PID=%d", os.Getpid())) // some kernels end when this process is gone
	return append(env, extra...)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
