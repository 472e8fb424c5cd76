package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/phases"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
	"github.com/spf13/cobra"
)

func newRun() *cobra.Command {
	var o phases.Options
	var at connection
	var numbers, params []string
	var seconds int
	var dryRun bool
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
and rounds that were measured are not measured again.

Nothing restarts or reconfigures a server. --dry-run prints every request and command, and sends none.
A profile that is open when the run is stopped or dies is closed: by the run, by the next one, or by rooflab doctor.`,
		Example: `  rooflab run --campaign kimi --target http://127.0.0.1:8000 --trace-dir /srv/prof
  rooflab run --campaign demo --target replay:data/campaigns/h200x2-kimi-k2.5-int4
  rooflab run --campaign kimi --phase 1 -p C=1,8 --target http://127.0.0.1:8000
  rooflab run --campaign kimi --phase 1 -p goodput=tpot:50 --target http://127.0.0.1:8000
  rooflab run --phase 0,1 --target https://gpu7:8000 --host ssh:gpu7 --api-key-file key.txt --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at.target == "" {
				return usagef("give the server: --target http://host:port, or --target replay:DIR for an archived campaign")
			}
			if err := at.export(); err != nil {
				return err
			}
			if err := campaign.CheckAddress(at.target); err != nil {
				return usageError{err}
			}
			o.Target, o.Host, o.TraceDir, o.Limits.Time = at.target, at.host, at.traceDir, time.Duration(seconds)*time.Second
			if o.Dir == "" {
				o.Dir = campaignHere()
			}
			if err := campaign.CheckFolder(o.Dir); err != nil {
				return usagef("%v; give another with --campaign", err)
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
			if dryRun {
				return printPlan(cmd, o)
			}
			p := newProgress(cmd.ErrOrStderr())
			unwatch := p.watch(o.Dir)
			quiet := context.AfterFunc(cmd.Context(), p.stopping)
			o.Begin, o.Cell, o.Warn, o.Lost = p.begin, p.cell, p.warn, p.lost
			start := time.Now()
			err := phases.Run(cmd.Context(), o)
			quiet()
			unwatch()
			p.clear()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; notebooks and results are in %s\n", p.summary(time.Since(start)), o.Dir)
			return err
		},
	}
	f := cmd.Flags()
	at.flags(cmd)
	f.StringVar(&o.Dir, "campaign", "", "`DIR` of the campaign; made when it is not there (default: the one around the working directory, else campaign)")
	f.StringSliceVar(&numbers, "phase", nil, "phases to run, such as 1,2 (default: all)")
	f.StringArrayVarP(&params, "parameter", "p", nil, "set a notebook parameter: `name=value`; may be repeated")
	f.StringVar(&o.Kernel, "kernel", "", "kernelspec to run on (default: what the notebooks name)")
	f.StringVar(&o.KernelDir, "kernel-dir", "", "look for kernelspecs here first")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Minute, "limit for one cell")
	f.IntVar(&o.Limits.Streams, "max-streams", 0, "most streams of one load (default 256)")
	f.IntVar(&seconds, "max-seconds", 0, "most time of one round (default 1800)")
	f.Int64Var(&o.Limits.TraceBytes, "max-trace-bytes", 0, "most bytes of one round's traces, all ranks together (default 4000000000)")
	f.BoolVar(&dryRun, "dry-run", false, "print every request and command that would be made, and make none")
	f.BoolVar(&o.Resume, "resume", false, "leave notebooks that finished and have not changed")
	return cmd
}

// printPlan prints what a run would do, and does nothing.
func printPlan(cmd *cobra.Command, o phases.Options) error {
	out := cmd.OutOrStdout()
	if strings.HasPrefix(o.Target, "replay:") {
		_, err := fmt.Fprintf(out, "a replay starts and ends with the run, on this machine: nothing is sent to anybody\n")
		return err
	}
	steps, plan, err := phases.Plan(o)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "would run against %s, and write into %s; nothing restarts or reconfigures the server\n", plain(o.Target), o.Dir)
	heading := ""
	for _, s := range steps {
		h := fmt.Sprintf("phase %d", s.Phase)
		if s.C > 0 {
			h += fmt.Sprintf(", C = %d", s.C)
		}
		if h != heading {
			fmt.Fprintf(&b, "\n%s\n", h)
			heading = h
		}
		fmt.Fprintf(&b, "  %s, %s: %s\n", s.Do, s.Times, s.Why)
		if s.With != "" {
			fmt.Fprintf(&b, "      %s\n", plain(s.With))
		}
	}
	if len(plan.Loads) > 0 {
		fmt.Fprintf(&b, "\nin all %s\n", campaign.Totals(plan))
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// campaignHere is the folder of a run that names none.
func campaignHere() string {
	if dir := campaign.FolderAbove("."); dir != "" {
		return dir
	}
	return "campaign"
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
