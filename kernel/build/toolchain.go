package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// Why cells cannot be compiled on this machine. Unavailable recognises them.
var (
	ErrNoGo     = errors.New("find the Go tool: there is no go command here; install Go 1.26 (go.dev/dl) and run rooflab kernel install again")
	ErrNoLinker = errors.New("find a C compiler: cells are linked with one, and there is none here")
	ErrPlatform = errors.New("compiled cells need Go 1.26 on linux/amd64")
	ErrBroken   = errors.New("compiled cells do not work with this Go")
)

// Unavailable says whether an error means that cells cannot be compiled on this machine at all, so that the caller
// should use another engine.
func Unavailable(err error) bool {
	for _, e := range []error{ErrNoGo, ErrNoLinker, ErrPlatform, ErrBroken} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Toolchain is the Go installation that cells are compiled with, and the settings that decide what it makes.
type Toolchain struct {
	Go      string // the go command
	Version string // go1.26.8
	Root    string
	Lang    string   // go1.26: the language version of cells
	CC      []string // the C compiler: an absolute path, and arguments that belong to it
	toolDir string
	module  string   // go.mod of the folder, or empty
	work    string   // go.work of the folder, or empty
	env     []string // environment of every command: nothing in it depends on where the kernel was started
	digest  string   // of all that decides what archives look like
}

// settings are the variables that decide what the compiler makes. Their values are taken from `go env`, which knows
// the user's file of settings too; the tools that are run directly do not.
var settings = []string{"GOAMD64", "GOARM64", "GOEXPERIMENT", "CGO_CFLAGS", "CGO_CPPFLAGS", "CGO_CXXFLAGS", "CGO_FFLAGS", "CGO_LDFLAGS", "CC", "CXX"}

// findToolchain asks the go command what it is when it is run in dir: a go.mod there may select another version.
func findToolchain(ctx context.Context, goTool, dir string) (*Toolchain, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("%w; this is %s/%s", ErrPlatform, runtime.GOOS, runtime.GOARCH)
	}
	goTool, err := findGo(goTool)
	if err != nil {
		return nil, err
	}
	names := append([]string{"GOVERSION", "GOROOT", "GOTOOLDIR", "GOMOD", "GOWORK", "GOFLAGS", "GOHOSTOS", "GOHOSTARCH"}, settings...)
	ask := func(more ...string) ([]byte, error) {
		cmd := command(ctx, dir, append(offline(without(os.Environ(), "GOOS", "GOARCH", "GO111MODULE")), more...), goTool,
			append([]string{"env", "-json"}, names...)...)
		return output(cmd)
	}
	out, err := ask("GO111MODULE=on")
	if err != nil {
		// Nothing is fetched here, not even the toolchain that a go.mod asks for: its packages cannot be imported then,
		// which explain says, but cells run.
		out, err = ask("GO111MODULE=on", "GOTOOLCHAIN=local")
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for its settings: %w", goTool, err)
	}
	var v map[string]string
	if err := json.Unmarshal(out, &v); err != nil {
		return nil, fmt.Errorf("read the answer of go env: %w", err)
	}
	t := &Toolchain{Go: goTool, Version: v["GOVERSION"], Root: v["GOROOT"], toolDir: v["GOTOOLDIR"], work: v["GOWORK"]}
	if own := filepath.Join(t.Root, "bin", "go"); executable(own) {
		t.Go = own // the go command of the selected version
	}
	if m := v["GOMOD"]; m != os.DevNull {
		t.module = m
	}
	if t.work == "off" {
		t.work = ""
	}
	if t.Lang = language(t.Version); t.Lang != "go1.26" { // object files, type descriptors and the like change between releases
		return nil, fmt.Errorf("%w; this is %s", ErrPlatform, t.Version)
	}
	if t.CC, err = compilerOf(v["CC"]); err != nil {
		return nil, err
	}
	v["CC"] = extldOf(t.CC) // perhaps not on the kernel's PATH
	flags := "GOFLAGS=" + cleanFlags(v["GOFLAGS"])
	pinned := []string{flags, "GOROOT=" + t.Root, "GOOS=linux", "GOARCH=" + runtime.GOARCH, "CGO_ENABLED=1", "GO111MODULE=on", "GOTOOLCHAIN=local",
		"GOGC=off", "GOMEMLIMIT=512MiB"} // short-lived tools: a fifth less time without collections
	for _, name := range settings {
		pinned = append(pinned, name+"="+v[name])
	}
	drop := []string{"GODEBUG", "GOTOOLDIR", "GCCGO", "LD_PRELOAD"}
	for _, p := range pinned {
		name, _, _ := strings.Cut(p, "=")
		drop = append(drop, name)
	}
	t.env = append(without(os.Environ(), drop...), pinned...)

	sum := sha256.New()
	fmt.Fprintln(sum, layout, t.Version, t.toolDir, pinned)
	for _, tool := range []string{"compile", "link"} {
		info, err := os.Stat(filepath.Join(t.toolDir, tool))
		if err != nil {
			return nil, fmt.Errorf("find the compiler of %s: %w", t.Version, err)
		}
		fmt.Fprintln(sum, tool, info.Size(), info.ModTime().UnixNano())
	}
	t.digest = hex.EncodeToString(sum.Sum(nil))[:16]
	return t, nil
}

// findGo returns the go command: the one that was named, the one on PATH, or one in a usual place. A front end
// that was not started from a shell lacks the shell's PATH.
func findGo(named string) (string, error) {
	if named != "" {
		if !executable(named) {
			return "", fmt.Errorf("%w (%s is not there)", ErrNoGo, named)
		}
		return filepath.Abs(named)
	}
	if p, err := exec.LookPath("go"); err == nil {
		return filepath.Abs(p)
	}
	home, _ := os.UserHomeDir()
	for _, p := range []string{"/usr/local/go/bin/go", filepath.Join(home, "go/bin/go"), filepath.Join(home, "sdk/go/bin/go"), "/usr/lib/go/bin/go", "/snap/bin/go"} {
		if executable(p) {
			return p, nil
		}
	}
	return "", ErrNoGo
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var languageOf = regexp.MustCompile(`go1\.\d+`)

// language is the language version of a toolchain: go1.26 for go1.26.8 and for "devel go1.26-abcdef".
func language(version string) string {
	if l := languageOf.FindString(version); l != "" {
		return l
	}
	return "go1.26"
}

// archiveFlags are those with which the go command makes archives for libraries: code refers to other packages by
// name, and so does assembly. The linker keeps all of a package in a library.
var archiveFlags = []string{"-export", "-deps", "-buildmode=plugin", "-gcflags=all=-linkshared", "-asmflags=all=-linkshared"}

// layout changes when archives, or folders of the cache, are no longer what an earlier version of rooflab has made.
const layout = "layout 3"

// cleanFlags keeps build tags only. Everything else that GOFLAGS may hold either makes archives that do not fit
// each other (-race, -trimpath, -gcflags) or lets go list change the user's go.mod (-mod=mod).
func cleanFlags(flags string) string {
	kept := "-buildvcs=false"
	for _, f := range strings.Fields(flags) {
		if name := strings.TrimLeft(f, "-"); strings.HasPrefix(name, "tags=") {
			kept += " -" + name
		}
	}
	return kept
}

// without returns the environment less some variables.
func without(env []string, names ...string) []string {
	drop := map[string]bool{}
	for _, n := range names {
		drop[n] = true
	}
	var out []string
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !drop[name] {
			out = append(out, e)
		}
	}
	return out
}

// offline keeps the go command away from the network, also for private modules, which it would fetch in spite of
// GOPROXY=off.
func offline(env []string) []string {
	return append(without(env, "GOPROXY", "GONOPROXY", "GOPRIVATE"), "GOPROXY=off", "GONOPROXY=none", "GOPRIVATE=")
}

// command prepares a program whose whole process group ends with the context: the go command and the linker have
// children.
func command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// output runs a command and returns its standard output; an error is what it wrote to standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	if text := strings.TrimSpace(stderr.String()); text != "" {
		return stdout.Bytes(), errors.New(text)
	}
	return stdout.Bytes(), err
}

// tool runs the compiler, the linker or cgo. They write their complaints to either stream.
func (b *Builder) tool(ctx context.Context, name string, args ...string) error {
	cmd := command(ctx, b.dir, b.env, filepath.Join(b.Toolchain.toolDir, name), args...)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && len(out) > 0 {
		return errors.New(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
