package link

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
)

//go:embed helper.c.txt
var helper string

// Helper is the C source of a program that stands for the C compiler in `go tool link`. It answers the trial links
// with which the Go linker probes for flags, leaves out the stub, and calls the system's linker itself: 8 ms instead
// of 60. A link with more than Go code, C objects and the C library goes to the C compiler, as does every link when ld
// or libc (the path of libc.so.6) is empty.
func Helper(compiler []string, ld, libc string) string {
	var words strings.Builder
	for _, w := range compiler {
		fmt.Fprintf(&words, "%s, ", quote(w))
	}
	dir := ""
	if libc != "" {
		dir = "-L" + filepath.Dir(libc)
	}
	return fmt.Sprintf("static const char *const compiler[] = {%s0};\nstatic const char ld[] = %s, libc[] = %s, libraries[] = %s;\n",
		words.String(), quote(ld), quote(libc), quote(dir)) + helper
}

// quote makes a string of the language C.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "\\%03o", c)
	}
	b.WriteByte('"')
	return b.String()
}
