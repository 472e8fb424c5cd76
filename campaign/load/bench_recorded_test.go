package load

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

// benchResult is what `vllm bench serve --save-result --save-detailed` writes, as far as it is compared.
type benchResult struct {
	Completed             int
	Failed                int
	Duration              float64
	InputLens             []int       `json:"input_lens"`
	OutputLens            []int       `json:"output_lens"`
	TTFTs                 []float64   `json:"ttfts"`
	ITLs                  [][]float64 `json:"itls"`
	StartTimes            []float64   `json:"start_times"`
	TotalInputTokens      int64       `json:"total_input_tokens"`
	TotalOutputTokens     int64       `json:"total_output_tokens"`
	RequestThroughput     float64     `json:"request_throughput"`
	RequestGoodput        *float64    `json:"request_goodput"`
	OutputThroughput      float64     `json:"output_throughput"`
	TotalTokenThroughput  float64     `json:"total_token_throughput"`
	MaxOutputTokensPerS   float64     `json:"max_output_tokens_per_s"`
	MaxConcurrentRequests int         `json:"max_concurrent_requests"`

	figures map[string]float64 // of the four latencies, in ms
}

func readBench(t testing.TB, name string) benchResult {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r benchResult
	var all map[string]any
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	r.figures = map[string]float64{}
	for k, v := range all {
		if f, ok := v.(float64); ok {
			r.figures[k] = f
		}
	}
	return r
}

// samples are the requests of a saved result as if they were ours.
func (b benchResult) samples() []Sample {
	var samples []Sample
	ns := func(s float64) int64 { return int64(math.Round(s * 1e9)) }
	for i := range b.TTFTs {
		at := b.StartTimes[i] + b.TTFTs[i]
		q := Sample{Request: i, Sent: ns(b.StartTimes[i]), Arrivals: []int64{ns(at)}, Prompt: b.InputLens[i], Tokens: b.OutputLens[i]}
		for _, gap := range b.ITLs[i] {
			at += gap
			q.Arrivals = append(q.Arrivals, ns(at))
		}
		samples = append(samples, q)
	}
	return samples
}

// TestRecordedBenchGivesItsOwnFigures computes our figures from the times that `vllm bench serve` saved, and compares them
// with the figures that it computed from them.
func TestRecordedBenchGivesItsOwnFigures(t *testing.T) {
	b := readBench(t, filepath.Join(sharedtest.Dir(t), "vllm", "recorded", "v0.32.0", "bench-serve.json"))
	r := measure(b.samples(), 8, int64(math.Round(b.Duration*1e9)), nil)
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s: %v, vllm bench serve says %v", what, got, want)
		}
	}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	for name, l := range map[string]Latency{"ttft": r.TTFT, "tpot": r.TPOT, "itl": r.ITL, "e2el": r.E2EL} {
		for figure, ns := range map[string]int64{"mean": l.MeanNs, "median": l.MedianNs, "std": l.StdNs, "p50": l.MedianNs, "p95": l.P95Ns, "p99": l.P99Ns} {
			key := figure + "_" + name + "_ms"
			want, ok := b.figures[key]
			if !ok {
				t.Fatalf("no %s in the result", key)
			}
			same(key, ms(ns), want)
		}
	}
	same("request throughput", r.RequestsPerS, b.RequestThroughput)
	same("output throughput", r.OutputTokS, b.OutputThroughput)
	same("total throughput", r.TotalTokS, b.TotalTokenThroughput)
	same("peak output", r.PeakOutputTokS, b.MaxOutputTokensPerS)
	if r.PeakConcurrent != b.MaxConcurrentRequests || r.Requests != b.Completed || r.InputTokens != b.TotalInputTokens || r.OutputTokens != b.TotalOutputTokens {
		t.Errorf("%+v", r)
	}
	if r.ITL.N != 32*15 || r.TPOT.N != 32 {
		t.Errorf("%d gaps, %d TPOT", r.ITL.N, r.TPOT.N)
	}
}

// TestRecordedRequestsWereReadOneByOne: what two real servers sent to two other clients.
func TestRecordedRequestsWereReadOneByOne(t *testing.T) {
	recorded := filepath.Join(sharedtest.Dir(t), "vllm", "recorded")
	if note := bunched(readBench(t, filepath.Join(recorded, "v0.32.0", "bench-serve.json")).samples()); note != "" {
		t.Error(note)
	}
	streams, err := filepath.Glob(filepath.Join(recorded, "*", "completion-stream-across-stop.json"))
	if err != nil || len(streams) == 0 {
		t.Fatal("no stream is long enough")
	}
	for _, name := range streams {
		q := recordedStream(t, name)
		if note := bunched([]Sample{q}); note != "" || len(q.Arrivals) < enoughGaps {
			t.Errorf("%s: %d chunks: %s", name, len(q.Arrivals), note)
		}
	}
}

// recordedStream reads when the chunks of a recorded answer came.
func recordedStream(t *testing.T, name string) Sample {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Response struct {
			Chunks []struct {
				Ms   float64
				Data string
			}
		}
	}
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	var q Sample
	for _, c := range x.Response.Chunks {
		if strings.Contains(c.Data, `"text"`) {
			q.Arrivals = append(q.Arrivals, int64(c.Ms*1e6))
		}
	}
	return q
}
