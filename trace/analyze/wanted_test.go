package analyze_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
	"github.com/rooflab/rooflab/trace/kineto"
)

var showWanted = flag.Bool("wanted", false, "print the rows that testdata/wanted.txt needs, without reasons")

// row is a line of testdata/wanted.txt: trace, figure, ours, expected, reason, with tabs between them. The figure "-" says that
// there is nothing to compare the trace with, "refused" that we do not read it.
type row struct{ trace, figure, ours, expected string }

func (r row) String() string {
	return strings.Join([]string{r.trace, r.figure, r.ours, r.expected}, "\t")
}

// readWanted reads the table of differences that are wanted; each needs a reason.
func readWanted(t *testing.T) map[row]bool {
	t.Helper()
	raw, err := os.ReadFile("testdata/wanted.txt")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[row]bool{}
	for n, l := range strings.Split(strings.TrimRight(string(raw), "\n"), "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		f := strings.Split(l, "\t")
		if len(f) != 5 || strings.TrimSpace(f[4]) == "" {
			t.Fatalf("testdata/wanted.txt:%d: %d fields; expected trace, figure, ours, expected, reason", n+1, len(f))
		}
		wanted[row{f[0], f[1], f[2], f[3]}] = true
	}
	return wanted
}

// TestEveryFigureOfEveryTrace compares each figure that an expected file of ../shared has with ours, to the last ns. It fails for
// a difference that testdata/wanted.txt does not have, for a row there that is none any more, and for a trace without expected
// file that is not listed.
func TestEveryFigureOfEveryTrace(t *testing.T) {
	shared := sharedtest.Dir(t)
	wanted := readWanted(t)
	var found []row
	compared, figures := 0, 0
	for _, path := range sharedTraces(t, shared) {
		name, _ := filepath.Rel(shared, path)
		name = filepath.ToSlash(name)
		want := expectedOf(t, shared, name)
		if want == nil {
			found = append(found, row{name, "-", "-", "-"})
			continue
		}
		got := figuresOf(t, path, name, want)
		if got == nil {
			found = append(found, row{name, "refused", "-", "-"})
			continue
		}
		compared++
		figures += len(want)
		for _, f := range slices.Sorted(maps.Keys(want)) {
			if ours := got[f]; !same(f, ours, want[f]) {
				found = append(found, row{name, f, ours, want[f]})
			}
		}
	}
	for _, r := range found {
		if *showWanted {
			fmt.Println(r)
		}
		if !wanted[r] {
			t.Errorf("not in testdata/wanted.txt: %s", r)
		}
		delete(wanted, r)
	}
	for r := range wanted {
		t.Errorf("in testdata/wanted.txt, and no longer so: %s", r)
	}
	t.Logf("%d figures of %d traces", figures, compared)
	if compared < 70 || figures < 4000 {
		t.Errorf("%d figures of %d traces were compared; there are more", figures, compared)
	}
}

// same compares a figure: times to 1 ns, because some expected files were rounded from floats; times of another tool, which are
// sums of up to four figures with four decimals of ms, to 200 ns; all else exactly.
func same(figure, ours, want string) bool {
	tolerance := new(big.Rat)
	switch {
	case strings.HasSuffix(figure, "_us"):
		tolerance.SetFrac64(1, 1000)
	case strings.HasPrefix(figure, "tracelens."):
		tolerance.SetFrac64(2, 10_000)
	}
	x, okX := new(big.Rat).SetString(ours)
	y, okY := new(big.Rat).SetString(want)
	if !okX || !okY {
		return ours == want
	}
	return x.Sub(x, y).Abs(x).Cmp(tolerance) <= 0
}

// sharedTraces lists the profiler traces below shared/traces and shared/campaign.
func sharedTraces(t *testing.T, shared string) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"traces", "campaign"} {
		err := filepath.WalkDir(filepath.Join(shared, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "expected" || d.Name() == "nsys"):
				return fs.SkipDir
			case strings.HasSuffix(path, ".json.gz"),
				dir == "traces" && filepath.Ext(path) == ".json" && d.Name() != "expected.json":
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// expectedOf gathers what the expected files say about a trace, by figure; nil when there is none.
func expectedOf(t *testing.T, shared, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	dir, file := filepath.Split(filepath.Join(shared, filepath.FromSlash(name)))
	base := strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".json")
	switch {
	case strings.HasPrefix(name, "traces/vllm-cpu/"):
		flattenServer(t, filepath.Join(shared, "traces/vllm-cpu/expected.json"), strings.TrimPrefix(name, "traces/vllm-cpu/"), out)
	case strings.HasPrefix(name, "campaign/"):
		run := filepath.Base(dir)
		base = strings.TrimSuffix(base, ".pt.trace")
		flattenReader(t, filepath.Join(shared, "campaign/expected", run+"_"+base+".reader.json"), out)
		load, rank, _ := strings.Cut(base, "_rank")
		flattenComponents(t, filepath.Join(shared, "campaign/expected", run+"_"+load+"_rank0.components.json"), "rank"+rank, out)
	default:
		flattenReader(t, filepath.Join(dir, "expected", base+".json"), out)
		flattenTraceLens(t, filepath.Join(dir, "expected/components_tracelens.json"), base, out)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// decode reads a JSON file without losing digits; false when there is none.
func decode(t *testing.T, path string, v any) bool {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return true
}

// figuresOf computes ours; nil for a file that is refused. The names of figures are those of the expected files.
func figuresOf(t *testing.T, path, name string, want map[string]string) map[string]string {
	t.Helper()
	r, err := kineto.ReadFile(path)
	var none *kineto.NoGPUError
	if r == nil {
		return nil
	}
	if err != nil && !errors.As(err, &none) {
		t.Errorf("%s: %v", name, err)
	}
	out := map[string]string{}
	cls := classify.Run(r)
	readerFigures(r, cls, out)
	stepFigures(r, out)
	of := breakdown.Of(r, cls)
	componentFigures(of, r, want, out)
	pairFigures(t, path, want, out)
	return out
}

// setInt sets a figure to a whole number.
func setInt(out map[string]string, figure string, n int64) { out[figure] = fmt.Sprint(n) }

// stepFigures names each step as the CPU saw it; times count from the first one.
func stepFigures(r *trace.Rank, out map[string]string) {
	setInt(out, "rank", int64(r.Rank))
	setInt(out, "world_size", int64(r.WorldSize))
	setInt(out, "steps", int64(len(r.Steps)))
	for i, s := range r.Steps {
		out[fmt.Sprintf("steps.%d.name", i)] = s.Name
		out[fmt.Sprintf("steps.%d.ts_us", i)] = string(us(s.CPUStart - r.Steps[0].CPUStart))
		out[fmt.Sprintf("steps.%d.dur_us", i)] = string(us(s.CPUDur))
	}
}

// flattenServer reads the entry of one trace of a server on CPU.
func flattenServer(t *testing.T, path, name string, out map[string]string) {
	t.Helper()
	var all map[string]json.RawMessage
	decode(t, path, &all)
	var e struct {
		Events    json.Number
		Rank      *json.Number
		WorldSize *json.Number `json:"world_size"`
		Steps     []struct {
			Name string
			Ts   json.Number `json:"ts_us"`
			Dur  json.Number `json:"dur_us"`
		}
	}
	if all[name] == nil {
		return
	}
	if err := json.Unmarshal(all[name], &e); err != nil {
		t.Fatal(err)
	}
	out["events"] = string(e.Events)
	if e.Rank != nil {
		out["rank"] = string(*e.Rank)
	}
	if e.WorldSize != nil {
		out["world_size"] = string(*e.WorldSize)
	}
	out["steps"] = fmt.Sprint(len(e.Steps))
	for i, s := range e.Steps {
		out[fmt.Sprintf("steps.%d.name", i)] = s.Name
		out[fmt.Sprintf("steps.%d.ts_us", i)] = string(normal(s.Ts))
		out[fmt.Sprintf("steps.%d.dur_us", i)] = string(normal(s.Dur))
	}
}
