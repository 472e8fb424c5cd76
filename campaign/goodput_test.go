package campaign

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/load"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// TestGoodputIsComputedFromTheKeptTimes: of a server that is gone, one of whose requests failed.
func TestGoodputIsComputedFromTheKeptTimes(t *testing.T) {
	server, dir := startServer(t), t.TempDir()
	var asked atomic.Int64
	server.refuse = func(r *http.Request) bool { return r.URL.Path == "/v1/completions" && asked.Add(1) == 4 } // warm-up, then the second of the pass
	s := server.open(t, dir, Options{})
	r, err := s.Round(RoundOptions{Streams: 2, OutputTokens: 10, WindowSteps: 2})
	if err != nil || r.Unprofiled.Requests != 1 || r.Unprofiled.Failed != 1 {
		t.Fatalf("%+v %v", r.Unprofiled, err)
	}
	server.Close()
	s = server.open(t, dir, Options{})
	one := units.Float(1e9/float64(r.Unprofiled.WallNs), 2)
	ttft := time.Duration(r.Unprofiled.TTFTp50Ns) // of the only one
	for _, c := range []struct {
		limits load.SLO
		want   string
	}{
		{load.SLO{TTFT: ttft}, "1 2 " + one},
		{load.SLO{TTFT: ttft - 1}, "0 2 0.00"},
		{load.SLO{TTFT: ttft, TPOT: time.Duration(r.Unprofiled.TPOTp50Ns)}, "1 2 " + one},
		{load.SLO{TTFT: ttft, TPOT: time.Duration(r.Unprofiled.TPOTp50Ns) - 1}, "0 2 0.00"},
	} {
		table, err := s.Goodput([]data.Round{r}, c.limits)
		if err != nil || len(table.Rows) != 1 {
			t.Fatalf("%+v %v", table, err)
		}
		if cells := table.Rows[0].Cells; cells[0] != "C = 2" || cells[1] != c.limits.String() || strings.Join(cells[2:], " ") != c.want {
			t.Errorf("%q, want %s", cells, c.want)
		}
	}
}

// note returns the text of a table that has nothing else.
func note(t *testing.T, table data.Table, err error) string {
	t.Helper()
	if err != nil || len(table.Columns)+len(table.Rows) > 0 {
		t.Errorf("%+v %v", table, err)
	}
	return table.Note
}

func TestGoodputNeedsTimesAndLimits(t *testing.T) {
	limits := load.SLO{TTFT: time.Hour}
	s := open(t, t.TempDir(), Options{})
	r, err := s.Round(RoundOptions{Streams: 1})
	if err != nil {
		t.Fatal(err)
	}
	rounds := []data.Round{r, {Streams: 8, Unprofiled: &data.LoadResult{WallNs: 1e9}}}
	table, err := s.Goodput(rounds, load.SLO{})
	if text := note(t, table, err); !strings.HasPrefix(text, "Not asked for.") {
		t.Errorf("%q", text)
	}
	table, err = s.Goodput(rounds, limits)
	if text := note(t, table, err); !strings.Contains(text, "this recording has none") {
		t.Errorf("of a replay: %q", text)
	}
	s.about = nil
	if err := s.keepSamples(rounds[1], "before", []load.Sample{{Arrivals: []int64{1}}, {Arrivals: []int64{1}}}); err != nil {
		t.Fatal(err)
	}
	table, err = s.Goodput(rounds, limits)
	if text := table.Text(); err != nil || !strings.Contains(squeeze(text), "C = 1 TTFT 3600000 ms not measured not measured not measured") || !strings.Contains(squeeze(text), "C = 8 TTFT 3600000 ms 2 2 2.00") {
		t.Errorf("%v\n%s", err, text)
	}
	name := s.local(s.samplesName(rounds[1], "before"))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{whole[:len(whole)-9], whole[:1]} { // a disk was full
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = s.Goodput(rounds, limits)
		if err == nil || !strings.HasPrefix(err.Error(), "runs/"+s.run+"/c8_before.jsonl.gz: ") || !strings.Contains(err.Error(), "leave goodput out, or measure the load again") {
			t.Errorf("a file that was cut: %v", err)
		}
	}
}
