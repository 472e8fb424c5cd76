package micro

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// maxCSV bounds what a compressed file may unpack to.
const maxCSV = 1 << 30

// NcuKernel is one kernel launch as Nsight Compute measured it, clocks locked to base unless told otherwise, one launch
// replayed for each group of counters. A metric that the report does not hold is 0.
type NcuKernel struct {
	ID         string
	Name       string
	Grid       string
	Block      string
	Tokens     int64  // set by Label
	Part       string // set by Label: "w13" or "w2"
	DurationNs int64
	DRAM       int64   // bytes/s
	DRAMPct    float64 // of the peak that ncu knows for the device
	SMPct      float64 // compute throughput
	L2HitPct   float64
	Occupancy  float64 // achieved, percent
}

// LoadNcu reads `ncu --page details --csv` output, plain or gzip.
func LoadNcu(path string) ([]NcuKernel, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read Nsight Compute report: %w", err)
	}
	return ReadNcu(filepath.Base(path), raw)
}

// ReadNcu reads the contents of such a file; name stands in errors.
func ReadNcu(name string, raw []byte) ([]NcuKernel, error) {
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if raw, err = io.ReadAll(io.LimitReader(z, maxCSV)); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	skipped := 0
	for !bytes.HasPrefix(raw, []byte(`"ID"`)) { // ncu prints progress lines before the table
		i := bytes.IndexByte(raw, '\n')
		if i < 0 {
			return nil, fmt.Errorf("read %s: no header line that starts with \"ID\"; export with `ncu --import FILE --page details --csv`", name)
		}
		raw, skipped = raw[i+1:], skipped+1
	}
	return ncuRows(name, skipped, csv.NewReader(bytes.NewReader(raw)))
}

func ncuRows(name string, skipped int, r *csv.Reader) ([]NcuKernel, error) {
	r.FieldsPerRecord = -1
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	col := map[string]int{}
	for i, h := range head {
		col[h] = i
	}
	for _, need := range []string{"ID", "Kernel Name", "Section Name", "Metric Name", "Metric Unit", "Metric Value"} {
		if _, ok := col[need]; !ok {
			return nil, fmt.Errorf("read %s: no column %q; the details page is expected, not the raw page", name, need)
		}
	}
	var kernels []NcuKernel
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		get := func(c string) string {
			if i, ok := col[c]; ok && i < len(row) {
				return row[i]
			}
			return ""
		}
		if len(kernels) == 0 || kernels[len(kernels)-1].ID != get("ID") {
			kernels = append(kernels, NcuKernel{ID: get("ID"), Name: get("Kernel Name"), Grid: get("Grid Size"), Block: get("Block Size")})
		}
		if err := kernels[len(kernels)-1].set(get("Section Name"), get("Metric Name"), get("Metric Unit"), get("Metric Value")); err != nil {
			at, _ := r.FieldPos(0)
			return nil, fmt.Errorf("read %s:%d: %w", name, at+skipped, err)
		}
	}
	if len(kernels) == 0 {
		return nil, fmt.Errorf("read %s: no kernels", name)
	}
	return kernels, nil
}

// set keeps a metric that rooflab shows.
func (k *NcuKernel) set(section, metric, unit, value string) error {
	var err error
	switch section + "/" + metric {
	case "GPU Speed Of Light Throughput/Duration":
		k.DurationNs, err = metricInt(value, unit, map[string]int64{"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9})
	case "Memory Workload Analysis/Memory Throughput":
		k.DRAM, err = metricInt(value, unit, map[string]int64{"byte/s": 1, "Kbyte/s": 1e3, "Mbyte/s": 1e6, "Gbyte/s": 1e9, "Tbyte/s": 1e12,
			"byte/second": 1, "Kbyte/second": 1e3, "Mbyte/second": 1e6, "Gbyte/second": 1e9, "Tbyte/second": 1e12})
	case "GPU Speed Of Light Throughput/DRAM Throughput":
		k.DRAMPct, err = metricPct(value, unit)
	case "GPU Speed Of Light Throughput/Compute (SM) Throughput":
		k.SMPct, err = metricPct(value, unit)
	case "Memory Workload Analysis/L2 Hit Rate":
		k.L2HitPct, err = metricPct(value, unit)
	case "Occupancy/Achieved Occupancy":
		k.Occupancy, err = metricPct(value, unit)
	}
	if err != nil {
		return fmt.Errorf("metric %q: %w", metric, err)
	}
	return nil
}

func metricInt(value, unit string, scales map[string]int64) (int64, error) {
	scale, ok := scales[unit]
	if !ok {
		return 0, fmt.Errorf("unit %q is not known", unit)
	}
	r, err := decimal(value)
	if err != nil {
		return 0, err
	}
	n := round(r.Mul(r, new(big.Rat).SetInt64(scale)))
	if n < 0 {
		return 0, fmt.Errorf("value %q is out of range", value)
	}
	return n, nil
}

func metricPct(value, unit string) (float64, error) {
	if unit != "%" {
		return 0, fmt.Errorf("unit %q; %% expected", unit)
	}
	r, err := decimal(value)
	if err != nil {
		return 0, err
	}
	f, _ := r.Float64()
	return f, nil
}

// decimal parses "27,380" and "1.14" exactly. Other locales write commas for points; ncu --csv does not.
func decimal(value string) (*big.Rat, error) {
	plain := strings.ReplaceAll(value, ",", "")
	if len(plain) > 30 || strings.Trim(plain, "0123456789.") != "" {
		return nil, fmt.Errorf("value %q is not a number", value)
	}
	r, ok := new(big.Rat).SetString(plain)
	if !ok {
		return nil, fmt.Errorf("value %q is not a number", value)
	}
	return r, nil
}

// LabelNcu names the launches of a sweep: two kernels a call, w13 then w2, calls in the order of tokens.
func LabelNcu(kernels []NcuKernel, tokens ...int) ([]NcuKernel, error) {
	if len(kernels) != 2*len(tokens) {
		return nil, fmt.Errorf("label Nsight Compute kernels: %d launches for %d calls of two kernels each", len(kernels), len(tokens))
	}
	out := append([]NcuKernel(nil), kernels...)
	for i := range out {
		out[i].Tokens, out[i].Part = int64(tokens[i/2]), []string{"w13", "w2"}[i%2]
	}
	return out, nil
}

// NcuTable shows kernels with duration, memory and compute throughput.
func NcuTable(kernels []NcuKernel) data.Table {
	t := data.Table{ID: "micro-ncu", Title: "Kernels under Nsight Compute", Note: "Throughput in percent of the peaks that Nsight Compute knows for the device.",
		Columns: []data.Column{{Head: "Tokens", Numeric: true}, {Head: "Part"}, {Head: "Kernel"}, {Head: "Duration", Unit: "µs", Numeric: true}, {Head: "DRAM", Unit: "GB/s", Numeric: true},
			{Head: "DRAM", Unit: "%", Numeric: true}, {Head: "SM", Unit: "%", Numeric: true}, {Head: "L2 hits", Unit: "%", Numeric: true}, {Head: "Occupancy", Unit: "%", Numeric: true}}}
	for _, k := range kernels {
		tokens := ""
		if k.Tokens > 0 {
			tokens = units.Count(k.Tokens)
		}
		t.Rows = append(t.Rows, data.Row{Component: "moe.experts", Cells: []string{tokens, k.Part, shortName(k.Name), units.Us(k.DurationNs, 1), units.Fixed(k.DRAM, 1e9, 0),
			units.Float(k.DRAMPct, 1), units.Float(k.SMPct, 1), units.Float(k.L2HitPct, 1), units.Float(k.Occupancy, 1)}})
	}
	return t
}
