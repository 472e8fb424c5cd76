package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// recording is one run of a campaign folder, as far as a server needs it.
type recording struct {
	about   vllm.Replay
	traces  map[int][]trace // by number of streams
	version string
	models  []byte // the answer of /v1/models
	load    []byte // the answer of /load
	model   string // the served name
	created int64
	maxLen  int // tokens of prompt and output together
	maxSeqs int // requests that run at once
	batch   int // prompt tokens a prefill step takes
	vocab   int
	before  metrics.Scrape
}

type trace struct {
	file string
	rank int
}

// readRecording reads a campaign folder; run "" takes the campaign's main run.
func readRecording(dir, run string) (*recording, error) {
	var c data.Campaign
	if err := readJSON(filepath.Join(dir, data.ManifestFile), &c); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has no %s, so it is no archived campaign; give the folder of one", dir, data.ManifestFile)
		}
		return nil, err
	}
	r := &recording{about: vllm.Replay{Campaign: c.ID}, traces: map[int][]trace{}}
	for _, ref := range c.Runs {
		r.about.Runs = append(r.about.Runs, ref.Name)
	}
	if run == "" {
		run = c.Main
	}
	r.about.Run = run
	var rec data.Run
	folder := filepath.Join(dir, "runs", run)
	if err := readJSON(filepath.Join(folder, "run.json"), &rec); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the campaign has no run %q; it has %s", run, strings.Join(r.about.Runs, ", "))
		}
		return nil, err
	}
	r.rounds(dir, rec)
	if len(r.about.Loads) == 0 {
		return nil, fmt.Errorf("run %s cannot be replayed: no load of it has a recorded inter-token latency", run)
	}
	if err := r.answers(folder, c.Model.Served); err != nil {
		return nil, err
	}
	r.arguments(rec.Environment.Args)
	r.vocab = vocabulary(filepath.Join(dir, filepath.FromSlash(c.Model.Config)))
	return r, nil
}

func (r *recording) rounds(dir string, rec data.Run) {
	r.version = rec.Environment.Version
	r.about.WorldSize = max(rec.Environment.TP, 1)
	for _, round := range rec.Rounds {
		r.about.WorldSize = max(r.about.WorldSize, round.WorldSize)
		for _, t := range round.Traces {
			r.traces[round.Streams] = append(r.traces[round.Streams], trace{filepath.Join(dir, filepath.FromSlash(t.Path)), t.Rank})
		}
		u := round.Unprofiled
		if u == nil || u.SteadyITLNs <= 0 {
			continue
		}
		ranks := round.RanksKept
		if ranks == nil {
			ranks = []int{}
		}
		r.about.Loads = append(r.about.Loads, vllm.RecordedLoad{Streams: round.Streams, InputTokens: round.InputTokens, OutputTokens: round.OutTokens,
			Ranks: ranks, WallNs: u.WallNs, OutputTokS: u.OutputTokS, SteadyITLNs: u.SteadyITLNs,
			ITLp50Ns: u.ITLp50Ns, ITLp90Ns: u.ITLp90Ns, ITLp99Ns: u.ITLp99Ns, TTFTp50Ns: u.TTFTp50Ns, TTFTp99Ns: u.TTFTp99Ns})
	}
}

// answers reads what the server said at the time.
func (r *recording) answers(folder, served string) error {
	text, err := os.ReadFile(filepath.Join(folder, "metrics_before.txt"))
	if err != nil {
		return fmt.Errorf("run %s cannot be replayed: %w", r.about.Run, err)
	}
	if r.before, err = metrics.Parse(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("run %s cannot be replayed: %s: %w; take the line out, or measure the run again", r.about.Run, filepath.Join(folder, "metrics_before.txt"), err)
	}
	if r.models, err = os.ReadFile(filepath.Join(folder, "get_v1_models.json")); err != nil {
		return fmt.Errorf("run %s cannot be replayed: %w", r.about.Run, err)
	}
	if r.load, err = os.ReadFile(filepath.Join(folder, "get_load.json")); err != nil {
		r.load = []byte(`{"server_load":0}`)
	}
	var models struct {
		Data []struct {
			ID          string
			Created     int64
			MaxModelLen int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal(r.models, &models); err != nil || len(models.Data) == 0 {
		return fmt.Errorf("read %s/get_v1_models.json: no model in it", r.about.Run)
	}
	m := models.Data[0]
	r.model, r.created, r.maxLen = m.ID, m.Created, m.MaxModelLen
	if served != "" && served != m.ID {
		return fmt.Errorf("run %s served %s, the manifest says %s", r.about.Run, m.ID, served)
	}
	return nil
}

// arguments takes vLLM's limits from the command line; without them vLLM's defaults hold, raised to what was recorded.
func (r *recording) arguments(args []string) {
	r.maxSeqs, r.batch = 256, 8192
	for _, l := range r.about.Loads {
		r.maxSeqs = max(r.maxSeqs, l.Streams)
	}
	for i, a := range args {
		name, value, eq := strings.Cut(a, "=")
		if !eq && i+1 < len(args) {
			value = args[i+1]
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			continue
		}
		switch name {
		case "--max-num-seqs":
			r.maxSeqs = n
		case "--max-num-batched-tokens":
			r.batch = n
		}
	}
}

func vocabulary(config string) int {
	var c struct {
		VocabSize  int `json:"vocab_size"`
		TextConfig struct {
			VocabSize int `json:"vocab_size"`
		} `json:"text_config"`
	}
	if readJSON(config, &c) != nil {
		return math.MaxInt // without a config no token id is wrong
	}
	if n := max(c.VocabSize, c.TextConfig.VocabSize); n > 0 {
		return n
	}
	return math.MaxInt
}

// nearest returns the recorded load whose number of streams is closest in ratio.
func (r *recording) nearest(streams int) vllm.RecordedLoad {
	best, distance := 0, math.Inf(1)
	for i, l := range r.about.Loads {
		d := math.Abs(math.Log(float64(max(streams, 1)) / float64(l.Streams)))
		if d < distance {
			best, distance = i, d
		}
	}
	return r.about.Loads[best]
}

func readJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
