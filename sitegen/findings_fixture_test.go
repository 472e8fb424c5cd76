package sitegen

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rooflab/rooflab/charts"
	"github.com/rooflab/rooflab/data"
)

// findings is the notebook of a finished campaign: its cells tagged "site" are the start page.
func findings(t testing.TB, f figures) []byte {
	b := &nb{}
	b.md("intro", "# Findings\n\nWritten from the other notebooks.")
	b.code("verdict", "data.Verdict{…}", []any{show(verdict())}, "site")
	b.code("reversal", "charts.Shares{…}", []any{sharesChart(t, f)}, "site")
	b.md("where", "## Where the milliseconds of one decode step go", "site")
	b.code("bottlenecks", "bottlenecks", []any{show(bottleneckRecord(f))}, "site")
	b.code("floors", "floors", []any{show(floors())}, "site")
	b.code("step", "charts.Breakdown{…}", []any{stepChart(t, f)}, "site")
	b.md("why", "## Why: message size against memory", "site")
	b.code("why-allreduce", "allreduce", []any{allreduceChart(t, f)}, "site")
	b.code("why-roofline", "roofline", []any{rooflineChart(t, f)}, "site")
	b.md("read", "Read together: from 64 to 256 tokens a message grows 4.0 times and its time under LL 3.7 times. The experts’ bytes grow 1.35 times, since nearly all are read already, and their time 1.46 times. That is the reversal.", "site")
	b.code("why-layer", "layer", []any{layerChart(t, f)}, "site")
	b.code("findings", "findings", []any{show(beliefs())}, "site")
	b.code("tiers", "tiers", []any{show(tiersRecord())}, "site")
	b.md("not-on-site", "## A note that stays in the notebook")
	b.code("method", "method", []any{show(data.Facts{Heading: "Method and provenance", Items: []data.Fact{
		{Head: "Measured", Text: "30 November 2026, one server start, three windows of 0.27, 0.45 and 0.54 s while all C streams decode; 256 prompt tokens, fixed output length."},
		{Head: "Model", Text: "Kimi-K2.5 text model, every sharded dimension ÷ 4: a rank holds the shapes it holds at TP 8. Random weights."},
		{Head: "Server", Text: "vLLM 0.24.0, torch 2.11.0+cu130, NCCL 2.28.9, TRITON_MLA, CUDA graphs on. `NCCL_P2P_DISABLE=1 NCCL_PROTO=LL NCCL_ALGO=Ring`"},
		{Head: "Counting", Text: "Integer nanoseconds. Components + idle − overlap = step, for each load, exactly.", Ref: data.Ref{Notebook: "10-macro", Cell: "breakdown"}},
	}})}, "site")
	return b.json(t)
}

func verdict() data.Verdict {
	return data.Verdict{
		Campaign: "Campaign hostmem-graph-uniform · Kimi-K2.5 shapes, INT4 experts · vLLM 0.24.0 · 2 × NVIDIA H200, TP 2 through host memory · measured 30 November 2026",
		Heading:  "At 256 streams all-reduce takes 56.3 % of GPU time, twice the expert GEMMs (27.5 %); at 64 streams the experts still led, 45.5 to 35.0 %",
		Lede:     "All-reduce is the exchange of partial results between the GPUs, twice a layer. Four times the streams make each exchange four times as large, while the experts’ weights are read once however many tokens want them: 284 of 384 experts a layer at 64 streams, 382 at 256. At one stream nothing dominates.",
		Facts: []data.Fact{
			{Head: "How sure", Text: "27, 10 and 5 steps at C = 1, 64, 256. Neither share moved by more than **1.0 points** between steps; at C = 64 the second rank agrees within 0.3 %. Profiling made a step 3.6, 1.3 and 3.4 % longer.", Ref: data.Ref{Notebook: "10-macro", Cell: "breakdown"}},
			{Head: "Do next", Text: "Unset `NCCL_PROTO=LL` and `NCCL_ALGO=Ring`, restart, measure C = 64 and 256 again. No change to model or code."},
			{Head: "What it could bring", Text: "C = 256: 107.7 to 70.4 ms a step, **1.53×**. C = 64: 1.16×. C = 1: nothing. No work on all-reduce alone can bring more than 2.27×.", Ref: data.Ref{Cell: "tiers"}},
		}}
}

var rowsShown = []struct {
	label string
	parts []string
}{
	{"All-reduce", []string{"allreduce"}}, {"Expert GEMMs, Marlin W4A16", []string{"moe.experts"}},
	{"Attention kernels, cache write", []string{"attention.core", "attention.kv_write"}}, {"Attention projections", []string{"attention.proj"}},
	{"Expert routing, activation, combine", []string{"moe.routing", "moe.activation"}}, {"All-gather of logits", []string{"allgather"}},
	{"Shared expert", []string{"moe.shared_expert"}}, {"Norms, rope, sampling, elementwise", []string{"norm", "rope", "embedding", "elementwise", "sampling"}},
	{"Casts and copies", []string{"cast_copy", "memory"}}, {"Router GEMM", []string{"moe.router"}}, {"Dense MLP of layer 1, lm_head", []string{"mlp.dense", "lm_head"}}, {"Not recognised", []string{"unknown"}},
}

func bottleneckRecord(f figures) data.Bottlenecks {
	b := data.Bottlenecks{Heading: "Where the milliseconds of one decode step go", Note: "The expert floor counts weights only. Below 1: the call is quicker in the server than back to back alone. 95 % intervals: all-reduce ±0.010, ±0.171, ±0.694 ms, experts ±0.002, ±0.042, ±0.072 ms."}
	for _, l := range f.Loads {
		b.Loads = append(b.Loads, data.Load{Label: fmt.Sprintf("C = %d", l.C), Streams: l.C, Steps: l.Steps, SummedNs: l.Summed, OverlapNs: l.Summed - l.Busy, IdleNs: l.Span - l.Busy, SpanNs: l.Span,
			UnprofiledNs: l.ITL, MinStepNs: l.Min, MaxStepNs: l.Max, OutputTokS: l.Tok, Source: data.Ref{Notebook: "10-macro", Cell: "breakdown"}})
	}
	for i, r := range rowsShown {
		row := data.BottleneckRow{Label: r.label, Components: r.parts}
		for _, l := range f.Loads {
			var ns int64
			for _, p := range r.parts {
				ns += l.Ns[p]
			}
			row.Ns = append(row.Ns, ns)
		}
		if i < 2 {
			row.Source = data.Ref{Notebook: "10-macro", Cell: "breakdown"}
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

func floors() data.Table {
	t := data.Table{ID: "floors", Title: "Distance to the floor: measured time ÷ shortest time that this GPU or path allows.", Columns: []data.Column{{Head: "Component"}, {Head: "floor at C = 256", Unit: "ms", Numeric: true}, {Head: "C = 1", Unit: "×", Numeric: true}, {Head: "C = 64", Unit: "×", Numeric: true}, {Head: "C = 256", Unit: "×", Numeric: true}}}
	for _, r := range [][]string{{"allreduce", "All-reduce", "19.59", "0.8", "1.9", "3.1", "123 × fastest measured on this path"}, {"moe.experts", "Expert GEMMs", "16.67", "4.0", "1.6", "1.8", "bytes of the experts hit ÷ read ceiling"}, {"attention.proj", "Attention projections", "1.07", "2.5", "2.7", "2.3", "weights read once, or bf16 peak"}, {"moe.shared_expert", "Shared expert", "0.22", "4.6", "6.6", "5.7", "weights read once"}, {"moe.router", "Router GEMM", "0.11", "2.5", "6.2", "5.8", "weights read once"}, {"lm_head", "lm_head", "0.10", "1.1", "1.1", "1.1", "weights read once, or bf16 peak"}} {
		t.Rows = append(t.Rows, data.Row{Component: r[0], Cells: r[1:6], Note: r[6], Ref: data.Ref{Notebook: "20-micro", Cell: "marlin"}})
	}
	t.Rows[0].Ref.Cell = "allreduce"
	return t
}

func sharesChart(t testing.TB, f figures) any {
	s := charts.Shares{Figure: charts.Figure{ID: "reversal", Title: "Which of the two is larger changes between 64 and 256 streams", Caption: "Share of the summed kernel time. Whiskers, mostly shorter than the dots, reach from the lowest to the highest step; the loads in between were not measured.", Sources: []string{"10-macro#breakdown"}}, Base: "GPU time", XLabel: "C, streams decoding at the same time"}
	ar, ex := charts.ShareLine{Component: "allreduce"}, charts.ShareLine{Component: "moe.experts"}
	for _, l := range f.Loads {
		s.Loads = append(s.Loads, fmt.Sprintf("C = %d", l.C))
		ar.Points = append(ar.Points, charts.SharePoint{PartNs: l.Ns["allreduce"], WholeNs: l.Summed, LowPct: l.Share["allreduce"][0], HighPct: l.Share["allreduce"][1]})
		ex.Points = append(ex.Points, charts.SharePoint{PartNs: l.Ns["moe.experts"], WholeNs: l.Summed, LowPct: l.Share["experts"][0], HighPct: l.Share["experts"][1]})
	}
	s.Lines = []charts.ShareLine{ar, ex}
	c, err := s.Chart()
	return chart(t, c, err)
}

func stepChart(t testing.TB, f figures) any {
	b := charts.Breakdown{Figure: charts.Figure{ID: "step", Title: "From 64 to 256 streams the step grows by 62.9 ms, and 71 % of that is all-reduce", Width: charts.Full,
		Caption: "Each bar is the mean profiled step; its parts add up to it exactly. Work on the second GPU stream that runs beside other kernels is counted once. The bracket under a bar spans the shortest and the longest step. Tokens/s without profiler."}}
	for _, l := range f.Loads {
		bar := charts.BreakdownBar{Label: fmt.Sprintf("C = %d", l.C), Note: fmt.Sprintf("%.0f tokens/s", l.Tok), Steps: l.Steps, MinNs: l.Min, MaxNs: l.Max}
		var names []string
		for k := range l.Ns {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			ns := l.Ns[k]
			if k == "moe.shared_expert" {
				ns -= l.Summed - l.Busy
			}
			bar.Segments = append(bar.Segments, charts.Segment{Component: k, Ns: ns})
		}
		bar.Segments = append(bar.Segments, charts.Segment{Component: data.Idle, Ns: l.Span - l.Busy})
		b.Bars = append(b.Bars, bar)
	}
	b.Bars[0].Beside = "nothing dominates: projections 1.82, all-reduce 1.74, idle 1.46, experts 1.40"
	c, err := b.Chart()
	return chart(t, c, err)
}

func beliefs() data.Findings {
	three := func(a, b, c string) []data.Value {
		return []data.Value{{Label: "C = 1", Text: a}, {Label: "C = 64", Text: b}, {Label: "C = 256", Text: c}}
	}
	macro := data.Ref{Notebook: "10-macro", Cell: "breakdown"}
	return data.Findings{Heading: "What was believed, and what the numbers say", Note: "The first three come from an earlier campaign with another model, GLM-5; only its shares can be compared, not its milliseconds. The others came up while measuring.", Items: []data.Finding{
		{ID: "gemms", Verdict: data.Rejected, Where: "at C = 256", Claim: "It is still the GEMMs.", Text: "All GEMMs together, experts included, are the largest family up to 64 streams and fall to 32 % at 256.", Values: three("46.9 %", "53.8 %", "31.7 %"), Ref: macro},
		{ID: "casts", Verdict: data.Rejected, Claim: "Dtype casts dominate, as in GLM-5 (69 %).", Text: "All casts, copies and fills together; the kernel that took 69 % there, `unrolled_elementwise_kernel`, takes 0.1 % at most. Marlin dequantises inside the GEMM, so no cast kernel runs before it.", Values: three("5.4 %", "1.4 %", "0.9 %"), Ref: macro},
		{ID: "allreduce", Verdict: data.Rejected, Claim: "All-reduce is 5–8 %, as in GLM-5.", Text: "Above that range at every load: 123 calls a step, none of them overlapped with other work.", Values: three("19.3 %", "35.0 %", "56.3 %"), Ref: macro},
		{ID: "ll-ring", Verdict: data.Rejected, Claim: "LL over Ring is the right NCCL setting for decoding.", Text: "Time against NCCL’s own choice on the same path. Equal up to 16 tokens, slower from 32 on.", Values: three("1.00×", "1.70×", "2.63×"), Ref: data.Ref{Notebook: "20-micro", Cell: "allreduce"}},
		{ID: "marlin", Verdict: data.Confirmed, Claim: "Marlin is limited by memory.", Text: "Share of the read ceiling it reaches. All sizes lie left of the ridge at 177 FLOP/byte.", Values: three("25 %", "62 %", "57 %"), Ref: data.Ref{Notebook: "20-micro", Cell: "marlin"}},
		{ID: "waiting", Verdict: data.Open, Claim: "All-reduce is one rank waiting for the other.", Text: "With both ranks traced, waiting is 1.1 % of all-reduce time at C = 64; the rest is transfer. Open at C = 1 and 256, where one rank was kept.", Values: three("open", "1.1 %", "open"), Ref: data.Ref{Notebook: "10-macro", Cell: "wait"}},
	}}
}

func tiersRecord() data.Tiers {
	gains := func(ns ...int64) []data.Gain { // step, after, floor at each load, in µs
		var g []data.Gain
		for i := 0; i < len(ns); i += 3 {
			g = append(g, data.Gain{StepNs: ns[i] * 1000, AfterNs: ns[i+1] * 1000, FloorNs: ns[i+2] * 1000})
		}
		return g
	}
	return data.Tiers{Heading: "What to do, and what it can bring at most", Note: "From measured milliseconds per step, not from shares rounded for print. Upper bound for all-reduce at C = 256 with its 95 % interval: 2.23 to 2.30. Expert parallelism, more than two ranks and real routing were not measured, so nothing is claimed for them.",
		Loads: []string{"C = 1", "C = 64", "C = 256"}, Items: []data.Tier{
			{Kind: "Tier 0, configuration", Change: "Let NCCL choose: unset `NCCL_PROTO` and `NCCL_ALGO`", Detail: "One restart. Holds if the ratio of the two curves carries over to the server. Test: restart, C = 64 and 256, a quarter of an hour.", Gains: gains(9926, 9922, 8183, 44867, 38536, 29482, 107747, 70409, 47531), Ref: data.Ref{Notebook: "20-micro", Cell: "allreduce"}},
			{Kind: "Tier 1, deployment", Change: "NVLink, or working peer-to-peer, between the GPUs", Detail: "Other machine or BIOS settings. Holds for two ranks; more were not measured.", Gains: gains(9926, 9385, 8183, 44867, 31947, 29482, 107747, 52533, 47531)},
			{Kind: "Tier 2, library", Change: "Attention projections at their floor", Detail: "Days. Holds if a GEMM exists that reads the weights at full rate at these sizes.", Gains: gains(9926, 8834, 8107, 44867, 43604, 42853, 107747, 106341, 105281)},
			{Kind: "Tier 3, kernel", Change: "Marlin MoE at the read ceiling", Detail: "Weeks. Holds if every expert hit is read exactly once at 4261 GB/s. Test: none under an hour.", Gains: gains(9926, 0, 8527, 44867, 36985, 24851, 107747, 95016, 78350)},
			{Change: "Tier 0 and tier 3 together", Detail: "savings added once; tier 0 and tier 1 exclude each other", Total: true, Gains: gains(9926, 8876, 0, 44867, 30901, 0, 107747, 57706, 0)},
		}}
}
