package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// listedPackage is what `go list` says about one package.
type listedPackage struct {
	ImportPath string
	Name       string
	Export     string
	GoFiles    []string
}

// importable tells whether cells can import the package.
func (p listedPackage) importable() bool {
	return len(p.GoFiles) > 0 && p.Name != "main" && !isInternal(p.ImportPath)
}

func isInternal(path string) bool {
	return slices.Contains(strings.Split(path, "/"), "internal") || strings.HasPrefix(path, "vendor/")
}

// load type-checks the importable packages that the patterns name, sorted by path, from the compiler's export data.
func load(dir string, patterns []string) ([]*types.Package, error) {
	// -e lets a pattern name a folder that does not exist; a package that does not compile fails below.
	found, err := goList(dir, append([]string{"-e", "-json=ImportPath,Name,GoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range found {
		if p.importable() {
			paths = append(paths, p.ImportPath)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(paths) == 0 {
		return nil, fmt.Errorf("no package to bind matches %s", strings.Join(patterns, " "))
	}

	// -trimpath, as the kernel is built with it: what is compiled here is not compiled again there.
	deps, err := goList(dir, append([]string{"-export", "-trimpath", "-deps", "-json=ImportPath,Export"}, paths...)...)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range deps {
		exports[p.ImportPath] = p.Export
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var pkgs []*types.Package
	for _, path := range paths {
		pkg, err := imp.Import(path)
		if err != nil {
			return nil, fmt.Errorf("read export data of %s: %w", path, err)
		}
		pkgs = append(pkgs, pkg)
	}
	return pkgs, nil
}

func goList(dir string, args ...string) ([]listedPackage, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var pkgs []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}
