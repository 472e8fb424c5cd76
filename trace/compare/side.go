package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/trace"
	"github.com/rooflab/rooflab/trace/analyze"
	"github.com/rooflab/rooflab/trace/breakdown"
	"github.com/rooflab/rooflab/trace/classify"
)

// side is A or B: traces, and for a run folder what is recorded about the server.
type side struct {
	name     string
	run      *data.Run
	campaign *data.Campaign // nil when the run's folder lies in no campaign
	windows  []*window
}

// window is one trace: the profile of one rank under one load.
type window struct {
	path  string
	c     int // streams of a run's round; for other traces the tokens of most decode steps
	rank  int
	round *data.Round // nil for traces that are no part of a run

	of    *breakdown.Rank // nil until it was read
	steps []breakdown.Step
	ns    map[key][]int64 // one value a step
}

// key names a row.
type key struct{ name, component string }

// pair is one rank under one load on both sides.
type pair struct{ a, b *window }

// open finds the traces of one side; it reads none.
func open(arg string) (*side, error) {
	st, err := os.Stat(arg)
	if err == nil && st.IsDir() {
		return openRun(arg)
	}
	paths := []string{arg}
	if err != nil {
		paths = strings.FieldsFunc(arg, func(r rune) bool { return r == ',' || r == '+' })
	}
	s := &side{}
	for _, p := range paths {
		if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no such file or folder; give a trace, several joined by \"+\", or the folder of a run", p)
		} else if err != nil {
			return nil, fmt.Errorf("read %w", err)
		}
		s.windows = append(s.windows, &window{path: p})
		s.name += " + " + short(p)
	}
	if len(s.windows) == 0 {
		return nil, errors.New("an empty name was given; expected a trace or the folder of a run")
	}
	s.name = strings.TrimPrefix(s.name, " + ")
	return s, nil
}

// openRun reads run.json and, when the folder lies in a campaign, its manifest.
func openRun(dir string) (*side, error) {
	var run data.Run
	if err := readJSON(filepath.Join(dir, "run.json"), &run); errors.Is(err, fs.ErrNotExist) {
		hint := "give a folder with a run.json"
		if _, err := os.Stat(filepath.Join(dir, data.ManifestFile)); err == nil {
			hint = "it is a campaign, so give one of its runs, such as " + filepath.Join(dir, "runs", "NAME")
		}
		return nil, fmt.Errorf("%s is not the folder of a run; %s, or give trace files", dir, hint)
	} else if err != nil {
		return nil, err
	}
	if run.Schema > data.SchemaVersion {
		return nil, fmt.Errorf("read %s: schema %d is newer than this rooflab knows (%d); use a newer rooflab", filepath.Join(dir, "run.json"), run.Schema, data.SchemaVersion)
	}
	s := &side{name: filepath.Base(filepath.Clean(dir)), run: &run}
	var c data.Campaign
	if err := readJSON(filepath.Join(dir, "..", "..", data.ManifestFile), &c); err == nil {
		s.campaign = &c
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i := range run.Rounds {
		round := &run.Rounds[i]
		for _, t := range round.Traces { // stored beside run.json, whatever folders the name has: archives come from others
			s.windows = append(s.windows, &window{path: filepath.Join(dir, path.Base(t.Path)), c: round.Streams, rank: t.Rank, round: round})
		}
	}
	if len(s.windows) == 0 {
		return nil, fmt.Errorf("%s: the run holds no traces; only traced loads can be compared", dir)
	}
	return s, nil
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

// short is a file with the folder that it lies in: file names repeat between runs, and no more of a path is shown.
func short(p string) string {
	p = filepath.ToSlash(filepath.Clean(p))
	dir := path.Base(path.Dir(p))
	if strings.Trim(dir, "./") == "" {
		return path.Base(p)
	}
	return dir + "/" + path.Base(p)
}

func (s *side) record() Side {
	if s.run == nil {
		return Side{Name: s.name}
	}
	return Side{Name: s.name, Run: s.run.Name}
}

// unnamed are the windows whose load and rank only the trace says.
func (s *side) unnamed() []*window {
	if s.run != nil {
		return nil
	}
	return s.windows
}

// load reads windows, several at once, and sums their steps by row. cut is of files that end too early and can be used.
func load(o Options, ws []*window) (cut, err error) {
	if len(ws) == 0 {
		return nil, nil
	}
	paths := make([]string, len(ws))
	for i, w := range ws {
		paths[i] = w.path
	}
	ranks, err := analyze.Options{MaxEventBytes: o.MaxEventBytes}.Ranks(paths...)
	if ranks == nil {
		return nil, err
	}
	for i, r := range ranks {
		ws[i].measure(r, o.By)
	}
	return err, nil
}

func (w *window) measure(r *trace.Rank, by string) {
	cls := classify.Run(r)
	of := breakdown.Of(r, cls)
	w.of, w.ns = &of, map[key][]int64{}
	slot := make([]int, len(of.StepTable)) // step -> its place among the counted ones; -1 when it is not counted
	for i, s := range of.StepTable {
		slot[i] = -1
		if (s.Kind == trace.Decode || s.Kind == trace.Unmarked) && of.Counted(s) && !s.Partial && s.Events > 0 {
			slot[i] = len(w.steps)
			w.steps = append(w.steps, s)
		}
	}
	for i, k := range r.Kernels {
		if k.Step < 0 || slot[k.Step] < 0 {
			continue
		}
		id := keyOf(cls.Label(i), r.Name(k), by)
		if w.ns[id] == nil {
			w.ns[id] = make([]int64, len(w.steps))
		}
		w.ns[id][slot[k.Step]] += k.Dur
	}
	if w.round == nil {
		w.rank, w.c = of.Rank, w.tokens()
	}
}

func keyOf(l classify.Label, kernel, by string) key {
	switch {
	case by == ByKernel:
		return key{kernel, l.Component}
	case by == ByPart && l.Part != "":
		return key{l.Component + "/" + l.Part, l.Component}
	}
	return key{l.Component, l.Component}
}

// tokens is the size of most counted steps.
func (w *window) tokens() int {
	n, most := map[int]int{}, 0
	for _, s := range w.steps {
		n[s.GenerationTokens]++
	}
	for size, count := range n {
		if count > n[most] || count == n[most] && size > most {
			most = size
		}
	}
	return most
}

func (w *window) times(k key) []int64 {
	if ns := w.ns[k]; ns != nil {
		return ns
	}
	return make([]int64, len(w.steps))
}

func (w *window) sum(of func(breakdown.Step, int64) int64) []int64 {
	ns := make([]int64, len(w.steps))
	for i, s := range w.steps {
		ns[i] = of(s, int64(len(w.of.Devices)))
	}
	return ns
}

func (w *window) label() string { return short(w.path) }

// decoding drops pairs without whole decode steps on both sides, and names them; the error names the first when none is left.
func decoding(pairs []pair) (with []pair, without []string, err error) {
	for _, p := range pairs {
		bad := p.a
		if len(p.a.steps) > 0 {
			bad = p.b
		}
		if len(bad.steps) > 0 {
			with = append(with, p)
			continue
		}
		without = append(without, fmt.Sprintf("%s has no whole decode steps, it holds %s", bad.label(), held(*bad.of)))
	}
	if with == nil {
		return nil, nil, fmt.Errorf("compare: only whole decode steps are compared; %s", without[0])
	}
	return with, without, nil
}

// match pairs loads and ranks, sorted by load and rank, and says what only one side has. One trace a side is compared
// whatever its load and rank are; what differs is listed then.
func match(a, b *side) ([]pair, []string, error) {
	for _, s := range []*side{a, b} {
		if err := s.distinct(); err != nil {
			return nil, nil, err
		}
	}
	if len(a.windows) == 1 && len(b.windows) == 1 && a.run == nil && b.run == nil {
		return []pair{{a.windows[0], b.windows[0]}}, nil, nil
	}
	anyLoad := a.run == nil && b.run == nil && len(a.loads()) == 1 && len(b.loads()) == 1
	same := func(x, y *window) bool { return x.rank == y.rank && (x.c == y.c || anyLoad) }
	var pairs []pair
	var alone []string
	for _, x := range a.windows {
		if i := slices.IndexFunc(b.windows, func(y *window) bool { return same(x, y) }); i >= 0 {
			pairs = append(pairs, pair{x, b.windows[i]})
		} else {
			alone = append(alone, fmt.Sprintf("C = %d, rank %d is only in A", x.c, x.rank))
		}
	}
	for _, y := range b.windows {
		if !slices.ContainsFunc(a.windows, func(x *window) bool { return same(x, y) }) {
			alone = append(alone, fmt.Sprintf("C = %d, rank %d is only in B", y.c, y.rank))
		}
	}
	if len(pairs) == 0 {
		return nil, nil, fmt.Errorf("no load was traced on the same rank of both: A (%s) has %s; B (%s) has %s", a.name, a.holds(), b.name, b.holds())
	}
	return pairs, alone, nil
}

// distinct sorts the windows and refuses two of one load and rank.
func (s *side) distinct() error {
	slices.SortStableFunc(s.windows, func(x, y *window) int { return cmp.Or(cmp.Compare(x.c, y.c), cmp.Compare(x.rank, y.rank)) })
	for i, w := range s.windows[1:] {
		if before := s.windows[i]; before.c == w.c && before.rank == w.rank {
			return fmt.Errorf("compare: %s and %s are both rank %d at C = %d; give one of them", before.label(), w.label(), w.rank, w.c)
		}
	}
	return nil
}

func (s *side) loads() []int {
	var cs []int
	for _, w := range s.windows {
		if !slices.Contains(cs, w.c) {
			cs = append(cs, w.c)
		}
	}
	return cs
}

func (s *side) holds() string {
	var words []string
	for _, c := range s.loads() {
		var ranks []string
		for _, w := range s.windows {
			if w.c == c {
				ranks = append(ranks, fmt.Sprint(w.rank))
			}
		}
		words = append(words, fmt.Sprintf("C = %d (rank %s)", c, strings.Join(ranks, ", ")))
	}
	return strings.Join(words, ", ")
}

func (p pair) load() string {
	if p.a.round != nil && p.b.round != nil {
		return fmt.Sprintf("C = %d", p.a.c)
	}
	a, b := p.a.of.Load(), p.b.of.Load()
	if a != b {
		return a + " against " + b
	}
	return a
}

// keys are the rows of both sides, sorted.
func (p pair) keys() []key {
	var keys []key
	for k := range p.a.ns {
		keys = append(keys, k)
	}
	for k := range p.b.ns {
		if p.a.ns[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.component, y.component))
	})
	return keys
}
