package compiled

import (
	"sync"
	"time"

	"github.com/rooflab/rooflab/kernel/serve"
)

// slow is how long a step of building may take before the user is told what it is.
const slow = 2 * time.Second

// steps tells the user what takes long while a cell is built, and takes that away before the cell prints.
type steps struct {
	mu    sync.Mutex
	out   serve.Output
	text  string // of the step that runs
	shown bool
	timer *time.Timer
}

// progress is told of each step of building that may take long.
func (e *Engine) progress(text string) {
	e.mu.Lock()
	x := e.running
	e.mu.Unlock()
	if x != nil {
		x.steps.begin(text)
	}
}

func (s *steps) begin(text string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	if s.shown {
		s.out.Stream("stderr", text+"\n")
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(slow, s.show)
	}
}

func (s *steps) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.text != "" {
		s.shown = true
		s.out.Stream("stderr", s.text+" ...\n")
	}
}

// end is called when the cell has been built.
func (s *steps) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.shown {
		s.shown, s.text = false, ""
		s.out.Clear(false)
	}
}
