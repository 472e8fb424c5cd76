package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// words is an engine whose cells are lines of "verb rest".
type words struct {
	server *Server
	stop   chan struct{}
}

func (w *words) Info() Info { return Info{Name: "words", Version: "1", LanguageVersion: "1.26"} }

func (w *words) Run(_ int, code string) (Bundle, error) {
	var b Bundle
	for line := range strings.Lines(code) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "out":
			fmt.Println(rest)
		case "err":
			fmt.Fprintln(os.Stderr, rest)
		case "raw":
			os.Stdout.WriteString(strings.Repeat("é", 200_000))
		case "show":
			w.server.Display(Bundle{Data: map[string]any{"text/plain": rest}})
		case "give":
			b = Bundle{Data: map[string]any{"text/plain": rest}}
		case "bad":
			b = Bundle{Data: map[string]any{"text/plain": make(chan int)}}
		case "pause":
			time.Sleep(200 * time.Millisecond)
		case "fail":
			return b, errors.New(rest)
		case "panic":
			panic(rest)
		case "exit":
			runtime.Goexit()
		case "wait":
			<-w.stop
			if rest != "" {
				os.WriteFile(rest, nil, 0o644)
			}
			return b, errors.New("interrupted")
		}
	}
	return b, nil
}

func (w *words) Complete(code string, cursor int) ([]string, int) {
	start := strings.LastIndexByte(code[:cursor], ' ') + 1
	return []string{"é" + code[start:cursor]}, start
}
func (w *words) Inspect(code string, cursor int) string { return code[:cursor] }
func (w *words) State(string) (string, string)          { return "incomplete", "\t" }
func (w *words) Interrupt()                             { w.stop <- struct{}{} }

// client drives the server under test.
type client struct {
	t *testing.T
	*wire.Client
	ctx context.Context
}

// dial starts a server with the words engine. The process has one stdout, so the tests are not parallel.
func dial(t *testing.T) *client {
	t.Helper()
	stdout, stderr := os.Stdout, os.Stderr
	c, err := wire.NewConnection()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "connection.json")
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	server, err := Listen(file)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(func() Engine { return &words{server: server, stop: make(chan struct{}, 1)} })
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	k, err := wire.Connect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	d := &client{t, k, ctx}
	// A subscription takes effect a little later than it is made: ask until an answer is published.
	for done := false; !done; {
		id := d.send(d.Shell, "kernel_info_request", map[string]any{})
		d.reply(d.Shell, id)
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := d.Session.Recv(short, d.IOPub)
		stop()
		done = err == nil
	}
	t.Cleanup(func() {
		if m, err := d.Session.New("shutdown_request", map[string]any{"restart": false}); err == nil {
			d.Session.Send(d.Control, m) // a test may have ended the kernel before
		}
		select {
		case <-ended:
		case <-ctx.Done():
			t.Error("the server did not end")
		}
		k.Close()
		cancel()
		os.Stdout, os.Stderr = stdout, stderr
	})
	return d
}

func (d *client) send(to *wire.Socket, msgType string, content any) string {
	d.t.Helper()
	m, err := d.Session.New(msgType, content)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.Session.Send(to, m); err != nil {
		d.t.Fatal(err)
	}
	return m.Header.MsgID
}

func (d *client) reply(from *wire.Socket, id string) map[string]any {
	d.t.Helper()
	for {
		m, err := d.Session.Recv(d.ctx, from)
		if err != nil {
			d.t.Fatal("wait for the reply: ", err)
		}
		if m.Parent.MsgID == id {
			return content(d.t, m)
		}
	}
}

func content(t *testing.T, m *wire.Message) map[string]any {
	t.Helper()
	var c map[string]any
	if err := m.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// published returns what belongs to a request on iopub, up to its idle, as lines of "type text".
// Neighbouring texts of one stream are joined: their borders depend on time.
func (d *client) published(id string) []string {
	d.t.Helper()
	var lines []string
	stream := ""
	for {
		m, err := d.Session.Recv(d.ctx, d.IOPub)
		if err != nil {
			d.t.Fatalf("wait for idle: %v; so far %q", err, lines)
		}
		if m.Parent.MsgID != id {
			continue
		}
		c := content(d.t, m)
		line, name := m.Type(), ""
		switch m.Type() {
		case "status":
			line += " " + c["execution_state"].(string)
		case "stream":
			name = c["name"].(string)
			line = name + " " + c["text"].(string)
			if stream == name {
				lines[len(lines)-1] += c["text"].(string)
				continue
			}
		case "display_data", "execute_result":
			line += " " + c["data"].(map[string]any)["text/plain"].(string)
		case "error":
			line += " " + c["evalue"].(string)
		}
		stream = name
		lines = append(lines, line)
		if line == "status idle" {
			return lines
		}
	}
}

func (d *client) run(code string) (reply map[string]any, published []string) {
	d.t.Helper()
	id := d.send(d.Shell, "execute_request", map[string]any{"code": code})
	reply = d.reply(d.Shell, id)
	return reply, d.published(id)
}

func TestOutputsOfACellArriveInOrderAndBeforeIdle(t *testing.T) {
	d := dial(t)
	reply, got := d.run("out a\nout b\nshow pic\nout c\ngive 42")
	want := []string{"status busy", "execute_input", "stdout a\nb\n", "display_data pic", "stdout c\n", "execute_result 42", "status idle"}
	if !slices.Equal(got, want) {
		t.Errorf("published\n%q\nwant\n%q", got, want)
	}
	if reply["status"] != "ok" || reply["execution_count"] != 1.0 {
		t.Errorf("reply %v", reply)
	}
}

func TestCharactersAreNotCutBetweenMessages(t *testing.T) {
	d := dial(t)
	_, got := d.run("raw")
	if want := "stdout " + strings.Repeat("é", 200_000); got[2] != want {
		t.Errorf("got %d bytes, want %d; whole characters: %v", len(got[2]), len(want), !strings.Contains(got[2], "\ufffd"))
	}
}

func TestAnErrorIsInTheReplyAndPublishedWithATraceback(t *testing.T) {
	d := dial(t)
	for _, code := range []string{"fail boom", "panic boom"} {
		reply, got := d.run(code)
		trace, _ := reply["traceback"].([]any)
		if reply["status"] != "error" || reply["evalue"] != "boom" || len(trace) != 1 {
			t.Errorf("%s: reply %v", code, reply)
		}
		if !slices.Contains(got, "error boom") {
			t.Errorf("%s: published %q", code, got)
		}
	}
}

func TestAResultThatIsNotJSONIsAnError(t *testing.T) {
	d := dial(t)
	reply, _ := d.run("bad")
	if reply["status"] != "error" || !strings.Contains(reply["evalue"].(string), "show the result") {
		t.Errorf("reply %v", reply)
	}
}

func TestCellsQueuedBehindAFailureAreAborted(t *testing.T) {
	d := dial(t)
	first := d.send(d.Shell, "execute_request", map[string]any{"code": "pause\nfail boom"})
	second := d.send(d.Shell, "execute_request", map[string]any{"code": "out never"})
	if r := d.reply(d.Shell, first); r["status"] != "error" {
		t.Errorf("first reply %v", r)
	}
	if r := d.reply(d.Shell, second); r["status"] != "aborted" {
		t.Errorf("second reply %v", r)
	}
	if got := d.published(second); !slices.Equal(got, []string{"status busy", "status idle"}) {
		t.Errorf("published %q", got)
	}
	if r, _ := d.run("out again"); r["status"] != "ok" {
		t.Errorf("a later cell: %v", r)
	}
}

func TestACellThatEndsItsGoroutineLeavesAWorkingKernel(t *testing.T) {
	d := dial(t)
	if r, got := d.run("exit"); r["status"] != "error" || got[len(got)-1] != "status idle" {
		t.Errorf("reply %v, published %q", r, got)
	}
	if _, got := d.run("give 2"); !slices.Contains(got, "execute_result 2") {
		t.Errorf("published %q", got)
	}
}

func TestAnInterruptEndsTheRunningCellOnly(t *testing.T) {
	d := dial(t)
	if r := d.reply(d.Control, d.send(d.Control, "interrupt_request", map[string]any{})); r["status"] != "ok" {
		t.Errorf("interrupt of an idle kernel: %v", r)
	}
	id := d.send(d.Shell, "execute_request", map[string]any{"code": "out started\nwait"})
	for m := (*wire.Message)(nil); m == nil || m.Type() != "stream"; {
		var err error
		if m, err = d.Session.Recv(d.ctx, d.IOPub); err != nil {
			t.Fatal(err)
		}
	}
	if r := d.reply(d.Control, d.send(d.Control, "kernel_info_request", map[string]any{})); r["implementation"] != "words" {
		t.Errorf("kernel_info while busy: %v", r)
	}
	d.send(d.Control, "interrupt_request", map[string]any{})
	if r := d.reply(d.Shell, id); r["evalue"] != "interrupted" {
		t.Errorf("reply %v", r)
	}
}

func TestAShutdownLetsTheRunningCellEnd(t *testing.T) {
	d := dial(t)
	undone := filepath.Join(t.TempDir(), "undone")
	d.send(d.Shell, "execute_request", map[string]any{"code": "out started\nwait " + undone})
	for m := (*wire.Message)(nil); m == nil || m.Type() != "stream"; {
		var err error
		if m, err = d.Session.Recv(d.ctx, d.IOPub); err != nil {
			t.Fatal(err)
		}
	}
	d.send(d.Control, "shutdown_request", map[string]any{"restart": true})
	for { // until the kernel closes its sockets
		if _, err := d.Session.Recv(d.ctx, d.Shell); err != nil {
			break
		}
	}
	if _, err := os.Stat(undone); err != nil {
		t.Errorf("the kernel ended before its cell: %v", err)
	}
}

func TestSilentCellsPublishNothingAndDoNotCount(t *testing.T) {
	d := dial(t)
	id := d.send(d.Shell, "execute_request", map[string]any{"code": "give 1", "silent": true})
	d.reply(d.Shell, id)
	if got := d.published(id); !slices.Equal(got, []string{"status busy", "status idle"}) {
		t.Errorf("published %q", got)
	}
	if r, _ := d.run("give 1"); r["execution_count"] != 1.0 {
		t.Errorf("count %v", r["execution_count"])
	}
}

func TestEveryRequestIsAnswered(t *testing.T) {
	d := dial(t)
	for _, c := range []struct {
		request, content, want string
	}{
		{"kernel_info_request", `{}`, `"codemirror_mode":"go"`},
		{"complete_request", `{"code":"é ab","cursor_pos":4}`, `"cursor_end":4,"cursor_start":2,"matches":["éab"],"metadata":{}`},
		{"is_complete_request", `{"code":"x"}`, `"indent":"\t","status":"incomplete"`},
		{"inspect_request", `{"code":"éx","cursor_pos":1}`, `"data":{"text/plain":"é"},"found":true`},
		{"inspect_request", `{"code":"x","cursor_pos":0}`, `"data":{},"found":false`},
		{"history_request", `{"hist_access_type":"tail","n":3}`, `"history":[]`},
		{"comm_info_request", `{}`, `"comms":{}`},
		{"complete_request", `{"code":7}`, `"status":"error"`},
	} {
		reply := d.reply(d.Shell, d.send(d.Shell, c.request, json.RawMessage(c.content)))
		text, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %s, want %s", c.request, c.content, text, c.want)
		}
	}
}

// The control channel is read beside the running cell: a cell or a question about history there would race it.
func TestControlTakesOnlyWhatMayOvertakeCells(t *testing.T) {
	d := dial(t)
	d.run("give 1")
	for _, msgType := range []string{"execute_request", "history_request", "complete_request", "inspect_request", "is_complete_request", "comm_info_request"} {
		r := d.reply(d.Control, d.send(d.Control, msgType, map[string]any{"code": "give 2", "hist_access_type": "tail", "cursor_pos": 0}))
		if r["status"] != "error" || r["evalue"] != msgType+" on the control channel: send it on shell" {
			t.Errorf("%s: %v", msgType, r)
		}
	}
	r := d.reply(d.Control, d.send(d.Control, "debug_request", map[string]any{"type": "request", "seq": 7, "command": "initialize"}))
	if r["success"] != false || r["request_seq"] != 7.0 || r["command"] != "initialize" || r["message"] != "this kernel has no debugger" {
		t.Errorf("debug_request: %v", r)
	}
	if r := d.reply(d.Control, d.send(d.Control, "kernel_info_request", map[string]any{})); r["status"] != "ok" {
		t.Errorf("kernel_info_request: %v", r)
	}
	if r, _ := d.run("give 3"); r["execution_count"] != 2.0 {
		t.Errorf("a refused cell was counted: %v", r)
	}
}

func TestUserExpressionsAreEvaluatedAfterTheCell(t *testing.T) {
	d := dial(t)
	id := d.send(d.Shell, "execute_request", map[string]any{
		"code": "", "user_expressions": map[string]string{"a": "give 7", "b": "fail no"},
	})
	values := d.reply(d.Shell, id)["user_expressions"].(map[string]any)
	a, b := values["a"].(map[string]any), values["b"].(map[string]any)
	if a["status"] != "ok" || a["data"].(map[string]any)["text/plain"] != "7" || b["status"] != "error" {
		t.Errorf("user expressions %v", values)
	}
}

func TestHeldKeepsBackWhatIsNotWhole(t *testing.T) {
	mark := []byte("\x00mark\x00")
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 0}, {"plain", 0}, {"é", 0}, {"é"[:1], 1}, {"x€"[:3], 2}, {"😀"[:3], 3}, {"a\x00ma", 3}, {"\xff", 0}, {"\x80\x80\x80\x80", 0},
	} {
		if got := held([]byte(c.text), mark); got != c.want {
			t.Errorf("held(%q) = %d, want %d", c.text, got, c.want)
		}
	}
}

func TestHistoryAnswersAsAsked(t *testing.T) {
	d := dial(t)
	for _, code := range []string{"out a", "out b", "out a"} {
		d.run(code)
	}
	for request, want := range map[string]string{
		`{"hist_access_type":"tail","n":2}`:                              `[[0,2,"out b"],[0,3,"out a"]]`,
		`{"hist_access_type":"range","session":0,"start":1,"stop":2}`:    `[[0,1,"out a"]]`,
		`{"hist_access_type":"range","session":0,"start":3,"stop":null}`: `[[0,3,"out a"]]`,
		`{"hist_access_type":"search","pattern":"*a","n":5}`:             `[[0,1,"out a"],[0,3,"out a"]]`,
		`{"hist_access_type":"search","pattern":"*a","unique":true}`:     `[[0,3,"out a"]]`,
		`{"hist_access_type":"tail","n":1,"output":true}`:                `[[0,3,["out a",null]]]`,
	} {
		reply := d.reply(d.Shell, d.send(d.Shell, "history_request", json.RawMessage(request)))
		if got, err := json.Marshal(reply["history"]); err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}
