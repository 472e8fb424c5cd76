// Package micro reads micro-benchmarks: the fused Marlin MoE call at a model's shapes with the ceilings measured beside it,
// all-reduce latency by message size, and Nsight Compute details of kernels. Results are typed, integer where possible,
// and turn into roofline points and tables.
//
// It does not run benchmarks, and it does not judge: ratios and shares come out, verdicts are made elsewhere.
package micro

import (
	"bytes"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/campaign/model"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
	"github.com/rooflab/rooflab/trace/roofline"
	"github.com/tidwall/gjson"
)

// MoE is a sweep of the fused MoE call on one GPU.
type MoE struct {
	Device      string
	Torch, CUDA string
	SMs         int64
	L2Bytes     int64
	MemoryBytes int64
	Ceilings    []roofline.Ceiling // "copy", "read" (bandwidth) and "bf16" (compute), all measured
	Runs        []MoERun
}

// MoERun is one call: its time in a CUDA graph and the mean time of each kernel inside.
type MoERun struct {
	Routing  string // "uniform", "zipf", "same"
	Tokens   int64
	Experts  float64 // distinct experts hit, mean over the routings of the graph
	MedianNs int64   // of the whole call
	MinNs    int64
	MaxNs    int64
	Kernels  []KernelTime // in the order of the file, which is the order of execution
}

// KernelTime is a kernel inside a call.
type KernelTime struct {
	Name  string
	Calls float64 // a call of the fused operator
	Ns    int64   // mean of one launch
}

// LoadMoE reads a file of JSON lines as marlin_moe.py writes them.
func LoadMoE(path string) (MoE, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return MoE{}, fmt.Errorf("read micro-benchmark: %w", err)
	}
	return ReadMoE(filepath.Base(path), raw)
}

// ReadMoE reads the contents of such a file; name stands in errors.
func ReadMoE(name string, raw []byte) (MoE, error) {
	var m MoE
	err := eachLine(name, raw, func(l line) {
		switch kind := l.text("kind"); kind {
		case "ceiling":
			m.ceiling(l)
		case "fused":
			m.Runs = append(m.Runs, fused(l))
		default:
			l.fail("kind", "is %q; \"ceiling\" or \"fused\" expected", kind)
		}
	})
	if err != nil {
		return MoE{}, err
	}
	if len(m.Runs) == 0 {
		return MoE{}, fmt.Errorf("read %s: no line of kind \"fused\"", name)
	}
	return m, nil
}

func (m *MoE) ceiling(l line) {
	m.Device, m.Torch, m.CUDA = l.text("device"), l.text("torch"), l.text("cuda")
	m.SMs, m.L2Bytes, m.MemoryBytes = l.scaled("sms", 1), l.scaled("l2_bytes", 1), l.scaled("mem_bytes", 1)
	m.Ceilings = []roofline.Ceiling{
		{Name: "copy", Kind: roofline.Bandwidth, Value: l.scaled("copy_gb_s", 1e9), Measured: true, Source: l.name + ", 1 GiB copy, bytes read and written"},
		{Name: "read", Kind: roofline.Bandwidth, Value: l.scaled("read_gb_s", 1e9), Measured: true, Source: l.name + ", sum over 1 GiB"},
		{Name: "bf16", Kind: roofline.Compute, Value: l.scaled("bf16_tflops", 1e12), Measured: true, Source: l.name + ", 8192³ matrix product"},
	}
}

func fused(l line) MoERun {
	r := MoERun{Routing: l.text("routing"), Tokens: l.scaled("M", 1), Experts: l.number("distinct_experts"),
		MedianNs: l.scaled("us_p50", 1e3), MinNs: l.scaled("us_min", 1e3), MaxNs: l.scaled("us_max", 1e3)}
	kernels := l.get("kernels")
	if !kernels.IsObject() {
		l.fail("kernels", "an object of kernels is expected")
	}
	kernels.ForEach(func(name, k gjson.Result) bool {
		in := line{Result: k, name: l.name, n: l.n, err: l.err}
		r.Kernels = append(r.Kernels, KernelTime{Name: name.String(), Calls: in.number("n"), Ns: in.scaled("us", 1e3)})
		return true
	})
	return r
}

// spent is the time of a kernel in one call; a kernel need not run in every call.
func (k KernelTime) spent() *big.Rat {
	calls := new(big.Rat).SetFloat64(k.Calls)
	return calls.Mul(calls, new(big.Rat).SetInt64(k.Ns))
}

// ExpertNs returns the time of the grouped GEMMs of one call: the Marlin kernels.
func (r MoERun) ExpertNs() int64 {
	total := new(big.Rat)
	for _, k := range r.Kernels {
		if strings.Contains(k.Name, "Marlin<") {
			total.Add(total, k.spent())
		}
	}
	return round(total)
}

// ExpertBytes returns the weight bytes that the call must read, given the bytes of one expert on a rank.
func (r MoERun) ExpertBytes(expert int64) int64 {
	b := new(big.Rat).SetFloat64(r.Experts)
	return round(b.Mul(b, new(big.Rat).SetInt64(expert)))
}

// Roof returns the measured roof: memory read and bf16.
func (m MoE) Roof() (roofline.Roof, error) {
	var r roofline.Roof
	for _, c := range m.Ceilings {
		switch c.Name {
		case "read":
			r.Bandwidth = c
		case "bf16":
			r.Compute = c
		}
	}
	return roofline.NewRoof(r.Bandwidth, r.Compute)
}

// Run returns the call with the routing and tokens.
func (m MoE) Run(routing string, tokens int64) (MoERun, error) {
	for _, r := range m.Runs {
		if r.Routing == routing && r.Tokens == tokens {
			return r, nil
		}
	}
	return MoERun{}, fmt.Errorf("find micro-benchmark: routing %q with %d tokens was not measured", routing, tokens)
}

// Points returns the grouped GEMMs of one layer under a routing as roofline points, one for each number of tokens.
// The rank gives the FLOP and the bytes of an expert; the bytes of a point are those of the distinct experts hit.
func (m MoE) Points(rank model.Rank, routing string) []roofline.Point {
	var points []roofline.Point
	for _, r := range m.Runs {
		if r.Routing == routing {
			points = append(points, roofline.Point{Label: fmt.Sprintf("M = %d", r.Tokens), FLOP: rank.ExpertFLOP(r.Tokens),
				Bytes: r.ExpertBytes(rank.ExpertBytes()), Ns: r.ExpertNs()})
		}
	}
	return points
}

// Table shows every call.
func (m MoE) Table() data.Table {
	t := data.Table{ID: "micro-moe", Title: "Fused Marlin MoE call on " + m.Device, Note: "Call: median of replays of a CUDA graph with 16 routings; kernels: mean of one launch each.",
		Columns: []data.Column{{Head: "Routing"}, {Head: "Tokens", Numeric: true}, {Head: "Experts hit", Numeric: true}, {Head: "Call", Unit: "µs", Numeric: true},
			{Head: "Least", Unit: "µs", Numeric: true}, {Head: "Most", Unit: "µs", Numeric: true}, {Head: "Expert GEMMs", Unit: "µs", Numeric: true}}}
	for _, r := range m.Runs {
		t.Rows = append(t.Rows, data.Row{Component: "moe.experts", Cells: []string{r.Routing, units.Count(r.Tokens), units.Float(r.Experts, 1),
			units.Us(r.MedianNs, 1), units.Us(r.MinNs, 1), units.Us(r.MaxNs, 1), units.Us(r.ExpertNs(), 1)}})
	}
	return t
}

// KernelTable shows the kernels of one call with their share of its summed kernel time.
func (r MoERun) KernelTable() data.Table {
	t := data.Table{ID: "micro-kernels", Title: fmt.Sprintf("Kernels of one call, %s routing, %d tokens", r.Routing, r.Tokens),
		Columns: []data.Column{{Head: "Kernel"}, {Head: "Launches", Numeric: true}, {Head: "Mean", Unit: "µs", Numeric: true}, {Head: "Share", Unit: "%", Numeric: true}}}
	var total int64
	for _, k := range r.Kernels {
		total += round(k.spent())
	}
	for _, k := range r.Kernels {
		t.Rows = append(t.Rows, data.Row{Cells: []string{shortName(k.Name), units.Float(k.Calls, 0), units.Us(k.Ns, 1), units.Percent(round(k.spent()), total, 1)}})
	}
	return t
}

// shortName drops return type, namespaces and argument list; Marlin keeps its tile sizes apart by its template arguments.
func shortName(name string) string {
	name = strings.TrimPrefix(name, "void ")
	if i := strings.IndexByte(name, '<'); i > 0 {
		args := ""
		if j := strings.IndexByte(name, '>'); strings.Contains(name[:i], "Marlin") && j > i {
			fields := strings.Split(name[i+1:j], ", ")
			args = "<" + strings.Join(fields[min(4, len(fields)):], ", ") + ">"
		}
		name = name[:i] + args
	} else if i := strings.IndexByte(name, '('); i > 0 {
		name = name[:i]
	}
	head, args, _ := strings.Cut(name, "<")
	head = head[strings.LastIndexByte(head, ':')+1:]
	if args != "" {
		return head + "<" + args
	}
	return head
}

func round(r *big.Rat) int64 {
	r.Add(r, big.NewRat(1, 2))
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

// line is one JSON line; the first wrong key becomes the error of the file.
type line struct {
	gjson.Result
	name string
	n    int
	err  *error
}

// eachLine calls do for every JSON line. Lines that start with # are comments.
func eachLine(name string, raw []byte, do func(line)) error {
	var err error
	for i, text := range slices.Collect(bytes.SplitSeq(raw, []byte("\n"))) {
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if !gjson.ValidBytes(text) {
			return fmt.Errorf("read %s:%d: not JSON (a line cut short?)", name, i+1)
		}
		do(line{Result: gjson.ParseBytes(text), name: name, n: i + 1, err: &err})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l line) get(key string) gjson.Result { return l.Result.Get(key) }

func (l line) fail(key, format string, args ...any) {
	if *l.err == nil {
		*l.err = fmt.Errorf("read %s:%d: key %q %s", l.name, l.n, key, fmt.Sprintf(format, args...))
	}
}

func (l line) text(key string) string { return l.get(key).String() }

func (l line) number(key string) float64 {
	v := l.get(key)
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1e18 {
		l.fail(key, "is %s; a number of 0 or more expected", orMissing(v))
		return 0
	}
	return v.Num
}

// scaled returns the number at key times scale, rounded to an integer from its digits.
func (l line) scaled(key string, scale int64) int64 {
	v := l.get(key)
	r, ok := new(big.Rat), v.Type == gjson.Number && len(v.Raw) < 40 && v.Num >= 0 && v.Num < 1e18/float64(scale)
	if ok {
		r, ok = r.SetString(v.Raw)
	}
	if !ok {
		l.fail(key, "is %s; a number of 0 or more expected", orMissing(v))
		return 0
	}
	return round(r.Mul(r, new(big.Rat).SetInt64(scale)))
}

func orMissing(v gjson.Result) string {
	if !v.Exists() {
		return "missing"
	}
	if len(v.Raw) > 40 {
		return v.Raw[:40] + "..."
	}
	return v.Raw
}
