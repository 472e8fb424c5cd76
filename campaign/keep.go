package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rooflab/rooflab/data"
)

// A run keeps one round a load, since the files of two would have the same names. While another one takes its place, with
// other lengths or measured again, the old one is set aside: its files get other names, and it stays in run.json. The new
// one is kept beside run.json until nothing of it is missing. Only then does it replace the old one.

// aside begins the names of the files of a round that was set aside.
const aside = "old_"

// begunPath is the file of a round that is to replace another one of its load, in the folder of its run.
func begunPath(runDir string, streams int) string {
	return filepath.Join(runDir, fmt.Sprintf(".c%d.json", streams))
}

func (s *Session) begunPath(streams int) string {
	return begunPath(filepath.Join(s.dir, "runs", s.run), streams)
}

// resume takes up what is measured of a round, and says whether that is all.
func (s *Session) resume(run data.Run, round *data.Round) (done bool, err error) {
	kept := ofLoad(run, round.Streams)
	if kept == nil {
		return false, nil
	}
	var begun data.Round
	if !isAside(*kept) {
		err = s.sweep(round.Streams)
	} else if err = readJSON(s.begunPath(round.Streams), &begun); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return false, err
	}
	switch same := like(*kept, *round) && !s.opts.Again; {
	case same && s.finished(*kept):
		done = true
	case like(begun, *round):
		kept = &begun
	case !same || isAside(*kept) && !s.hasTraces(*kept):
		return false, nil
	}
	*round = *kept
	round.Notes = slices.Clone(kept.Notes)
	return done, nil
}

func ofLoad(run data.Run, streams int) *data.Round {
	if i := slices.IndexFunc(run.Rounds, func(r data.Round) bool { return r.Streams == streams }); i >= 0 {
		return &run.Rounds[i]
	}
	return nil
}

func like(a, b data.Round) bool {
	return a.Streams == b.Streams && a.InputTokens == b.InputTokens && a.OutTokens == b.OutTokens && a.WindowSteps == b.WindowSteps
}

// finished says that nothing is left to measure.
func (s *Session) finished(r data.Round) bool {
	if r.Unprofiled == nil || s.noTrace(r.Streams) {
		return r.Unprofiled != nil
	}
	return s.hasTraces(r) && (s.about != nil || r.After != nil || r.StopNs == 0) // older campaigns have no pass after the profile
}

// hasTraces says that the round's traces are there, byte for byte.
func (s *Session) hasTraces(r data.Round) bool {
	for _, t := range r.Traces {
		f, err := hashFile(filepath.Join(s.dir, filepath.FromSlash(t.Path)))
		if err != nil || f.SHA256 != t.SHA256 {
			return false
		}
	}
	return len(r.Traces) > 0
}

// setAside gives the files of the round that another one is to replace other names. At every moment run.json names files
// that are there.
func (s *Session) setAside(run *data.Run, round data.Round) error {
	old := ofLoad(*run, round.Streams)
	if old == nil || isAside(*old) || slices.Equal(old.Traces, round.Traces) || !s.hasTraces(*old) {
		return nil
	}
	names := s.filesOf(*old)
	for _, name := range names {
		if err := s.link(name, asideName(name)); err != nil {
			return err
		}
	}
	old.Traces = slices.Clone(old.Traces)
	for i, t := range old.Traces {
		old.Traces[i].Path = asideName(t.Path)
	}
	if err := s.writeRun(*run); err != nil {
		return err
	}
	return s.remove(names)
}

func isAside(r data.Round) bool {
	return len(r.Traces) > 0 && strings.HasPrefix(path.Base(r.Traces[0].Path), aside)
}

func asideName(name string) string { return path.Join(path.Dir(name), aside+path.Base(name)) }

// filesOf lists the traces of a round, and the times of its tokens as far as they are there, with slashes.
func (s *Session) filesOf(r data.Round) []string {
	var names []string
	for _, t := range r.Traces {
		names = append(names, t.Path)
	}
	for _, pass := range []string{"before", "profiled", "after"} {
		if name := s.samplesName(r, pass); exists(s.local(name)) {
			names = append(names, name)
		}
	}
	return names
}

// samplesName names the file with the time of every token of a pass.
func (s *Session) samplesName(r data.Round, pass string) string {
	name := fmt.Sprintf("runs/%s/c%d_%s.jsonl.gz", s.run, r.Streams, pass)
	if isAside(r) {
		return asideName(name)
	}
	return name
}

func (s *Session) local(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// link gives a file a second name; where the file system has no links, it copies the file.
func (s *Session) link(name, second string) error {
	if err := s.remove([]string{second}); err != nil {
		return err
	}
	if os.Link(s.local(name), s.local(second)) == nil {
		return nil
	}
	return copyFile(s.local(name), s.local(second))
}

func (s *Session) remove(names []string) error {
	for _, name := range names {
		if err := os.Remove(s.local(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// keep puts the round into run.json, in place of the one with the same load, ordered by streams. One that is to replace
// another is kept beside run.json until it is finished.
func (s *Session) keep(run *data.Run, round data.Round) error {
	old := ofLoad(*run, round.Streams)
	replaces := old != nil && isAside(*old) && !isAside(round)
	if replaces && !s.finished(round) {
		return writeJSON(s.begunPath(round.Streams), round)
	}
	rounds := without(*run, round.Streams)
	at := len(rounds)
	if i := slices.IndexFunc(rounds, func(r data.Round) bool { return r.Streams > round.Streams }); i >= 0 {
		at = i
	}
	run.Rounds = slices.Insert(rounds, at, round)
	if err := s.writeRun(*run); err != nil {
		return err
	}
	var err error
	if replaces {
		err = s.sweep(round.Streams)
	}
	return errors.Join(err, s.introduce(*run))
}

func without(run data.Run, streams int) []data.Round {
	return slices.DeleteFunc(slices.Clone(run.Rounds), func(r data.Round) bool { return r.Streams == streams })
}

// sweep removes what lies beside a round that has its own names: what is left of one that it has replaced, and of itself.
// A process that was killed may not have come to that.
func (s *Session) sweep(streams int) error {
	runDir := path.Join("runs", s.run)
	left, err := fs.Glob(os.DirFS(s.local(runDir)), fmt.Sprintf("%sc%d_*", aside, streams))
	if err != nil {
		return err
	}
	for i, name := range left {
		left[i] = path.Join(runDir, name)
	}
	if exists(s.begunPath(streams)) {
		left = append(left, begunPath(runDir, streams))
	}
	return s.remove(left)
}

// forget drops what was begun of a load, since another pass is about to take the names of its files.
func (s *Session) forget(run *data.Run, streams int) error {
	old := ofLoad(*run, streams)
	if old == nil || s.about != nil { // the passes of a replay have no files
		return nil
	}
	if isAside(*old) {
		return s.remove([]string{begunPath(path.Join("runs", s.run), streams)})
	}
	run.Rounds = without(*run, streams)
	return s.writeRun(*run)
}

// introduce names the first run that is measured as the campaign's, with its date: the recorded one of a replay.
func (s *Session) introduce(run data.Run) error {
	if s.manifest.Main != "" {
		return nil
	}
	measured := time.Now().UTC().Format("2006-01-02")
	if s.archive != "" {
		c, err := ReadManifest(s.archive)
		if err != nil {
			return err
		}
		measured = c.Measured
	}
	if s.manifest.Measured == "" {
		s.manifest.Measured = measured
	}
	if s.manifest.Hardware.Engine == "" {
		s.manifest.Hardware.Engine = engineTitle(run.Environment)
	}
	s.manifest.Main, s.manifest.Runs = run.Name, []data.RunRef{{Name: run.Name, What: run.What}}
	return writeJSON(filepath.Join(s.dir, data.ManifestFile), s.manifest)
}
