package micro

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// AllReduce is the latency of an all-reduce by message size under one setting of NCCL.
type AllReduce struct {
	Label  string            // what people call it, such as "LL over Ring"; Setting() if empty
	Env    map[string]string // NCCL_* of the process
	Points []AllReducePoint
}

// AllReducePoint is one message size.
type AllReducePoint struct {
	Tokens  int64
	Bytes   int64 // of the message
	GraphNs int64 // in a CUDA graph, one of 20 back to back
	EagerNs int64 // launched one by one
}

// LoadAllReduce reads a file of JSON lines as allreduce.py writes them.
func LoadAllReduce(path string) (AllReduce, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return AllReduce{}, fmt.Errorf("read micro-benchmark: %w", err)
	}
	return ReadAllReduce(filepath.Base(path), raw)
}

// ReadAllReduce reads the contents of such a file; name stands in errors.
func ReadAllReduce(name string, raw []byte) (AllReduce, error) {
	a := AllReduce{Env: map[string]string{}}
	err := eachLine(name, raw, func(l line) {
		if kind := l.text("kind"); kind != "allreduce" {
			l.fail("kind", "is %q; \"allreduce\" expected", kind)
			return
		}
		env := map[string]string{}
		for k, v := range l.get("env").Map() {
			env[k] = v.String()
		}
		if len(a.Points) > 0 && setting(env) != setting(a.Env) {
			l.fail("env", "differs from the lines before; one setting a file is expected")
		}
		a.Env = env
		a.Points = append(a.Points, AllReducePoint{Tokens: l.scaled("tokens", 1), Bytes: l.scaled("bytes", 1),
			GraphNs: l.scaled("us_graph", 1e3), EagerNs: l.scaled("us_eager", 1e3)})
	})
	if err != nil {
		return AllReduce{}, err
	}
	if len(a.Points) == 0 {
		return AllReduce{}, fmt.Errorf("read %s: no measurements", name)
	}
	return a, nil
}

// Setting returns the NCCL variables that matter, sorted: "NCCL_ALGO=Ring NCCL_P2P_DISABLE=1 NCCL_PROTO=LL".
func (a AllReduce) Setting() string { return setting(a.Env) }

func setting(env map[string]string) string {
	var words []string
	for k, v := range env {
		if k != "NCCL_VERSION" { // the image's variable, not read by NCCL
			words = append(words, k+"="+v)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (a AllReduce) name() string {
	if a.Label != "" {
		return a.Label
	}
	return a.Setting()
}

// At returns the measurement of a number of tokens.
func (a AllReduce) At(tokens int64) (AllReducePoint, error) {
	for _, p := range a.Points {
		if p.Tokens == tokens {
			return p, nil
		}
	}
	return AllReducePoint{}, fmt.Errorf("find micro-benchmark: all-reduce of %d tokens was not measured under %s", tokens, a.name())
}

// Ratio returns how many times longer a takes than b at a number of tokens, in a CUDA graph.
func Ratio(a, b AllReduce, tokens int64) (float64, error) {
	pa, err := a.At(tokens)
	if err != nil {
		return 0, err
	}
	pb, err := b.At(tokens)
	if err != nil {
		return 0, err
	}
	if pb.GraphNs == 0 {
		return 0, fmt.Errorf("compare all-reduce: %s took 0 ns at %d tokens", b.name(), tokens)
	}
	return float64(pa.GraphNs) / float64(pb.GraphNs), nil
}

// BusBandwidth returns bytes/s over each link of a ring of ranks as nccl-tests defines it: bytes/time x 2(n-1)/n.
func (p AllReducePoint) BusBandwidth(ranks int64) int64 {
	if ranks < 2 || p.GraphNs == 0 {
		return 0
	}
	return int64(float64(p.Bytes) / float64(p.GraphNs) * 1e9 * 2 * float64(ranks-1) / float64(ranks))
}

// Table shows the latency and bus bandwidth by size on a number of ranks.
func (a AllReduce) Table(ranks int64) data.Table {
	t := data.Table{ID: "micro-allreduce", Title: "All-reduce by message size, " + a.name(), Note: a.Setting(),
		Columns: []data.Column{{Head: "Tokens", Numeric: true}, {Head: "Message", Numeric: true}, {Head: "In a graph", Unit: "µs", Numeric: true},
			{Head: "Eager", Unit: "µs", Numeric: true}, {Head: "Bus", Unit: "GB/s", Numeric: true}}}
	for _, p := range a.Points {
		t.Rows = append(t.Rows, data.Row{Component: "allreduce", Cells: []string{units.Count(p.Tokens), units.Bytes(p.Bytes),
			units.Us(p.GraphNs, 1), units.Us(p.EagerNs, 1), units.Fixed(p.BusBandwidth(ranks), 1e9, 1)}})
	}
	return t
}

// CompareTable puts several settings side by side, times in a CUDA graph; ratios are against the first.
func CompareTable(series ...AllReduce) data.Table {
	t := data.Table{ID: "allreduce-settings", Title: "All-reduce by message size and setting, in a CUDA graph",
		Columns: []data.Column{{Head: "Tokens", Numeric: true}, {Head: "Message", Numeric: true}}}
	if len(series) == 0 {
		return t
	}
	for i, s := range series {
		t.Columns = append(t.Columns, data.Column{Head: s.name(), Unit: "µs", Numeric: true})
		if i > 0 {
			t.Columns = append(t.Columns, data.Column{Head: series[0].name() + " ÷", Unit: "×", Numeric: true})
		}
	}
	for _, p := range series[0].Points {
		row := data.Row{Component: "allreduce", Cells: []string{units.Count(p.Tokens), units.Bytes(p.Bytes)}}
		for i, s := range series {
			q, err := s.At(p.Tokens)
			switch {
			case err != nil:
				row.Cells = append(row.Cells, "not measured", "")
			case i == 0:
				row.Cells = append(row.Cells, units.Us(q.GraphNs, 1))
			default:
				row.Cells = append(row.Cells, units.Us(q.GraphNs, 1), units.Ratio(p.GraphNs, q.GraphNs, 2))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
