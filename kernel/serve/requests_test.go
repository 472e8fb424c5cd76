package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rooflab/rooflab/kernel/wire"
)

// asks gives one request of each kind and part of its answer.
var asks = []struct{ request, content, want string }{
	{"kernel_info_request", `{}`, `"codemirror_mode":"go"`},
	{"kernel_info_request", `{}`, `"supported_features":[]`},
	{"complete_request", `{"code":"é ab","cursor_pos":4}`, `"cursor_end":4,"cursor_start":2,"matches":["éab"],"metadata":{"_jupyter_types_experimental":[{"end":4,"signature":"func()","start":2,"text":"éab","type":"function"}]},"status":"ok"`},
	{"complete_request", `{"code":"é ","cursor_pos":2}`, `"cursor_end":2,"cursor_start":2,"matches":[],"metadata":{"_jupyter_types_experimental":[]},"status":"ok"`},
	{"complete_request", `{"code":"é ab","cursor_pos":99}`, `"cursor_end":4,"cursor_start":2`},
	{"complete_request", `{"code":"é ab","cursor_pos":-1}`, `"cursor_end":0,"cursor_start":0`},
	{"complete_request", `{"code":"é ab"}`, `"cursor_end":4,"cursor_start":2`},
	{"complete_request", `{"code":7}`, `"status":"error"`},
	{"complete_request", `{"code":"panic"}`, `"evalue":"panic in the engine: completion"`},
	{"is_complete_request", `{"code":"{"}`, `{"indent":"\t","status":"incomplete"}`},
	{"is_complete_request", `{"code":"x"}`, `{"status":"complete"}`},
	{"inspect_request", `{"code":"éx","cursor_pos":1,"detail_level":1}`, `"data":{"text/markdown":"*","text/plain":"é"},"found":true,"metadata":{},"status":"ok"`},
	{"inspect_request", `{"code":"x","cursor_pos":0}`, `"data":{},"found":false,"metadata":{},"status":"ok"`},
	{"history_request", `{"hist_access_type":"tail","n":3}`, `"history":[]`},
	{"comm_info_request", `{}`, `"comms":{}`},
}

func (d *client) ask(to *wire.Socket, msgType, content string) (id, reply string) {
	d.t.Helper()
	id = d.send(to, msgType, json.RawMessage(content))
	text, err := json.Marshal(d.reply(to, id))
	if err != nil {
		d.t.Fatal(err)
	}
	return id, string(text)
}

func TestEveryRequestIsAnsweredBetweenBusyAndIdle(t *testing.T) {
	d := dial(t)
	for _, c := range asks {
		id, got := d.ask(d.Shell, c.request, c.content)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.request, c.content, got, c.want)
		}
		if got := d.published(id); !slices.Equal(got, []string{"status busy", "status idle"}) {
			t.Errorf("%s: published %q", c.request, got)
		}
	}
	id := d.send(d.Shell, "no_such_request", map[string]any{})
	if got := d.published(id); !slices.Equal(got, []string{"status busy", "status idle"}) {
		t.Errorf("unknown request: published %q", got)
	}
}

func TestNothingButCellsWaitsForARunningCell(t *testing.T) {
	d := dial(t)
	cell := d.execute("out started\nwait", nil)
	d.started(cell)
	queued := d.execute("give 2", nil)
	for _, c := range asks {
		if c.request == "history_request" {
			c.want = `[[1,1,"out started\nwait"]]`
		}
		for _, to := range []*wire.Socket{d.Shell, d.Control} {
			if _, got := d.ask(to, c.request, c.content); !strings.Contains(got, c.want) {
				t.Errorf("%s %s: %s, want %s", c.request, c.content, got, c.want)
			}
		}
	}
	id, _ := d.ask(d.Shell, "kernel_info_request", "{}")
	d.published(id)
	if m := d.recv(d.IOPub); m.Parent.MsgID != cell || content(t, m)["execution_state"] != "busy" {
		t.Errorf("the cell does not say that it still runs: %s of %s", m.Content, m.Parent.MsgID)
	}
	d.ask(d.Control, "interrupt_request", "{}")
	d.reply(d.Shell, cell)
	if r := d.reply(d.Shell, queued); r["status"] != "aborted" {
		t.Errorf("the cell behind: %v", r)
	}
}

func TestControlRefusesCellsAndDebugging(t *testing.T) {
	d := dial(t)
	if _, r := d.ask(d.Control, "execute_request", `{"code":"give 2"}`); !strings.Contains(r, "execute_request on the control channel: send it on shell") {
		t.Errorf("execute_request: %s", r)
	}
	_, r := d.ask(d.Control, "debug_request", `{"type":"request","seq":7,"command":"initialize"}`)
	if want := `{"command":"initialize","message":"this kernel has no debugger","request_seq":7,"success":false,"type":"response"}`; r != want {
		t.Errorf("debug_request: %s", r)
	}
	if r, _ := d.run("give 3"); r["execution_count"] != 1.0 {
		t.Errorf("a refused cell was counted: %v", r)
	}
}

func TestAnInterruptEndsTheRunningCellOnly(t *testing.T) {
	d := dial(t)
	interrupts := map[string]func(){
		"message": func() { d.ask(d.Control, "interrupt_request", "{}") },
		"signal":  func() { syscall.Kill(syscall.Getpid(), syscall.SIGINT) },
	}
	for name, interrupt := range interrupts {
		interrupt() // of an idle kernel
		if r, _ := d.run("out fine"); r["status"] != "ok" {
			t.Errorf("%s: a cell after an interrupt: %v", name, r)
		}
		id := d.execute("out started\nwait", nil)
		d.started(id)
		interrupt()
		if r := d.reply(d.Shell, id); r["evalue"] != "interrupted" {
			t.Errorf("%s: reply %v", name, r)
		}
	}
}

func TestShutdownAnswersEndsTheCellAndClosesTheEngine(t *testing.T) {
	for _, code := range []string{"out started\nwait", "out started\nstuck"} {
		d := dial(t)
		cell := d.execute(code, nil)
		d.started(cell)
		id, r := d.ask(d.Control, "shutdown_request", `{"restart":true}`)
		if r != `{"restart":true,"status":"ok"}` {
			t.Errorf("reply %s", r)
		}
		d.published(id)
		if r := d.reply(d.Shell, cell); r["status"] != "error" {
			t.Errorf("%q: the cell's reply %v", code, r)
		}
		<-d.ended
		select {
		case <-d.engine.closed:
		default:
			t.Error("the engine was not closed")
		}
	}
}

func TestShutdownDropsCellsThatWait(t *testing.T) {
	d := dial(t)
	cell := d.execute("out started\nwait", map[string]any{"stop_on_error": false})
	d.started(cell)
	d.execute("open c1", nil)
	d.ask(d.Shell, "kernel_info_request", "{}") // so the second has arrived
	d.ask(d.Control, "shutdown_request", "{}")
	<-d.ended
	if len(d.server.comms) != 0 {
		t.Error("a cell ran after the shutdown")
	}
}

func TestATerminationSignalClosesTheEngine(t *testing.T) {
	d := dial(t)
	syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	<-d.ended
	<-d.engine.closed
}

func TestCellsWaitForTheEngineAndFrontEndsDoNot(t *testing.T) {
	w, ready := newWords(), make(chan struct{})
	d := dialWith(t, w, func(context.Context) (Engine, error) { <-ready; return w, nil }) // dial has asked for kernel_info
	cell := d.execute("give 1", nil)
	if _, got := d.ask(d.Shell, "history_request", `{"hist_access_type":"tail"}`); !strings.Contains(got, `"history":[]`) {
		t.Errorf("history %s", got)
	}
	close(ready)
	if r := d.reply(d.Shell, cell); r["status"] != "ok" {
		t.Errorf("reply %v", r)
	}
}

func TestAnInterruptGivesUpCellsThatWaitForTheEngine(t *testing.T) {
	w, ready := newWords(), make(chan struct{})
	d := dialWith(t, w, func(context.Context) (Engine, error) { <-ready; return w, nil })
	first, second := d.execute("give 1", nil), d.execute("give 2", nil)
	d.ask(d.Shell, "kernel_info_request", "{}") // so both cells have arrived
	d.ask(d.Control, "interrupt_request", "{}")
	if got := d.published(first); !slices.Equal(got, []string{"status busy", "error interrupted before the kernel was ready", "status idle"}) {
		t.Errorf("published %q", got)
	}
	if r := d.reply(d.Shell, second); r["status"] != "aborted" {
		t.Errorf("second: %v", r)
	}
	close(ready)
	if r, _ := d.run("give 3"); r["status"] != "ok" {
		t.Errorf("third: %v", r)
	}
}

func TestAnEngineThatCannotStartSaysWhyInEachCell(t *testing.T) {
	d := dialWith(t, newWords(), func(context.Context) (Engine, error) { return nil, errors.New("find Go: not installed") })
	for range 2 {
		if r, _ := d.run("give 1"); r["evalue"] != "find Go: not installed" {
			t.Errorf("reply %v", r)
		}
	}
	for _, c := range []struct{ request, want string }{
		{"complete_request", `"matches":[]`}, {"inspect_request", `"found":false`}, {"is_complete_request", `"unknown"`},
		{"kernel_info_request", `"implementation":"words"`}, {"comm_info_request", `"comms":{}`}, {"interrupt_request", `"ok"`},
	} {
		if _, got := d.ask(d.Shell, c.request, `{"code":"x"}`); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.request, got)
		}
	}
}

func TestStartingEndsWithTheKernel(t *testing.T) {
	d := dialWith(t, newWords(), func(ctx context.Context) (Engine, error) { <-ctx.Done(); return nil, ctx.Err() })
	d.ask(d.Control, "shutdown_request", `{"restart":false}`)
	<-d.ended
}

func TestHistoryAnswersAsAsked(t *testing.T) {
	d := dial(t)
	for _, code := range []string{"out a", "out b/x\ngive 5", "out a"} {
		d.run(code)
	}
	for request, want := range map[string]string{
		`{"hist_access_type":"tail","n":2}`:                              `[[1,2,"out b/x\ngive 5"],[1,3,"out a"]]`,
		`{"hist_access_type":"range","session":0,"start":1,"stop":2}`:    `[[1,1,"out a"]]`,
		`{"hist_access_type":"range","session":1,"start":3,"stop":null}`: `[[1,3,"out a"]]`,
		`{"hist_access_type":"range","session":7,"start":0,"stop":9}`:    `[]`,
		`{"hist_access_type":"search","pattern":"*a","n":5}`:             `[[1,1,"out a"],[1,3,"out a"]]`,
		`{"hist_access_type":"search","pattern":"*a","unique":true}`:     `[[1,3,"out a"]]`,
		`{"hist_access_type":"search","pattern":"out b?x*"}`:             `[[1,2,"out b/x\ngive 5"]]`,
		`{"hist_access_type":"search","pattern":"a"}`:                    `[]`,
		`{"hist_access_type":"tail","n":2,"output":true}`:                `[[1,2,["out b/x\ngive 5","5"]],[1,3,["out a",null]]]`,
	} {
		if _, got := d.ask(d.Shell, "history_request", request); got != `{"history":`+want+`,"status":"ok"}` {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

func TestCommsOfCellsAreListedUntilTheyAreClosed(t *testing.T) {
	d := dial(t)
	id := d.execute("open c1\nopen c2", nil)
	d.reply(d.Shell, id)
	m := d.messages(id)[2]
	if want := `{"comm_id":"c1","target_name":"slider","data":{"v":1}}`; m.Type() != "comm_open" || string(m.Content) != want ||
		string(m.Metadata) != `{"version":"2"}` || len(m.Buffers) != 1 || !bytes.Equal(m.Buffers[0], []byte{1, 2}) {
		t.Errorf("%s %s %s %v", m.Type(), m.Content, m.Metadata, m.Buffers)
	}
	d.run("close c2")
	for request, want := range map[string]string{
		`{}`: `{"c1":{"target_name":"slider"}}`, `{"target_name":"slider"}`: `{"c1":{"target_name":"slider"}}`, `{"target_name":"other"}`: `{}`,
	} {
		if _, got := d.ask(d.Shell, "comm_info_request", request); got != `{"comms":`+want+`,"status":"ok"}` {
			t.Errorf("%s: %s", request, got)
		}
	}
}

func TestCommMessagesOfFrontEndsReachTheEngine(t *testing.T) {
	d := dial(t)
	cell := d.execute("open c1\nout started\nwait", nil)
	d.started(cell)
	d.send(d.Shell, "comm_msg", json.RawMessage(`{"comm_id":"none","data":{}}`)) // dropped
	d.send(d.Shell, "comm_msg", json.RawMessage(`{"comm_id":"c1","data":{"v":2}}`))
	d.send(d.Shell, "comm_open", json.RawMessage(`{"comm_id":"c9","target_name":"known","data":{}}`))
	d.send(d.Shell, "comm_close", json.RawMessage(`{"comm_id":"c1"}`))
	for _, want := range []string{`comm_msg c1  {"v":2}`, `comm_open c9 known {}`, `comm_close c1  {}`} {
		m := <-d.engine.comms
		if got := m.Type + " " + m.ID + " " + m.Target + " " + string(m.Data); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, got := d.ask(d.Shell, "comm_info_request", `{}`); got != `{"comms":{"c9":{"target_name":"known"}},"status":"ok"}` {
		t.Errorf("open comms %s", got)
	}
	unknown := d.send(d.Shell, "comm_open", json.RawMessage(`{"comm_id":"c3","target_name":"no.such","data":{}}`))
	if got := d.messages(unknown); len(got) != 3 || got[1].Type() != "comm_close" || string(got[1].Content) != `{"comm_id":"c3","data":{}}` {
		t.Errorf("unknown target: %d messages", len(got))
	}
	d.ask(d.Control, "interrupt_request", "{}")
	d.reply(d.Shell, cell)
}
