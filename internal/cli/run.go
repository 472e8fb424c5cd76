package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/phases"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
)

func newRun() *cobra.Command {
	var o phases.Options
	var numbers, params []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the notebooks of a campaign against a server",
		Long: `Run the notebooks of a campaign, one after another, and leave them executed in its folder.

  phase 0  00-preflight  reads: model, launch, live process, drift
  phase 1  10-macro      profiles over HTTP under load; the server keeps running
  phase 2  20-micro      reads micro-benchmarks and ceilings
  phase 3  30-nsys       plans what needs a restart; restarts nothing
  phase 4  40-findings   puts it together

The folder holds notebooks/ (made from the built-in ones when missing; edit them freely), runs/ and results/.
A run that stopped goes on with --resume: notebooks that finished and have not changed are left as they are,
and rounds that were measured are not measured again.`,
		Example: `  rooflab run --campaign kimi --target http://127.0.0.1:8000 --trace-dir /srv/prof
  rooflab run --campaign demo --target replay:data/campaigns/h200x2-kimi-k2.5-int4
  rooflab run --campaign kimi --phase 1 -p loads=[1,8] --target http://127.0.0.1:8000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Dir == "" {
				return usagef("give the campaign's folder: --campaign DIR")
			}
			if o.Target == "" {
				return usagef("give the server: --target http://host:port, or --target replay:DIR for an archived campaign")
			}
			for _, s := range numbers {
				n, err := strconv.Atoi(s)
				if err != nil || n < 0 || n >= len(notebooks.Phases()) {
					return usagef("--phase %s: phases are 0 to %d", s, len(notebooks.Phases())-1)
				}
				o.Numbers = append(o.Numbers, n)
			}
			for _, s := range params {
				p, err := nbclient.ParseParam(s)
				if err != nil {
					return usagef("-p: %v", err)
				}
				o.Params = append(o.Params, p)
			}
			if err := o.CheckParams(); errors.As(err, new(*phases.ParamError)) {
				return usageError{err}
			} else if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			o.Begin, o.Cell, o.Warn, o.Lost = p.begin, p.cell, p.warn, p.lost
			start := time.Now()
			err := phases.Run(cmd.Context(), o)
			p.clear()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; notebooks and results are in %s\n", p.summary(time.Since(start)), o.Dir)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "campaign", "", "folder of the campaign; made when it is not there")
	f.StringVar(&o.Target, "target", "", "`URL` of the server, or replay:DIR")
	f.StringVar(&o.TraceDir, "trace-dir", "", "where the server writes its profiles, seen from here (a replay knows it)")
	f.StringSliceVar(&numbers, "phase", nil, "phases to run, such as 1,2 (default: all)")
	f.StringArrayVarP(&params, "parameter", "p", nil, "set a notebook parameter: `name=value`; may be repeated")
	f.StringVar(&o.Kernel, "kernel", "", "kernelspec to run on (default: what the notebooks name)")
	f.StringVar(&o.KernelDir, "kernel-dir", "", "look for kernelspecs here first")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Minute, "limit for one cell")
	f.BoolVar(&o.Resume, "resume", false, "leave notebooks that finished and have not changed")
	return cmd
}

func count(n int) string {
	if n == 1 {
		return "1 notebook"
	}
	return fmt.Sprintf("%d notebooks", n)
}

func newInit() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make a campaign folder",
		Long: `Make a campaign folder with a manifest to fill in: what is served, on which hardware, and what an earlier campaign found.

With --from the manifest, model config and host files of an archived campaign are taken over, without its results.`,
		Example: `  rooflab init kimi
  rooflab init kimi-again --from data/campaigns/h200x2-kimi-k2.5-int4`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := campaign.Init(args[0], from); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is ready; describe the campaign in %s/manifest.json, put the model's config.json into %s/model/\n", args[0], args[0], args[0])
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "archived campaign to take the description from")
	return cmd
}

// progress shows where a run is: one line that is rewritten on a terminal, one line a notebook elsewhere.
type progress struct {
	w     io.Writer
	tty   bool
	width int
	shown bool

	next      string // the line of the notebook that begins, until it is known that it is run
	begun     int
	unchanged int
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, width: 80}
	if f, ok := w.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		p.tty = true
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 20 {
			p.width = cols
		}
	}
	return p
}

func (p *progress) begin(ph notebooks.Phase) {
	p.begun++
	p.next = ""
	if !p.tty {
		p.next = fmt.Sprintf("%s: %s\n", ph.Notebook, ph.What)
	}
}

// summary says what was run and what was not.
func (p *progress) summary(took time.Duration) string {
	ran := p.begun - p.unchanged
	text := fmt.Sprintf("ran %s in %.1f s", count(ran), took.Seconds())
	switch {
	case p.unchanged == 0:
		return text
	case ran == 0:
		return "nothing was run: " + count(p.unchanged) + " finished before and unchanged"
	}
	return fmt.Sprintf("%s, left %d as before", text, p.unchanged)
}

func (p *progress) cell(ph notebooks.Phase, e nbclient.Event) {
	if e.State == nbclient.Unchanged {
		p.clear()
		p.unchanged++
		fmt.Fprintf(p.w, "%s: finished before and unchanged, left as it is\n", ph.Notebook)
		return
	}
	fmt.Fprint(p.w, p.next)
	p.next = ""
	if !p.tty || e.State != nbclient.Started {
		return
	}
	line := []rune(fmt.Sprintf("%s [%d/%d] %s", ph.Notebook, e.Cell, e.Cells, plain(strings.TrimSpace(e.Line))))
	if len(line) > p.width-1 {
		line = append(line[:p.width-2], '…')
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", string(line))
	p.shown = true
}

func (p *progress) warn(ph notebooks.Phase, d diag.Diagnostic) {
	p.clear()
	fmt.Fprintf(p.w, "%s: %s\n", ph.Notebook, plain(d.String()))
}

func (p *progress) lost(ph notebooks.Phase, stop string) {
	p.clear()
	fmt.Fprintf(p.w, "%s: the kernel was lost; %s\n", ph.Notebook, stop)
}

// clear removes the rewritten line, so that what follows starts on an empty one.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
