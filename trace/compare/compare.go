// Package compare sets two traces, or two runs of a campaign, beside each other: GPU time a step by component, whether the
// change is more than noise, and what else differs between the two.
//
// The sample is the whole decode steps of one profiled window (all whole steps where no annotation says what they are): a median and its confidence interval for each side, a
// Mann-Whitney U test between them (golang.org/x/perf/benchmath, AssumeNothing). A component that did not run in a step has
// 0 ns there. Medians of rows do not add up; SumNs does. A median between two values is rounded down to 1 ns. Ranks of one
// run are compared one by one and never pooled: they wait for each other, so their steps are no independent samples.
//
// The JSON form of Report is the contract of "rooflab compare --json": fields may be added, and schema counts other changes.
//
//	schema               1
//	by, alpha            what a row is, and the level of the test; intervals are at 1 - alpha
//	a, b                 name (run folder or files) and, of a run folder, run
//	sections[]           one a load and rank on both sides: load, kind of steps, rank, files, steps counted, rows[], sums[]
//	  rows[], sums[]     name, component, a and b {median_ns, lo_ns, hi_ns, sum_ns, n}, change_ns (b - a of the medians),
//	                     change_pct (absent when a is 0), p, significant, warnings[]
//	                     rows are sorted by absolute change; sums are summed, overlap, busy, idle, step, in this order
//	differences[]        kind (setting, load, unknown, seen), where ("" = everywhere), what, a, b
//	cautions[], notes[]  sentences: why the comparison may not be fair; what was left out
//
// p and n are over the steps of one window on each side. The package does not know how much a second window of the same
// server would differ, does not judge which difference caused a change, and does not correct p for the number of rows.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/rooflab/rooflab/trace/breakdown"
)

// What a row of a comparison is.
const (
	ByComponent = "component"
	ByPart      = "part"
	ByKernel    = "kernel"
)

// Options say how to compare. The zero value compares components at alpha 0.05.
type Options struct {
	By            string  // ByComponent, ByPart or ByKernel; "" is ByComponent
	Alpha         float64 // level of significance, between 0 and 1; 0 is 0.05
	MaxEventBytes int     // bytes of one event of a trace; 0 means 64 MB
}

// Report is the comparison of A with B.
type Report struct {
	Schema      int          `json:"schema"`
	By          string       `json:"by"`
	Alpha       float64      `json:"alpha"`
	A           Side         `json:"a"`
	B           Side         `json:"b"`
	Sections    []Section    `json:"sections"`
	Differences []Difference `json:"differences"`
	Cautions    []string     `json:"cautions"`
	Notes       []string     `json:"notes"`
}

// Side names what was compared.
type Side struct {
	Name string `json:"name"`          // folder or files, without the folders above
	Run  string `json:"run,omitempty"` // name of the run, when a run folder was given
}

// Section compares one rank under one load.
type Section struct {
	Load  string `json:"load"` // "C = 64" of run folders, "decode, 64 tokens" of traces
	Kind  string `json:"kind"` // of the steps: "decode", or "unknown" where no annotation says it
	Rank  int    `json:"rank"` // of A
	FileA string `json:"file_a"`
	FileB string `json:"file_b"`
	NA    int    `json:"n_a"` // whole decode steps
	NB    int    `json:"n_b"`
	Rows  []Row  `json:"rows"`
	Sums  []Row  `json:"sums"`
}

// Row is one component, part or kernel, or a sum.
type Row struct {
	Name        string   `json:"name"`
	Component   string   `json:"component,omitempty"`
	A           Estimate `json:"a"`
	B           Estimate `json:"b"`
	ChangeNs    int64    `json:"change_ns"`
	ChangePct   float64  `json:"change_pct,omitempty"`
	P           float64  `json:"p"`
	Significant bool     `json:"significant"`
	Warnings    []string `json:"warnings,omitempty"`
}

// Estimate is the time a step on one side. Lo and Hi are -1 when n is too small for an interval.
type Estimate struct {
	MedianNs int64 `json:"median_ns"`
	LoNs     int64 `json:"lo_ns"`
	HiNs     int64 `json:"hi_ns"`
	SumNs    int64 `json:"sum_ns"` // over all n steps
	N        int   `json:"n"`
}

// Step is the row of the whole step.
func (s Section) Step() Row { return s.Sums[len(s.Sums)-1] }

// Slower says whether the step of this section got slower by more than pct percent, and the change is significant.
func (s Section) Slower(pct float64) bool {
	step := s.Step()
	return step.Significant && float64(step.ChangeNs)*100 > pct*float64(step.A.MedianNs)
}

// Paths compares A with B. Each is a trace file, several joined by "," or "+" (the ranks or the loads of one run), or the
// folder of a run (run.json and its traces). Loads and ranks that only one side has are named in Notes.
// Pairs without whole decode steps are named there too, unless there are no others.
// A *kineto.TruncatedError comes with a report of what could be read; with any other error the report is nil.
func Paths(a, b string, o Options) (*Report, error) {
	o.By, o.Alpha = cmp.Or(o.By, ByComponent), cmp.Or(o.Alpha, 0.05)
	if !slices.Contains([]string{ByComponent, ByPart, ByKernel}, o.By) {
		return nil, fmt.Errorf("compare by %q: expected %s, %s or %s", o.By, ByComponent, ByPart, ByKernel)
	}
	if !(o.Alpha > 0 && o.Alpha < 1) {
		return nil, fmt.Errorf("compare at level %v: expected a number between 0 and 1", o.Alpha)
	}
	sideA, errA := open(a)
	sideB, errB := open(b)
	if err := cmp.Or(errA, errB); err != nil {
		return nil, err
	}
	cut, err := load(o, append(sideA.unnamed(), sideB.unnamed()...))
	if err != nil {
		return nil, err
	}
	pairs, alone, err := match(sideA, sideB)
	if err != nil {
		return nil, err
	}
	var rest []*window
	for _, p := range pairs {
		for _, w := range []*window{p.a, p.b} {
			if w.of == nil {
				rest = append(rest, w)
			}
		}
	}
	restCut, err := load(o, rest)
	if err != nil {
		return nil, err
	}
	pairs, without, err := decoding(pairs)
	if err != nil {
		return nil, err
	}
	r := &Report{Schema: 1, By: o.By, Alpha: o.Alpha, A: sideA.record(), B: sideB.record(), Differences: []Difference{}, Cautions: []string{}, Notes: []string{}}
	for _, p := range pairs {
		r.Sections = append(r.Sections, section(p, o.Alpha))
	}
	r.differ(sideA, sideB, pairs)
	r.note(sideA, sideB, pairs, append(alone, without...))
	return r, errors.Join(cut, restCut)
}

func section(p pair, alpha float64) Section {
	s := Section{Load: p.load(), Kind: string(p.a.steps[0].Kind), Rank: p.a.rank, FileA: p.a.of.File, FileB: p.b.of.File, NA: len(p.a.steps), NB: len(p.b.steps)}
	for _, k := range p.keys() {
		s.Rows = append(s.Rows, row(k.name, k.component, p.a.times(k), p.b.times(k), alpha))
	}
	slices.SortStableFunc(s.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(abs(y.ChangeNs), abs(x.ChangeNs)), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Component, y.Component))
	})
	for _, sum := range sums {
		s.Sums = append(s.Sums, row(sum.name, "", p.a.sum(sum.of), p.b.sum(sum.of), alpha))
	}
	return s
}

// sums are the rows that lead from the summed time to the step. A step ends where the next one begins, the last one of a window
// at its own end. Busy is the time of a step, over the devices, in which the GPU ran anything, of this step or another one; so
// neither busy nor idle is ever negative. Overlap is the rest: of a step whose work runs beside another step's it may be.
var sums = []struct {
	name string
	of   func(s breakdown.Step, devices int64) int64
}{
	{"summed", func(s breakdown.Step, _ int64) int64 { return s.SummedNs }},
	{"overlap", func(s breakdown.Step, devices int64) int64 { return s.SummedNs - (s.SpanNs*devices - s.IdleNs) }},
	{"busy", func(s breakdown.Step, devices int64) int64 { return s.SpanNs*devices - s.IdleNs }},
	{"idle", func(s breakdown.Step, _ int64) int64 { return s.IdleNs }},
	{"step", func(s breakdown.Step, _ int64) int64 { return s.SpanNs }},
}

func row(name, component string, a, b []int64, alpha float64) Row {
	x, y := sample(a, alpha), sample(b, alpha)
	test := benchmath.AssumeNothing.Compare(x, y)
	p := min(max(test.P, leastP(len(a), len(b))), 1)
	r := Row{Name: name, Component: component, P: p, Significant: p <= alpha}
	var warnA, warnB []error
	r.A, warnA = estimate(a, x, alpha)
	r.B, warnB = estimate(b, y, alpha)
	r.ChangeNs = r.B.MedianNs - r.A.MedianNs
	if r.A.MedianNs != 0 {
		r.ChangePct = 100 * float64(r.ChangeNs) / float64(r.A.MedianNs)
	}
	for _, w := range slices.Concat(warnA, warnB, test.Warnings) {
		if !slices.Contains(r.Warnings, w.Error()) {
			r.Warnings = append(r.Warnings, w.Error())
		}
	}
	return r
}

// leastP is the smallest p that the test can give: all of one sample below all of the other, 2 of the (n+m choose n) orders.
// With ties the exact sum loses it to rounding and comes out as 0.
func leastP(n, m int) float64 {
	p := 2.0
	for i := 1; i <= n; i++ {
		p *= float64(i) / float64(m+i)
	}
	return p
}

func sample(ns []int64, alpha float64) *benchmath.Sample {
	values := make([]float64, len(ns)) // exact below 2^53 ns, 104 days
	for i, v := range ns {
		values[i] = float64(v)
	}
	return benchmath.NewSample(values, &benchmath.Thresholds{CompareAlpha: alpha})
}

func estimate(ns []int64, s *benchmath.Sample, alpha float64) (Estimate, []error) {
	sum := benchmath.AssumeNothing.Summary(s, 1-alpha)
	e := Estimate{MedianNs: int64(math.Floor(sum.Center)), LoNs: -1, HiNs: -1, N: len(ns)}
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		e.LoNs, e.HiNs = int64(math.Floor(sum.Lo)), int64(math.Ceil(sum.Hi))
	}
	for _, v := range ns {
		e.SumNs += v
	}
	return e, sum.Warnings
}

func abs(n int64) int64 { return max(n, -n) }
