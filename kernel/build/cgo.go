package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	gobuild "go/build"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A cell that imports "C" goes the way that the go command takes: cgo writes Go and C files, the C compiler makes
// objects, the Go compiler an archive, and the objects are put into it. It is done here because a cell's imports of
// earlier cells are known to no module.
//
// C's compiler counts lines from the comment above import "C". The session writes `//#line L "cell[n]"` as its
// first line, so that messages name the cell.

// CgoTypes runs cgo alone and returns the declarations of the names of C that a cell uses, as a Go file of the cell's
// package. The type checker takes both files when it is told that the package uses cgo.
func (b *Builder) CgoTypes(ctx context.Context, u Unit) ([]byte, error) {
	j, err := b.newJob(u)
	if err != nil {
		return nil, err
	}
	obj, _, err := b.runCgo(ctx, j)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(obj, "_cgo_gotypes.go"))
}

// runCgo returns the folder of cgo's files and the C compiler's flags.
func (b *Builder) runCgo(ctx context.Context, j *job) (obj string, flags []string, err error) {
	dir := j.base + ".c"
	obj = filepath.Join(dir, "obj") + string(filepath.Separator) // cgo wants the separator
	if err := os.MkdirAll(obj, 0o755); err != nil {
		return "", nil, fmt.Errorf("compile a cell with C: %w", err)
	}
	src := filepath.Join(dir, "cell.go")
	if err := os.WriteFile(src, j.Source, 0o644); err != nil {
		return "", nil, fmt.Errorf("compile a cell with C: %w", err)
	}
	flags, libraries, err := b.directives(ctx, dir)
	if err != nil {
		return "", nil, err
	}
	flags = append([]string{"-I", obj, "-I", b.o.Dir, "-O2", "-g"}, flags...)
	cmd := command(ctx, dir, append(without(b.env, "CGO_LDFLAGS"), "CGO_LDFLAGS="+libraries), filepath.Join(b.Toolchain.toolDir, "cgo"),
		append([]string{"-objdir", obj, "-importpath", j.Pkg, "-trimpath", b.dir + "=>", "--"}, append(flags, src)...)...)
	if text, err := cmd.CombinedOutput(); ctx.Err() != nil {
		return "", nil, ctx.Err()
	} else if err != nil {
		return "", nil, b.plainC(string(text), j)
	}
	return obj, flags, nil
}

// compileC makes the archive of a cell that imports "C".
func (b *Builder) compileC(ctx context.Context, j *job) error {
	obj, flags, err := b.runCgo(ctx, j)
	if err != nil {
		return err
	}
	var objects []string
	for _, c := range []string{"_cgo_export", "cell.cgo2"} {
		args := append([]string{"-fPIC", "-pthread"}, flags...)
		cmd := b.compilerC(ctx, obj, append(args, "-c", "-o", obj+c+".o", obj+c+".c")...)
		if text, err := cmd.CombinedOutput(); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return b.plainC(string(text), j)
		}
		objects = append(objects, obj+c+".o")
	}
	if err := b.compileGo(ctx, j, obj+"_cgo_gotypes.go", obj+"cell.cgo1.go"); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return b.plainC(err.Error(), j)
	}
	return appendObjects(j.base+".a", objects)
}

// directives reads the #cgo lines of the cell in dir: flags of the C compiler, and of the linker as cgo's
// variable CGO_LDFLAGS has them.
func (b *Builder) directives(ctx context.Context, dir string) (flags []string, libraries string, err error) {
	about := gobuild.Default
	about.CgoEnabled = true
	p, err := about.ImportDir(dir, 0)
	if err != nil {
		return nil, "", fmt.Errorf("read the #cgo lines: %w", err)
	}
	flags = append(slices.Clone(p.CgoCPPFLAGS), p.CgoCFLAGS...)
	link := p.CgoLDFLAGS
	if len(p.CgoPkgConfig) > 0 {
		for option, list := range map[string]*[]string{"--cflags": &flags, "--libs": &link} {
			out, err := output(command(ctx, dir, b.env, "pkg-config", append([]string{option, "--"}, p.CgoPkgConfig...)...))
			if err != nil {
				return nil, "", fmt.Errorf("ask pkg-config for %s: %w", strings.Join(p.CgoPkgConfig, " "), err)
			}
			*list = append(*list, strings.Fields(string(out))...)
		}
	}
	for i, f := range flags { // ${SRCDIR} is the notebook's folder
		flags[i] = strings.ReplaceAll(f, dir, b.o.Dir)
	}
	for _, f := range link {
		libraries += " " + quoteFlag(strings.ReplaceAll(f, dir, b.o.Dir))
	}
	return flags, strings.TrimSpace(libraries), nil
}

// quoteFlag writes a flag as the go command's variables hold it.
func quoteFlag(f string) string {
	if !strings.ContainsAny(f, " \t'\"") {
		return f
	}
	if strings.Contains(f, "'") {
		return `"` + f + `"`
	}
	return "'" + f + "'"
}

var cFile = regexp.MustCompile(`\S*cell\.(go|cgo1\.go|cgo2\.c):`)

// plainC takes our own file names out of messages.
func (b *Builder) plainC(text string, j *job) error {
	text = cFile.ReplaceAllString(text, fmt.Sprintf("cell[%d]:", j.Cell))
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "# ") || strings.HasSuffix(line, ": In function") {
			continue
		}
		lines = append(lines, strings.ReplaceAll(line, b.dir+string(filepath.Separator), ""))
	}
	return errors.New(strings.TrimSpace(strings.Join(lines, "\n")))
}

// appendObjects adds C objects to a Go archive (the format of ar: a header of 60 bytes, content at even offsets).
func appendObjects(archive string, objects []string) error {
	data, err := os.ReadFile(archive)
	if err != nil {
		return fmt.Errorf("pack the cell: %w", err)
	}
	out := bytes.NewBuffer(data)
	for i, o := range objects {
		obj, err := os.ReadFile(o)
		if err != nil {
			return fmt.Errorf("pack the cell: %w", err)
		}
		if out.Len()%2 != 0 {
			out.WriteByte(0)
		}
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", fmt.Sprintf("c%d.o", i), 0, 0, 0, 0o644, len(obj))
		out.Write(obj)
	}
	if out.Len()%2 != 0 {
		out.WriteByte(0)
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}
