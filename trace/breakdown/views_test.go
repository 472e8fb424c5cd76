package breakdown_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

// perRank are the views whose lines are those of one rank.
var perRank = []string{"layer", "kernel", "step", "stream"}

// TestViews keeps the tables that people see.
func TestViews(t *testing.T) {
	one := campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz")
	two := campaign(t, "hostmem-graph-uniform/c64_rank1.pt.trace.json.gz")
	cls := classify.Run(one)
	single := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{breakdown.Of(one, cls)}}
	both := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{single.Ranks[0], of(two)}}
	eager := breakdown.Report{Schema: 1}
	var traces []*trace.Rank
	for _, file := range []string{"hostmem-eager/c64_rank0", "hostmem-eager/c64_rank1"} {
		r, err := kineto.Options{Host: true}.ReadFile(filepath.Join(sharedtest.Dir(t), "campaign", file+".pt.trace.json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, r)
		eager.Ranks = append(eager.Ranks, of(r))
	}
	eager.Collectives = match(t, traces...)
	found := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{of(window())}}
	var b strings.Builder
	for _, v := range []struct {
		report breakdown.Report
		by     string
		top    int
	}{{single, "component", 5}, {single, "part", 3}, {single, "layer", 0}, {single, "kernel", 12}, {single, "step", 0}, {single, "stream", 8}, {both, "kernel", 4}, {both, "step", 2},
		{eager, "host", 8}, {found, "component", 0}, {found, "step", 0}} {
		table, err := v.report.View(v.by, v.top, false)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(table.Text() + "\n\n")
	}
	b.WriteString(breakdown.ExplanationText(breakdown.Explain(one, cls, "NVJET_sm90_tst_72x64"), false) + "\n")
	b.WriteString(breakdown.ExplanationText(breakdown.Explain(one, cls, "splitk"), false) + "\n")
	b.WriteString(breakdown.ExplanationText(breakdown.Explain(one, cls, "memcpy dtoh"), false))
	if *update {
		if err := os.WriteFile("testdata/views.golden", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/views.golden")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("(-update writes it anew)\n%s", d)
	}
	if _, err := single.View("colour", 0, false); err == nil || !strings.Contains(err.Error(), "component, part, layer") {
		t.Errorf("an unknown view: %v", err)
	}
}

// figure reads a printed figure in units of its last digit; decimals is how many there are.
func figure(t *testing.T, cell string, decimals int) int64 {
	t.Helper()
	whole, frac, _ := strings.Cut(cell, ".")
	n, err := strconv.ParseInt(whole+frac, 10, 64)
	if err != nil || len(frac) != decimals {
		t.Fatalf("%q is no figure with %d decimals", cell, decimals)
	}
	return n
}

// TestRowsOfAViewAddUpWhateverIsCut: durations are whole tenths of µs, so that what is printed is exact.
func TestRowsOfAViewAddUpWhateverIsCut(t *testing.T) {
	var events []event
	total := int64(0)
	for i := range int64(40) {
		e := event{i * 10_000, 100 * (1 + i*i%37), fmt.Sprint(7 + i%5), fmt.Sprintf("kernel_%d", i%9)}
		if i%4 == 0 {
			e.name = "ncclDevKernel_AllReduce_Sum"
		}
		total += e.dur
		events = append(events, e)
	}
	r := breakdown.Report{Ranks: []breakdown.Rank{of(rank(events...))}}
	if r.Ranks[0].SummedNs != total {
		t.Fatalf("summed %d, want %d", r.Ranks[0].SummedNs, total)
	}
	for _, by := range perRank {
		for top := range 9 {
			table, err := r.View(by, top, false)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(table.Columns, func(c data.Column) bool { return c.Unit == "µs" })
			sum := int64(0)
			for _, row := range table.Rows[:len(table.Rows)-1] {
				sum += figure(t, row.Cells[at], 1) * 100
			}
			last := table.Rows[len(table.Rows)-1]
			if sum != total || figure(t, last.Cells[at], 1)*100 != total || last.Cells[0] != "Sum" {
				t.Errorf("--by %s --top %d: rows add up to %d ns of %d", by, top, sum, total)
			}
			if rows := len(table.Rows) - 1; top > 0 && rows > top+1 {
				t.Errorf("--by %s --top %d: %d rows", by, top, rows)
			}
		}
	}
}

func TestViewsFit100Columns(t *testing.T) {
	for _, file := range []string{"hostmem-graph-uniform/c1_rank0", "hostmem-eager/c64_rank1", "nvlink-graph/c64_rank0"} {
		r := of(campaign(t, file+".pt.trace.json.gz"))
		other := r
		other.Rank = 1
		for _, report := range []breakdown.Report{{Ranks: []breakdown.Rank{r}}, {Ranks: []breakdown.Rank{r, other}}} {
			for _, by := range perRank {
				table, err := report.View(by, 0, false)
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range strings.Split(table.Text(), "\n") {
					if n := utf8.RuneCountInString(line); n > 100 {
						t.Errorf("%s, %d ranks, --by %s: %d columns: %s", file, len(report.Ranks), by, n, line)
					}
				}
			}
		}
	}
}

func TestWideKeepsKernelNamesWhole(t *testing.T) {
	name := strings.Repeat("long_kernel_name_", 20)
	r := breakdown.Report{Ranks: []breakdown.Rank{of(rank(event{0, 5, "7", name}))}}
	for _, wide := range []bool{false, true} {
		table := r.KernelTable(0, wide)
		if got := table.Rows[0].Cells[0]; (got == name) != wide || strings.HasSuffix(got, "…") == wide {
			t.Errorf("wide %t: %q", wide, got)
		}
	}
}

// TestOddLayersAreMarked: layer 2 of 5 has no experts, layer 4 a slow all-reduce.
func TestOddLayersAreMarked(t *testing.T) {
	r := breakdown.Rank{SummedNs: 1}
	for layer := -1; layer < 5; layer++ {
		experts, network := int64(500), int64(300)
		if layer == 2 {
			experts = 0
		}
		if layer == 4 {
			network = 390
		}
		r.Layers = append(r.Layers, breakdown.LayerComponent{Layer: layer, Component: "moe.experts", Ns: experts},
			breakdown.LayerComponent{Layer: layer, Component: "allreduce", Ns: network}, breakdown.LayerComponent{Layer: layer, Component: "rope", Ns: int64(1 + layer*8)})
	}
	var got []string
	for _, row := range (breakdown.Report{Ranks: []breakdown.Rank{r}}).LayerTable(0).Rows {
		got = append(got, row.Cells[0]+": "+row.Cells[len(row.Cells)-1])
	}
	want := []string{"0: ", "1: ", "2: experts −100\u00a0%", "3: ", "4: network +30\u00a0%", "none: ", "Sum: "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// steps makes a rank with two annotated steps; in the second one a kernel of the first still runs.
func steps() *trace.Rank {
	var b trace.Builder
	launch := func(id, at int64) { b.Launch("9", "9", id, at, 0, trace.LaunchKernel) }
	b.Annotate("9", "9", "execute_context_0(0)_generation_2(2)", 0, 50)
	b.Annotate("9", "9", "execute_context_0(0)_generation_2(2)", 100, 50)
	for i, k := range []trace.Kernel{{Start: 1000, Dur: 100}, {Start: 1150, Dur: 350}, {Start: 1400, Dur: 50}, {Start: 1600, Dur: 10}} {
		k.Correlation = int64(i + 1)
		k.Name, k.Stream, k.Device = b.Name("triton_poi_a"), b.Stream("7"), b.Device("0")
		launch(k.Correlation, []int64{10, 20, 110, 120}[i])
		b.Add(k)
	}
	return b.Build()
}

func TestIdleOfAStepIsTimeInWhichNothingRuns(t *testing.T) {
	r := of(steps())
	got := [][3]int64{}
	for _, s := range r.StepTable {
		got = append(got, [3]int64{s.SpanNs, s.BusyNs, s.IdleNs})
	}
	// The first step ends where the second begins, at 1400: 50 idle. The second runs to 1610 and is idle from 1500 to 1600.
	if want := [][3]int64{{400, 450, 50}, {210, 60, 100}}; !slices.Equal(got, want) {
		t.Errorf("span, busy, idle: %v, want %v", got, want)
	}
	real := of(campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz"))
	sum := int64(0)
	for _, s := range real.StepTable {
		sum += s.IdleNs
	}
	if sum != real.IdleNs || sum != 17605311 {
		t.Errorf("idle of the steps: %d, of the window: %d", sum, real.IdleNs)
	}
}

// TestOneStepIsTheRowOfTheStepTable: the figures of the steps alone are those of the whole file.
func TestOneStepIsTheRowOfTheStepTable(t *testing.T) {
	r := campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz")
	cls := classify.Run(r)
	whole := breakdown.Of(r, cls)
	summed := int64(0)
	for i, row := range whole.StepTable {
		one, places, err := breakdown.OneStep(r, cls, i)
		if err != nil {
			t.Fatal(err)
		}
		got := breakdown.Of(one, places)
		if got.SummedNs != row.SummedNs || got.BusyNs != row.BusyNs || got.GPUEvents != row.Events || len(got.StepTable) != 1 || got.StepCount() != 1 {
			t.Errorf("step %d: %d %d %d, want %+v", i, got.SummedNs, got.BusyNs, got.GPUEvents, row)
		}
		for n := range got.Components {
			got.Components[n].Parts = nil
		}
		if d := cmp.Diff(row.Components, got.Components); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
		summed += got.SummedNs
	}
	if summed != whole.SummedNs {
		t.Errorf("the steps have %d ns of %d", summed, whole.SummedNs)
	}
	for _, no := range []int{-1, 10} {
		if _, _, err := breakdown.OneStep(r, cls, no); err == nil || !strings.Contains(err.Error(), "it has 10 steps, 0 to 9") {
			t.Errorf("step %d: %v", no, err)
		}
	}
	if _, _, err := breakdown.OneStep(rank(), &classify.Result{}, 0); err == nil || !strings.Contains(err.Error(), "no step annotations") {
		t.Error(err)
	}
}

func TestOnlyKeepsTheShareOfTheRank(t *testing.T) {
	r := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{{Rank: 0, File: "a"}, {Rank: 1, File: "b"}, {Rank: 0, File: "c"}, {Rank: 1, File: "d"}},
		Collectives: &breakdown.Collectives{Ranks: []int{0, 1}, Matched: 3, Unmatched: []int{4, 5}, WaitNs: []int64{6, 7}, TransferNs: 8, TailNs: []int64{9, 10}},
		More:        []breakdown.Collectives{{Ranks: []int{2, 3}, Unmatched: []int{14, 15}, WaitNs: []int64{16, 17}, TailNs: []int64{19, 20}}}}
	got := r.Only(1)
	want := breakdown.Report{Schema: 1, Ranks: []breakdown.Rank{{Rank: 1, File: "b"}, {Rank: 1, File: "d"}},
		Collectives: &breakdown.Collectives{Ranks: []int{0}, Matched: 3, Unmatched: []int{5}, WaitNs: []int64{7}, TransferNs: 8, TailNs: []int64{10}},
		More:        []breakdown.Collectives{{Ranks: []int{1}, Unmatched: []int{15}, WaitNs: []int64{17}, TailNs: []int64{20}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if none := r.Only(7); len(none.Ranks) != 0 || none.Collectives != nil {
		t.Errorf("%+v", none)
	}
}

// TestEveryKernelIsExplainedByWhatDecided: a rule whose component is not the kernel's must come with an order.
func TestEveryKernelIsExplainedByWhatDecided(t *testing.T) {
	for _, file := range []string{"hostmem-graph-uniform/c1_rank0", "hostmem-eager/c64_rank0"} {
		r := campaign(t, file+".pt.trace.json.gz")
		whole := of(r)
		n, ns := 0, int64(0)
		for _, e := range breakdown.Explain(r, classify.Run(r), "") {
			n += e.N
			ns += e.Ns
			rule := e.Reason.Rule
			label := strings.TrimSuffix(e.Component+"/"+e.Part, "/")
			if f := strings.Fields(rule); e.Reason.Order == "" && e.Component != classify.Unknown && (len(f) < 2 || f[1] != label) {
				t.Errorf("%s: %s is said to come from %q", e.Name, label, rule)
			}
		}
		if n != whole.GPUEvents || ns != whole.SummedNs {
			t.Errorf("%s: %d events and %d ns explained, of %d and %d", file, n, ns, whole.GPUEvents, whole.SummedNs)
		}
	}
}
