package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/data"
)

// fileState tells an old trace from one that was written again under the same name.
type fileState struct {
	size int64
	mod  time.Time
}

// listTraces lists the workers' traces in a server's profile folder; the front end's hold no GPU work and are left out.
// A folder that does not exist yet is empty: the server makes it with the first trace.
func listTraces(dir string) (map[string]fileState, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return map[string]fileState{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for traces: %w", err)
	}
	found := map[string]fileState{}
	for _, e := range entries {
		name := e.Name()
		if strings.Contains(name, ".async_llm.") || !strings.HasSuffix(name, ".pt.trace.json") && !strings.HasSuffix(name, ".pt.trace.json.gz") {
			continue
		}
		if st, err := e.Info(); err == nil {
			found[name] = fileState{st.Size(), st.ModTime()}
		}
	}
	return found, nil
}

// collect waits for the complete traces of all ranks and copies them into the run's folder.
func (s *Session) collect(ctx context.Context, round *data.Round, seen map[string]fileState) error {
	traces, world, missing, err := s.await(ctx, round.Streams, seen)
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
		f.Path = filepath.ToSlash(rel)
		round.Traces = append(round.Traces, data.TraceFile{File: f, Rank: t.rank})
		round.RanksKept = append(round.RanksKept, t.rank)
		if t.steps == 0 {
			round.Notes = append(round.Notes, fmt.Sprintf(noteNoStep, t.rank, round.Streams))
		}
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

// Notes of a round about its traces. A round whose traces are collected again gets new ones.
const (
	noteNoStep = "the trace of rank %d holds no decode step of %d streams"
	noteRanks  = "%d of %d ranks: %s"
)

func aboutTraces(note string) bool {
	var a, b int
	var rest string
	noStep, _ := fmt.Sscanf(note, noteNoStep, &a, &b)
	ranks, _ := fmt.Sscanf(note, noteRanks, &a, &b, &rest)
	return noStep == 2 || ranks == 3
}

// await polls the profile folder until the expected ranks are complete. When nothing has changed for s.patience it takes
// what is there, and says what is missing; without any trace it fails.
func (s *Session) await(ctx context.Context, streams int, seen map[string]fileState) ([]traceInfo, int, string, error) {
	want := map[int]bool{} // ranks; empty: not known yet
	world := 0
	if s.about != nil {
		world = s.about.WorldSize
		l, _ := s.about.Load(streams)
		for _, r := range l.Ranks {
			want[r] = true
		}
	}
	complete := map[string]traceInfo{}
	states := map[string]fileState{}
	last, pause := time.Now(), 5*time.Millisecond
	for {
		now, err := listTraces(s.traceDir)
		if err != nil {
			return nil, 0, "", err
		}
		for name, st := range now {
			if seen[name] == st {
				continue
			}
			if states[name] != st {
				states[name], last, pause = st, time.Now(), 5*time.Millisecond
				delete(complete, name)
			}
			if _, ok := complete[name]; ok {
				continue
			}
			if t, err := inspectTrace(filepath.Join(s.traceDir, name), streams); err == nil {
				complete[name] = t
				world = max(world, t.world)
			}
		}
		if s.about == nil {
			for r := range world {
				want[r] = true
			}
		}
		traces := newest(complete)
		missing := missingRanks(want, traces)
		if len(traces) > 0 && missing == "" {
			return traces, world, "", nil
		}
		if time.Since(last) > s.patience {
			if len(traces) > 0 {
				return traces, world, missing, nil
			}
			return nil, 0, "", fmt.Errorf("no complete trace has appeared in the profile folder: is it the server's torch_profiler_dir, readable from here? (%d new files, none complete)", len(states))
		}
		select {
		case <-ctx.Done():
			return nil, 0, "", ctx.Err()
		case <-time.After(pause):
			pause = min(2*pause, 500*time.Millisecond)
		}
	}
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
	byRank := map[int]traceInfo{}
	for _, t := range found {
		if old, ok := byRank[t.rank]; !ok || t.mod.After(old.mod) {
			byRank[t.rank] = t
		}
	}
	var traces []traceInfo
	for _, t := range byRank {
		traces = append(traces, t)
	}
	sort.Slice(traces, func(i, j int) bool { return traces[i].rank < traces[j].rank })
	return traces
}

// traceInfo is what a complete trace file says about itself.
type traceInfo struct {
	path     string
	mod      time.Time
	rank     int
	world    int
	steps    int  // annotations of decode steps of the round's streams
	hostName bool // it names the host
}

var (
	rankInName  = regexp.MustCompile(`rank[-_]?(\d+)\.`)
	rankInside  = regexp.MustCompile(`"distributedInfo": *\{[^}]*?"rank": *(\d+)`)
	worldInside = regexp.MustCompile(`"distributedInfo": *\{[^}]*?"world_size": *(\d+)`)
	hostInside  = regexp.MustCompile(`"host_name": *"[^"]*"`)
)

// inspectTrace reads a trace to its end: the gzip trailer must fit and the JSON must be closed.
func inspectTrace(path string, streams int) (traceInfo, error) {
	t := traceInfo{path: path, world: 1}
	r, err := openTrace(path)
	if err != nil {
		return t, err
	}
	defer r.Close()
	if st, err := os.Stat(path); err == nil {
		t.mod = st.ModTime()
	}
	if m := rankInName.FindStringSubmatch(filepath.Base(path)); m != nil {
		t.rank, _ = strconv.Atoi(m[1])
	}
	step := []byte(fmt.Sprintf("_generation_%d(", streams))
	const overlap = 8 << 10 // longer than distributedInfo's first fields and any annotation
	buf := make([]byte, 0, 1<<20)
	last := byte(0)
	first := byte(0)
	for {
		kept := len(buf)
		n, err := readFull(r, buf[kept:cap(buf)])
		buf = buf[:kept+n]
		if trimmed := bytes.TrimSpace(buf); len(trimmed) > 0 {
			if first == 0 {
				first = trimmed[0]
			}
			last = trimmed[len(trimmed)-1]
		}
		t.look(buf)
		t.steps += bytes.Count(buf, step) - bytes.Count(buf[:kept], step)
		if err == io.EOF {
			break
		}
		if err != nil {
			return t, fmt.Errorf("read %s: %w", filepath.Base(path), err)
		}
		buf = append(buf[:0], buf[len(buf)-overlap:]...)
	}
	if first != '{' || last != '}' {
		return t, fmt.Errorf("read %s: the JSON is not complete", filepath.Base(path))
	}
	return t, nil
}

func (t *traceInfo) look(b []byte) {
	if bytes.Contains(b, []byte(`"distributedInfo"`)) {
		if m := rankInside.FindSubmatch(b); m != nil {
			t.rank, _ = strconv.Atoi(string(m[1]))
		}
		if m := worldInside.FindSubmatch(b); m != nil {
			t.world, _ = strconv.Atoi(string(m[1]))
		}
	}
	t.hostName = t.hostName || bytes.Contains(b, []byte(`"host_name"`))
}

// openTrace opens a trace, decompressed. Closing it closes the file.
func openTrace(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// copyTrace copies a trace byte for byte; one that names the host or is not compressed is written anew, without the name.
func copyTrace(t traceInfo, to string) error {
	if !t.hostName && strings.HasSuffix(t.path, ".gz") {
		return copyFile(t.path, to)
	}
	r, err := openTrace(t.path)
	if err != nil {
		return err
	}
	defer r.Close()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(rewrite(r, pw)) }()
	defer pr.Close()
	return writeFile(to, pr)
}

// rewrite compresses a trace without the name of the host.
func rewrite(r io.Reader, w io.Writer) error {
	z := gzip.NewWriter(w)
	const overlap = 4 << 10 // no host name is longer
	buf := make([]byte, 0, 1<<20)
	for {
		n, err := readFull(r, buf[len(buf):cap(buf)])
		buf = hostInside.ReplaceAll(buf[:len(buf)+n], []byte(`"host_name": ""`))
		end := len(buf) - overlap
		if err == io.EOF {
			end = len(buf)
		} else if err != nil {
			return err
		}
		if _, err := z.Write(buf[:max(end, 0)]); err != nil {
			return err
		}
		if err == io.EOF {
			return z.Close()
		}
		buf = append(make([]byte, 0, 1<<20), buf[max(end, 0):]...)
	}
}
