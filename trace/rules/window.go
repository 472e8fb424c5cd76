// Package rules turns measured windows into what a campaign says: the bottleneck table, the verdict, findings on
// beliefs, floors and optimisation tiers. Every sentence with a number in it is made here, from integers, and tested.
// It does not read traces, talk to servers or decide what to publish.
package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Window is one profiled load on one rank, with what was measured beside it.
// SummedNs - OverlapNs = BusyNs; BusyNs + IdleNs = SpanNs; the components sum to SummedNs.
type Window struct {
	Name           string      `json:"name,omitempty"` // heads columns; empty = "C = 64"
	Streams        int         `json:"streams"`
	Rank           int         `json:"rank"`
	Ranks          int         `json:"ranks,omitempty"` // ranks whose trace was kept
	WorldSize      int         `json:"world_size,omitempty"`
	CPU            bool        `json:"cpu,omitempty"`       // no GPU activity: times are of CPU operators and host work, of the counted steps alone
	Operators      int         `json:"operators,omitempty"` // calls of CPU operators, when CPU is set
	Steps          int         `json:"steps"`
	SpanNs         int64       `json:"span_ns"`
	BusyNs         int64       `json:"busy_ns"`
	SummedNs       int64       `json:"summed_ns"`
	OverlapNs      int64       `json:"overlap_ns"`
	IdleNs         int64       `json:"idle_ns"`
	Components     []Component `json:"components"`
	PerStep        []StepCost  `json:"per_step,omitempty"`
	Kernels        []Kernel    `json:"kernels,omitempty"`
	KernelLaunches int         `json:"kernel_launches"`
	GraphLaunches  int         `json:"graph_launches"`
	UnprofiledNs   int64       `json:"unprofiled_ns,omitempty"` // steady median ITL; 0 = not measured
	AfterNs        int64       `json:"after_ns,omitempty"`      // steady median ITL of the pass after the profile; 0 = not measured
	OutputTokS     float64     `json:"output_tok_s,omitempty"`  // 0 = not measured
	WaitNs         []int64     `json:"wait_ns,omitempty"`       // of matched all-reduces, per rank; nil = one rank was kept
	TransferNs     int64       `json:"transfer_ns,omitempty"`   // of matched all-reduces, the same on every rank
	TailNs         []int64     `json:"tail_ns,omitempty"`       // per rank; wait + transfer + tail = time of matched all-reduces
	Unmatched      []int       `json:"unmatched,omitempty"`     // per rank, all-reduces without a partner on the others
	OtherRanks     []OtherRank `json:"other_ranks,omitempty"`   // the all-reduce of each further rank
	OtherSteps     []string    `json:"other_steps,omitempty"`   // steps of the window that are no whole decode steps: "1 prefill step"
	Ref            data.Ref    `json:"ref,omitzero"`            // the cell that read the trace
}

// Component is a component's total over the window. OverlapNs ran beside other work.
type Component struct {
	Name      string `json:"name"`
	N         int    `json:"n"`
	Ns        int64  `json:"ns"`
	OverlapNs int64  `json:"overlap_ns,omitempty"`
}

// OtherRank is the all-reduce of a further rank over the window.
type OtherRank struct {
	Rank int    `json:"rank"`
	Name string `json:"name"`
	N    int    `json:"n"`
	Ns   int64  `json:"ns"`
}

// StepCost is one complete step of the window. Its span reaches to the start of the next step.
type StepCost struct {
	SpanNs     int64       `json:"span_ns"`
	SummedNs   int64       `json:"summed_ns"`
	Components []Component `json:"components"`
}

// Kernel is a GPU kernel's total over the window.
type Kernel struct {
	Name      string `json:"name"`
	Component string `json:"component"`
	N         int    `json:"n"`
	Ns        int64  `json:"ns"`
}

// base says what shares are of.
func base(ws []Window) string {
	if len(ws) > 0 && ws[0].CPU {
		return "CPU time"
	}
	return "GPU time"
}

// Label names the load: "C = 64", unless the window has a name of its own.
func (w Window) Label() string {
	if w.Name != "" {
		return w.Name
	}
	return fmt.Sprintf("C = %d", w.Streams)
}

// Sum adds the totals of the named components.
func (w Window) Sum(components ...string) int64 {
	return sumOf(w.Components, components)
}

// StepNs is the mean step, from the span of the window.
func (w Window) StepNs() int64 {
	if w.Steps == 0 {
		return 0
	}
	return w.SpanNs / int64(w.Steps)
}

// PerStepNs is the mean of the named components over the steps.
func (w Window) PerStepNs(components ...string) int64 {
	if w.Steps == 0 {
		return 0
	}
	return w.Sum(components...) / int64(w.Steps)
}

// ExposedNs is PerStepNs less what ran beside other work: at most this much of a step goes when the components do.
func (w Window) ExposedNs(components ...string) int64 {
	if w.Steps == 0 {
		return 0
	}
	ns := w.Sum(components...)
	for _, c := range w.Components {
		if slices.Contains(components, c.Name) {
			ns -= c.OverlapNs
		}
	}
	return ns / int64(w.Steps)
}

// Share formats the named components as percent of the summed GPU time, with one decimal.
func (w Window) Share(components ...string) string {
	return units.Percent(w.Sum(components...), w.SummedNs, 1)
}

// SharePct is Share as a number, for charts.
func (w Window) SharePct(components ...string) float64 {
	if w.SummedNs == 0 {
		return 0
	}
	return 100 * float64(w.Sum(components...)) / float64(w.SummedNs)
}

// StepShares returns the lowest and the highest share of the named components among the steps, in percent.
func (w Window) StepShares(components ...string) (low, high float64) {
	known := false
	for _, s := range w.PerStep {
		if s.SummedNs == 0 {
			continue
		}
		v := 100 * float64(sumOf(s.Components, components)) / float64(s.SummedNs)
		if !known || v < low {
			low = v
		}
		high = max(high, v)
		known = true
	}
	return low, high
}

// StepRange returns the shortest and the longest step. The last step of a window has no next one and is left out.
func (w Window) StepRange() (low, high int64) {
	steps := w.PerStep
	if len(steps) > 1 {
		steps = steps[:len(steps)-1]
	}
	for i, s := range steps {
		if i == 0 || s.SpanNs < low {
			low = s.SpanNs
		}
		high = max(high, s.SpanNs)
	}
	return low, high
}

// KernelNs adds the kernels whose name holds the text.
func (w Window) KernelNs(text string) int64 {
	var ns int64
	for _, k := range w.Kernels {
		if strings.Contains(k.Name, text) {
			ns += k.Ns
		}
	}
	return ns
}

// Perturbation is how much longer a step was while profiled, in tenths of a percent; ok is false without both figures.
func (w Window) Perturbation() (tenths int64, ok bool) {
	if w.UnprofiledNs == 0 || w.Steps == 0 {
		return 0, false
	}
	d := w.StepNs() - w.UnprofiledNs
	return (2000*d + w.UnprofiledNs) / (2 * w.UnprofiledNs), true
}

func sumOf(list []Component, names []string) int64 {
	var ns int64
	for _, c := range list {
		for _, n := range names {
			if c.Name == n {
				ns += c.Ns
			}
		}
	}
	return ns
}

// labels lists the loads of windows.
func labels(ws []Window) []string {
	var out []string
	for _, w := range ws {
		out = append(out, w.Label())
	}
	return out
}

// values pairs each load with a formatted number.
func values(ws []Window, text func(i int, w Window) string) []data.Value {
	var out []data.Value
	for i, w := range ws {
		out = append(out, data.Value{Label: w.Label(), Text: text(i, w)})
	}
	return out
}

// percent adds the sign to a formatted number.
func percent(s string) string { return s + units.HardSpace + "%" }

// MeanNs is the mean time of one call of a component.
func (w Window) MeanNs(component string) int64 {
	for _, c := range w.Components {
		if c.Name == component && c.N > 0 {
			return c.Ns / int64(c.N)
		}
	}
	return 0
}
