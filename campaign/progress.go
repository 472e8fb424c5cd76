package campaign

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Progress is what a process does in a campaign's folder at the moment, for whoever watches the folder from another one.
type Progress struct {
	Stage  string `json:"stage"`  // "C = 64: without the profiler"
	Detail string `json:"detail"` // "12 of 64 requests"; changes often
	PID    int    `json:"pid"`    // of the process
	Began  string `json:"began"`  // when it started, as /proc has it: pids are used again
}

// Text is the stage with its detail.
func (p Progress) Text() string {
	if p.Detail == "" {
		return p.Stage
	}
	return p.Stage + ", " + p.Detail
}

func progressPath(dir string) string { return filepath.Join(dir, ".journal", "progress.json") }

// ReadProgress returns what a process does in the campaign's folder now; nothing when none is at work. What a killed one left is nothing.
func ReadProgress(dir string) Progress {
	p := lastProgress(dir)
	if !alive(p.PID, p.Began) {
		return Progress{}
	}
	return p
}

// lastProgress is ReadProgress also for a process that has ended.
func lastProgress(dir string) Progress {
	var p Progress
	if readJSON(progressPath(dir), &p) != nil {
		return Progress{}
	}
	return p
}

// often bounds how often the detail of a stage is written.
const often = 200 * time.Millisecond

// teller leaves word of what this process does in a campaign's folder.
type teller struct {
	dir  string
	told Progress
	at   time.Time
}

// tell leaves word. A disk that is full stops a measurement at its results, not here.
func (t *teller) tell(stage, detail string) {
	now := time.Now()
	if stage == t.told.Stage && now.Sub(t.at) < often {
		return
	}
	if t.told.PID == 0 {
		t.told.PID = os.Getpid()
		t.told.Began, _ = processStart(t.told.PID)
	}
	t.told.Stage, t.told.Detail, t.at = stage, detail, now
	_ = writeJSON(progressPath(t.dir), t.told)
}

// end says that nothing goes on any more. The word of another process stays.
func (t *teller) end() {
	last := lastProgress(t.dir)
	if t.told.PID != 0 && last.PID == t.told.PID && last.Began == t.told.Began {
		_ = os.Remove(progressPath(t.dir))
	}
	t.told = Progress{}
}

// tell leaves word of what the session does.
func (s *Session) tell(stage, detail string) {
	if s.streams != 0 {
		stage = fmt.Sprintf("C = %d: %s", s.streams, stage)
	}
	s.teller.tell(stage, detail)
}

// endProgress says that nothing goes on any more.
func (s *Session) endProgress() {
	s.streams = 0
	s.teller.end()
}

// since says when something began.
func since(unix int64) string {
	return "since " + time.Unix(unix, 0).UTC().Format("15:04:05 UTC")
}

// alive says that a process of this machine that started at began is there.
func alive(pid int, began string) bool {
	now, err := processStart(pid)
	return err == nil && now == began
}

// processStart returns when a process of this machine began, in the kernel's own units; an error when there is none.
func processStart(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before may hold anything
	if len(fields) < 20 || fields[0] == "Z" {                           // a zombie does nothing any more
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
