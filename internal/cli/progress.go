package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
)

// progress shows where a run is: one line that is rewritten on a terminal, one line a notebook and a stage of a
// measurement elsewhere.
type progress struct {
	w     io.Writer
	tty   bool
	width int

	mu        sync.Mutex // the run and the watch of its measurement write
	shown     bool
	next      string // the line of the notebook that begins, until it is known that it is run
	place     string // notebook and cell that run
	stage     string // of a measurement, as last shown
	begun     int
	unchanged int
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, width: 80}
	if f, ok := w.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		p.tty = true
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 20 {
			p.width = cols
		}
	}
	return p
}

func (p *progress) begin(ph notebooks.Phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	p.next = ""
	if !p.tty {
		p.next = fmt.Sprintf("%s: %s\n", ph.Notebook, ph.What)
	}
}

// summary says what was run and what was not.
func (p *progress) summary(took time.Duration) string {
	ran := p.begun - p.unchanged
	text := fmt.Sprintf("ran %s in %.1f s", count(ran), took.Seconds())
	switch {
	case p.unchanged == 0:
		return text
	case ran == 0:
		return "nothing was run: " + count(p.unchanged) + " finished before and unchanged"
	}
	return fmt.Sprintf("%s, left %d as before", text, p.unchanged)
}

func (p *progress) cell(ph notebooks.Phase, e nbclient.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.State == nbclient.Unchanged {
		p.wipe()
		p.unchanged++
		fmt.Fprintf(p.w, "%s: finished before and unchanged, left as it is\n", ph.Notebook)
		return
	}
	fmt.Fprint(p.w, p.next)
	p.next = ""
	if e.State != nbclient.Started {
		return
	}
	p.place = fmt.Sprintf("%s [%d/%d] ", ph.Notebook, e.Cell, e.Cells)
	p.rewrite(p.place + plain(strings.TrimSpace(e.Line)))
}

// watch shows what a measurement in a cell does, until the returned function is called.
func (p *progress) watch(dir string) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.measuring(campaign.ReadProgress(dir))
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

func (p *progress) measuring(now campaign.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stage := plain(now.Stage)
	if stage == "" {
		return
	}
	text := plain(now.Text())
	if stage != p.stage && !p.tty {
		fmt.Fprintf(p.w, "  %s\n", text)
	}
	p.stage = stage
	p.rewrite(p.place + text)
}

func (p *progress) warn(ph notebooks.Phase, d diag.Diagnostic) {
	p.say(ph.Notebook + ": " + plain(d.String()))
}

func (p *progress) lost(ph notebooks.Phase, stop string) {
	p.say(ph.Notebook + ": the cells were stopped in the middle; " + stop)
}

// stopping is the answer to Ctrl-C: what comes next may take a while.
func (p *progress) stopping() {
	p.say("stopping: the running cell is interrupted; a profile that is open is closed first")
}

// say prints a line that stays.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintln(p.w, line)
}

// rewrite puts a text in place of the one that a terminal shows.
func (p *progress) rewrite(text string) {
	if !p.tty {
		return
	}
	line := []rune(text)
	if len(line) > p.width-1 {
		line = append(line[:p.width-2], '…')
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", string(line))
	p.shown = true
}

// clear removes the rewritten line, so that what follows starts on an empty one.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *progress) wipe() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
