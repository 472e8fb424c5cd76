package build

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// compilerOf finds the C compiler that the go command would use, or another usual one.
func compilerOf(cc string) ([]string, error) {
	if f := strings.Fields(cc); len(f) > 0 {
		if p, err := exec.LookPath(f[0]); err == nil {
			if p, err = filepath.Abs(p); err == nil {
				return append([]string{p}, f[1:]...), nil
			}
		}
	}
	for _, n := range []string{"gcc", "cc", "clang"} {
		for _, n := range []string{n, "/usr/bin/" + n} { // a kernel may be started without the shell's PATH
			if p, err := exec.LookPath(n); err == nil {
				p, err = filepath.Abs(p)
				return []string{p}, err
			}
		}
	}
	return nil, fmt.Errorf("%w; install one: %s", ErrNoLinker, installLine())
}

// compilerC prepares a run of the C compiler.
func (b *Builder) compilerC(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cc := b.Toolchain.CC
	return command(ctx, dir, b.env, cc[0], append(slices.Clone(cc[1:]), args...)...)
}

// extldOf writes a command as the Go linker's -extld has it.
func extldOf(command []string) string {
	var words []string
	for _, w := range command {
		words = append(words, quoteFlag(w))
	}
	return strings.Join(words, " ")
}

// installLine is the command that brings a C compiler on this system.
func installLine() string {
	for _, m := range []struct{ manager, line string }{
		{"apt-get", "sudo apt-get install gcc libc6-dev"},
		{"apk", "apk add gcc musl-dev binutils"},
		{"dnf", "sudo dnf install gcc glibc-devel"},
		{"yum", "sudo yum install gcc glibc-devel"},
		{"zypper", "sudo zypper install gcc glibc-devel"},
		{"pacman", "sudo pacman -S gcc"},
	} {
		if _, err := exec.LookPath(m.manager); err == nil {
			return m.line
		}
	}
	return "gcc and the C library's development files"
}
