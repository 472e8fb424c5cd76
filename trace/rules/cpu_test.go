package rules

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/trace/analyze"
)

// TestRecordsOfCPUTracesAddUpAndSpeakOfNoGPU goes from traces of a real server on CPUs to what a site shows.
func TestRecordsOfCPUTracesAddUpAndSpeakOfNoGPU(t *testing.T) {
	var ws []Window
	for i, run := range []string{"tp1-c1", "tp2-c8"} {
		files, err := filepath.Glob(filepath.Join(sharedtest.Dir(t), "traces/vllm-cpu", run, "*.gz"))
		if err != nil || len(files) != i+1 {
			t.Fatalf("%s: %v %v", run, files, err)
		}
		rep, err := analyze.Files(files...)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWindow([]int{1, 8}[i], rep, data.Ref{})
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	b := Bottlenecks(ws)
	for i, l := range b.Loads {
		var rows int64
		for _, r := range b.Rows {
			rows += r.Ns[i]
		}
		if rows != l.SummedNs || l.SummedNs-l.OverlapNs+l.IdleNs != l.SpanNs || l.Steps != 10 {
			t.Errorf("%s does not add up: rows %d, %+v", l.Label, rows, l)
		}
	}
	if h := Headline(b); !strings.Contains(h, "of CPU time") {
		t.Error(h)
	}
	if l := Lede(b, ""); !strings.Contains(l, "no GPU activity") {
		t.Error(l)
	}
	calls := Launches(ws).Rows[1].Cells // C = 8 on two ranks
	if got := strings.Join(calls[2:], " "); got != "9 1 4 3 3 1" {
		t.Errorf("calls a step: %s", got)
	}
	tiers := Tiers(ws, []Saving{{Change: "NVLink between the GPUs"}})
	if len(tiers.Items) > 0 || DoNext(tiers).Text == "" {
		t.Errorf("%+v", tiers)
	}
	for _, record := range []any{b, b.Table(), Launches(ws), CastShare(ws), Perturbations(ws), Collectives(ws), HowSure(ws, Leading(b)...), GrowthTitle(ws),
		StillTheGEMMs(ws, data.Ref{}), RanksWait(ws, data.Ref{})} {
		raw, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.NewReplacer("no GPU activity", "", "No GPU activity", "").Replace(string(raw)); strings.Contains(text, "GPU") {
			t.Errorf("speaks of a GPU: %.400s", text)
		}
	}
}

func TestPassAfterTheProfileIsShownBesideTheFirst(t *testing.T) {
	ws := []Window{{Streams: 1, Steps: 2, SpanNs: 24e6, UnprofiledNs: 10e6, AfterNs: 11e6}, {Streams: 8, Steps: 1, SpanNs: 5e6}}
	p := Perturbations(ws)
	if got := strings.Join(p.Rows[0].Cells, " "); got != "C = 1 10.00 12.00 20.0 11.00 10.0" {
		t.Error(got)
	}
	if got := strings.Join(p.Rows[1].Cells, " "); got != "C = 8 not measured 5.00 open not measured open" {
		t.Error(got)
	}
	if n := len(Perturbations(ws[1:]).Columns); n != 4 {
		t.Errorf("%d columns without a pass after the profile", n)
	}
}
