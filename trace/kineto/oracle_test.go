package kineto_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/kineto"
)

// reference is the part of a *.reader.json (or public expected/*.json) that is compared; times are decimal microseconds.
type reference struct {
	Events         int         `json:"events"`
	Kernels        int         `json:"kernels"`
	Memcpys        int         `json:"memcpys"`
	Memsets        int         `json:"memsets"`
	KernelSum      json.Number `json:"kernel_sum_us"`
	Busy           json.Number `json:"gpu_busy_us"`
	Idle           json.Number `json:"gpu_idle_us"`
	KernelLaunches int         `json:"kernel_launches"`
	GraphLaunches  int         `json:"graph_launches"`
	Linked         int         `json:"kernels_linked"`
	FromGraph      int         `json:"kernels_from_graph"`
	Names          int         `json:"distinct_kernel_names"`
}

// figures computes the same from a Rank, per device as the reference does.
func figures(r *trace.Rank) reference {
	f := reference{Events: r.Events, KernelLaunches: r.KernelLaunches, GraphLaunches: r.GraphLaunches}
	var sum int64
	names := map[int32]bool{}
	perDevice := make([][]trace.Interval, len(r.Devices))
	for _, k := range r.Kernels {
		perDevice[k.Device] = append(perDevice[k.Device], trace.Interval{Start: k.Start, End: k.End()})
		switch k.Kind {
		case trace.KindMemcpy:
			f.Memcpys++
			continue
		case trace.KindMemset:
			f.Memsets++
			continue
		}
		f.Kernels++
		sum += k.Dur
		names[k.Name] = true
		if k.Flags&trace.Linked != 0 {
			f.Linked++
		}
		if k.Graph() {
			f.FromGraph++
		}
	}
	f.Names = len(names)
	var busy, idle int64
	for _, ivs := range perDevice {
		u := trace.Union(ivs)
		lo, hi := ivs[0].Start, ivs[0].End
		for _, iv := range ivs {
			lo, hi = min(lo, iv.Start), max(hi, iv.End)
		}
		busy += trace.Total(u)
		idle += hi - lo - trace.Total(u)
	}
	f.KernelSum, f.Busy, f.Idle = us(sum), us(busy), us(idle)
	return f
}

// us writes ns as the shortest decimal number of microseconds, as Python prints it.
func us(ns int64) json.Number {
	whole, frac := ns/1000, ns%1000
	text := strings.TrimRight(json.Number(padded(frac)).String(), "0")
	if text == "" {
		text = "0"
	}
	b, _ := json.Marshal(whole)
	return json.Number(string(b) + "." + text)
}

func padded(n int64) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func normal(n json.Number) json.Number {
	s := n.String()
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return json.Number(s)
}

func readReference(t *testing.T, path string) reference {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want reference
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	want.KernelSum, want.Busy, want.Idle = normal(want.KernelSum), normal(want.Busy), normal(want.Idle)
	return want
}

func TestReaderAgreesWithReferenceReader(t *testing.T) {
	shared := sharedtest.Dir(t)
	files, _ := filepath.Glob(filepath.Join(shared, "campaign/expected/*.reader.json"))
	for _, dir := range []string{"public", "h200"} {
		more, _ := filepath.Glob(filepath.Join(shared, "traces", dir, "expected/*.json"))
		files = append(files, more...)
	}
	compared := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		path := filepath.Join(filepath.Dir(filepath.Dir(file)), name+".json.gz")
		if run, ok := strings.CutSuffix(name, ".reader"); ok {
			run, c, _ := strings.Cut(run, "_c")
			path = filepath.Join(shared, "campaign", run, "c"+c+".pt.trace.json.gz")
		}
		if _, err := os.Stat(path); err != nil {
			path = strings.TrimSuffix(path, ".gz")
			if _, err := os.Stat(path); err != nil {
				continue // published_tools.json, components_tracelens.json
			}
		}
		want := readReference(t, file)
		t.Run(name, func(t *testing.T) {
			got, err := kineto.ReadFile(path)
			var none *kineto.NoGPUError
			if want.Kernels == 0 && want.Memcpys+want.Memsets == 0 {
				if want.Events > 0 && !errors.As(err, &none) {
					t.Fatalf("a trace without GPU events gave error %v", err)
				}
				if got == nil {
					return
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if f := figures(got); f != want {
				t.Errorf("got  %+v\nwant %+v", f, want)
			}
		})
		compared++
	}
	if compared < 50 {
		t.Errorf("compared %d files, expected at least 50", compared)
	}
}
