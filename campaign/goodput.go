package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/campaign/load"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/units"
)

// Goodput shows how many requests of the passes without profiler kept the limits. It is computed from the kept times of their
// tokens, so other limits need no new pass. Without limits, and without times, the table has a note and no columns.
func (s *Session) Goodput(rounds []data.Round, limits load.SLO) (data.Table, error) {
	if limits == (load.SLO{}) {
		return data.Table{ID: "goodput", Note: "Not asked for. With the parameter goodput, such as \"ttft:200 tpot:50\" in ms, this counts the requests that kept the limits."}, nil
	}
	t := data.Table{ID: "goodput", Title: "Goodput: requests without profiler that kept every limit", Columns: []data.Column{{Head: "Load"}, {Head: "Limits"},
		{Head: "Good", Unit: "requests", Numeric: true}, {Head: "Of", Unit: "requests", Numeric: true}, {Head: "Goodput", Unit: "requests/s", Numeric: true}},
		Note: "As vllm bench serve --goodput counts: over the whole pass, in which a request that failed is not good. TTFT: time to first token. TPOT: mean time between tokens of one request. E2EL: until its last token."}
	kept := false
	for _, r := range rounds {
		cells := []string{fmt.Sprintf("C = %d", r.Streams), limits.String(), "not measured", "not measured", "not measured"}
		samples, err := s.samples(r, "before")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return data.Table{}, err
		}
		if err == nil && r.Unprofiled != nil {
			good, perS := load.Goodput(samples, limits, r.Unprofiled.WallNs)
			cells[2], cells[3], cells[4] = units.Count(int64(good)), units.Count(int64(len(samples))), units.Float(perS, 2)
			kept = true
		}
		t.Rows = append(t.Rows, data.Row{Cells: cells})
	}
	if !kept {
		return data.Table{ID: "goodput", Note: "Goodput needs the times of single requests. They are kept when a live server is measured; this recording has none."}, nil
	}
	return t, nil
}

// samples reads what keepSamples kept. Of a pass without a file the error wraps fs.ErrNotExist.
func (s *Session) samples(round data.Round, pass string) ([]load.Sample, error) {
	name := s.samplesName(round, pass)
	path, err := s.File(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var samples []load.Sample
	z, err := gzip.NewReader(f)
	if err == nil {
		samples, err = load.ReadSamples(z)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the other figures of the load hold: leave goodput out, or measure the load again", name, err)
	}
	return samples, nil
}
