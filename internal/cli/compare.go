package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/compare"
)

func newCompare() *cobra.Command {
	var asJSON, asCSV, asMarkdown bool
	var threshold float64
	var opts compare.Options
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Print what changed between two traces or two runs, and what else differs",
		Long: `compare prints the GPU time a decode step of A and of B by component: medians over the whole decode steps,
the change, and p of a Mann-Whitney U test. "~" means that no difference can be told from noise. Then it lists what
else differs, and says when that makes the comparison unfair.

A and B are each a trace, several traces joined by "+" or "," (the ranks or loads of one run), or the folder of a run
with run.json and its traces. Runs are matched by streams (C) and rank, and compared in engine version, arguments,
environment, driver and routing as well.

With --threshold the exit code is 3 when a step of B is slower by more than PCT percent and the change is significant.
A trace that ends too early is compared as far as it goes; the exit code is then 1.

--json has: schema (1), by, alpha, a and b {name, run}, sections[] {load, kind, rank, file_a, file_b, n_a, n_b, rows[], sums[]},
each row {name, component, a and b {median_ns, lo_ns, hi_ns, sum_ns, n}, change_ns, change_pct, p, significant, warnings[]},
differences[] {kind, where, what, a, b}, cautions[], notes[]. The interval lo_ns to hi_ns is -1 to -1 when n is too small.`,
		Example: `  rooflab compare data/campaigns/h200x2-kimi-k2.5-int4/runs/hostmem-graph data/campaigns/h200x2-kimi-k2.5-int4/runs/nvlink-graph
  rooflab compare --by part before.pt.trace.json.gz after.pt.trace.json.gz
  rooflab compare --threshold 2 old/rank0.json.gz+old/rank1.json.gz new/rank0.json.gz+new/rank1.json.gz`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("compare needs A and B: two traces, or the folders of two runs (see rooflab compare --help)")
			}
			return nil
		},
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			limited := cmd.Flags().Changed("threshold")
			switch {
			case asJSON && asCSV || asJSON && asMarkdown || asCSV && asMarkdown:
				return usagef("choose one of --json, --csv and --markdown")
			case opts.MaxEventBytes < 1:
				return usagef("--max-event-bytes must be at least 1")
			case !(opts.Alpha > 0 && opts.Alpha < 1):
				return usagef("--alpha must lie between 0 and 1")
			case !(threshold >= 0):
				return usagef("--threshold must not be negative")
			case opts.By != compare.ByComponent && opts.By != compare.ByPart && opts.By != compare.ByKernel:
				return usagef("--by takes component, part or kernel")
			}
			report, err := compare.Paths(args[0], args[1], opts)
			if report == nil {
				return err
			}
			if err := errors.Join(writeComparison(cmd.OutOrStdout(), report, asJSON, asCSV, asMarkdown), err); err != nil || !limited {
				return err
			}
			return overThreshold(cmd.ErrOrStderr(), report, threshold)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON with every figure in ns")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print the times as CSV")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print the tables as Markdown")
	cmd.Flags().StringVar(&opts.By, "by", compare.ByComponent, "what a row is: component, part or kernel")
	cmd.Flags().Float64Var(&opts.Alpha, "alpha", 0.05, "a change is significant when p is at most this")
	cmd.Flags().IntVar(&opts.MaxEventBytes, "max-event-bytes", 64<<20, "refuse traces with an event larger than this")
	cmd.Flags().Float64Var(&threshold, "threshold", 0, "exit with 3 when a step got slower by more than this many percent")
	return cmd
}

// writeComparison prints a comparison in one of its forms, tables for terminals when none is asked for.
func writeComparison(w io.Writer, report *compare.Report, asJSON, asCSV, asMarkdown bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(report)
	}
	text := ""
	switch {
	case asCSV:
		text = report.Table().CSV()
	default:
		for i, t := range report.Tables() {
			if i > 0 {
				text += "\n"
			}
			if asMarkdown {
				text += t.Markdown()
			} else {
				text += t.Text() + "\n"
			}
		}
	}
	_, err := io.WriteString(w, plain(text))
	return err
}

// overThreshold names the steps that got slower by more than pct percent.
func overThreshold(w io.Writer, report *compare.Report, pct float64) error {
	var err error
	for _, s := range report.Sections {
		if s.Slower(pct) {
			fmt.Fprintf(w, "%s, rank %d: the step got %s %% slower; the threshold is %v %%\n", s.Load, s.Rank, units.Percent(s.Step().ChangeNs, s.Step().A.MedianNs, 1), pct)
			err = errThreshold
		}
	}
	return err
}
