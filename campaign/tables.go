package campaign

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Line introduces a campaign in one line: run, model, software, hardware, date.
func Line(c data.Campaign) string {
	name := c.ID
	if c.Main != "" && c.Main != mainRun {
		name = c.Main
	}
	return join(" · ", prefixed("Campaign ", name), join(", ", cmp.Or(head(c.Model.Name), c.Model.Served), head(c.Model.Quantisation)), c.Hardware.Engine,
		join(", ", gpus(c), head(c.Hardware.Network)), prefixed("measured ", date(c.Measured)))
}

func gpus(c data.Campaign) string {
	if c.Hardware.Count == 0 { // not filled in yet
		return c.Hardware.GPU
	}
	return fmt.Sprintf("%d × %s", c.Hardware.Count, c.Hardware.GPU)
}

// head is a text up to its first bracket or semicolon.
func head(s string) string {
	if i := strings.IndexAny(s, "(;"); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// date spells out YYYY-MM-DD; another form stays as it is.
func date(iso string) string {
	t, err := time.Parse("2006-01-02", iso)
	if err != nil {
		return iso
	}
	return t.Format("2 January 2006")
}

// Table shows what a server says about itself. Addresses and folders are left out.
func (i ServerInfo) Table() data.Table {
	t := data.Table{ID: "server", Title: "The server", Columns: []data.Column{{Head: "What"}, {Head: "Value"}}}
	add := func(what, value string) { t.Rows = append(t.Rows, data.Row{Cells: []string{what, value}}) }
	if i.Replay {
		add("Replay of", i.Recorded)
	}
	add("Version", i.Version)
	add("Serves", strings.Join(i.Models, ", "))
	add("Longest request", fmt.Sprintf("%d tokens", i.MaxModelLen))
	healthy := "no: GET /health is not answered with 200"
	if i.Healthy {
		healthy = "yes"
	}
	add("Healthy", healthy)
	add("Other traffic", fmt.Sprintf("%d requests running, %d waiting", i.Running, i.Waiting))
	add("Profiler over HTTP", join(": ", i.Profiler, i.ProfilerWhy))
	if i.Replay {
		add("Traces kept", strings.Join(i.RanksKept, "; "))
	}
	return t
}

// RoundTable shows what clients saw in each round, and which traces there are.
func RoundTable(rounds []data.Round) data.Table {
	t := data.Table{ID: "rounds", Title: "Each load without profiler, as clients saw it", Columns: []data.Column{
		{Head: "Load"}, {Head: "Output", Unit: "tokens/s", Numeric: true}, {Head: "ITL, steady median", Unit: "ms", Numeric: true}, {Head: "p50", Unit: "ms", Numeric: true},
		{Head: "p90", Unit: "ms", Numeric: true}, {Head: "p99", Unit: "ms", Numeric: true}, {Head: "TTFT p50", Unit: "ms", Numeric: true}, {Head: "TTFT p99", Unit: "ms", Numeric: true}, {Head: "Traces"}}}
	recorded := false
	for _, r := range rounds {
		u := data.LoadResult{}
		if r.Unprofiled != nil {
			u = *r.Unprofiled
		}
		recorded = recorded || u.Recorded
		row := data.Row{Cells: []string{fmt.Sprintf("C = %d", r.Streams), "not measured"}, Note: strings.Join(r.Notes, "; ")}
		if u.OutputTokS > 0 {
			row.Cells[1] = units.Float(u.OutputTokS, 1)
		}
		for _, ns := range []int64{u.SteadyITLNs, u.ITLp50Ns, u.ITLp90Ns, u.ITLp99Ns, u.TTFTp50Ns, u.TTFTp99Ns} {
			cell := "not measured"
			if ns > 0 {
				cell = units.Ms(ns, 2)
			}
			row.Cells = append(row.Cells, cell)
		}
		row.Cells = append(row.Cells, ranksKept(r.RanksKept, r.WorldSize))
		t.Rows = append(t.Rows, row)
	}
	t.Note = "ITL: gap between tokens of one stream. Steady: while all streams decode. TTFT: time to first token."
	if recorded {
		t.Note += " Percentiles and tokens/s are the recorded ones; a replay repeats the steady median only."
	}
	return t
}

// Method tells how the figures came about: for the end of a findings page.
func (s *Session) Method() (data.Facts, error) {
	c := s.manifest
	run, _, err := s.Run(s.run)
	if err != nil {
		return data.Facts{}, err
	}
	f := data.Facts{Heading: "Method and provenance"}
	add := func(head, text string) {
		if text != "" {
			f.Items = append(f.Items, data.Fact{Head: head, Text: text})
		}
	}
	add("Measured", date(c.Measured)+", run "+join(": ", run.Name, run.What)+".")
	add("Load", loads(run))
	add("Model", join("; ", c.Model.Name, c.Model.Quantisation, prefixed("weights: ", c.Model.Weights)))
	add("Server", server(c, run.Environment))
	add("Hardware", join("; ", gpus(c), c.Hardware.Network, prefixed("driver ", c.Hardware.Driver)))
	add("Counting", "Integer nanoseconds. Components − overlap + idle = span, for each load, exactly. Steps are counted from the CPU annotations; what no rule knows is shown as not recognised.")
	add("Traces", traces(run))
	add("Keep in mind", strings.Join(c.Notes, " "))
	return f, nil
}

// loads says what was sent.
func loads(run data.Run) string {
	var words []string
	for _, r := range run.Rounds {
		words = append(words, fmt.Sprintf("C = %d: %d prompt and %d output tokens", r.Streams, r.InputTokens, r.OutTokens))
	}
	if words == nil {
		return ""
	}
	return strings.Join(words, "; ") + ". One request a stream, fixed length; first without profiler, then again with a short window profiled while all streams decode."
}

// server names the software and those settings that decide speed.
func server(c data.Campaign, e data.Environment) string {
	size := ""
	if e.TP > 0 {
		size = fmt.Sprintf("TP %d", e.TP)
	}
	text := join(", ", strings.TrimSpace(e.Engine+" "+e.Version), prefixed("torch ", c.Hardware.Torch), prefixed("CUDA ", c.Hardware.CUDA), prefixed("NCCL ", c.Hardware.NCCL),
		size, prefixed("CUDA graphs: ", e.Graphs), prefixed("routing: ", e.Routing))
	var env []string
	for k, v := range e.Env {
		if strings.HasPrefix(k, "NCCL_") && k != "NCCL_VERSION" || strings.HasPrefix(k, "VLLM_MOE_") {
			env = append(env, k+"="+v)
		}
	}
	sort.Strings(env)
	return join(". ", text, strings.Join(env, " "))
}

func traces(run data.Run) string {
	var words []string
	for _, r := range run.Rounds {
		for _, t := range r.Traces {
			words = append(words, fmt.Sprintf("C = %d rank %d of %d: sha256 %.12s", r.Streams, t.Rank, r.WorldSize, t.SHA256))
		}
	}
	return strings.Join(words, "; ")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// join joins the texts that are not empty.
func join(sep string, texts ...string) string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, sep)
}
