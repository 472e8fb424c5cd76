package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

func newPreflight() *cobra.Command {
	var at connection
	var o campaign.Options
	var p campaign.PreflightOptions
	var asJSON, dryRun bool
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Look at a server before anything is measured",
		Long: `Look at a server before anything is measured: what it serves, how its process
was started and whether that agrees with the file that starts it, which
profilers and how much disk space there are, and whose requests run. The last
table says what stands against the next phases, and what to do about it.

Nothing is changed and no load is sent: a few GET requests, and commands on the
server's machine that only read. Say with --host how to get there; rooflab goes
through your own ssh, docker, podman or kubectl. --dry-run prints every request
and command instead.

Keys, tokens and passwords are shown as ***. Machines, users and trace folders
are named; the notebook 00-preflight, which gets published, leaves them out.

Exit code 3: something stands against phase 1, such as a server without
profiler, a full disk, or other people's requests.

--json prints one object: schema 1,
  server {version, models[], profiler}, traffic {running, waiting, tokens_per_s},
  process and unit {argv[], args, env, started_unix} or null,
  drift[] {item, unit, process, http, severity, consequence},
  machine {nsys, ncu, gpu_counters, driver, gpus[]},
  disks[] {for, dir, free_bytes, need_bytes}, model, costs[],
  findings[] {id, severity, blocks, text, hint}`,
		Example: `  rooflab preflight --target http://127.0.0.1:8000
  rooflab preflight --target http://gpu7:8000 --host ssh:gpu7 --unit vllm-kimi.service -C 1,64,256
  rooflab preflight --target http://127.0.0.1:8000 --host docker:vllm --json
  rooflab preflight --target http://gpu7:8000 --host ssh:gpu7+docker:vllm --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at.target == "" {
				return usagef("give the server: --target http://host:port, or --target replay:DIR for an archived campaign")
			}
			for _, c := range p.C {
				if c < 1 {
					return usagef("-C %d: give numbers of streams, such as 1,64,256", c)
				}
			}
			if p.SampleSeconds <= 0 || p.SampleSeconds > 600 {
				return usagef("--watch is more than 0 and at most 600 seconds")
			}
			if err := at.export(); err != nil {
				return err
			}
			o.Target, o.Host, o.TraceDir = at.target, at.host, at.traceDir
			if dryRun {
				return printPreflightPlan(cmd.OutOrStdout(), o, p)
			}
			report, err := campaign.PreflightContext(cmd.Context(), o, p)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), report.JSON())
			} else {
				err = printTables(cmd.OutOrStdout(), report.Tables())
			}
			if err == nil && report.Blocking() {
				err = errThreshold
			}
			return err
		},
	}
	at.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Dir, "campaign", "", "`DIR` of the campaign whose model and earlier rounds count (default: the one around the working directory, else none)")
	f.StringVar(&p.Unit, "unit", "", "what starts the server: a `FILE` here or on the host, or the name of a systemd unit (default: the unit of the process)")
	f.StringVar(&p.Config, "model", "", "the model's config.json, a `FILE` here (default: the campaign's, else the one on the server's disk)")
	f.IntSliceVarP(&p.C, "streams", "C", []int{1, 64, 256}, "loads of the next phases, in streams that decode at the same time: `N,N`")
	f.Float64Var(&p.SampleSeconds, "watch", 2, "`SECONDS` to watch for other people's requests")
	f.BoolVar(&asJSON, "json", false, "print JSON with every fact")
	f.BoolVar(&dryRun, "dry-run", false, "print every request and command that would be made, and make none")
	return cmd
}

func printPreflightPlan(w io.Writer, o campaign.Options, p campaign.PreflightOptions) error {
	if strings.HasPrefix(o.Target, "replay:") {
		_, err := fmt.Fprintln(w, "a replay starts and ends with the command, on this machine: nothing is sent to anybody")
		return err
	}
	if _, err := vllm.New(vllm.Options{Target: o.Target}); err != nil { // contacts nobody
		return err
	}
	host, err := target.FromEnv(o.Host)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "would ask %s, and read on %s; nothing is changed\n\n", o.Target, host)
	for _, s := range campaign.PreflightPlan(host, p) {
		fmt.Fprintf(&b, "  %s: %s\n", s.Do, s.Why)
		if s.With != "" {
			fmt.Fprintf(&b, "      %s\n", s.With)
		}
	}
	_, err = io.WriteString(w, plain(b.String()))
	return err
}

// printTables prints tables one below the other, cells broken into lines so that they fit.
func printTables(w io.Writer, tables []data.Table) error {
	width := 120
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 20 {
			width = cols
		}
	}
	var parts []string
	for _, t := range tables {
		parts = append(parts, fit(t, width))
	}
	_, err := io.WriteString(w, plain(strings.Join(parts, "\n\n"))+"\n")
	return err
}

const gap = 2 // blanks between columns

// fit returns the text of a table whose text columns are narrowed until a line has at most width characters.
func fit(t data.Table, width int) string {
	wide := make([]int, len(t.Columns))
	total := 0
	for i, c := range t.Columns {
		wide[i] = max(len([]rune(c.Head)), len([]rune(c.Unit)))
		for _, r := range t.Rows {
			if i < len(r.Cells) {
				wide[i] = max(wide[i], len([]rune(r.Cells[i])))
			}
		}
		total += wide[i] + gap
	}
	for total-gap > width {
		widest := -1
		for i, c := range t.Columns {
			if !c.Numeric && (widest < 0 || wide[i] > wide[widest]) {
				widest = i
			}
		}
		if widest < 0 || wide[widest] <= 8 {
			break
		}
		wide[widest]--
		total--
	}
	narrow := t
	narrow.Rows, narrow.Title, narrow.Note = nil, "", ""
	for _, r := range t.Rows {
		narrow.Rows = append(narrow.Rows, split(r, wide)...)
	}
	text := narrow.Text()
	if len(t.Rows) == 0 {
		text = ""
	}
	return strings.Join(slices.DeleteFunc([]string{strings.Join(fold(t.Title, width), "\n"), text, strings.Join(fold(t.Note, width), "\n")},
		func(s string) bool { return s == "" }), "\n\n")
}

// split makes several rows of one whose cells are wider than their columns.
func split(r data.Row, wide []int) []data.Row {
	rows := []data.Row{{Rule: r.Rule, Bold: r.Bold}}
	for i := range wide {
		cell := ""
		if i < len(r.Cells) {
			cell = r.Cells[i]
		}
		for j, line := range fold(cell, wide[i]) {
			if j == len(rows) {
				rows = append(rows, data.Row{})
			}
			for len(rows[j].Cells) < i {
				rows[j].Cells = append(rows[j].Cells, "")
			}
			rows[j].Cells = append(rows[j].Cells, line)
		}
	}
	for j := range rows {
		for len(rows[j].Cells) < len(wide) {
			rows[j].Cells = append(rows[j].Cells, "")
		}
	}
	return rows
}

// fold breaks a text into lines of at most width characters: at blanks, else after punctuation, else anywhere. The blanks
// of a load and the thin ones of a number hold.
func fold(text string, width int) []string {
	var lines []string
	line := []rune{}
	for _, word := range strings.FieldsFunc(loads.Replace(text), func(r rune) bool { return r == ' ' || r == '\n' }) {
		w := []rune(word)
		if len(line) > 0 && len(line)+1+len(w) > width {
			lines, line = append(lines, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		line = append(line, w...)
		for len(line) > width {
			at := width
			for i := width; i > width/2; i-- {
				if strings.ContainsRune(",/_-", line[i-1]) {
					at = i
					break
				}
			}
			lines, line = append(lines, string(line[:at])), line[at:]
		}
	}
	if len(line) > 0 || len(lines) == 0 {
		lines = append(lines, string(line))
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], units.HardSpace, " ")
	}
	return lines
}

var loads = strings.NewReplacer("C = ", "C"+units.HardSpace+"="+units.HardSpace)
