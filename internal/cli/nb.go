package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/phases"
	"github.com/rooflab/rooflab/notebooks/nbclient"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

func newNB() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nb",
		Short: "Run, strip and compare notebooks",
		Example: `  rooflab nb run analysis.ipynb
  rooflab nb diff before.ipynb after.ipynb`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNBRun(), newNBStrip(), newNBDiff())
	return cmd
}

func newNBRun() *cobra.Command {
	var o nbclient.Options
	var params []string
	cmd := &cobra.Command{
		Use:   "run NOTEBOOK",
		Short: "Run a notebook without a browser",
		Long: `Run the code cells of a notebook in order on a Jupyter kernel and store it with its outputs, after every cell.

Without -o the notebook itself is overwritten. The run stops at the first error, except in a cell tagged
raises-exception; cells tagged skip-execution are left out. Ctrl-C interrupts the cell and keeps what was executed.

Values given with -p go into a cell right after the one tagged "parameters". They are JSON, or else text:
-p n=5, -p 'sizes=[1, 64, 256]', -p url=http://host:8000.

Variables live in the kernel, which ends with the run: a run cannot be continued in the middle. --resume leaves a
notebook alone that finished before with the same cells, parameters and kernel, and runs any other from its first cell.

When the kernel is lost in a campaign folder, the profile that its journal has as open is closed on the server.`,
		Example: `  rooflab nb run 10-macro.ipynb -o out.ipynb -p n=5
  rooflab nb run analysis.ipynb --kernel python3 --timeout 10m`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Notebook = args[0]
			if o.Out == "" {
				o.Out = o.Notebook
			}
			for _, s := range params {
				p, err := nbclient.ParseParam(s)
				if err != nil {
					return usagef("-p: %v", err)
				}
				o.Params = append(o.Params, p)
			}
			for _, e := range o.Env {
				if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
					return usagef("--env %q: want NAME=value", e)
				}
			}
			return runNotebook(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Out, "output", "o", "", "notebook to write (default: the input itself)")
	f.StringVar(&o.Kernel, "kernel", "", "name of the kernelspec (default: what the notebook names)")
	f.StringVar(&o.KernelDir, "kernel-dir", "", "look for kernelspecs in `DIR` first")
	f.StringArrayVarP(&params, "parameter", "p", nil, "set a variable of the parameters cell: `name=value`; may be repeated")
	f.StringArrayVar(&o.Env, "env", nil, "set a variable in the kernel's environment: `NAME=value`; may be repeated")
	f.StringVar(&o.Dir, "dir", "", "working directory of the kernel (default: the notebook's folder)")
	f.DurationVar(&o.Timeout, "timeout", 0, "limit for one cell, such as 90s or 10m (default: none)")
	f.BoolVar(&o.Resume, "resume", false, "leave a notebook alone that finished before and has not changed")
	f.BoolVar(&o.RecordTimes, "times", false, "store when each cell ran; two runs then differ")
	return cmd
}

// runNotebook runs with progress on stderr: one line for each cell when it ends, and on a terminal the running one.
func runNotebook(cmd *cobra.Command, o nbclient.Options) error {
	w := cmd.ErrOrStderr()
	p := newProgress(w)
	o.Warn = func(d diag.Diagnostic) {
		p.clear()
		fmt.Fprintln(w, plain(d.String()))
	}
	o.Progress = func(e nbclient.Event) {
		p.clear()
		switch {
		case e.State == nbclient.Unchanged:
			fmt.Fprintf(w, "%s: finished before and unchanged, left as it is\n", o.Out)
		case e.State != nbclient.Started:
			fmt.Fprintf(w, "[%d/%d] %-8s %7.1f s  %.60s\n", e.Cell, e.Cells, e.State, e.Elapsed.Round(time.Millisecond).Seconds(), plain(e.Line))
		case p.tty:
			fmt.Fprintf(w, "[%d/%d] running  %.60s", e.Cell, e.Cells, plain(e.Line))
			p.shown = true
		}
	}
	o.OnKernelLost = func() {
		p.clear()
		told, _ := p.stopOfCampaign(o)
		if told != "" {
			told = "; " + told
		}
		fmt.Fprintln(w, "the kernel was lost"+told)
	}
	_, err := nbclient.Run(cmd.Context(), o)
	p.clear()
	if err != nil { // the process that cells ran in can be gone although the kernel was not
		if told, open := p.stopOfCampaign(o); open {
			fmt.Fprintln(w, told)
		}
	}
	var cell *nbclient.CellError
	if errors.As(err, &cell) && len(cell.Traceback) > 0 {
		traceback := cell.PlainTraceback()
		if p.tty {
			traceback = strings.Join(cell.Traceback, "\n")
		}
		fmt.Fprintln(w, traceback)
	}
	return err
}

// stopOfCampaign closes the profile that a lost kernel left open when its notebook works in a campaign folder, found as
// the notebook finds it, and shows what it waits for. It says what it did, "" outside a campaign, and whether one was open.
func (p *progress) stopOfCampaign(o nbclient.Options) (told string, open bool) {
	dir := os.Getenv("ROOFLAB_CAMPAIGN")
	for _, e := range o.Env {
		if v, ok := strings.CutPrefix(e, "ROOFLAB_CAMPAIGN="); ok {
			dir = v
		}
	}
	from := o.Dir
	if from == "" {
		from = filepath.Dir(o.Notebook)
	}
	switch {
	case dir == "":
		dir = campaign.FolderAbove(from)
	case !filepath.IsAbs(dir):
		dir = filepath.Join(from, dir)
	}
	if dir == "" {
		return "", false
	}
	defer p.clear()
	defer p.watch(dir)()
	return phases.StopLostProfile(dir)
}

func newNBStrip() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "strip NOTEBOOK...",
		Short: "Remove outputs from notebooks",
		Long: `Remove outputs, execution counts, execution times, widget state and the record of the last run.

Cells keep their ids, so that links to them last. A notebook that has nothing to remove is written in Jupyter's own
form and does not change if it was in it.`,
		Example: `  rooflab nb strip notebooks/*.ipynb
  rooflab nb strip run.ipynb -o clean.ipynb`,
		Args:    cobra.MinimumNArgs(1),
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != "" && len(args) > 1 {
				return usagef("-o names one file, but %d notebooks were given", len(args))
			}
			for _, file := range args {
				nb, err := readNotebook(cmd.ErrOrStderr(), file)
				if err != nil {
					return err
				}
				nb.Strip()
				delete(nb.Metadata, nbclient.RecordKey)
				to := file
				if out != "" {
					to = out
				}
				if err := nb.WriteFile(to); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "notebook to write (default: the input itself)")
	return cmd
}

func newNBDiff() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare the sources and outputs of two notebooks",
		Long: `Compare the cells of two notebooks: types, sources and outputs.

Execution counts, times and metadata are left out, and so is where a kernel cut its output into pieces.
Exits with 3 when the notebooks differ.`,
		Example: `  rooflab nb diff before.ipynb after.ipynb
  rooflab nb diff --json a.ipynb b.ipynb`,
		Args:    cobra.ExactArgs(2),
		PreRunE: stopAtOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			var nbs [2]*nbformat.Notebook
			for i, file := range args {
				nb, err := readNotebook(cmd.ErrOrStderr(), file)
				if err != nil {
					return err
				}
				nbs[i] = nb
			}
			diffs := nbformat.Diff(nbs[0], nbs[1])
			if err := printDiffs(cmd.OutOrStdout(), diffs, asJSON); err != nil {
				return err
			}
			if len(diffs) > 0 {
				return errThreshold
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printDiffs(w io.Writer, diffs []nbformat.Difference, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(append([]nbformat.Difference{}, diffs...))
	}
	for _, d := range diffs {
		where := fmt.Sprintf("cell %d", d.CellA)
		switch {
		case d.CellA == 0:
			where = fmt.Sprintf("cell %d of the second", d.CellB)
		case d.CellB != d.CellA && d.CellB != 0:
			where += fmt.Sprintf(" and %d", d.CellB)
		}
		if _, err := fmt.Fprintf(w, "@@ %s (id %s): %s\n%s\n", where, d.ID, d.What, plain(strings.Join(d.Lines, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// readNotebook reads a notebook, prints what was repaired and refuses one of which something would be lost.
func readNotebook(w io.Writer, file string) (*nbformat.Notebook, error) {
	nb, diags, err := nbformat.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := nbformat.Malformed(diags); err != nil {
		return nil, err
	}
	for _, d := range diags {
		fmt.Fprintln(w, plain(d.String()))
	}
	return nb, nil
}
