package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// inputs are the packages of the checkout that decide, with those that cells may import, what an engine does.
var inputs = []string{"./internal/bindgen", "./" + frontFolder}

// sourceStamp is a digest of everything the engine is built from: Go version and settings, module versions, and the
// files of the packages that are bound, that draw charts and that write the bindings.
func sourceStamp(ctx context.Context, source string) (string, error) {
	list, err := os.ReadFile(packageList(source))
	if err != nil {
		return "", fmt.Errorf("read the list of packages that cells may import: %w", err)
	}
	ours, err := cellPackages(source)
	if err != nil {
		return "", err
	}
	files, err := packageFiles(ctx, source, slices.Concat(inputs, ours))
	if err != nil {
		return "", err
	}
	env, err := goOutput(ctx, source, "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED", "GOEXPERIMENT")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s", env, list)
	for _, name := range append(files, "go.mod", "go.sum") {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("read the sources: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.ToSlash(name), len(text))
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

func packageList(source string) string {
	return filepath.Join(source, "internal", "bindgen", "packages.txt")
}

// cellPackages are the patterns of the checkout's packages that cells may import.
func cellPackages(source string) (patterns []string, err error) {
	list, err := os.ReadFile(packageList(source))
	if err != nil {
		return nil, fmt.Errorf("read the list of packages that cells may import: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "./") {
			patterns = append(patterns, line)
		}
	}
	return patterns, nil
}

// packageFiles lists the files of the module's packages behind the patterns, with those they import, relative to
// the module. A pattern may name nothing.
func packageFiles(ctx context.Context, source string, patterns []string) ([]string, error) {
	out, err := goOutput(ctx, source, append([]string{"list", "-e", "-deps", "-tags", "gophernotes", "-json=Dir,GoFiles,EmbedFiles,Module"}, patterns...)...)
	if err != nil {
		return nil, fmt.Errorf("list the packages that cells may import: %w", err)
	}
	var files []string
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                 string
			GoFiles, EmbedFiles []string
			Module              *struct{ Path string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			slices.Sort(files)
			return files, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		if p.Module == nil || p.Module.Path != modulePath {
			continue
		}
		dir, err := filepath.Rel(source, p.Dir)
		if err != nil {
			return nil, err
		}
		for _, name := range append(p.GoFiles, p.EmbedFiles...) {
			files = append(files, filepath.Join(dir, name))
		}
	}
}
