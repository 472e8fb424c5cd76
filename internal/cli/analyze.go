package cli

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/breakdown"
)

func newAnalyze() *cobra.Command {
	var asJSON, asCSV, asMarkdown, parts bool
	var opts analyze.Options
	cmd := &cobra.Command{
		Use:   "analyze FILE...",
		Short: "Print where the GPU time of a trace goes",
		Long: `analyze reads PyTorch profiler traces (.json or .json.gz) and prints the time of each component:
all-reduce, expert GEMMs, attention, and what is left. Several files are the ranks of one run, whose
waiting for each other is then told from transfer, or one rank under several loads.

A file that ends too early is analysed as far as it goes; the exit code is then 1.`,
		Example: `  rooflab analyze c64_rank0.pt.trace.json.gz
  rooflab analyze --parts rank0.json.gz rank1.json.gz
  rooflab analyze --json rank0.json.gz | jq '.ranks[0].components[0]'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("analyze needs one or more trace files (see rooflab analyze --help)")
			}
			return nil
		},
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asCSV || asJSON && asMarkdown || asCSV && asMarkdown {
				return usagef("choose one of --json, --csv and --markdown")
			}
			if opts.MaxEventBytes < 1 {
				return usagef("--max-event-bytes must be at least 1")
			}
			report, err := opts.Files(args...)
			if report == nil {
				return err
			}
			return errors.Join(writeReport(cmd.OutOrStdout(), report, asJSON, asCSV, asMarkdown, parts), err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON with every figure: ranks, steps, components, layers, kernels")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print the table as CSV")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print the table as Markdown")
	cmd.Flags().BoolVar(&parts, "parts", false, "show the parts of each component (q_b, w13, ...)")
	cmd.Flags().IntVar(&opts.MaxEventBytes, "max-event-bytes", 64<<20, "refuse traces with an event larger than this")
	return cmd
}

// writeReport prints a report in one of its forms, the table for terminals when none is asked for.
func writeReport(w io.Writer, report *breakdown.Report, asJSON, asCSV, asMarkdown, parts bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(report)
	}
	table := report.Table()
	if parts {
		table = report.PartsTable()
	}
	text := plain(table.Text()) + "\n"
	switch {
	case asCSV:
		text = plain(table.CSV())
	case asMarkdown:
		text = plain(table.Markdown())
	}
	_, err := io.WriteString(w, text)
	return err
}
