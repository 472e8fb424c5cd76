package compiled

import (
	"encoding/json"

	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/serve"
)

// output is where the output of an execution goes; a goroutine may outlive its cell by far.
func (e *Engine) output(number int) serve.Output {
	e.mu.Lock()
	defer e.mu.Unlock()
	if out := e.outputs[number]; out != nil {
		return out
	}
	return silence{}
}

func (e *Engine) printed(c proto.Chunk) { e.output(c.Cell).Stream(c.Stream, c.Text) }

// event takes what code in a cell does to the notebook. It must not wait: the text that is printed later waits for it.
func (e *Engine) event(w *worker, m proto.FromWorker) {
	out := e.output(m.Cell)
	switch m.Ev {
	case "display":
		out.Display(bundle(m))
	case "update":
		out.Update(bundle(m))
	case "clear":
		out.Clear(m.Wait)
	case "input":
		go func() {
			line, err := out.Input(m.Prompt, m.Password)
			answer := proto.ToWorker{Op: "input", ID: m.ID, Text: line}
			if err != nil {
				answer.Err = err.Error()
			}
			w.send(answer)
		}()
	case "comm":
		if m.Comm != nil {
			e.commFromCell(out, *m.Comm)
		}
	}
}

func bundle(m proto.FromWorker) serve.Bundle {
	return serve.Bundle{Data: m.Data, Metadata: m.Metadata, DisplayID: m.Display}
}

// commFromCell passes a comm's message on, and keeps account of the targets that cells answer to.
func (e *Engine) commFromCell(out serve.Output, c proto.Comm) {
	switch c.Type {
	case "target", "untarget":
		e.mu.Lock()
		e.targets[c.Target] = c.Type == "target"
		e.mu.Unlock()
	default:
		out.Comm(serve.CommMessage{Type: c.Type, ID: c.ID, Target: c.Target, Data: c.Data, Metadata: c.Metadata, Buffers: c.Buffers})
	}
}

// HasTarget tells whether a cell answers to a comm's target.
func (e *Engine) HasTarget(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.targets[name]
}

// Comm passes a front end's message on to the cells.
func (e *Engine) Comm(m serve.CommMessage) {
	e.mu.Lock()
	w := e.worker
	e.mu.Unlock()
	if w == nil || !w.alive() {
		return
	}
	if m.Data == nil {
		m.Data = json.RawMessage("{}")
	}
	w.send(proto.ToWorker{Op: "comm", Comm: &proto.Comm{
		Type: m.Type, ID: m.ID, Target: m.Target, Data: m.Data, Metadata: m.Metadata, Buffers: m.Buffers,
	}})
}

// silence is an Output that shows nothing.
type silence struct{}

func (silence) Stream(string, string)              {}
func (silence) Display(serve.Bundle)               {}
func (silence) Update(serve.Bundle)                {}
func (silence) Clear(bool)                         {}
func (silence) Input(string, bool) (string, error) { return "", serve.ErrNoInput }
func (silence) Comm(serve.CommMessage)             {}
