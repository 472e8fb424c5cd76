package sitegen

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

type campaignView struct {
	Eyebrow   []string
	Heading   string
	Problems  []problem
	Facts     []provFact
	Notes     []string
	Runs      []runView
	Notebooks []bookView
	Files     []fileView
}

type provFact struct {
	Head, Text string
	Code       bool
}

type runView struct {
	ID, Name, What string
	Main           bool
	Facts          []provFact
	Rounds         *tableView
	Notes          []string
}

type fileView struct{ Path, Size, SHA256 string }

// campaignPage says what was measured on what, from which files.
func (s *site) campaignPage() pageView {
	m := s.manifest
	v := &campaignView{Eyebrow: []string{"Provenance"}, Heading: m.ID, Notes: m.Notes, Notebooks: s.books()}
	if m.Measured != "" {
		v.Eyebrow = append(v.Eyebrow, "measured "+day(m.Measured))
	}
	for _, n := range s.notebooks {
		v.Problems = append(v.Problems, n.problems("campaign.html")...)
	}
	v.Facts = facts("Campaign", m.Title, "Measured", day(m.Measured),
		"Model", list(m.Model.Name, prefixed("served as ", m.Model.Served), m.Model.Quantisation, suffixed(m.Model.Weights, " weights")),
		"Model config", m.Model.Config,
		"Hardware", list(hardware(m.Hardware), m.Hardware.Network),
		"Software", list(prefixed("driver ", m.Hardware.Driver), prefixed("CUDA ", m.Hardware.CUDA), prefixed("NCCL ", m.Hardware.NCCL), prefixed("torch ", m.Hardware.Torch)),
		"Main run", m.Main)
	for _, ref := range m.Runs {
		v.Runs = append(v.Runs, s.run(ref))
	}
	for _, f := range m.Files {
		v.Files = append(v.Files, fileView{f.Path, units.Bytes(f.Bytes), f.SHA256})
	}
	sort.Slice(v.Files, func(i, j int) bool { return v.Files[i].Path < v.Files[j].Path })
	return pageView{Title: "Campaign " + m.ID + " · rooflab", Nav: s.navigation("campaign.html"), Campaign: v}
}

func (s *site) run(ref data.RunRef) runView {
	v := runView{ID: "run-" + strings.Trim(pageName.ReplaceAllString(ref.Name, "-"), ".-"), Name: ref.Name, What: ref.What, Main: ref.Name == s.manifest.Main}
	for _, r := range s.runs {
		if r.Name != ref.Name {
			continue
		}
		e := r.Environment
		v.Facts = facts("Engine", list(strings.TrimSpace(e.Engine+" "+e.Version), tensorParallel(e.TP), prefixed("graphs: ", e.Graphs), prefixed("routing: ", e.Routing)))
		if len(e.Args) > 0 {
			v.Facts = append(v.Facts, provFact{"Arguments", strings.Join(e.Args, " "), true})
		}
		if env := assignments(e.Env); env != "" {
			v.Facts = append(v.Facts, provFact{"Environment", env, true})
		}
		v.Rounds = rounds(r)
		for _, round := range r.Rounds {
			for _, note := range round.Notes {
				v.Notes = append(v.Notes, fmt.Sprintf("C = %d: %s", round.Streams, note))
			}
		}
	}
	return v
}

// rounds is the table of the loads of a run. What was not measured says so.
func rounds(r data.Run) *tableView {
	if len(r.Rounds) == 0 {
		return nil
	}
	t := &tableView{Title: "Loads", Name: "Loads of run " + r.Name, Columns: []data.Column{{Head: "Load"}, {Head: "output", Unit: "tokens/s", Numeric: true},
		{Head: "between tokens", Unit: "ms, median", Numeric: true}, {Head: "while profiled", Unit: "ms, median", Numeric: true}, {Head: "traces"}}}
	for _, round := range r.Rounds {
		row := tableRow{Label: label{Text: fmt.Sprintf("C = %d", round.Streams)}}
		rate, gap, profiled := "not measured", "not measured", "not measured"
		if u := round.Unprofiled; u != nil {
			if u.OutputTokS > 0 {
				rate = units.Float(u.OutputTokS, 0)
			}
			if u.SteadyITLNs > 0 {
				gap = units.Ms(u.SteadyITLNs, 2)
			}
		}
		if p := round.Profiled; p != nil && p.SteadyITLNs > 0 {
			profiled = units.Ms(p.SteadyITLNs, 2)
		}
		ranks := "none kept"
		if len(round.Traces) > 0 {
			var kept []string
			for _, tr := range round.Traces {
				kept = append(kept, fmt.Sprint(tr.Rank))
			}
			ranks = "rank " + strings.Join(kept, ", ")
			if round.WorldSize > 0 {
				ranks += fmt.Sprintf(" of %d", round.WorldSize)
			}
		}
		row.Cells = []tableCell{{rate, true}, {gap, true}, {profiled, true}, {ranks, false}}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// facts pairs heads with texts and leaves out the empty ones.
func facts(pairs ...string) []provFact {
	var out []provFact
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, provFact{Head: pairs[i], Text: pairs[i+1]})
		}
	}
	return out
}

func list(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ", ")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func suffixed(s, suffix string) string {
	if s == "" {
		return ""
	}
	return s + suffix
}

func hardware(h data.Hardware) string {
	if h.Count > 0 {
		return fmt.Sprintf("%d × %s", h.Count, h.GPU)
	}
	return h.GPU
}

func tensorParallel(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("TP %d", n)
}

func assignments(env map[string]string) string {
	var out []string
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// day writes a date of the manifest in words; what is no date stays as it is.
func day(s string) string {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return s
	}
	return t.Format("2 January 2006")
}
