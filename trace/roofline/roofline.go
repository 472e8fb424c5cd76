// Package roofline compares measured work with the ceilings of a GPU: arithmetic intensity, attained rates, the share of
// the roof that was reached, the shortest possible time, and Amdahl bounds. A roof is min(peak, bandwidth x intensity)
// (Williams, Waterman, Patterson 2009).
//
// It does not know models, kernels or traces, does not measure, and draws nothing. Time that is neither arithmetic nor
// memory traffic (launches, waiting, latency) has no place under a roof: show it in a breakdown.
package roofline

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Kinds of ceilings.
const (
	Bandwidth = "bandwidth" // bytes/s
	Compute   = "compute"   // FLOP/s, dense
)

// Ceiling is one limit of the machine, measured or from a data sheet.
type Ceiling struct {
	Name     string `json:"name"` // "HBM read", "bf16"
	Kind     string `json:"kind"` // Bandwidth or Compute
	Value    int64  `json:"value"`
	Measured bool   `json:"measured"`
	Source   string `json:"source"`
}

// Origin returns "measured" or "data sheet".
func (c Ceiling) Origin() string {
	if c.Measured {
		return "measured"
	}
	return "data sheet"
}

// Roof is a bandwidth and a compute ceiling together.
type Roof struct {
	Bandwidth Ceiling `json:"bandwidth"`
	Compute   Ceiling `json:"compute"`
}

// NewRoof joins two ceilings and checks their kinds and values.
func NewRoof(bandwidth, compute Ceiling) (Roof, error) {
	if bandwidth.Kind != Bandwidth || bandwidth.Value <= 0 {
		return Roof{}, fmt.Errorf("build roof: ceiling %q is no bandwidth above 0", bandwidth.Name)
	}
	if compute.Kind != Compute || compute.Value <= 0 {
		return Roof{}, fmt.Errorf("build roof: ceiling %q is no compute rate above 0", compute.Name)
	}
	return Roof{Bandwidth: bandwidth, Compute: compute}, nil
}

// DataSheet returns the roof that the maker of a GPU prints for matrix products of the dtype ("bf16", "fp8", ...).
func DataSheet(gpu data.GPUSpec, dtype string) (Roof, error) {
	p := gpu.Peak(dtype)
	if p.Value == 0 {
		return Roof{}, fmt.Errorf("build roof: the data sheet of %s gives no dense %s peak; measure it", gpu.Name, dtype)
	}
	return NewRoof(
		Ceiling{Name: "memory", Kind: Bandwidth, Value: gpu.Bandwidth.Value, Source: gpu.Bandwidth.Source},
		Ceiling{Name: dtype + " dense", Kind: Compute, Value: p.Value, Source: p.Source})
}

// At returns the attainable FLOP/s at an intensity in FLOP/byte.
func (r Roof) At(intensity float64) float64 {
	return math.Min(float64(r.Compute.Value), intensity*float64(r.Bandwidth.Value))
}

// Ridge returns the intensity in FLOP/byte from which compute limits.
func (r Roof) Ridge() float64 { return float64(r.Compute.Value) / float64(r.Bandwidth.Value) }

// FloorNs returns the shortest time for the work: the larger of bytes over bandwidth and FLOP over peak, in ns.
func (r Roof) FloorNs(flop, bytes int64) int64 {
	return max(nsFor(bytes, r.Bandwidth.Value), nsFor(flop, r.Compute.Value))
}

// Limit names the ceiling that sets the floor of the work: Bandwidth or Compute.
func (r Roof) Limit(flop, bytes int64) string {
	if nsFor(flop, r.Compute.Value) > nsFor(bytes, r.Bandwidth.Value) {
		return Compute
	}
	return Bandwidth
}

// nsFor returns amount / rate in ns.
func nsFor(amount, perSecond int64) int64 { return mulDiv(amount, 1e9, perSecond) }

// mulDiv returns a x b / c rounded to the nearest, without overflow of the product; 0 unless all are positive.
func mulDiv(a, b, c int64) int64 {
	if a <= 0 || b <= 0 || c <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c)/2, 0)
	hi += carry
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// Point is measured work.
type Point struct {
	Label string `json:"label"`
	FLOP  int64  `json:"flop"`
	Bytes int64  `json:"bytes"` // moved between device memory and the chip, as the work requires
	Ns    int64  `json:"ns"`
}

// Intensity returns FLOP/byte, 0 without bytes.
func (p Point) Intensity() float64 {
	if p.Bytes == 0 {
		return 0
	}
	return float64(p.FLOP) / float64(p.Bytes)
}

// Rate returns the attained FLOP/s, 0 without a time.
func (p Point) Rate() float64 { return perSecond(p.FLOP, p.Ns) }

// Bandwidth returns the attained bytes/s, 0 without a time.
func (p Point) Bandwidth() float64 { return perSecond(p.Bytes, p.Ns) }

func perSecond(amount, ns int64) float64 {
	if ns == 0 {
		return 0
	}
	return float64(amount) / float64(ns) * 1e9
}

// Percent returns the share of the roof that the point reaches, in percent: its floor over its time.
// Above 100 the bytes came from a cache or the ceiling was measured too low.
func (r Roof) Percent(p Point) float64 {
	if p.Ns == 0 {
		return 0
	}
	return 100 * float64(r.FloorNs(p.FLOP, p.Bytes)) / float64(p.Ns)
}

// Table shows the points under the roof.
func (r Roof) Table(points []Point) data.Table {
	t := data.Table{ID: "roofline", Title: "Distance to the roof",
		Note: fmt.Sprintf("Roof: %s %s GB/s (%s), %s %s TFLOP/s (%s); ridge at %s FLOP/byte.",
			r.Bandwidth.Name, units.Fixed(r.Bandwidth.Value, 1e9, 0), r.Bandwidth.Origin(),
			r.Compute.Name, units.Fixed(r.Compute.Value, 1e12, 0), r.Compute.Origin(), units.Float(r.Ridge(), 0)),
		Columns: []data.Column{{Head: "Work"}, {Head: "Intensity", Unit: "FLOP/byte", Numeric: true}, {Head: "Bytes", Unit: "MB", Numeric: true},
			{Head: "Time", Unit: "µs", Numeric: true}, {Head: "Attained", Unit: "GB/s", Numeric: true}, {Head: "Attained", Unit: "TFLOP/s", Numeric: true},
			{Head: "Floor", Unit: "µs", Numeric: true}, {Head: "Of the roof", Unit: "%", Numeric: true}, {Head: "Limited by"}}}
	words := map[string]string{Bandwidth: "memory", Compute: "compute"}
	for _, p := range points {
		floor := r.FloorNs(p.FLOP, p.Bytes)
		t.Rows = append(t.Rows, data.Row{Cells: []string{p.Label, units.Ratio(p.FLOP, p.Bytes, 1), units.Fixed(p.Bytes, 1e6, 1), units.Us(p.Ns, 1),
			units.Ratio(p.Bytes, p.Ns, 0), units.Fixed(p.FLOP, p.Ns*1000, 1), units.Us(floor, 1), units.Percent(floor, p.Ns, 0), words[r.Limit(p.FLOP, p.Bytes)]}})
	}
	return t
}

// CeilingTable lists ceilings with their origin.
func CeilingTable(ceilings []Ceiling) data.Table {
	t := data.Table{ID: "ceilings", Title: "Ceilings", Columns: []data.Column{{Head: "Ceiling"}, {Head: "Value", Numeric: true}, {Head: "Unit"}, {Head: "Origin"}, {Head: "Source"}}}
	for _, c := range ceilings {
		value, unit := units.Fixed(c.Value, 1e9, 0), "GB/s"
		if c.Kind == Compute {
			value, unit = units.Fixed(c.Value, 1e12, 1), "TFLOP/s"
		}
		t.Rows = append(t.Rows, data.Row{Cells: []string{c.Name, value, unit, c.Origin(), c.Source}})
	}
	return t
}
