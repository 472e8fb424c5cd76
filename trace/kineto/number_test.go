package kineto

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

func TestTimesAreParsedFromDigits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1000, "1.5": 1500, "1.12": 1120, "1.123": 1123, "-1.5": -1500, `"4.0"`: 4000, ".5": 500, "5.": 5000,
		"1712195495505582.988": 1712195495505582988, "5187990037220.211": 5187990037220211,
		"1.0004": 1000, "1.0005": 1000, "1.0015": 1002, "1.00050001": 1001, "1e3": 1000000, "25E-1": 2500, "1e-9": 0, "0.0006": 1,
	} {
		if got, ok := parseNs(text); !ok || got != want {
			t.Errorf("%s: got %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ".", "-", "x", "1x", "NaN", "Infinity", "1e", "1e9999", "9223372036854776", "1e17", "1.2.3", `""`, "null", "0x10"} {
		if got, ok := parseNs(text); ok {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

// FuzzParseNs compares with rational arithmetic.
func FuzzParseNs(f *testing.F) {
	for _, s := range []string{"1712195495505582.988", "1.0005", "-3", "25e-1", "1e-9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseNs(text)
		if !ok || len(text) > 60 || text[0] == '"' {
			return
		}
		r, good := new(big.Rat).SetString(text)
		if !good {
			t.Fatalf("%q is no number and was read as %d", text, got)
		}
		r.Mul(r, big.NewRat(1000, 1))
		diff := new(big.Rat).Sub(r, new(big.Rat).SetInt64(got))
		if diff.Abs(diff).Cmp(big.NewRat(1, 2)) > 0 {
			t.Fatalf("%q was read as %d", text, got)
		}
	})
}

func TestCorrelationIDs(t *testing.T) {
	for text, want := range map[string]int64{"7": 7, `"7"`: 7, "-1": -1, "": 0, "x": 0, "1.5": 0, fmt.Sprint(uint64(math.MaxUint64)): -1} {
		if got := parseID(text); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
