package serve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

var withInput = map[string]any{"allow_stdin": true}

// question waits for an input_request of a cell.
func (d *client) question(cell string) *wire.Message {
	d.t.Helper()
	m := d.recv(d.stdin)
	if m.Type() != "input_request" || m.Parent.MsgID != cell {
		d.t.Fatalf("%s of %s", m.Type(), m.Parent.MsgID)
	}
	return m
}

// answer replies to a question, naming it or not.
func (d *client) answer(question *wire.Message, value string) {
	d.t.Helper()
	content := map[string]any{"status": "ok", "value": value}
	m, err := d.Session.New("input_reply", content)
	if question != nil {
		m, err = d.Session.Reply(question, "input_reply", content)
		m.IDs = nil
	}
	if err == nil {
		err = d.Session.Send(d.stdin, m)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func TestACellAsksTheFrontEndThatSentIt(t *testing.T) {
	d := dial(t)
	for code, want := range map[string]string{
		"out before\nask name?":  `{"password":false,"prompt":"name?"}`,
		"out before\naskpass pw": `{"password":true,"prompt":"pw"}`,
	} {
		d.answer(nil, "stale") // nobody asked: dropped
		for len(d.server.answers) == 0 {
			time.Sleep(time.Millisecond)
		}
		id := d.execute(code, withInput)
		d.started(id) // what was printed before is shown before
		q := d.question(id)
		if string(q.Content) != want {
			t.Errorf("question %s, want %s", q.Content, want)
		}
		d.answer(&wire.Message{Header: wire.Header{MsgID: "another"}}, "for another question")
		d.answer(q, "typed é")
		if r := d.reply(d.Shell, id); r["status"] != "ok" {
			t.Errorf("reply %v", r)
		}
		if got := d.published(id); !slices.Contains(got, "stdout got typed é") {
			t.Errorf("published %q", got)
		}
	}
	id := d.execute("ask again", withInput)
	d.question(id)
	d.answer(nil, "x") // as jupyter_client does it
	if r := d.reply(d.Shell, id); r["status"] != "ok" {
		t.Errorf("reply %v", r)
	}
}

func TestOneQuestionAtATime(t *testing.T) {
	d := dial(t)
	id := d.execute("ask2 x", withInput)
	for _, value := range []string{"a", "b"} {
		d.answer(d.question(id), value)
	}
	d.reply(d.Shell, id)
	if got := strings.Join(d.published(id), "|"); !strings.Contains(got, "stdout a b") && !strings.Contains(got, "stdout b a") {
		t.Errorf("published %q", got)
	}
}

func TestAFrontEndWithoutInputIsNotAsked(t *testing.T) {
	d := dial(t)
	for _, flags := range []map[string]any{nil, {"allow_stdin": false}} {
		if r := d.reply(d.Shell, d.execute("ask x", flags)); r["evalue"] != ErrNoInput.Error() {
			t.Errorf("reply %v", r)
		}
	}
	d.stdin.Close() // allowed, but nobody is there
	if r := d.reply(d.Shell, d.execute("pause\nask x", withInput)); r["evalue"] != ErrNoInput.Error() {
		t.Errorf("reply %v", r)
	}
}

func TestAnInterruptEndsTheWaitForInput(t *testing.T) {
	d := dial(t)
	for _, code := range []string{"ask x", "ask2 x"} {
		id := d.execute(code, withInput)
		d.question(id)
		d.ask(d.Control, "interrupt_request", "{}")
		d.reply(d.Shell, id)
		if got := strings.Join(d.published(id), "|"); !strings.Contains(got, "interrupted") {
			t.Errorf("%s: published %q", code, got)
		}
	}
}

func TestAGoroutineThatOutlivedItsCellCannotAsk(t *testing.T) {
	d := dial(t)
	id := d.execute("asklater x", withInput)
	d.reply(d.Shell, id)
	d.published(id)
	close(d.engine.late)
	m := d.recv(d.IOPub)
	var c map[string]any
	if err := json.Unmarshal(m.Content, &c); err != nil || c["text"] != ErrNoInput.Error() || m.Parent.MsgID != id {
		t.Errorf("%s %s", m.Type(), m.Content)
	}
}
