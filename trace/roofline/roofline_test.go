package roofline

import (
	"math"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/data"
)

var measured = Roof{
	Bandwidth: Ceiling{Name: "HBM read", Kind: Bandwidth, Value: 4_261_421_448_424, Measured: true},
	Compute:   Ceiling{Name: "bf16", Kind: Compute, Value: 753_057_117_674_801, Measured: true},
}

func TestPointsReachTheirShareOfTheRoof(t *testing.T) {
	// Expert GEMMs at M = 1: 8 experts of 3,096,576 bytes, 13.466 + 9.610 us.
	p := Point{Label: "M = 1", FLOP: 8 * 3 * 2 * 7168 * 256, Bytes: 8 * 3096576, Ns: 23076}
	if got := measured.FloorNs(p.FLOP, p.Bytes); got != 5813 {
		t.Errorf("floor %d ns, want 5813", got)
	}
	if got := measured.Percent(p); math.Round(got) != 25 {
		t.Errorf("%.1f %% of the roof, want 25", got)
	}
	if got := math.Round(measured.Ridge()); got != 177 {
		t.Errorf("ridge at %v FLOP/byte, want 177", got)
	}
	if got := measured.Limit(p.FLOP, p.Bytes); got != Bandwidth {
		t.Errorf("limited by %s", got)
	}
	if got := measured.Limit(1<<50, 1); got != Compute {
		t.Errorf("2^50 FLOP on one byte limited by %s", got)
	}
	if low, high := measured.At(1), measured.At(1e6); low != 4_261_421_448_424 || high != 753_057_117_674_801 {
		t.Errorf("roof at 1 and 1e6 FLOP/byte: %v, %v", low, high)
	}
	text := measured.Table([]Point{p}).Text()
	for _, want := range []string{"M = 1", "3.6", "memory", "ridge at 177 FLOP/byte", " 25 "} {
		if !strings.Contains(text, want) {
			t.Errorf("table misses %q:\n%s", want, text)
		}
	}
}

func TestFloorsDoNotOverflow(t *testing.T) {
	if got := measured.FloorNs(0, 1<<62); got != 1082194303999884 {
		t.Errorf("floor of 2^62 bytes: %d ns", got)
	}
	slow := Roof{Bandwidth: Ceiling{Value: 1}, Compute: Ceiling{Value: 1}}
	if got := slow.FloorNs(math.MaxInt64, 0); got != math.MaxInt64 {
		t.Errorf("a floor beyond int64 is %d, want the largest value", got)
	}
	if got := measured.FloorNs(0, 0); got != 0 {
		t.Errorf("no work takes %d ns", got)
	}
}

func TestCeilingsAreCheckedAndNameTheirOrigin(t *testing.T) {
	gpu, err := data.GPU("NVIDIA H200")
	if err != nil {
		t.Fatal(err)
	}
	r, err := DataSheet(gpu, "bf16")
	if err != nil || math.Round(r.Ridge()) != 206 {
		t.Errorf("data-sheet roof %+v, %v; want a ridge at 206", r, err)
	}
	if _, err := DataSheet(gpu, "fp4"); err == nil || !strings.Contains(err.Error(), "no dense fp4 peak") {
		t.Errorf("fp4 on H200: %v", err)
	}
	if _, err := NewRoof(r.Compute, r.Bandwidth); err == nil {
		t.Error("swapped ceilings are accepted")
	}
	text := CeilingTable([]Ceiling{r.Bandwidth, measured.Compute}).Text()
	if !strings.Contains(text, "data sheet") || !strings.Contains(text, "measured") || !strings.Contains(text, "753.1") {
		t.Errorf("ceilings:\n%s", text)
	}
}
