package rules

import (
	"strings"
	"testing"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
)

func TestMicroFiguresMeetTheirLoadByStreams(t *testing.T) {
	ws := windows(t) // C = 1, 64 and 256
	m := Micro{Loads: []int{256, 8, 64}, Setting: []Alternative{{419692, 159304}, {8, 7}, {113466, 66701}}, Roof: []RoofPoint{{18, 56.6}, {1, 1}, {6.4, 62.4}},
		ExpertsHit: []float64{383, 60, 285}, Experts: 384, Floors: []Floor{{Label: "Expert GEMMs", Components: []string{"moe.experts"}, Ns: []int64{256e3, 8e3, 64e3}}}}
	got := m.For(ws)
	if f := Setting("s", "c", "a", ws, got.Setting, data.Ref{}); f.Values[0].Text != "open" || f.Values[1].Text != "1.70×" || f.Values[2].Text != "2.63×" {
		t.Errorf("setting: %v", f.Values)
	}
	if got.Floors[0].Ns[0] != 0 || got.Floors[0].Ns[1] != 64e3 || got.Floors[0].Ns[2] != 256e3 || m.Floors[0].Ns[0] != 256e3 {
		t.Errorf("floors %v, the saved ones %v", got.Floors[0].Ns, m.Floors[0].Ns)
	}
	if got.Roof[1].Intensity != 6.4 || got.ExpertsHit[2] != 383 || got.ExpertNs[2] != 0 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Growth(), "285 of 384") || m.For(ws[:2]).Growth() != "" {
		t.Errorf("growth %q, with an unmeasured load %q", got.Growth(), m.For(ws[:2]).Growth())
	}
	// More figures than loads, and fewer: nothing is compared that does not belong together, and nothing panics.
	if s := SettingTitle("LL", "NCCL’s own choice", ws[:1], m.Setting); strings.Contains(s, "8") {
		t.Error(s)
	}
	for _, it := range Together(Tiers(ws, []Saving{{Ns: []int64{5}}}), ws, "sum", "", Saving{Ns: []int64{5}}).Items {
		if it.Gains[0].Factor() == "open" || it.Gains[2].Factor() != "open" {
			t.Errorf("%+v", it.Gains)
		}
	}
}

func TestWithoutAPrescribedSettingNothingIsSaidAboutOne(t *testing.T) {
	ws := windows(t)
	alts := []Alternative{{2, 1}, {2, 1}, {2, 1}}
	for _, env := range []map[string]string{nil, {"NCCL_P2P_DISABLE": "1", "NCCL_VERSION": "2.28.3-1"}} {
		n := Prescribed(env)
		if n.Findings(ws, alts, data.Ref{}) != nil || n.Savings(ws, alts) != nil || n.Name() != "NCCL’s own choice" {
			t.Errorf("%v: %+v", env, n)
		}
	}
	for _, c := range []struct {
		env          map[string]string
		claim, unset string
	}{
		{map[string]string{"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, "LL over Ring is", "unset `NCCL_PROTO` and `NCCL_ALGO`"},
		{map[string]string{"NCCL_PROTO": "Simple"}, "Simple is", "unset `NCCL_PROTO`"},
		{map[string]string{"NCCL_ALGO": "Tree"}, "Tree is", "unset `NCCL_ALGO`"},
	} {
		n := Prescribed(c.env)
		if f := n.Findings(ws, alts, data.Ref{}); len(f) != 1 || !strings.HasPrefix(f[0].Claim, c.claim) {
			t.Errorf("%v: %+v", c.env, f)
		}
		if s := n.Savings(ws, alts); len(s) != 1 || !strings.HasSuffix(s[0].Change, c.unset) || s[0].Ns[2] == 0 {
			t.Errorf("%v: %+v", c.env, s)
		}
		if !n.IsOf(c.env) || !n.IsOf(nil) || n.IsOf(map[string]string{}) || n.IsOf(map[string]string{"NCCL_PROTO": n.Proto, "NCCL_ALGO": n.Algo, "NCCL_P2P_DISABLE": "1"}) {
			t.Errorf("%v: same as another environment, or not as its own", c.env)
		}
	}
}

func TestOnlyTimeBesideNoOtherWorkIsSaved(t *testing.T) {
	w := Window{Streams: 4, Steps: 2, SpanNs: 200, BusyNs: 180, IdleNs: 20, SummedNs: 220, OverlapNs: 40,
		Components: []Component{{Name: "allreduce", N: 2, Ns: 120}, {Name: "moe.shared_expert", N: 2, Ns: 100, OverlapNs: 40}}}
	ws := []Window{w}
	if w.ExposedNs("moe.shared_expert") != 30 || w.PerStepNs("moe.shared_expert") != 50 {
		t.Errorf("exposed %d of %d", w.ExposedNs("moe.shared_expert"), w.PerStepNs("moe.shared_expert"))
	}
	floor := Floor{Components: []string{"moe.shared_expert"}, Ns: []int64{10}}
	for name, ns := range map[string][]int64{"all": All(ws, "moe.shared_expert"), "floor": ToFloor(ws, floor), "ratio": FromRatio(ws, "moe.shared_expert", []Alternative{{100, 1}})} {
		if ns[0] != 30 {
			t.Errorf("%s saves %d of a step, 30 are exposed", name, ns[0])
		}
	}
	if g := Tiers(ws, []Saving{{Components: []string{"moe.shared_expert"}, Ns: []int64{30}}}).Items[0].Gains[0]; g.FloorNs != 70 || g.AfterNs != 70 {
		t.Errorf("%+v", g)
	}
}

func TestWaitingIsAShareOfMatchedAllReduces(t *testing.T) {
	ws := []Window{waiting(30)}
	for _, c := range []struct {
		row  data.Row
		want string
	}{
		{Collectives(ws).Rows[0], "C = 30 2 0.00 0.00 30.0 2"},
		{RankTable(ws).Rows[0], "C = 30 3 0.00 0.00 30.0 2"},
		{RankTable(ws).Rows[1], "C = 30 7 0.00 0.00 1.4 0"},
	} {
		got := strings.ReplaceAll(strings.ReplaceAll(strings.Join(c.row.Cells, " "), "\u00a0", " "), "<0.01", "0.00")
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if note := Collectives(ws).Note; !strings.HasSuffix(note, "Rank 3.") {
		t.Error(note)
	}
	if text := RanksWait(ws, data.Ref{}).Text; !strings.Contains(text, "left out: 2.") {
		t.Error(text)
	}
}

func TestTheRankOfATableIsTheWindowsOwn(t *testing.T) {
	a, b := waiting(1), waiting(2)
	if note := Bottlenecks([]Window{a, b}).Note; !strings.HasPrefix(note, "Rank 3. ") {
		t.Error(note)
	}
	b.Rank = 0
	if note := Bottlenecks([]Window{a, b}).Note; !strings.HasPrefix(note, "Ranks 3 and 0. ") {
		t.Error(note)
	}
	if title := Modes(8, []Window{a}).Title; title != "One decode step at C = 8, rank 3" {
		t.Error(title)
	}
}

func TestAttentionMayDominateWithoutCollectives(t *testing.T) {
	w := Window{Streams: 1, Steps: 1, SummedNs: 100, Components: []Component{{Name: "attention.core", N: 1, Ns: 60}, {Name: "moe.experts", N: 1, Ns: 40}}}
	f := StillTheGEMMs([]Window{w}, data.Ref{})
	if f.Verdict != data.Rejected || !strings.Contains(f.Text, "attention, 60.0") {
		t.Errorf("%+v", f)
	}
	w.Components = w.Components[1:]
	if f := StillTheGEMMs([]Window{w, w}, data.Ref{}); f.Verdict != data.Confirmed {
		t.Errorf("%+v", f)
	}
}

func TestAStepIsAWholeDecodeStep(t *testing.T) {
	rank := breakdown.Rank{Rank: 5, File: "x.json", SpanNs: 100, SummedNs: 80,
		Steps: []breakdown.StepGroup{{Kind: trace.Decode, N: 3, Partial: 1}, {Kind: trace.Prefill, N: 1}, {Kind: trace.Idle, N: 4}},
		StepTable: []breakdown.Step{{Kind: trace.Decode, SpanNs: 10}, {Kind: trace.Prefill, SpanNs: 70}, {Kind: trace.Decode, SpanNs: 11},
			{Kind: trace.Decode, SpanNs: 3, Partial: true}},
		Kernels: []breakdown.KernelRow{{Name: "void at::native::unrolled_elementwise_kernel<" + strings.Repeat("é", 700), Component: "cast_copy", Ns: 9}}}
	w, err := NewWindow(2, &breakdown.Report{Ranks: []breakdown.Rank{rank}}, data.Ref{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Steps != 2 || len(w.PerStep) != 2 || w.PerStep[1].SpanNs != 11 {
		t.Errorf("%d steps, %+v", w.Steps, w.PerStep)
	}
	const want = "At C = 2 the window also holds 1 prefill step and 1 partial decode step; shares are of all GPU time in it."
	if text := HowSure([]Window{w}).Text; !strings.Contains(text, want) {
		t.Error(text)
	}
	if note := Bottlenecks([]Window{w}).Note; !strings.HasSuffix(note, want) {
		t.Error(note)
	}
	if got := w.Kernels[0].Name; len([]rune(got)) != 120 || !strings.HasSuffix(got, "…") || w.KernelNs("unrolled_elementwise_kernel") != 9 {
		t.Errorf("kernel %q", got)
	}
}
