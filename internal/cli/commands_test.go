package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// walk visits every command that we wrote; cobra's help and completion are its own.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			walk(c, visit)
		}
	}
}

func TestEveryCommandHasAnExampleThatParses(t *testing.T) {
	walk(newRoot(), func(cmd *cobra.Command) {
		lines := 0
		for _, line := range strings.Split(cmd.Example, "\n") {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "rooflab ") {
				continue
			}
			lines++
			checkLine(t, cmd.CommandPath()+" --help", line)
		}
		if lines == 0 {
			t.Errorf("%s --help has no example", cmd.CommandPath())
		}
	})
}

func TestCommandLinesInDocumentsParse(t *testing.T) {
	program := regexp.MustCompile(`^(?:    |\t)(?:\$ |@)?(?:_build/rooflab|\$\(ROOF\)|rooflab) (.*)`)
	for name, least := range map[string]int{"README.md": 5, "Makefile": 4} {
		n := 0
		for _, line := range strings.Split(read(t, name), "\n") {
			if m := program.FindStringSubmatch(line); m != nil {
				n++
				checkLine(t, name, "rooflab "+m[1])
			}
		}
		if n < least {
			t.Errorf("%s: %d command lines were found, want %d or more", name, n, least)
		}
	}
}

// What the README says about the commands is what there is: `rooflab init | run | site build|serve|check | ...`.
func TestReadmeNamesEveryCommand(t *testing.T) {
	m := regexp.MustCompile("`rooflab ([a-z| ]+)`\\.").FindStringSubmatch(read(t, "README.md"))
	if m == nil {
		t.Fatal("README.md has no list of commands")
	}
	var named, have []string
	for _, item := range strings.Split(m[1], " | ") {
		group, subs, isGroup := strings.Cut(item, " ")
		if !isGroup {
			named = append(named, group)
		}
		for _, sub := range strings.Split(subs, "|") {
			if isGroup {
				named = append(named, group+" "+sub)
			}
		}
	}
	walk(newRoot(), func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() {
			have = append(have, strings.TrimPrefix(cmd.CommandPath(), "rooflab "))
		}
	})
	slices.Sort(named)
	slices.Sort(have)
	if !slices.Equal(named, have) {
		t.Errorf("README.md names %q, there are %q", named, have)
	}
}

// checkLine parses a command line against the commands: its name, flags, and number of arguments.
func checkLine(t *testing.T, where, line string) {
	t.Helper()
	if at := strings.Index(line, " | "); at >= 0 {
		line = line[:at]
	}
	var args []string
	for _, w := range strings.Fields(line)[1:] {
		if strings.HasPrefix(w, "#") {
			break
		}
		args = append(args, strings.Trim(w, `'"`))
	}
	cmd, rest, err := newRoot().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || cmd.HasSubCommands() {
		t.Errorf("%s: %q does not parse: %v", where, line, err)
	}
}

// read reads a file of the checkout.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(sharedtest.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
