package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/pprof"
	"strconv"
	"sync"

	"github.com/rooflab/rooflab/kernel/display"
	"github.com/rooflab/rooflab/kernel/proto"
	"github.com/rooflab/rooflab/kernel/rt"
)

// screen is what package display shows values on.
type screen struct{}

// show displays the values of a cell's last expression.
func show(vals []any) {
	b := render(vals)
	if b.empty() {
		return
	}
	id := 0
	if x := mine(); x != nil {
		id = x.id
	}
	output.event(proto.FromWorker{Ev: "show", ID: id, Cell: owner(), Data: b.Data, Metadata: b.Metadata})
}

func (screen) Display(id string, values []any) { showAs("display", id, values) }

func (screen) Update(id string, values []any) { showAs("update", id, values) }

func showAs(event, id string, values []any) {
	b := render(values)
	if b.empty() {
		b.Data = map[string]any{display.MIMETypeText: "<nil>"}
	}
	if s, ok := b.Transient["display_id"].(string); ok && event == "display" {
		id = s
	}
	output.event(proto.FromWorker{Ev: event, Cell: owner(), Display: id, Data: b.Data, Metadata: b.Metadata})
}

func (screen) Clear(wait bool) {
	output.event(proto.FromWorker{Ev: "clear", Cell: owner(), Wait: wait})
}

func (screen) Render(v any) display.Data {
	b := bundle{}
	b.add(v)
	return display.Data{Data: b.Data, Metadata: b.Metadata, Transient: b.Transient}
}

func (screen) Input(prompt string, password bool) (string, error) {
	m, ok := ask(prompt, password, stopped())
	if !ok {
		rt.Goexit()
	}
	if m.Err != "" {
		return "", errors.New(m.Err)
	}
	return m.Text, nil
}

// questions are the inputs that were asked for and not answered yet.
var questions = struct {
	sync.Mutex
	last int
	open map[int]chan proto.ToWorker
}{open: map[int]chan proto.ToWorker{}}

// ask asks the user for a line. It reports false if stop is closed first.
func ask(prompt string, password bool, stop <-chan struct{}) (proto.ToWorker, bool) {
	c := make(chan proto.ToWorker, 1)
	questions.Lock()
	questions.last++
	id := questions.last
	questions.open[id] = c
	questions.Unlock()
	defer func() {
		questions.Lock()
		delete(questions.open, id)
		questions.Unlock()
	}()
	output.event(proto.FromWorker{Ev: "input", ID: id, Cell: owner(), Prompt: prompt, Password: password})
	select {
	case m := <-c:
		return m, true
	case <-stop:
		return proto.ToWorker{}, false
	}
}

// answer takes the kernel's answer to a question.
func answer(m proto.ToWorker) {
	questions.Lock()
	defer questions.Unlock()
	if c := questions.open[m.ID]; c != nil {
		delete(questions.open, m.ID)
		c <- m
	}
}

func (screen) Comm(m display.CommMessage) error {
	data, err := json.Marshal(m.Data)
	if err != nil {
		return err
	}
	if m.Data == nil {
		data = []byte("{}")
	}
	switch m.Type {
	case "comm_open":
		commCells.Store(m.ID, owner())
	case "target":
		commCells.Store(m.Target, owner())
	}
	output.event(proto.FromWorker{Ev: "comm", Cell: owner(), Comm: &proto.Comm{Type: m.Type, ID: m.ID, Target: m.Target, Data: data, Buffers: m.Buffers}})
	return nil
}

// commCells says which cell has opened a comm, or answers to a target: what its functions print is that cell's.
var commCells sync.Map

// receiveComm handles a message from a front end's end of a comm.
func receiveComm(m *proto.Comm) {
	defer rt.Guard()
	if n, ok := commCells.Load(m.Target); ok && m.Type == "comm_open" {
		commCells.Store(m.ID, n)
	}
	if n, ok := commCells.Load(m.ID); ok {
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(cellLabel, strconv.Itoa(n.(int)))))
	}
	var data map[string]any
	if len(m.Data) > 0 {
		if err := json.Unmarshal(m.Data, &data); err != nil {
			fmt.Fprintf(stderr, "comm %s: %v\n", m.ID, err)
			return
		}
	}
	display.Receive(display.CommMessage{Type: m.Type, ID: m.ID, Target: m.Target, Buffers: m.Buffers}, data)
}
