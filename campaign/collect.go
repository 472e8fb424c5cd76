package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/rooflab/rooflab/data"
)

// collect waits for the complete traces of all ranks and copies them into the run's folder. prefix begins the names of the
// round's files on servers that were asked for it.
func (s *Session) collect(ctx context.Context, round *data.Round, seen map[string]fileState, prefix string) error {
	traces, world, missing, err := s.await(ctx, round.Streams, seen, prefix)
	if err != nil {
		return err
	}
	round.Traces, round.RanksKept, round.WorldSize = nil, nil, world
	round.Notes = slices.DeleteFunc(round.Notes, aboutTraces) // of traces that are replaced
	for _, t := range traces {
		rel := filepath.Join("runs", s.run, fmt.Sprintf("c%d_rank%d.pt.trace.json.gz", round.Streams, t.rank))
		if err := copyTrace(t, filepath.Join(s.dir, rel)); err != nil {
			return err
		}
		f, err := hashFile(filepath.Join(s.dir, rel))
		if err != nil {
			return err
		}
		s.folder.drop(t.name)
		f.Path = filepath.ToSlash(rel)
		round.Traces = append(round.Traces, data.TraceFile{File: f, Rank: t.rank})
		round.RanksKept = append(round.RanksKept, t.rank)
		if t.steps == 0 {
			round.Notes = append(round.Notes, fmt.Sprintf(noteNoStep, t.rank, round.Streams))
		}
		if t.others > 0 {
			round.Notes = append(round.Notes, fmt.Sprintf(noteOthers, t.rank, t.others))
		}
	}
	version, _ := s.engine().Version(ctx) // an unknown one tells nothing
	if unseen := s.unseen(version); unseen != "" {
		round.Notes = append(round.Notes, unseen+": "+howUnseen)
	}
	if len(traces) < world {
		why := "the recording kept no other"
		if s.about == nil {
			why = fmt.Sprintf("no complete trace came from %s", missing)
		}
		round.Notes = append(round.Notes, fmt.Sprintf(noteRanks, len(traces), world, why))
	}
	if s.server != nil { // they are copied, and the names of a replay are nobody's
		return os.RemoveAll(s.traceDir)
	}
	return nil
}

// leftTraces is a window that was profiled, whose traces may lie where the server wrote them. It stays until they are
// collected, so that a round that was stopped meanwhile profiles nothing anew.
type leftTraces struct {
	Round  data.Round           `json:"round"`
	Folder string               `json:"folder"`
	Seen   map[string]fileState `json:"seen"` // before the window
	Prefix string               `json:"prefix"`
}

func (s *Session) leftPath(streams int) string {
	return filepath.Join(s.dir, "runs", s.run, fmt.Sprintf(".c%d_traces.json", streams))
}

// collectLeft collects the traces of a window that was profiled after the same first pass. When they are gone, or somebody
// may have profiled since, nothing is left.
func (s *Session) collectLeft(ctx context.Context, round *data.Round) (done bool, err error) {
	var left leftTraces
	name := s.leftPath(round.Streams)
	if err := readJSON(name, &left); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	if left.Folder == s.folder.String() && like(left.Round, *round) && *left.Round.Unprofiled == *round.Unprofiled {
		err := s.collect(ctx, &left.Round, left.Seen, left.Prefix)
		switch {
		case err == nil && !slices.ContainsFunc(left.Round.Notes, aboutOthers):
			*round = left.Round
			return true, nil
		case err != nil && !errors.Is(err, errNoTraces):
			return false, err
		}
	}
	return false, os.Remove(name)
}

// Notes of a round about its traces. A round whose traces are collected again gets new ones.
const (
	noteNoStep = "the trace of rank %d holds no decode step of %d streams"
	noteRanks  = "%d of %d ranks: %s"
	noteOthers = "of rank %d the trace that was written last is taken, beside it came %d more: of another data-parallel engine, or of somebody else's profile"
)

func aboutTraces(note string) bool {
	var a, b int
	var rest string
	noStep, _ := fmt.Sscanf(note, noteNoStep, &a, &b)
	ranks, _ := fmt.Sscanf(note, noteRanks, &a, &b, &rest)
	return noStep == 2 || ranks == 3 || aboutOthers(note) || strings.Contains(note, noteUnseen)
}

func aboutOthers(note string) bool {
	var rank, more int
	n, _ := fmt.Sscanf(note, noteOthers, &rank, &more)
	return n == 2
}

// await polls the profile folder until the expected ranks are complete. When nothing has changed for s.patience it takes
// what is there, and says what is missing; without any trace it fails. 200 for a stop is no proof of a trace.
func (s *Session) await(ctx context.Context, streams int, seen map[string]fileState, prefix string) ([]traceInfo, int, string, error) {
	w := waiting{s: s, streams: streams, seen: seen, prefix: prefix, want: map[int]bool{}, complete: map[string]traceInfo{}, states: map[string]fileState{}, broken: map[string]bool{}}
	if s.about != nil {
		w.world = s.about.WorldSize
		l, _ := s.about.Load(streams)
		for _, r := range l.Ranks {
			w.want[r] = true
		}
	}
	last, pause := time.Now(), 5*time.Millisecond
	for {
		changed, err := w.look(ctx)
		if err != nil {
			return nil, 0, "", err
		}
		if changed {
			last, pause = time.Now(), 5*time.Millisecond
		}
		traces := newest(w.complete)
		missing := missingRanks(w.want, traces)
		if len(traces) > 0 && missing == "" {
			return traces, w.world, "", nil
		}
		s.tell("wait for the traces", fmt.Sprintf("%d of %d complete", len(traces), max(w.world, 1)))
		if time.Since(last) > s.patience {
			if len(traces) > 0 {
				return traces, w.world, missing, nil
			}
			return nil, 0, "", s.noTraces(len(w.states), w.why)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, 0, "", err
		}
		pause = min(2*pause, s.poll)
	}
}

// waiting is what await knows so far.
type waiting struct {
	s        *Session
	streams  int
	seen     map[string]fileState // before the round
	prefix   string
	want     map[int]bool // ranks; empty: not known yet
	world    int
	states   map[string]fileState // of new files
	broken   map[string]bool      // files that are not complete there, in the state of states
	why      error                // the last one is not
	complete map[string]traceInfo
}

// look lists the folder once and inspects what is new or has changed; it returns whether anything had.
func (w *waiting) look(ctx context.Context) (bool, error) {
	now, err := w.s.folder.list(ctx)
	if err != nil {
		return false, err
	}
	fresh, total := w.fresh(now), int64(0)
	for _, st := range fresh {
		total += st.Size
	}
	if total > w.s.limits.TraceBytes {
		return false, &tooLarge{total, w.s.limits.TraceBytes}
	}
	maps.DeleteFunc(w.complete, func(name string, _ traceInfo) bool { // gone, or another's now that ours have shown by their names
		_, there := fresh[name]
		return !there
	})
	changed := false
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		st := fresh[name]
		if w.states[name] != st {
			w.states[name], changed = st, true
			delete(w.complete, name)
			delete(w.broken, name)
		}
		if _, ok := w.complete[name]; ok || w.broken[name] || st.Size == 0 {
			continue
		}
		here, err := w.s.folder.take(ctx, name, st)
		if err != nil {
			return changed, err
		}
		t, incomplete := inspectTrace(here, w.streams)
		same, err := w.s.folder.same(ctx, name, here)
		if err != nil {
			return changed, err
		}
		if incomplete != nil || !same {
			w.why = incomplete
			w.s.folder.drop(name) // written anew while it was fetched: next time from its start
			w.broken[name] = same // still being written, or never whole: not again before it changes
			continue
		}
		t.name, t.mod = name, st.ModNs
		w.complete[name] = t
		w.world = max(w.world, t.world)
	}
	if w.s.about == nil {
		for r := range w.world {
			w.want[r] = true
		}
	}
	return changed, nil
}

// fresh leaves out what was there before the round and, where the server names files as asked, other people's.
func (w *waiting) fresh(now map[string]fileState) map[string]fileState {
	named := map[string]fileState{}
	all := map[string]fileState{}
	for name, st := range now {
		if w.seen[name] == st {
			continue
		}
		all[name] = st
		if w.prefix != "" && strings.HasPrefix(name, w.prefix) {
			named[name] = st
		}
	}
	if len(named) > 0 {
		return named
	}
	return all
}

func missingRanks(want map[int]bool, have []traceInfo) string {
	left := map[int]bool{}
	for r := range want {
		left[r] = true
	}
	for _, t := range have {
		delete(left, t.rank)
	}
	var ranks []int
	for r := range left {
		ranks = append(ranks, r)
	}
	sort.Ints(ranks)
	var words []string
	for _, r := range ranks {
		words = append(words, "rank "+strconv.Itoa(r))
	}
	return strings.Join(words, ", ")
}

// newest keeps one trace a rank, by rank: the one that was written last.
func newest(found map[string]traceInfo) []traceInfo {
	byRank, count := map[int]traceInfo{}, map[int]int{}
	for _, t := range found {
		count[t.rank]++
		if old, ok := byRank[t.rank]; !ok || t.mod > old.mod {
			byRank[t.rank] = t
		}
	}
	var traces []traceInfo
	for _, t := range byRank {
		t.others = count[t.rank] - 1
		traces = append(traces, t)
	}
	sort.Slice(traces, func(i, j int) bool { return traces[i].rank < traces[j].rank })
	return traces
}
