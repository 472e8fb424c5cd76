package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// modulePath is the module whose packages cells import.
const modulePath = "github.com/rooflab/rooflab"

var moduleLine = regexp.MustCompile(`(?m)^module\s+` + regexp.QuoteMeta(modulePath) + `\s*$`)

// findSource returns the checkout's root: the folder source, or the first one from the working directory upwards
// that holds our go.mod.
func findSource(source string) (string, error) {
	dir := source
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("find the working directory: %w", err)
		}
		dir = wd
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && moduleLine.Match(text) {
			return at, nil
		}
		if source != "" {
			return "", fmt.Errorf("find the sources: %s holds no go.mod of %s; give the root folder of a checkout", dir, modulePath)
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("find the sources: no go.mod of %s in %s or above it; "+
				"run this inside a checkout, or name one with --source", modulePath, dir)
		}
	}
}

// errNoGo says what to do without a Go tool: the kernel cannot be built.
var errNoGo = errors.New("find the Go tool: there is no go command on PATH; " +
	"the kernel is built from source, so install Go 1.26 or newer (go.dev/dl) and run this again")

// goCommand prepares a run of the go command in dir.
func goCommand(ctx context.Context, dir string, args ...string) (*exec.Cmd, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, errNoGo
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = dir
	// The engine needs no C. Built like the product binary, it shares the compiled packages with it.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd, nil
}

// goOutput runs the go command and returns what it prints. An error carries what it said.
func goOutput(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd, err := goCommand(ctx, dir, args...)
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
