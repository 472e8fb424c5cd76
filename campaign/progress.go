package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Progress is what a session does at the moment, for whoever watches its folder from another process.
type Progress struct {
	Stage  string `json:"stage"`  // "C = 64: without the profiler"
	Detail string `json:"detail"` // "12 of 64 requests"; changes often
}

func progressPath(dir string) string { return filepath.Join(dir, ".journal", "progress.json") }

// ReadProgress returns what a session in the campaign's folder does now; nothing when none is at work.
func ReadProgress(dir string) Progress {
	var p Progress
	if readJSON(progressPath(dir), &p) != nil {
		return Progress{}
	}
	return p
}

// often bounds how often the detail of a stage is written.
const often = 200 * time.Millisecond

// tell leaves word of what the session does. A disk that is full stops a measurement at its results, not here.
func (s *Session) tell(stage, detail string) {
	if s.streams != 0 {
		stage = fmt.Sprintf("C = %d: %s", s.streams, stage)
	}
	now := time.Now()
	if stage == s.told.Stage && now.Sub(s.toldAt) < often {
		return
	}
	s.told, s.toldAt = Progress{stage, detail}, now
	_ = writeJSON(progressPath(s.dir), s.told)
}

// endProgress says that nothing goes on any more.
func (s *Session) endProgress() {
	s.streams, s.told = 0, Progress{}
	_ = os.Remove(progressPath(s.dir))
}
