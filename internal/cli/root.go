// Package cli is the command line of rooflab: one file a command, flags in, calls out.
// It holds no logic of its own; what a command does is in the package that it calls.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/campaign"
)

// Exit codes of every command.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitThreshold = 3
)

// usageError is a mistake in the call, not in the input.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usagef reports a mistake in flags or arguments; the command exits with 2.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// errThreshold says that the command worked and found more than the caller allows; it exits with 3 and prints nothing.
var errThreshold = errors.New("a finding is over its threshold")

// ExitCode maps the error of Run to the exit code of the process.
func ExitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errThreshold):
		return exitThreshold
	}
	return exitFailed
}

// Run executes one command line. Errors are printed to stderr once, as one message.
// Ctrl-C cancels the context of the command, which ends in a state that can be resumed.
func Run(stdin io.Reader, stdout, stderr io.Writer, args []string) error {
	ctx, stop := campaign.Interruptible(context.Background())
	defer stop()
	root := newRoot()
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !errors.Is(err, errThreshold) {
		if isCobraUsage(err) {
			err = usageError{fmt.Errorf("%w; %s", err, callOf(cmd, err))}
		}
		fmt.Fprintf(stderr, "rooflab: %s\n", plain(err.Error()))
	}
	return err
}

// isCobraUsage recognises the mistakes that cobra finds before a command runs; it gives them no type.
func isCobraUsage(err error) bool {
	s := err.Error()
	for _, p := range []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs an argument", "invalid argument", "required flag", "accepts ", "requires at least", "requires at most"} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// callOf says how the command is called, or where that is said.
func callOf(cmd *cobra.Command, err error) string {
	if strings.Contains(err.Error(), " arg(s), ") {
		return "the call is: " + strings.TrimSuffix(cmd.UseLine(), " [flags]")
	}
	return "see " + cmd.CommandPath() + " --help"
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "rooflab",
		Short: "Find out where a decode step's milliseconds go, and publish it",
		Long: `rooflab profiles LLM inference servers (vLLM first) and publishes the findings.

Go notebooks run the phases of a campaign cell by cell: preflight, a macro profile over HTTP,
micro-benchmarks against the roofline, nsys. The executed notebooks become a static site.`,
		Example: `  rooflab analyze c64_rank0.pt.trace.json.gz
  rooflab run --campaign demo --target replay:data/campaigns/h200x2-kimi-k2.5-int4
  rooflab site build demo --output site`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newInit(), newPreflight(), newRun(), newDoctor(), newAnalyze(), newCompare(), newReplay(), newArchive(), newKernel(), newNB(), newSite(), newVersion())
	return root
}
