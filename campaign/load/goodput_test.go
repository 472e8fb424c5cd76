package load

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

func TestGoodputNeedsEveryLimit(t *testing.T) {
	ms := int64(time.Millisecond)
	samples := []Sample{
		{Arrivals: []int64{100 * ms, 110 * ms, 120 * ms}, Tokens: 3}, // TTFT 100, TPOT 10, E2EL 120
		{Arrivals: []int64{10 * ms, 60 * ms, 110 * ms}, Tokens: 3},   // TTFT 10, TPOT 50, E2EL 110
		{Arrivals: []int64{100 * ms}, Tokens: 1},                     // TPOT 0
		{Arrivals: []int64{1 * ms}, Tokens: 1, Error: "no"},
		{Arrivals: []int64{1 * ms, 2 * ms}, Tokens: 2, Cut: true}, // its end was not seen
		{}, // without a token
	}
	for text, want := range map[string]int{
		"ttft:100": 3, "ttft:99.9": 1, "tpot:10": 2, "tpot:50 ttft:50": 1, "e2el:110": 2, "ttft:100 tpot:100 e2el:100": 1,
		"ttft:50 tpot:50": 1, // limits of the same length
	} {
		limits, err := ParseSLO(text)
		if err != nil {
			t.Fatal(err)
		}
		good, perS := Goodput(samples, limits, 2*int64(time.Second))
		if good != want || perS != float64(want)/2 {
			t.Errorf("%q: %d good requests, %v a second; want %d", text, good, perS, want)
		}
	}
}

// TestGoodputIsThatOfVLLM: what the code of vllm bench serve 0.32.0 computes from the requests that it saved.
func TestGoodputIsThatOfVLLM(t *testing.T) {
	b := readBench(t, filepath.Join(sharedtest.Dir(t), "vllm", "recorded", "v0.32.0", "bench-serve.json"))
	for text, want := range map[string]float64{
		"ttft:60": 23.307292635222225, "tpot:10.5": 18.64583410817778, "e2el:210": 18.64583410817778, "ttft:60 tpot:11": 20.976563371700003,
		"ttft:60 tpot:11 e2el:205": 15.149740212894447, "ttft:1": 0, "ttft:1000": 37.29166821635556,
	} {
		limits, err := ParseSLO(text)
		if err != nil {
			t.Fatal(err)
		}
		good, perS := Goodput(b.samples(), limits, int64(math.Round(b.Duration*1e9)))
		if math.Abs(perS-want) > 1e-6*want || good != int(math.Round(want*b.Duration)) {
			t.Errorf("%q: %d good requests, %v a second; vllm bench serve says %v", text, good, perS, want)
		}
	}
}

func TestLimitsThatCannotBeReadAreRefused(t *testing.T) {
	for text, words := range map[string]string{
		"ttft": `"ttft": give a number`, "ttft:": "give a number", "ttft:x": "such as ttft:500", "ttft:0": "above 0", "ttft:-1": "above 0",
		"ttft:NaN": "give a number", "ttft:+Inf": "give a number", "tpot:1e-9": "give a number", "ttft:1e10": "give a number",
		"itl:5": `"itl:5": the limits are ttft, tpot and e2el`, "5": "the limits are", "ttft:200,tpot:50": "a space before the next limit",
		"tpot:50 ttft:200 tpot:60": "tpot is given twice",
	} {
		if s, err := ParseSLO(text); err == nil || !strings.HasPrefix(err.Error(), "goodput ") || !strings.Contains(err.Error(), words) || s != (SLO{}) {
			t.Errorf("%q was read as %+v: %v", text, s, err)
		}
	}
	for text, want := range map[string]string{"": "", "  tpot:50.5\tttft:200 ": "TTFT 200 ms, TPOT 50.5 ms", "e2el:2e3": "E2EL 2000 ms"} {
		if s, err := ParseSLO(text); err != nil || s.String() != want {
			t.Errorf("%q: %v %v", text, s, err)
		}
	}
}
