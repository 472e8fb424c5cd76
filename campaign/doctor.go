package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/flock"
)

// Left is what stopped runs left in a campaign folder.
type Left struct {
	Dir     string      `json:"dir"`
	Profile *Profile    `json:"profile,omitempty"` // that is noted as open
	Work    *Work       `json:"work,omitempty"`    // of the process that measures, or did when it was killed
	Rounds  []LeftRound `json:"rounds"`            // that are not finished
	Partial []string    `json:"partial"`           // traces that were being fetched
}

// Profile is an open profile of a server, as the campaign's journal has it.
type Profile struct {
	Target  string `json:"target"`
	Streams int    `json:"streams,omitempty"`
	Opened  string `json:"opened,omitempty"` // when, UTC
	PID     int    `json:"pid,omitempty"`    // of the process that opened it
	InUse   bool   `json:"in_use"`           // that process is alive: it closes the profile itself
	Doing   string `json:"doing,omitempty"`  // what it does with the profile, and since when
}

// Work is what a process does or did in a campaign folder.
type Work struct {
	PID   int    `json:"pid"`
	Gone  bool   `json:"gone"`  // no such process runs here any more
	Doing string `json:"doing"` // "C = 64: without the profiler, 12 of 64 requests"
}

// LeftRound is a load that was measured in part.
type LeftRound struct {
	Run     string `json:"run"`
	Streams int    `json:"streams"`
	Missing string `json:"missing"`         // "the profiled window", ...
	Again   bool   `json:"again,omitempty"` // it is to replace a finished round of the load, which stays until then
}

// Find returns what stopped runs left in the campaign of a folder. It sends nothing and changes nothing.
func Find(dir string) (Left, error) {
	left := Left{Dir: dir, Rounds: []LeftRound{}, Partial: []string{}}
	if _, err := ReadManifest(dir); err != nil {
		return left, err
	}
	var j journal
	switch err := readJSON(journalPath(dir), &j); {
	case err == nil:
		left.Profile = &Profile{Target: j.Target, Streams: j.Streams, PID: j.PID, InUse: j.alive() || flock.Held(profileLock(dir))}
		if left.Profile.InUse {
			left.Profile.Doing = j.work()
		}
		if j.Opened > 0 {
			left.Profile.Opened = time.Unix(j.Opened, 0).UTC().Format("2006-01-02 15:04:05 UTC")
		}
	case !errors.Is(err, fs.ErrNotExist):
		return left, noteOfProfile(err)
	}
	if p := lastProgress(dir); p.PID != 0 {
		left.Work = &Work{p.PID, !alive(p.PID, p.Began), p.Text()}
	}
	found, err := filepath.Glob(filepath.Join(dir, "runs", "*", runFile))
	if err != nil {
		return left, err
	}
	for _, name := range found {
		var run data.Run
		if err := readJSON(name, &run); err != nil {
			return left, err
		}
		for _, r := range run.Rounds {
			if m := missing(dir, r); m != "" {
				left.Rounds = append(left.Rounds, LeftRound{run.Name, r.Streams, m, false})
			}
			begun, err := replacement(filepath.Dir(name), r)
			if err != nil {
				return left, err
			}
			if begun != nil {
				left.Rounds = append(left.Rounds, LeftRound{run.Name, r.Streams, lacks(dir, *begun), true})
			}
		}
	}
	parts, err := filepath.Glob(filepath.Join(dir, ".fetch", "*"))
	for _, p := range parts {
		left.Partial = append(left.Partial, filepath.Base(p))
	}
	return left, err
}

// replacement returns the round that was begun to replace one that was set aside, nil without any. What lies beside another
// one counts for nothing.
func replacement(runDir string, old data.Round) (*data.Round, error) {
	if !isAside(old) {
		return nil, nil
	}
	var begun data.Round
	err := readJSON(begunPath(runDir, old.Streams), &begun)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &begun, err
}

// missing says what a round of run.json lacks, "" when nothing. A replay, and a campaign from before this was noted, have no more.
func missing(dir string, r data.Round) string {
	if r.Unprofiled != nil && r.Server == 0 && !measuredLive(r) {
		return ""
	}
	return lacks(dir, r)
}

// lacks says what a live round lacks, "" when nothing.
func lacks(dir string, r data.Round) string {
	switch {
	case r.Unprofiled == nil:
		return "the pass without the profiler"
	case len(r.Traces) == 0:
		return "the profiled window"
	case r.After == nil && r.StopNs != 0: // older campaigns have none
		return "the pass after the profile"
	}
	for _, t := range r.Traces {
		if !exists(filepath.Join(dir, filepath.FromSlash(t.Path))) {
			return "the trace of rank " + fmt.Sprint(t.Rank)
		}
	}
	return ""
}
