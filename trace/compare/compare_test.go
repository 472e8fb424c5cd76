package compare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/golden"
	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/compare"
	"github.com/rooflab/rooflab/trace/kineto"
)

const c64 = "c64_rank0.pt.trace.json.gz"

const prefillOnly = `{"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"execute_context_1(8)_generation_0(0)","pid":9,"tid":9,"ts":1,"dur":20},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":2,"dur":1,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":11,"dur":10,"args":{"device":0,"stream":7,"correlation":1}}]}`

// run is a folder or a file of the recorded campaign.
func run(name ...string) string {
	return filepath.Join(append([]string{sharedtest.Root(), "data", "campaigns", "h200x2-kimi-k2.5-int4", "runs"}, name...)...)
}

func paths(t *testing.T, a, b string, o compare.Options) *compare.Report {
	t.Helper()
	r, err := compare.Paths(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func find(t *testing.T, s compare.Section, name string) compare.Row {
	t.Helper()
	for _, r := range s.Rows {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no row %s", name)
	return compare.Row{}
}

func text(r *compare.Report) string {
	var parts []string
	for _, t := range r.Tables() {
		parts = append(parts, t.Text()+"\n")
	}
	return strings.Join(parts, "\n")
}

// What people see: a router that does not collapse, NVLink instead of host memory, no CUDA graphs; parts; kernels; two traces.
func TestTables(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		o    compare.Options
	}{
		"routing":       {run("hostmem-graph"), run("hostmem-graph-uniform"), compare.Options{}},
		"nvlink":        {run("hostmem-graph"), run("nvlink-graph"), compare.Options{}},
		"eager":         {run("hostmem-graph"), run("hostmem-eager"), compare.Options{}},
		"nvlink.part":   {run("hostmem-graph"), run("nvlink-graph"), compare.Options{By: compare.ByPart, Alpha: 0.001}},
		"nvlink.kernel": {run("hostmem-graph"), run("nvlink-graph"), compare.Options{By: compare.ByKernel}},
		"c1.c64":        {run("hostmem-graph-uniform", "c1_rank0.pt.trace.json.gz"), run("hostmem-graph-uniform", c64), compare.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(paths(t, c.a, c.b, c.o))
			golden.Check(t, name+".golden", got)
			if strings.Contains(got, sharedtest.Root()) {
				t.Error("the text holds an absolute path")
			}
		})
	}
}

// The means of the bottleneck tables, 4.88 and 20.02 ms, are the sums here by their steps.
func TestUniformRoutingShowsInTheExpertGEMMs(t *testing.T) {
	r := paths(t, run("hostmem-graph"), run("hostmem-graph-uniform"), compare.Options{})
	if len(r.Sections) != 2 || r.Sections[0].Load != "C = 64" || r.Sections[1].Rank != 1 {
		t.Fatalf("sections: %+v", r.Sections)
	}
	s := r.Sections[0]
	e := find(t, s, "moe.experts")
	if a, b := e.A.SumNs/int64(s.NA), e.B.SumNs/int64(s.NB); (a+5000)/10000 != 488 || (b+5000)/10000 != 2002 {
		t.Errorf("mean step %d and %d ns, want 4.88 and 20.02 ms", a, b)
	}
	if s.Rows[0].Name != "moe.experts" || !e.Significant || e.ChangeNs != e.B.MedianNs-e.A.MedianNs {
		t.Errorf("the largest change is %+v", s.Rows[0])
	}
	if !strings.Contains(text(r), "$VLLM_MOE_ROUTING_SIMULATION_STRATEGY") {
		t.Error("the variable that differs is not named")
	}
	for i, row := range s.Rows[1:] {
		if before := s.Rows[i].ChangeNs; max(row.ChangeNs, -row.ChangeNs) > max(before, -before) {
			t.Errorf("%s is not sorted by absolute change", row.Name)
		}
	}
}

// Rows of any kind add up to the summed time, busy and idle to the step, in exact ns.
func TestSumsAddUp(t *testing.T) {
	for _, by := range []string{compare.ByComponent, compare.ByPart, compare.ByKernel} {
		s := paths(t, run("hostmem-graph"), run("nvlink-graph"), compare.Options{By: by}).Sections[0]
		var a, b int64
		for _, r := range s.Rows {
			a += r.A.SumNs
			b += r.B.SumNs
			if r.P <= 0 || r.P > 1 { // with many ties the exact test rounds to 0
				t.Errorf("%s: p = %v", r.Name, r.P)
			}
		}
		sum := map[string]compare.Row{}
		for _, r := range s.Sums {
			sum[r.Name] = r
		}
		if a != sum["summed"].A.SumNs || b != sum["summed"].B.SumNs {
			t.Errorf("by %s: rows make %d and %d, summed is %d and %d", by, a, b, sum["summed"].A.SumNs, sum["summed"].B.SumNs)
		}
		if sum["summed"].A.SumNs-sum["overlap"].A.SumNs != sum["busy"].A.SumNs || sum["busy"].A.SumNs+sum["idle"].A.SumNs != sum["step"].A.SumNs {
			t.Errorf("by %s: the sums of A do not add up: %+v", by, s.Sums)
		}
	}
}

func TestTheSameRunShowsNoChange(t *testing.T) {
	r := paths(t, run("hostmem-graph-uniform"), run("hostmem-graph-uniform"), compare.Options{})
	if len(r.Sections) != 4 || len(r.Differences) != 0 {
		t.Errorf("%d sections, differences %+v", len(r.Sections), r.Differences)
	}
	for _, s := range r.Sections {
		for _, row := range append(s.Rows, s.Sums...) {
			if row.Significant || row.ChangeNs != 0 || row.P != 1 {
				t.Errorf("%s: %+v", s.Load, row)
			}
		}
		if s.Slower(0) {
			t.Errorf("%s: the step is said to be slower", s.Load)
		}
	}
	for _, table := range r.Tables()[:4] {
		for _, row := range table.Rows {
			if row.Cells[5] != "~" || row.Cells[6] != "~" {
				t.Errorf("%s: %q", table.Title, row.Cells)
			}
		}
	}
}

func TestSlowerNeedsBothTheLimitAndSignificance(t *testing.T) {
	slower := paths(t, run("hostmem-graph", c64), run("hostmem-graph-uniform", c64), compare.Options{}).Sections[0]
	if !slower.Slower(45) || slower.Slower(46) { // +45.0 %
		t.Errorf("a step of %+v", slower.Step())
	}
	few := paths(t, run("hostmem-graph", c64), run("hostmem-eager", c64), compare.Options{Alpha: 0.001}).Sections[0]
	if few.Slower(0) || few.Step().ChangeNs < 3e8 { // three steps cannot reach that level
		t.Errorf("a step of %+v", few.Step())
	}
	faster := paths(t, run("hostmem-graph", c64), run("nvlink-graph", c64), compare.Options{}).Sections[0]
	if faster.Slower(0) {
		t.Errorf("a step of %+v", faster.Step())
	}
}

func TestSeveralFilesAreMatchedByLoadAndRank(t *testing.T) {
	join := func(sep string, names ...string) string {
		for i, n := range names {
			names[i] = run("hostmem-graph-uniform", n+".pt.trace.json.gz")
		}
		return strings.Join(names, sep)
	}
	r := paths(t, join("+", "c64_rank1", "c1_rank0", "c64_rank0"), join(",", "c64_rank0", "c256_rank0", "c64_rank1"), compare.Options{})
	if len(r.Sections) != 2 || r.Sections[0].FileB != c64 || r.Sections[1].FileA != "c64_rank1.pt.trace.json.gz" {
		t.Errorf("%+v", r.Sections)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "C = 1, rank 0 is only in A; C = 256, rank 0 is only in B") {
		t.Errorf("notes: %s", notes)
	}
}

// A load whose window caught no decoding, such as one of prefill only, does not stop the others.
func TestLoadsWithoutDecodeStepsAreNamed(t *testing.T) {
	uniform, dir := run("hostmem-graph-uniform"), t.TempDir()
	for _, name := range []string{"run.json", c64, "c64_rank1.pt.trace.json.gz", "c1_rank0.pt.trace.json.gz"} {
		b, err := os.ReadFile(filepath.Join(uniform, name))
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "c256_rank0.pt.trace.json.gz"), []byte(prefillOnly), 0o644); err != nil {
		t.Fatal(err)
	}
	r := paths(t, dir, uniform, compare.Options{})
	if notes := strings.Join(r.Notes, "\n"); len(r.Sections) != 3 || !strings.Contains(notes, "c256_rank0.pt.trace.json.gz has no whole decode steps, it holds 1 prefill") {
		t.Errorf("%d sections, notes: %s", len(r.Sections), notes)
	}
}

func TestReportIsTheSameEveryTime(t *testing.T) {
	var first []byte
	for range 2 {
		got, err := json.Marshal(paths(t, run("hostmem-graph"), run("hostmem-eager"), compare.Options{By: compare.ByKernel}))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, got) {
			t.Fatal("the same input gives other bytes")
		}
		first = got
	}
}

func TestMistakesAreNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("broken/run.json", "{")
	write("newer/run.json", `{"schema":99}`)
	write("bare/run.json", `{"schema":1,"rounds":[{"streams":1}]}`)
	prefill := write("prefill.json", prefillOnly)
	for _, c := range []struct{ a, b, want string }{
		{filepath.Join(dir, "none.json"), run("hostmem-graph"), "none.json: no such file or folder"},
		{dir, run("hostmem-graph"), "not the folder of a run"},
		{run("hostmem-graph"), run("..") + string(filepath.Separator), "it is a campaign, so give one of its runs"},
		{filepath.Join(dir, "broken"), run("hostmem-graph"), "unexpected end of JSON input"},
		{filepath.Join(dir, "newer"), run("hostmem-graph"), "schema 99 is newer"},
		{filepath.Join(dir, "bare"), run("hostmem-graph"), "the run holds no traces"},
		{run("hostmem-graph-uniform", "c1_rank0.pt.trace.json.gz"), run("hostmem-graph"), "no load was traced on the same rank of both"},
		{prefill, run("hostmem-graph", c64), "no whole decode steps"},
		{run("hostmem-graph", c64) + "+" + run("hostmem-graph-uniform", c64), run("hostmem-graph"), "are both rank 0 at C = 64"},
		{"", run("hostmem-graph"), "empty name"},
	} {
		r, err := compare.Paths(c.a, c.b, compare.Options{})
		if r != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.a, c.b, err, c.want)
		}
	}
	for _, o := range []compare.Options{{By: "layer"}, {Alpha: 1}, {Alpha: -1}} {
		if _, err := compare.Paths(prefill, prefill, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestTruncatedTraceIsComparedAndSaid(t *testing.T) {
	whole, err := os.ReadFile(run("hostmem-graph", c64))
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(t.TempDir(), "rank0.json.gz")
	if err := os.WriteFile(half, whole[:len(whole)*3/4], 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := compare.Paths(run("hostmem-graph", c64), half, compare.Options{})
	var cut *kineto.TruncatedError
	if r == nil || !errors.As(err, &cut) {
		t.Fatalf("report %v, %v", r, err)
	}
	if c := strings.Join(r.Cautions, "\n"); !strings.Contains(c, "data loss") {
		t.Errorf("cautions: %s", c)
	}
}

// A copy of a run with other figures around the same trace: engine, load and host differ, the profiler disturbed, and a
// flag may be written in several ways.
func TestWhatElseDiffersIsFound(t *testing.T) {
	trace, err := os.ReadFile(run("nvlink-graph", c64))
	if err != nil {
		t.Fatal(err)
	}
	folder := func(manifest, record string) string {
		dir := t.TempDir()
		at := filepath.Join(dir, "runs", "x")
		if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(manifest), 0o644),
			os.WriteFile(filepath.Join(at, "run.json"), []byte(record), 0o644), os.WriteFile(filepath.Join(at, c64), trace, 0o644)); err != nil {
			t.Fatal(err)
		}
		return at
	}
	a := folder(`{"schema":1,"hardware":{"driver":"570.1","nccl":"2.27"}}`, `{"schema":1,"name":"a","environment":{"engine":"vllm","version":"0.23.0","args":["vllm","serve","m","--max_num_seqs=8","--kv-cache-dtype","fp8"],"env":{"X":"1"}},
"rounds":[{"streams":64,"input_tokens":128,"unprofiled":{"steady_itl_ns":10000000},"traces":[{"path":"../../../etc/`+c64+`","rank":0}]}]}`)
	b := folder(`{"schema":1,"hardware":{"driver":"580.2"}}`, `{"schema":1,"name":"b","environment":{"engine":"vllm","version":"0.24.0","args":["vllm","serve","m","--max-num-seqs","8"],"env":{"X":"1"},"routing":"`+strings.Repeat("long ", 20)+`"},
"rounds":[{"streams":64,"input_tokens":512,"unprofiled":{"steady_itl_ns":13000000},"traces":[{"path":"runs/x/`+c64+`","rank":0}]}]}`)
	r := paths(t, a, b, compare.Options{})
	want := []compare.Difference{
		{Kind: compare.Setting, What: "engine version", A: "0.23.0", B: "0.24.0"},
		{Kind: compare.Setting, What: "--kv-cache-dtype", A: "fp8", B: "not set"},
		{Kind: compare.Setting, What: "driver", A: "570.1", B: "580.2"},
		{Kind: compare.Load, What: "prompt tokens a request", A: "128", B: "512"},
		{Kind: compare.Missing, What: "routing", A: "not recorded", B: strings.Repeat("long ", 20)},
		{Kind: compare.Missing, What: "NCCL", A: "2.27", B: "not recorded"},
	}
	if d := cmp.Diff(want, r.Differences); d != "" {
		t.Error(d)
	}
	cautions := strings.Join(r.Cautions, "\n")
	for _, s := range []string{"3 settings differ (engine version, --kv-cache-dtype, driver)", "not do the same work (prompt tokens a request)", "one side only may differ (routing, NCCL)",
		"A (x/" + c64 + "): the profiler changed the step: 13.15 ms with it, 10.00 ms without."} {
		if !strings.Contains(cautions, s) {
			t.Errorf("no %q in\n%s", s, cautions)
		}
	}
	if all := text(r); !strings.Contains(all, "long long…") || strings.Contains(all, strings.Repeat("long ", 9)) {
		t.Errorf("a long value is not cut in\n%s", all)
	}
	if strings.Contains(cautions, "B (x/") {
		t.Errorf("13.15 ms is within 5 %% of 13 ms:\n%s", cautions)
	}
}

// TestIdleIsNeverNegative: steps overlap on the GPU, so that the first one is busy for longer than it lasts.
func TestIdleIsNeverNegative(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank0.json")
	text := `{"traceEvents":[`
	for i, k := range []string{`"ts":100,"dur":90`, `"ts":120,"dur":30`, `"ts":300,"dur":10`} {
		text += fmt.Sprintf(`{"ph":"X","cat":"user_annotation","name":"step[DECODE bs=2]","pid":9,"tid":9,"ts":%d,"dur":5},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":%d,"dur":1,"args":{"correlation":%d}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,%s,"args":{"device":0,"stream":%d,"correlation":%d}},`, 10*i, 10*i+1, i+1, k, 7+i, i+1)
	}
	if err := os.WriteFile(path, []byte(strings.TrimSuffix(text, ",")+`]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := compare.Paths(path, path, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Steps last 20, 180 and 10 µs; nothing runs from 190 to 300. Of the 130 µs of kernels 30 run beside others.
	idle, busy := r.Sections[0].Sums[3], r.Sections[0].Sums[2]
	if idle.Name != "idle" || idle.A.SumNs != 110_000 || idle.A.MedianNs != 0 || busy.A.SumNs != 100_000 || r.Sections[0].Sums[1].A.SumNs != 30_000 {
		t.Errorf("%+v %+v", idle, busy)
	}
	if _, err := compare.Paths(path, path, compare.Options{MaxEventBytes: 20}); err == nil || !strings.Contains(err.Error(), "larger than 20 bytes") {
		t.Error(err)
	}
}

// TestStepsWithoutMarksAreCompared: the steps of both traces are found by repetition.
func TestStepsWithoutMarksAreCompared(t *testing.T) {
	var paths []string
	for _, dur := range []int{5, 6} {
		text := `{"traceEvents":[`
		for i := range 72 {
			text += fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"kernel_%d","pid":0,"tid":7,"ts":%d,"dur":%d},`, i%12, 10*i, dur)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprintf("rank0.%d.json", dur))
		if err := os.WriteFile(path, []byte(strings.TrimSuffix(text, ",")+`]}`), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	r, err := compare.Paths(paths[0], paths[1], compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sections[0]
	if s.NA != 6 || s.Kind != "unknown" || s.Sums[0].ChangeNs != 12_000 || !strings.Contains(r.Tables()[0].Note, "n = 6 whole steps") {
		t.Errorf("%+v\n%s", s, r.Tables()[0].Note)
	}
}
