package campaign

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rooflab/rooflab/data"
)

func TestWhatHappenedOnALiveServerIsShownByLoad(t *testing.T) {
	deltas := func(prompts, tokens, preemptions, queries, hits float64) []data.Delta {
		return []data.Delta{{Name: "vllm:prompt_tokens_total", Before: 7, After: 7 + prompts}, {Name: "vllm:generation_tokens_total", Before: 9, After: 9 + tokens},
			{Name: "vllm:num_preemptions_total", Before: 1, After: 1 + preemptions}, {Name: "vllm:prefix_cache_queries_total", After: queries}, {Name: "vllm:prefix_cache_hits_total", After: hits}}
	}
	rounds := []data.Round{
		{Streams: 1, Unprofiled: &data.LoadResult{SteadyITLNs: 10e6, KVCachePeak: 0.004}, Profiled: &data.LoadResult{SteadyITLNs: 10.2e6}, After: &data.LoadResult{SteadyITLNs: 10e6},
			Metrics: deltas(256, 128, 0, 256, 0), StartNs: 210e6, StopNs: 1400e6},
		{Streams: 64, Unprofiled: &data.LoadResult{SteadyITLNs: 40e6, KVCachePeak: 0.97}, Profiled: &data.LoadResult{SteadyITLNs: 45e6}, After: &data.LoadResult{SteadyITLNs: 40.1e6},
			Metrics: deltas(16384, 6144, 3, 16384, 4096), StartNs: 230e6, StopNs: 3390e6, Notes: []string{"failed requests, 2: timeout", "1 of 2 ranks: no complete trace came from rank 1"}},
		{Streams: 256, Unprofiled: &data.LoadResult{SteadyITLNs: 90e6}, Metrics: deltas(65536, 24576, 0, 65536, 0)},
	}
	want := `The live server meanwhile: 3 requests were preempted for lack of KV cache; to start and stop the profiler it stood still for up to 3.6 s

On the server                               C = 1       C = 64       C = 256
────────────────────────────────────────────────────────────────────────────
Tokens generated                              128        6 144        24 576
Prompt tokens                                 256       16 384        65 536
of them in the prefix cache, %                0.0         25.0           0.0
KV cache in use, at most, %                   0.4         97.0  not measured
Requests preempted                              0            3             0
────────────────────────────────────────────────────────────────────────────
Time between tokens, ms                     10.00        40.00         90.00
while profiled, ms                          10.20        45.00  not measured
afterwards, ms                              10.00        40.10  not measured
Stood still for the profiler, s              1.61         3.62  not measured`
	table := LiveTable(rounds)
	if got, _, _ := strings.Cut(table.Text(), "\n\nNoted"); squeeze(got) != squeeze(want) {
		t.Error(cmp.Diff(squeeze(want), squeeze(got)))
	}
	if want := "Noted at C = 64: failed requests, 2: timeout; 1 of 2 ranks: no complete trace came from rank 1."; !strings.HasPrefix(table.Note, want) {
		t.Errorf("note %q", table.Note)
	}
	for _, r := range table.Rows {
		if r.Bold != (r.Cells[0] == "Requests preempted") {
			t.Errorf("%s is bold: %v", r.Cells[0], r.Bold)
		}
	}
}

// squeeze makes runs of blanks and of rules one.
func squeeze(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		lines = append(lines, strings.Join(strings.Fields(strings.ReplaceAll(line, "─", "")), " "))
	}
	return strings.Join(lines, "\n")
}

func TestSGLangsCountersAreShown(t *testing.T) {
	table := LiveTable([]data.Round{{Streams: 8, Unprofiled: &data.LoadResult{SteadyITLNs: 10e6}, Metrics: []data.Delta{{Name: "sglang:prompt_tokens_total", After: 2000}, {Name: "sglang:cached_tokens_total", After: 500}}}})
	if got := squeeze(table.Text()); !strings.Contains(got, "of them in the prefix cache, % 25.0") || strings.Contains(got, "preempted,") || strings.Contains(got, "not measured") || !strings.Contains(got, "preemptions were not counted") {
		t.Error(got)
	}
}

func TestOfARecordingNothingIsShown(t *testing.T) {
	run := []data.Round{{Streams: 1, Unprofiled: &data.LoadResult{SteadyITLNs: 1}, Notes: []string{"rank 1 was not kept"}}, // an archive
		{Streams: 2, Unprofiled: &data.LoadResult{SteadyITLNs: 1, Recorded: true}, Metrics: []data.Delta{{Name: "vllm:generation_tokens_total", After: 2}}}, // a replay
		{Streams: 3}}
	for _, rounds := range [][]data.Round{nil, run} {
		if table := LiveTable(rounds); len(table.Columns)+len(table.Rows) > 0 || table.Note == "" {
			t.Errorf("shown: %+v", table)
		}
	}
}
