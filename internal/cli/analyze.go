package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// analysis is one call of analyze.
type analysis struct {
	opts                  analyze.Options
	json, csv, markdown   bool
	by, explain, perfetto string
	top, rank, step       int
	itl                   time.Duration
	wide                  bool
	oneRank, oneStep      bool // --rank, --step was given
	shaped                bool // --by or --top was given
}

func newAnalyze() *cobra.Command {
	var a analysis
	cmd := &cobra.Command{
		Use:   "analyze FILE...",
		Short: "Print where the GPU time of a trace goes",
		Long: `analyze reads PyTorch profiler traces (.json or .json.gz) and prints the time of each component:
all-reduce, expert GEMMs, attention, and what is left. Several files are the ranks of one run, whose
waiting for each other is then told from transfer, or one rank under several loads.

Other tables are chosen with --by: part (of components: q_b, w13, ...), layer, kernel, step, stream, and host: for what
the GPU was idle, and what the host launched in a step.

Steps come from the annotations of vLLM, SGLang and others; without any they are found where the sequence of kernels
repeats. Where a window holds prefill or cut steps too, a step in the tables is made of its whole decode steps alone.

A trace of engine steps without GPU activity, of a server on CPUs, is analysed by its CPU operators: each has the time
without operators inside it, and "host" is Python and other work between them. The table and health say so, cpu_operators is
true in --json, and operators, annotation_ns of a step and the other figures are of the CPU.

--itl is the median time between tokens without profiler: when a step in the trace is more than 5 % off, the table says
so. For a trace in the folder of a run it is taken from run.json.

A file that ends too early is analysed as far as it goes; the exit code is then 1.

--json has schema (1), ranks[], collectives and more_collectives[] (of further loads). All times are ns.
A rank has rank, file, device, steps[] {kind, context_tokens, generation_tokens, n, partial}, steps_by (annotation or
repetition), step_p50_ns, itl_ns; span_ns, busy_ns, summed_ns, overlap_ns, idle_ns and components[], layers[], kernels[],
streams[], devices[] of the whole window; whole_steps with the same figures of the counted steps, where the window holds
more; step_table[] with kernel_launches, graph_launches and graph_events of each step; host {launch_gap, idle[] {kind,
cause, n, ns}}; health[]. The kind of a step is decode, prefill, mixed, idle, or unknown where no annotation says it.
Collectives have, by rank, wait_ns[], tail_ns[], arrived_last[], caused_wait_ns[], unmatched[], and transfer_ns,
straggler {rank, gap_ns, before[], kernels[]} (absent when no rank is late more than its share) and skew {n, p50_ns,
max_ns, steps[]}.`,
		Example: `  rooflab analyze c64_rank0.pt.trace.json.gz
  rooflab analyze --by part rank0.json.gz rank1.json.gz
  rooflab analyze --by kernel --top 20 --step 3 rank0.json.gz
  rooflab analyze --by host --top 10 rank0.json.gz
  rooflab analyze --itl 44.3ms c64_rank0.json.gz
  rooflab analyze --explain nvjet rank0.json.gz
  rooflab analyze --perfetto steps.json.gz rank0.json.gz
  rooflab analyze --json rank0.json.gz | jq '.ranks[0].components[0]'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("analyze needs one or more trace files (see rooflab analyze --help)")
			}
			return nil
		},
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			a.oneRank, a.oneStep, a.shaped = changed("rank"), changed("step"), changed("by") || changed("top")
			if err := a.check(changed("explain"), changed("itl")); err != nil {
				return err
			}
			return a.run(cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&a.json, "json", false, "print JSON with every figure: ranks, steps, components, layers, kernels, streams")
	f.BoolVar(&a.csv, "csv", false, "print the table as CSV")
	f.BoolVar(&a.markdown, "markdown", false, "print the table as Markdown")
	f.StringVar(&a.by, "by", "component", "what the rows are: "+strings.Join(breakdown.Views(), ", "))
	f.IntVar(&a.top, "top", 0, "show the `N` largest rows, and the others as one (default: all)")
	f.BoolVar(&a.wide, "wide", false, "do not cut long kernel names")
	f.IntVar(&a.rank, "rank", 0, "show this rank only")
	f.IntVar(&a.step, "step", 0, "figures of this step only, counted from 0")
	f.DurationVar(&a.itl, "itl", 0, "median time between tokens without profiler, such as 44.3ms")
	f.StringVar(&a.explain, "explain", "", "say why kernels whose name contains `TEXT` have their component")
	f.StringVar(&a.perfetto, "perfetto", "", "also write a trace with components as names to `OUT` (.json or .json.gz), for ui.perfetto.dev")
	f.IntVar(&a.opts.MaxEventBytes, "max-event-bytes", 64<<20, "refuse traces with an event larger than this")
	return cmd
}

// check finds mistakes in the flags.
func (a *analysis) check(explains, hasITL bool) error {
	switch {
	case a.json && a.csv || a.json && a.markdown || a.csv && a.markdown:
		return usagef("choose one of --json, --csv and --markdown")
	case a.opts.MaxEventBytes < 1:
		return usagef("--max-event-bytes must be at least 1")
	case !slices.Contains(breakdown.Views(), a.by):
		return usagef("--by is one of %s, not %q", strings.Join(breakdown.Views(), ", "), a.by)
	case a.top < 0:
		return usagef("--top must be at least 1, or 0 for all rows")
	case hasITL && a.itl <= 0:
		return usagef("--itl must be more than 0")
	case a.oneStep && a.step < 0:
		return usagef("--step counts from 0")
	case a.json && a.shaped:
		return usagef("--by and --top shape tables; --json has every figure")
	case explains && a.explain == "":
		return usagef("--explain needs a part of a kernel's name")
	case explains && (a.csv || a.markdown || a.shaped):
		return usagef("--explain prints text or --json, not a table")
	}
	return nil
}

// run reads the files and prints what was asked for, also of files that end too early.
func (a *analysis) run(stdout, stderr io.Writer, paths []string) error {
	opts := a.opts
	if a.oneStep {
		opts.Step = &a.step
	}
	reading := newReading(stderr, paths)
	opts.Progress = reading.more
	opts.Host = a.by == "host" || a.json
	opts.ITL = a.unprofiled
	got, cut := opts.Analyze(paths...)
	reading.clear()
	if got == nil {
		return cut
	}
	if a.oneRank {
		one, err := got.Only(a.rank)
		if err != nil {
			return err
		}
		got = one
	}
	if a.perfetto != "" {
		if err := writePerfetto(a.perfetto, got, paths); err != nil {
			return err
		}
	}
	if a.explain != "" {
		return errors.Join(a.writeReasons(stdout, got), cut)
	}
	return errors.Join(a.writeReport(stdout, got.Report), cut)
}

// unprofiled is the median time between tokens without profiler at the load of a trace, in ns: as given, else as the run.json beside
// the trace has it; 0 when neither says it.
func (a *analysis) unprofiled(path string) int64 {
	if a.itl > 0 {
		return a.itl.Nanoseconds()
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), "run.json"))
	var run data.Run
	if err != nil || json.Unmarshal(raw, &run) != nil {
		return 0
	}
	for _, round := range run.Rounds {
		for _, t := range round.Traces {
			if filepath.Base(t.Path) == filepath.Base(path) && round.Unprofiled != nil {
				return round.Unprofiled.SteadyITLNs
			}
		}
	}
	return 0
}

// writeReport prints a report in one of its forms, the table for terminals when none is asked for.
func (a *analysis) writeReport(w io.Writer, report breakdown.Report) error {
	if a.json {
		return writeJSON(w, report)
	}
	table, err := report.View(a.by, a.top, a.wide || a.csv || a.markdown)
	if err != nil {
		return err
	}
	text := plain(table.Text()) + "\n"
	switch {
	case a.csv:
		text = plain(table.CSV())
	case a.markdown:
		text = plain(table.Markdown())
	}
	_, err = io.WriteString(w, text)
	return err
}

// reasons are the explanations of one file, the JSON form of --explain.
type reasons struct {
	File         string                  `json:"file"`
	Rank         int                     `json:"rank"`
	Explanations []breakdown.Explanation `json:"explanations"`
}

// writeReasons prints why kernels have their components.
func (a *analysis) writeReasons(w io.Writer, got *analyze.Analysis) error {
	var all []reasons
	found := false
	for i, t := range got.Traces {
		list := breakdown.Explain(t, got.Classes[i], a.explain)
		found = found || len(list) > 0
		all = append(all, reasons{t.File, t.Rank, append([]breakdown.Explanation{}, list...)})
	}
	if !found {
		return fmt.Errorf("explain %q: no kernel has it in its name; rooflab analyze --by kernel --wide lists the names", a.explain)
	}
	if a.json {
		return writeJSON(w, map[string]any{"schema": 1, "ranks": all})
	}
	var text strings.Builder
	for i, r := range all {
		if len(all) > 1 {
			if i > 0 {
				text.WriteString("\n")
			}
			fmt.Fprintf(&text, "%s: rank %d\n\n", r.File, r.Rank)
		}
		text.WriteString(breakdown.ExplanationText(r.Explanations, a.wide))
	}
	_, err := io.WriteString(w, plain(text.String()))
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
