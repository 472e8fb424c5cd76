package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// Kinds of a Difference.
const (
	Setting = "setting" // how a server was set up: version, argument, variable, driver, device
	Load    = "load"    // what it was asked to do
	Missing = "unknown" // recorded on one side only
	Seen    = "seen"    // what the trace or the record shows; most often a consequence of a setting
)

// Difference is something else than time that is not the same in A and B.
type Difference struct {
	Kind  string `json:"kind"`
	Where string `json:"where,omitempty"` // load and rank; "" is everywhere
	What  string `json:"what"`
	A     string `json:"a"`
	B     string `json:"b"`
}

const notRecorded = "not recorded"

// differ fills Differences and Cautions.
func (r *Report) differ(a, b *side, pairs []pair) {
	var found []Difference
	add := func(kind, where, what, x, y string) {
		if x != y {
			found = append(found, Difference{kind, where, what, x, y})
		}
	}
	if a.run != nil && b.run != nil {
		settings(a.run.Environment, b.run.Environment, add)
	}
	if a.campaign != nil && b.campaign != nil {
		hosts(*a.campaign, *b.campaign, add)
	}
	first := len(found)
	for i, p := range pairs {
		where := fmt.Sprintf("%s, rank %d", r.Sections[i].Load, r.Sections[i].Rank)
		windows(p, where, add)
	}
	found = append(found[:first], everywhere(found[first:], len(pairs))...)
	order := []string{Setting, Load, Missing, Seen}
	slices.SortStableFunc(found, func(x, y Difference) int { return slices.Index(order, x.Kind) - slices.Index(order, y.Kind) })
	r.Differences = append(r.Differences, found...)
	r.caution(pairs)
}

// everywhere makes one difference of those that are the same in all n sections.
func everywhere(found []Difference, n int) []Difference {
	count := map[Difference]int{}
	for i := range found {
		d := found[i]
		d.Where = ""
		count[d]++
	}
	var out []Difference
	for _, d := range found {
		all := d
		all.Where = ""
		if count[all] == n {
			d = all
		}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// known reports a difference between two records; one that has only one of them is unknown.
func known(kind, where, what, x, y string, add func(kind, where, what, x, y string)) {
	if x == "" || y == "" {
		kind = Missing
	}
	add(kind, where, what, orNotRecorded(x), orNotRecorded(y))
}

// settings compares how two servers were started. Routing follows from variables; it stands for them when they were not
// recorded on both sides.
func settings(a, b data.Environment, add func(kind, where, what, x, y string)) {
	known(Setting, "", "engine", a.Engine, b.Engine, add)
	known(Setting, "", "engine version", a.Version, b.Version, add)
	known(Setting, "", "tensor parallel size", nonZero(a.TP), nonZero(b.TP), add)
	routing := Seen
	if len(a.Env) == 0 || len(b.Env) == 0 {
		routing = Setting
	}
	known(routing, "", "routing", a.Routing, b.Routing, add)
	table := func(what string, a, b map[string]string, name func(string) string) {
		if len(a) == 0 || len(b) == 0 {
			if len(a) != len(b) {
				add(Missing, "", what, recorded(len(a)), recorded(len(b)))
			}
			return
		}
		for _, k := range union(a, b) {
			add(Setting, "", name(k), orNotSet(a, k), orNotSet(b, k))
		}
	}
	table("arguments", arguments(a.Args), arguments(b.Args), func(k string) string { return k })
	table("environment", a.Env, b.Env, func(k string) string { return "$" + k })
}

// hosts compares what the manifests of two campaigns say.
func hosts(a, b data.Campaign, add func(kind, where, what, x, y string)) {
	for _, f := range []struct{ what, x, y string }{
		{"model", a.Model.Name, b.Model.Name}, {"quantisation", a.Model.Quantisation, b.Model.Quantisation}, {"weights", a.Model.Weights, b.Model.Weights},
		{"GPU", a.Hardware.GPU, b.Hardware.GPU}, {"GPUs", nonZero(a.Hardware.Count), nonZero(b.Hardware.Count)}, {"network", a.Hardware.Network, b.Hardware.Network},
		{"driver", a.Hardware.Driver, b.Hardware.Driver}, {"CUDA", a.Hardware.CUDA, b.Hardware.CUDA}, {"NCCL", a.Hardware.NCCL, b.Hardware.NCCL}, {"torch", a.Hardware.Torch, b.Hardware.Torch},
	} {
		known(Setting, "", f.what, f.x, f.y, add)
	}
}

// windows compares what two traces and the rounds around them say.
func windows(p pair, where string, add func(kind, where, what, x, y string)) {
	a, b := p.a, p.b
	known(Setting, where, "device", a.of.Device, b.of.Device, add)
	known(Setting, where, "ranks of the run", nonZero(a.of.WorldSize), nonZero(b.of.WorldSize), add)
	add(Load, where, "rank", strconv.Itoa(a.rank), strconv.Itoa(b.rank))
	add(Load, where, "tokens a step", strconv.Itoa(a.tokens()), strconv.Itoa(b.tokens()))
	if a.round != nil && b.round != nil {
		known(Load, where, "prompt tokens a request", nonZero(a.round.InputTokens), nonZero(b.round.InputTokens), add)
		known(Load, where, "output tokens a request", nonZero(a.round.OutTokens), nonZero(b.round.OutTokens), add)
	}
	if !slices.Equal(kinds(*a.of), kinds(*b.of)) {
		add(Seen, where, "steps in the window", held(*a.of), held(*b.of))
	}
	add(Seen, where, "CUDA graphs", graphs(*a.of), graphs(*b.of))
	add(Seen, where, "GPU events a step, median", a.median(stepEvents), b.median(stepEvents))
	add(Seen, where, "kernels launched one by one a step, median", a.median(stepLaunches), b.median(stepLaunches))
	add(Seen, where, "GPU events launched by graphs a step, median", a.median(stepGraphEvents), b.median(stepGraphEvents))
}

// caution says why the comparison may not be fair.
func (r *Report) caution(pairs []pair) {
	named := map[string][]string{}
	for _, d := range r.Differences {
		if !slices.Contains(named[d.Kind], d.What) {
			named[d.Kind] = append(named[d.Kind], d.What)
		}
	}
	list := func(kind string) string { return strings.Join(named[kind], ", ") }
	if n := len(named[Setting]); n > 1 {
		r.Cautions = append(r.Cautions, fmt.Sprintf("The comparison may not be fair: %d settings differ (%s). If one of them was to be tested, the others may be the cause as well.", n, list(Setting)))
	}
	if len(named[Load]) > 0 {
		r.Cautions = append(r.Cautions, "The comparison may not be fair: A and B did not do the same work ("+list(Load)+").")
	}
	if len(named[Missing]) > 0 {
		r.Cautions = append(r.Cautions, "The comparison may not be fair: what was recorded on one side only may differ ("+list(Missing)+").")
	}
	for n, p := range pairs {
		step := r.Sections[n].Step()
		for i, w := range []*window{p.a, p.b} {
			if line := perturbed(w, []Estimate{step.A, step.B}[i].MedianNs); line != "" {
				r.Cautions = append(r.Cautions, fmt.Sprintf("%s (%s): %s", "AB"[i:i+1], w.label(), line))
			}
			for _, d := range w.of.Health {
				if d.Severity == diag.DataLoss {
					r.Cautions = append(r.Cautions, fmt.Sprintf("%s (%s): data loss: %s", "AB"[i:i+1], w.label(), d.Text))
				}
			}
		}
	}
}

// perturbed says that the profiler changed the step by more than 5 %; "" when it did not, or when that was not measured.
func perturbed(w *window, step int64) string {
	if w.round == nil || w.round.Unprofiled == nil {
		return ""
	}
	itl := w.round.Unprofiled.SteadyITLNs
	if itl <= 0 || 20*abs(step-itl) <= itl {
		return ""
	}
	return fmt.Sprintf("the profiler changed the step: %s ms with it, %s ms without.", units.Ms(step, 2), units.Ms(itl, 2))
}

// note fills Notes.
func (r *Report) note(a, b *side, pairs []pair, alone []string) {
	for i, p := range pairs {
		if line := hidden(p, r.Sections[i]); line != "" {
			r.Notes = append(r.Notes, line)
		}
		if p.a.round == nil || p.b.round == nil || p.a.round.Unprofiled == nil || p.b.round.Unprofiled == nil {
			continue
		}
		x, y := p.a.round.Unprofiled.SteadyITLNs, p.b.round.Unprofiled.SteadyITLNs
		line := fmt.Sprintf("C = %d without profiler, median gap between tokens: A %s ms, B %s ms.", p.a.c, units.Ms(x, 2), units.Ms(y, 2))
		if x > 0 && y > 0 && !slices.Contains(r.Notes, line) {
			r.Notes = append(r.Notes, line)
		}
	}
	if len(alone) > 0 {
		r.Notes = append(r.Notes, "Not compared: "+strings.Join(alone, "; ")+".")
	}
	if a.run == nil || b.run == nil {
		r.Notes = append(r.Notes, "How the servers were started is not compared: that needs the folder of a run on both sides.")
	}
	r.Notes = append(r.Notes, fmt.Sprintf("Times are medians over whole decode steps, ± the larger half of their %s %% confidence interval; medians do not add up. p is of a Mann-Whitney U test; ~: p is above %s. Both are over the steps of one window on each side: how much a second window of the same server would differ is not known.",
		trim(units.Float(100*(1-r.Alpha), 3)), trim(units.Float(r.Alpha, 6))))
}

// arguments maps the flags of a command line to their values. A value that is a JSON object is one entry a field. Where
// profiles are written to is left out: it names the run and changes nothing.
func arguments(args []string) map[string]string {
	out := map[string]string{}
	name, values := "command", []string{}
	flush := func() {
		value := strings.Join(values, " ")
		switch fields := object(value); {
		case fields != nil:
			for k, v := range fields {
				if k != "torch_profiler_dir" {
					out[name+" "+k] = v
				}
			}
		case name != "command" || value != "":
			if value == "" {
				value = "given"
			}
			out[name] = value
		}
	}
	for _, a := range args {
		if !strings.HasPrefix(a, "--") {
			values = append(values, a)
			continue
		}
		flush()
		flag, value, hasValue := strings.Cut(a, "=")
		name, values = strings.ReplaceAll(flag, "_", "-"), nil
		if hasValue {
			values = []string{value}
		}
	}
	flush()
	return out
}

// object reads the fields of a JSON object as text; nil when s is none.
func object(s string) map[string]string {
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &raw) != nil || raw == nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range raw {
		var compact bytes.Buffer
		if json.Compact(&compact, v) != nil {
			return nil
		}
		out[k] = compact.String()
	}
	return out
}

func union(a, b map[string]string) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func orNotSet(m map[string]string, k string) string {
	if v, ok := m[k]; ok {
		return v
	}
	return "not set"
}

func orNotRecorded(s string) string {
	if s == "" {
		return notRecorded
	}
	return s
}

func recorded(n int) string {
	if n == 0 {
		return notRecorded
	}
	return fmt.Sprintf("%d recorded", n)
}

func nonZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// kinds are the kinds of steps that a window holds, partial ones apart.
func kinds(r breakdown.Rank) []string {
	var out []string
	for _, g := range r.Steps {
		for kind, n := range map[string]int{string(g.Kind): g.N - g.Partial, "partial " + string(g.Kind): g.Partial} {
			if n > 0 && !slices.Contains(out, kind) {
				out = append(out, kind)
			}
		}
	}
	slices.Sort(out)
	return out
}

// held says which steps a window holds: "15 decode", "2 prefill, 14 decode (1 partial)".
func held(r breakdown.Rank) string {
	var words []string
	for _, kind := range []string{"prefill", "mixed", "decode", "idle"} {
		n, partial := 0, 0
		for _, g := range r.Steps {
			if string(g.Kind) == kind {
				n += g.N
				partial += g.Partial
			}
		}
		word := fmt.Sprintf("%d %s", n, kind)
		if partial > 0 {
			word += fmt.Sprintf(" (%d partial)", partial)
		}
		if n > 0 {
			words = append(words, word)
		}
	}
	if words == nil {
		return "no step annotations"
	}
	return strings.Join(words, ", ")
}

func graphs(r breakdown.Rank) string {
	if r.Launches.Graphs == 0 {
		return "off"
	}
	steps := 0
	for _, g := range r.Steps {
		steps += g.N
	}
	return "on, launches a step: " + trim(units.Fixed(int64(r.Launches.Graphs), int64(steps), 1))
}

func stepEvents(s breakdown.Step) int      { return s.Events }
func stepLaunches(s breakdown.Step) int    { return s.Launches }
func stepGraphEvents(s breakdown.Step) int { return s.GraphEvents }

// median is the upper median of a count over the counted steps.
func (w *window) median(count func(breakdown.Step) int) string {
	n := make([]int, len(w.steps))
	for i, s := range w.steps {
		n[i] = count(s)
	}
	slices.Sort(n)
	return strconv.Itoa(n[len(n)/2])
}

// hidden says what CUDA graphs hide, where one side uses them and the other does not; "" else.
func hidden(p pair, s Section) string {
	on, off, names := p.a, p.b, "AB"
	if p.a.of.Launches.Graphs == 0 {
		on, off, names = p.b, p.a, "BA"
	}
	if on.of.Launches.Graphs == 0 || off.of.Launches.Graphs > 0 {
		return ""
	}
	idle := s.Sums[len(s.Sums)-2]
	idles := map[string]int64{"A": idle.A.MedianNs, "B": idle.B.MedianNs}
	return fmt.Sprintf("CUDA graphs hide launches (%s, rank %d): %s launches %s kernels a step one by one, in %s graphs launch %s of the GPU events of a step and %s kernels are launched one by one. The GPU is idle for %s ms of a step of %s and for %s ms of one of %s.",
		s.Load, s.Rank, names[1:], off.median(stepLaunches), names[:1], on.median(stepGraphEvents), on.median(stepLaunches),
		units.Ms(idles[names[1:]], 2), names[1:], units.Ms(idles[names[:1]], 2), names[:1])
}
