package rules

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
)

// windows are the totals of the recorded H200 campaign at C = 1, 64 and 256, made by another program.
func windows(t *testing.T) []Window {
	t.Helper()
	b, err := os.ReadFile("testdata/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	var ws []Window
	if err := json.Unmarshal(b, &ws); err != nil {
		t.Fatal(err)
	}
	return ws
}

func TestRowsOfALoadSumToItsGPUTime(t *testing.T) {
	ws := windows(t)
	ws[0].Components = append(ws[0].Components, Component{Name: "new.component", N: 1, Ns: 5})
	ws[0].SummedNs, ws[0].OverlapNs = ws[0].SummedNs+5, ws[0].OverlapNs+5
	b := Bottlenecks(ws)
	for i, l := range b.Loads {
		var sum int64
		for _, r := range b.Rows {
			sum += r.Ns[i]
		}
		if sum != l.SummedNs {
			t.Errorf("%s: rows sum to %d, GPU time is %d", l.Label, sum, l.SummedNs)
		}
		if l.SummedNs-l.OverlapNs+l.IdleNs != l.SpanNs {
			t.Errorf("%s: summed - overlap + idle is not the span", l.Label)
		}
	}
	if b.Rows[0].Label != "All-reduce" || b.Rows[1].Label != "Expert GEMMs" || b.Rows[len(b.Rows)-1].Label != "Not recognised" {
		t.Errorf("order: %v", b.Rows)
	}
}

func TestHeadlineNamesLeaderRatioAndWhereItChanges(t *testing.T) {
	ws := windows(t)
	got := strings.ReplaceAll(Headline(Bottlenecks(ws)), "\u00a0", " ")
	want := "At 256 streams all-reduce takes 56.3 % of GPU time, twice the expert GEMMs (27.5 %); at 64 streams the expert GEMMs still led, 45.5 to 35.0 %"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Headline(Bottlenecks(ws[2:])); strings.Contains(got, "leads at every") || strings.Contains(got, "still led") {
		t.Errorf("one load has no history: %s", got)
	}
	if got := Headline(Bottlenecks(nil)); got != "Nothing was measured yet" {
		t.Error(got)
	}
}

func TestHowSureCountsStepsAndNamesTheCostOfProfiling(t *testing.T) {
	got := strings.ReplaceAll(HowSure(windows(t), "allreduce", "moe.experts").Text, "\u00a0", " ")
	for _, want := range []string{"27, 10 and 5 steps at C = 1, 64 and 256", "At C = 64 all-reduce of rank 1 differs by 0.3 %", "3.6, 1.3 and 3.4 % longer"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
}

func TestBeliefsAreJudgedByTheNumbers(t *testing.T) {
	ws := windows(t)
	base := data.Baseline{Model: "GLM-5"}
	casts := data.BaselineShare{Component: "cast_copy", Label: "Dtype casts", LowPct: 69, HighPct: 69, Kernel: "unrolled_elementwise_kernel"}
	ar := data.BaselineShare{Component: "allreduce", Label: "All-reduce", LowPct: 5, HighPct: 8}
	for _, c := range []struct {
		f               data.Finding
		verdict, values string
	}{
		{StillTheGEMMs(ws, data.Ref{}), "✕ Rejected at C = 256", "46.9 %, 53.8 %, 31.7 %"},
		{LikeBaseline(base, casts, ws, data.Ref{}), "✕ Rejected", "5.4 %, 1.4 %, 0.9 %"},
		{LikeBaseline(base, ar, ws, data.Ref{}), "✕ Rejected", "19.3 %, 35.0 %, 56.3 %"},
		{LikeBaseline(base, data.BaselineShare{Component: "allreduce", Label: "x", LowPct: 30, HighPct: 40}, ws, data.Ref{}), "✓ Confirmed at C = 64", "19.3 %, 35.0 %, 56.3 %"},
		{Setting("ll", "c", "a", ws, []Alternative{{18569, 18522}, {113466, 66701}, {419692, 159304}}, data.Ref{}), "✕ Rejected at C = 64 and 256", "1.00×, 1.70×, 2.63×"},
		{Setting("ll", "c", "a", ws, make([]Alternative, 3), data.Ref{}), "○ Open", "open, open, open"},
		{MemoryBound("m", "c", ws, []RoofPoint{{3.5, 25.2}, {6.4, 62.4}, {18, 56.6}}, 177, data.Ref{}), "✓ Confirmed", "25 %, 62 %, 57 %"},
		{RanksWait(ws, data.Ref{}), "✕ Rejected at C = 64", "open, 1.1 %, open"},
		{RanksWait(ws[:1], data.Ref{}), "○ Open", "open"},
		{RanksWait([]Window{waiting(10), waiting(30), {}}, data.Ref{}), "✓ Confirmed at C = 30", "10.0 %, 30.0 %, open"},
		{LikeBaseline(base, data.BaselineShare{Component: "allreduce", Label: "x", LowPct: 10, HighPct: 60}, ws, data.Ref{}), "✓ Confirmed", "19.3 %, 35.0 %, 56.3 %"},
	} {
		var vals []string
		for _, v := range c.f.Values {
			vals = append(vals, strings.ReplaceAll(v.Text, "\u00a0", " "))
		}
		if got := c.f.VerdictWord(); got != c.verdict || strings.Join(vals, ", ") != c.values {
			t.Errorf("%s: got %s (%s), want %s (%s)", c.f.ID, got, strings.Join(vals, ", "), c.verdict, c.values)
		}
		if c.f.Text == "" || c.f.Claim == "" {
			t.Errorf("%s: no text", c.f.ID)
		}
	}
}

// waiting is a window of a rank that waited for pct percent of its all-reduces, ahead of a rank that hardly waited.
func waiting(pct int64) Window {
	return Window{Streams: int(pct), Rank: 3, Ranks: 2, Steps: 1, WaitNs: []int64{pct, 1}, TransferNs: 90 - pct, TailNs: []int64{10, 9}, Unmatched: []int{2, 0},
		SummedNs: 400, Components: []Component{{Name: "allreduce", N: 3, Ns: 300}}, OtherRanks: []OtherRank{{Rank: 7, Name: "allreduce", N: 1, Ns: 98}}}
}

func TestSentencesFitOddCampaigns(t *testing.T) {
	ws := windows(t)
	alone := Window{Streams: 8, Steps: 2, SpanNs: 20, BusyNs: 20, SummedNs: 20, Components: []Component{{Name: "moe.experts", N: 2, Ns: 20}}}
	for _, c := range []struct{ got, want string }{
		{Headline(Bottlenecks([]Window{alone})), "At 8 streams the expert GEMMs take 100.0 % of GPU time"},
		{Headline(Bottlenecks([]Window{alone, alone})), "At 8 streams the expert GEMMs take 100.0 % of GPU time; they lead at every load measured"},
		{StillTheGEMMs(ws[2:], data.Ref{}).Text, "All GEMMs together, experts included: 31.7 % of the summed GPU time. The largest other part is all-reduce, 56.3 %."},
		{StillTheGEMMs(ws, data.Ref{}).Text, "All GEMMs together, experts included, go from 46.9 % of the summed GPU time at C = 1 to 31.7 % at C = 256. The largest other part is all-reduce, from 19.3 % to 56.3 %."},
		{GrowthTitle([]Window{{Streams: 1}, alone}), "From 1 to 8 streams the step grows by <0.1 ms, and 100 % of that is the expert GEMMs"},
		{SharesTitle(ws[1:2], "allreduce", "moe.experts"), "At 64 streams more time goes to the expert GEMMs than to all-reduce"},
		{RoofTitle("The expert GEMMs", nil, 177), "The expert GEMMs under the roof"},
		{Micro{Loads: []int{1, 64}, Experts: 384, ExpertsHit: []float64{8, 285}}.Growth(), "64 times the streams make each exchange as many times as large, while the experts’ weights are read once however many tokens want them: 8 of 384 experts a layer at one stream, 285 at 64."},
		{Micro{Loads: []int{1, 64}, Setting: []Alternative{{1, 1}}, ExpertNs: []int64{1, 2}}.ReadTogether(), ""},
		{LayerTitle([]breakdown.Slice{{DurNs: 5000, Component: "mlp.dense"}}), "One layer takes 5 µs"},
		{LayerTitle([]breakdown.Slice{{DurNs: 1000, Component: "moe.experts"}, {StartNs: 1000, DurNs: 4000}}), "One layer: 1 expert GEMM takes 20 % of its 5 µs"},
		{LikeBaseline(data.Baseline{}, data.BaselineShare{Component: "allreduce", LowPct: 10, HighPct: 60}, ws, data.Ref{}).Text, "Met at every load. 123 calls a step."},
	} {
		if got := strings.ReplaceAll(c.got, "\u00a0", " "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestStepsThatAreNotWholeAreLeftOutOfRanges(t *testing.T) {
	w := Window{PerStep: []StepCost{{SpanNs: 9}, {SpanNs: 9, SummedNs: 100, Components: []Component{{Name: "a", Ns: 40}}}, {SpanNs: 9, SummedNs: 100, Components: []Component{{Name: "a", Ns: 50}}}}}
	if low, high := w.StepShares("a"); low != 40 || high != 50 {
		t.Errorf("a step without GPU work makes the range %v to %v", low, high)
	}
	rank := breakdown.Rank{File: "x.json", Steps: []breakdown.StepGroup{{Kind: trace.Decode, N: 3}}, StepTable: []breakdown.Step{
		{Kind: trace.Decode, SpanNs: 10}, {Kind: trace.Idle, SpanNs: 1}, {Kind: trace.Decode, SpanNs: 2, Partial: true}, {Kind: trace.Decode, SpanNs: 11}, {Kind: trace.Decode, SpanNs: 3}}}
	w, err := NewWindow(1, &breakdown.Report{Ranks: []breakdown.Rank{rank}, Collectives: &breakdown.Collectives{WaitNs: []int64{0, 0}}}, data.Ref{})
	if err != nil {
		t.Fatal(err)
	}
	if low, high := w.StepRange(); low != 10 || high != 11 || w.WaitNs != nil {
		t.Errorf("steps from %d to %d, waiting %v", low, high, w.WaitNs)
	}
	rank.Steps = nil
	if _, err := NewWindow(1, &breakdown.Report{Ranks: []breakdown.Rank{rank}}, data.Ref{}); err == nil || !strings.Contains(err.Error(), "x.json holds no step") {
		t.Errorf("a trace without steps: %v", err)
	}
}

func TestTiersAreBoundedByAmdahl(t *testing.T) {
	ws := windows(t)
	alts := []Alternative{{18569, 18522}, {113466, 66701}, {419692, 159304}}
	nccl := Saving{Kind: "Tier 0, configuration", Change: "Let NCCL choose", Components: []string{"allreduce"}, Ns: FromRatio(ws, "allreduce", alts)}
	floor := Floor{Label: "Expert GEMMs", Components: []string{"moe.experts"}, Ns: []int64{350e3, 12.4e6, 0}}
	marlin := Saving{Kind: "Tier 3", Change: "at the floor", Components: floor.Components, Ns: ToFloor(ws, floor)}
	tiers := Together(Tiers(ws, []Saving{nccl, marlin}), ws, "both", "", nccl, marlin)
	var got []string
	for _, it := range tiers.Items {
		for _, g := range it.Gains {
			got = append(got, g.Factor()+g.Bound())
		}
	}
	want := "1.00≤ 1.21 1.16≤ 1.52 1.53≤ 2.27 1.12≤ 1.16 1.20≤ 1.81 open≤ 1.38 1.12 1.45 open"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	for _, it := range tiers.Items {
		for _, g := range it.Gains {
			if g.FloorNs > 0 && g.AfterNs > 0 && g.AfterNs < g.FloorNs {
				t.Errorf("%s promises more than its bound: %+v", it.Change, g)
			}
		}
	}
	if text := WhatItCouldBring(tiers).Text; !strings.Contains(text, "C = 256: 107.7 to 70.4 ms a step, 1.53×") || !strings.Contains(text, "C = 1: nothing") || !strings.Contains(text, "more than 2.27×") {
		t.Error(text)
	}
}

func TestWhatPhaseTwoWouldTellIsOpenWithoutIt(t *testing.T) {
	ws := windows(t)
	var none Micro
	if f := Setting("ll", "c", "a", ws, none.Setting, data.Ref{}); f.Verdict != data.Open {
		t.Errorf("setting: %+v", f)
	}
	if f := MemoryBound("m", "c", ws, none.Roof, none.Ridge, data.Ref{}); f.Verdict != data.Open || strings.Contains(f.Text, "ridge") {
		t.Errorf("memory: %+v", f)
	}
	tiers := Tiers(ws, []Saving{{Components: []string{"allreduce"}, Ns: FromRatio(ws, "allreduce", none.Setting)},
		{Components: []string{"moe.experts"}, Ns: ToFloor(ws, none.Floor("moe.experts"))}})
	for _, it := range tiers.Items {
		for _, g := range it.Gains {
			if g.Factor() != "open" || g.Bound() == "" {
				t.Errorf("a gain was invented, or a bound lost: %+v", g)
			}
		}
	}
	if DoNext(tiers).Text == "" || !strings.HasPrefix(WhatItCouldBring(tiers).Text, "Open") || none.Growth() != "" || none.ReadTogether() != "" {
		t.Error("sentences without figures")
	}
	if f := Floors(ws, none.Floors); f.Rows != nil || !strings.Contains(f.Note, "No floor is known") {
		t.Error("floors without figures")
	}
}

func TestDoNextIsTheCheapestTierThatPays(t *testing.T) {
	ws := windows(t)
	useless := Saving{Change: "Useless", Detail: "Days.", Ns: []int64{0, 0, 0}}
	good := Saving{Change: "Good", Detail: "One restart. Holds.", Ns: []int64{0, 0, 37e6}}
	if got := DoNext(Tiers(ws, []Saving{useless, good})).Text; got != "Good. One restart, then measure the highest loads again." {
		t.Error(got)
	}
}

func TestTitlesSayWhatTheFigureProves(t *testing.T) {
	ws := windows(t)
	for _, c := range []struct{ got, want string }{
		{GrowthTitle(ws), "From 64 to 256 streams the step grows by 62.9 ms, and 71 % of that is all-reduce"},
		{GrowthTitle(ws[:1]), "Where the milliseconds of one step go"},
		{SharesTitle(ws, "allreduce", "moe.experts"), "Which of the two is larger changes between 64 and 256 streams"},
		{SharesTitle(ws[:2], "allreduce", "moe.experts"), "Which of the two is larger changes between 1 and 64 streams"},
		{SettingTitle("LL over Ring", "NCCL’s own choice", ws, []Alternative{{18569, 18522}, {113466, 66701}, {419692, 159304}}), "LL over Ring costs nothing extra at C = 1 and 2.6 times NCCL’s own choice at C = 256"},
		{RoofTitle("The expert GEMMs", []RoofPoint{{3.5, 25.2}, {6.4, 62.4}}, 177), "The expert GEMMs are limited by memory at every size, and reach 62 % of their roof at best"},
	} {
		if got := strings.ReplaceAll(c.got, "\u00a0", " "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
