// Command bindgen writes the Go file through which notebook cells call compiled packages: the tables of functions,
// values and types that the gomacro interpreter looks names up in (packages.txt says for which packages).
//
//	bindgen -o FILE [-skipped] [PATTERN...]
//
// It runs in the module's folder, because it asks the go command for the packages. The result depends on the
// packages' source and on the Go version only. Bindgen does not copy or build gophernotes: package kernel does.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed packages.txt
var packageList string

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bindgen:", err)
		os.Exit(1)
	}
}

func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("bindgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "", "write the bindings to `FILE`")
	skipped := flags.Bool("skipped", false, "list the symbols that cells cannot use, with the reason")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return fmt.Errorf("no output file: give -o FILE")
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = listed(packageList)
	}
	src, skips, err := Generate(".", patterns)
	if err != nil {
		return err
	}
	if *skipped {
		for _, s := range skips {
			fmt.Fprintln(stderr, s)
		}
	}
	return os.WriteFile(*out, src, 0o644)
}

// listed returns the lines of a package list without blanks and comments.
func listed(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}
