package perfetto_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
	"github.com/rooflab/rooflab/trace/perfetto"
)

// event is one event of the format; pointers tell what is there.
type event struct {
	Ph   string       `json:"ph"`
	Name *string      `json:"name"`
	Cat  string       `json:"cat"`
	Pid  *int         `json:"pid"`
	Tid  *int         `json:"tid"`
	Ts   *json.Number `json:"ts"`
	Dur  *json.Number `json:"dur"`
	Args struct {
		Name, Kernel, Part string
		Layer, Step        *int
	} `json:"args"`
}

type document struct {
	Base   int64   `json:"baseTimeNanoseconds"`
	Events []event `json:"traceEvents"`
}

func write(t *testing.T, ranks ...*trace.Rank) []byte {
	t.Helper()
	var cls []*classify.Result
	for _, r := range ranks {
		cls = append(cls, classify.Run(r))
	}
	var b bytes.Buffer
	if err := perfetto.Write(&b, ranks, cls); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parse(t *testing.T, raw []byte) document {
	t.Helper()
	var d document
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// ns reads microseconds that must have three decimals.
func ns(t *testing.T, n *json.Number) int64 {
	t.Helper()
	if n == nil {
		t.Fatal("an X event without ts or dur")
	}
	whole, frac, _ := strings.Cut(n.String(), ".")
	v, err := strconv.ParseInt(whole+frac, 10, 64)
	if err != nil || len(frac) != 3 {
		t.Fatalf("time %s: three decimals wanted", n)
	}
	return v
}

func campaign(t *testing.T, file string) *trace.Rank {
	t.Helper()
	r, err := kineto.ReadFile(filepath.Join(sharedtest.Dir(t), "campaign", file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEveryEventIsThereExactly reads a written trace back: the form of each event, each kernel with its time to the ns, its
// component and name, and tracks on which nothing overlaps.
func TestEveryEventIsThereExactly(t *testing.T) {
	one := campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz")
	two := campaign(t, "hostmem-graph-uniform/c64_rank1.pt.trace.json.gz")
	d := parse(t, write(t, one, two))
	type key struct {
		start, dur int64 // unix ns
		kernel     string
	}
	want := map[key]int{}
	components := map[string]int64{}
	for _, r := range []*trace.Rank{one, two} {
		cls := classify.Run(r)
		for i, k := range r.Kernels {
			want[key{k.Start + r.BaseNs, k.Dur, r.Name(k)}]++
			components[cls.Label(i).Component] += k.Dur
		}
	}
	ends := map[[2]int]int64{}
	tracks := map[string]int{}
	steps, layers, first := 0, 0, int64(-1)
	for i, e := range d.Events {
		if e.Name == nil || e.Pid == nil || e.Tid == nil || e.Ph != "X" && e.Ph != "M" {
			t.Fatalf("event %d: %+v", i, e)
		}
		if e.Ph == "M" {
			if *e.Name == "thread_name" {
				tracks[e.Args.Name]++
			}
			continue
		}
		start, dur := ns(t, e.Ts), ns(t, e.Dur)
		if first < 0 || start < first {
			first = start
		}
		track := [2]int{*e.Pid, *e.Tid}
		if start < ends[track] || dur < 0 {
			t.Fatalf("event %d begins at %d, before the one before it on its track ends (%d)", i, start, ends[track])
		}
		ends[track] = start + dur
		switch e.Cat {
		case "step":
			steps++
		case "layer":
			layers++
		default:
			want[key{start + d.Base, dur, e.Args.Kernel}]--
			components[e.Cat] -= dur
			if *e.Name != e.Cat || e.Args.Step == nil {
				t.Fatalf("event %d: %+v", i, e)
			}
		}
	}
	for k, n := range want {
		if n != 0 {
			t.Fatalf("%+v: %d times too few", k, n)
		}
	}
	for c, left := range components {
		if left != 0 {
			t.Errorf("%s: %d ns are missing", c, left)
		}
	}
	if steps != 20 || layers != 2*10*61 || first != 0 || tracks["steps"] != 2 || tracks["layers"] != 2 || tracks["stream 17"] != 2 {
		t.Errorf("%d steps, %d layers, first event at %d, tracks %v", steps, layers, first, tracks)
	}
}

// TestOurReaderReadsIt: the reader finds a whole file with all events, none of a category that it takes for GPU work of its own.
func TestOurReaderReadsIt(t *testing.T) {
	raw := write(t, campaign(t, "hostmem-graph-uniform/c64_rank0.pt.trace.json.gz"))
	r, err := kineto.Read(bytes.NewReader(raw), "written.json")
	var none *kineto.NoGPUError
	if !errors.As(err, &none) {
		t.Fatal(err)
	}
	if n := len(parse(t, raw).Events); r.Events != n || n < 22180+10+610 {
		t.Errorf("the reader sees %d of %d events", r.Events, n)
	}
}

func TestSameRankSameBytes(t *testing.T) {
	r := campaign(t, "hostmem-graph-uniform/c256_rank0.pt.trace.json.gz")
	if !bytes.Equal(write(t, r), write(t, r)) {
		t.Error("two writes differ")
	}
}

// TestOddRanks: names that need quotes, kernels that overlap on a stream, several devices, no base time, nothing at all.
func TestOddRanks(t *testing.T) {
	var b trace.Builder
	for i, k := range []trace.Kernel{{Start: -2500, Dur: 1000}, {Start: -2000, Dur: 1}, {Start: -1500, Dur: 7}, {Start: 12345678, Dur: 0}} {
		k.Name, k.Stream, k.Device = b.Name("a\"\\\n<b>\xff"), b.Stream("7\""), b.Device(fmt.Sprint(i/3))
		b.Add(k)
	}
	d := parse(t, write(t, b.Build()))
	var got []string
	for _, e := range d.Events {
		if e.Ph == "X" {
			got = append(got, fmt.Sprintf("%d/%d %s+%s", *e.Pid, *e.Tid, *e.Ts, *e.Dur))
			if e.Args.Kernel != "a\"\\\n<b>\ufffd" {
				t.Errorf("kernel %q", e.Args.Kernel)
			}
		}
	}
	if want := "1/1 0.000+1.000, 1/2 0.500+0.001, 1/1 1.000+0.007, 2/3 12348.178+0.000"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if d.Base != 0 {
		t.Errorf("base time %d out of nothing", d.Base)
	}
	var empty trace.Builder
	if d := parse(t, write(t, empty.Build())); len(d.Events) != 0 {
		t.Errorf("%+v", d.Events)
	}
	if d := parse(t, write(t)); len(d.Events) != 0 {
		t.Errorf("%+v", d.Events)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestFullDiskIsAnError(t *testing.T) {
	r := campaign(t, "hostmem-graph-uniform/c256_rank0.pt.trace.json.gz")
	err := perfetto.Write(full{}, []*trace.Rank{r}, []*classify.Result{classify.Run(r)})
	if err == nil || !strings.Contains(err.Error(), "write the Perfetto trace: no space left") {
		t.Error(err)
	}
}
