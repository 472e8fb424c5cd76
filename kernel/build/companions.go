package build

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The packages that rooflab's own notebooks import are made one library, whichever of them a notebook asks for first:
// that library can be made when the kernel is installed, and serves all notebooks.

var importOfRooflab = regexp.MustCompile(`\\"(` + regexp.QuoteMeta(Module) + `/[a-z0-9/]+)\\"`)

// companions are the packages of rooflab that the notebooks of a checkout import, when cells get rooflab's packages
// from a checkout.
func (b *Builder) companions() []string {
	b.findCompanions.Do(func() {
		for _, root := range []string{filepath.Dir(b.module.mod), b.o.RooflabSource} {
			text, err := os.ReadFile(filepath.Join(root, "go.mod"))
			if err != nil || !strings.HasPrefix(string(text), "module "+Module+"\n") {
				continue
			}
			notebooks, _ := filepath.Glob(filepath.Join(root, "notebooks", "*.ipynb"))
			for _, n := range notebooks {
				text, _ := os.ReadFile(n)
				for _, m := range importOfRooflab.FindAllStringSubmatch(string(text), -1) {
					info, err := os.Stat(filepath.Join(root, strings.TrimPrefix(m[1], Module)))
					if err == nil && info.IsDir() && !b.support[m[1]] {
						b.company = append(b.company, m[1])
					}
				}
			}
			slices.Sort(b.company)
			b.company = slices.Compact(b.company)
			return
		}
	})
	return b.company
}

// ofRooflab says that a package is one of rooflab's that are not linked into the worker.
func (b *Builder) ofRooflab(path string) bool {
	return strings.HasPrefix(path, Module+"/") && !b.support[path]
}

// warmLibraries makes the libraries that cells usually need.
func (b *Builder) warmLibraries(ctx context.Context) error {
	b.linking.Lock()
	defer b.linking.Unlock()
	if err := b.openCore(); err != nil {
		return err
	}
	return b.addLibrary(ctx, 0, b.usual(warmed))
}

// warmRooflab makes the library of rooflab's packages. The builder is not used for cells afterwards.
func (b *Builder) warmRooflab(ctx context.Context) error {
	paths := b.companions()
	if len(paths) == 0 {
		return nil
	}
	if err := b.module.prepare(b.Toolchain.Lang, b.o.RooflabSource); err != nil {
		return err
	}
	// Cells ask the go command offline. Their workspace needs go.mod files that the build of rooflab did without, so they are
	// fetched here, where the network is expected.
	if _, err := output(command(ctx, b.module.dir, b.module.env(b.env), b.Toolchain.Go, slices.Concat([]string{"list", "-deps", "--"}, paths)...)); err != nil && ctx.Err() == nil {
		b.o.Progress("fetch what cells need of rooflab's modules: " + err.Error())
	}
	if err := b.resolve(ctx, paths...); err != nil {
		return err
	}
	b.linking.Lock()
	defer b.linking.Unlock()
	_, err := b.need(ctx, 0, paths)
	return err
}
