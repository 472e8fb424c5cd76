package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rooflab/rooflab/data"
)

var resultName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// Save writes results/<name>.json in the campaign's folder: canonical JSON, in one step.
func (s *Session) Save(name string, v any) error {
	if !resultName.MatchString(name) {
		return fmt.Errorf("%q cannot name a result; use lower-case letters, digits, dots and dashes", name)
	}
	return writeJSON(s.resultPath(name), v)
}

// Load reads results/<name>.json into v, a pointer.
func (s *Session) Load(name string, v any) error {
	err := readJSON(s.resultPath(name), v)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the campaign has no result %q yet; run the notebook that saves it first: %w", name, fs.ErrNotExist)
	}
	return err
}

// LoadIf is Load for a result that may be missing, because its phase did not run: then v stays as it is.
func (s *Session) LoadIf(name string, v any) error {
	err := s.Load(name, v)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Session) resultPath(name string) string {
	return filepath.Join(s.dir, "results", name+".json")
}

// File returns the path of a file of the campaign, such as "micro/marlin_moe.jsonl": in the campaign's folder, else in
// the archive that is replayed. For a live server only its own folder counts, so that no figure of another machine gets in.
func (s *Session) File(rel string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(rel)) {
		return "", fmt.Errorf("%q is no path inside a campaign's folder", rel)
	}
	for _, dir := range s.folders() {
		name := filepath.Join(dir, filepath.FromSlash(rel))
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			return name, nil
		}
	}
	return "", fmt.Errorf("the campaign has no file %s: %w", rel, fs.ErrNotExist)
}

// folders lists where files of the campaign may be, the campaign's own folder first.
func (s *Session) folders() []string {
	if s.archive == "" {
		return []string{s.dir}
	}
	return []string{s.dir, s.archive}
}

// Baseline returns what an earlier campaign found. Without one the record is empty and the error wraps fs.ErrNotExist.
func (s *Session) Baseline() (data.Baseline, error) {
	var b data.Baseline
	name, err := s.File(baselineFile)
	if err != nil {
		return b, err
	}
	return b, readJSON(name, &b)
}

// Run returns a run with the paths of its traces (in the order of its rounds): one that was measured here, else one of the
// archive that is replayed. Traces that are not there are left out of the paths.
func (s *Session) Run(name string) (data.Run, []string, error) {
	var r data.Run
	if !resultName.MatchString(name) {
		return r, nil, fmt.Errorf("%q cannot name a run", name)
	}
	for _, dir := range s.folders() {
		err := readJSON(filepath.Join(dir, "runs", name, runFile), &r)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return r, nil, err
		}
		var paths []string
		for _, round := range r.Rounds {
			for _, t := range round.Traces {
				if path := filepath.Join(dir, filepath.FromSlash(t.Path)); exists(path) {
					paths = append(paths, path)
				}
			}
		}
		return r, paths, nil
	}
	return r, nil, fmt.Errorf("the campaign has no run %q; it has %s: %w", name, strings.Join(s.runNames(), ", "), fs.ErrNotExist)
}

func (s *Session) runNames() []string {
	var names []string
	seen := map[string]bool{}
	for _, dir := range s.folders() {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "*", runFile)) // the pattern is well-formed
		for _, f := range found {
			if name := filepath.Base(filepath.Dir(f)); !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	if names == nil {
		return []string{"none"}
	}
	return names
}

// TracePath returns the path of one rank's trace of a round, or "" when that rank was not kept.
func (s *Session) TracePath(round data.Round, rank int) string {
	for _, t := range round.Traces {
		if t.Rank != rank {
			continue
		}
		if name, err := s.File(t.Path); err == nil {
			return name
		}
	}
	return ""
}

// Traces returns the paths of all traces of a round, by rank.
func (s *Session) Traces(round data.Round) []string {
	var paths []string
	for _, t := range round.Traces {
		if p := s.TracePath(round, t.Rank); p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// SaveEnvironment keeps how the live server runs with the run's rounds, without host names. Mask secrets before.
// Routing and version stay when e has none. A replay keeps the recorded environment.
func (s *Session) SaveEnvironment(e data.Environment) error {
	ctx, stop := Interruptible(context.Background())
	defer stop()
	if err := s.askReplay(ctx); err != nil || s.about != nil {
		return err
	}
	r, err := s.readRun()
	if err != nil {
		return err
	}
	if e.Version == "" {
		e.Version = r.Environment.Version
	}
	if e.Routing == "" {
		e.Routing = r.Environment.Routing
	}
	r.Environment = s.neutral(e)
	return s.writeRun(r)
}

// readRun returns the run of this session as far as it was measured; a new one takes the environment of the replayed run.
func (s *Session) readRun() (data.Run, error) {
	r := data.Run{Schema: data.SchemaVersion, Name: s.run, Environment: data.Environment{Engine: "vllm"}, Rounds: []data.Round{}}
	err := readJSON(filepath.Join(s.dir, "runs", s.run, runFile), &r)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || s.archive == "" {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return r, err
	}
	var from data.Run
	if err := readJSON(filepath.Join(s.archive, "runs", s.run, runFile), &from); err != nil {
		return r, err
	}
	r.What, r.Environment = from.What, from.Environment
	return r, nil
}

func (s *Session) writeRun(r data.Run) error {
	return writeJSON(filepath.Join(s.dir, "runs", s.run, runFile), r)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
