package serve

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/kernel/wire"
)

func TestOutputsOfACellArriveInOrderAndBeforeIdle(t *testing.T) {
	d := dial(t)
	reply, got := d.run("out a\nout b\nshow pic\nout c\nerr e\nout d\ngive 42")
	want := []string{
		"status busy", "execute_input", "stdout a\nb\n", "display_data pic", "stdout c\n", "stderr e\n", "stdout d\n",
		"execute_result 42", "status idle",
	}
	if !slices.Equal(got, want) {
		t.Errorf("published\n%q\nwant\n%q", got, want)
	}
	if reply["status"] != "ok" || reply["execution_count"] != 1.0 || !reflect.DeepEqual(reply["payload"], []any{}) {
		t.Errorf("reply %v", reply)
	}
}

func TestTheReplyCarriesTimingsAndPages(t *testing.T) {
	d := dial(t)
	for _, code := range []string{"page help", "page help\nfail x"} {
		m := d.replyMessage(d.Shell, d.execute(code, nil))
		var metadata struct {
			Started string
			RunMS   int `json:"run_ms"`
		}
		if err := (&wire.Message{Content: m.Metadata}).Decode(&metadata); err != nil {
			t.Fatal(err)
		}
		if len(metadata.Started) != len("2026-01-02T03:04:05.000000Z") || metadata.RunMS != 1 {
			t.Errorf("metadata %s", m.Metadata)
		}
		if payload, _ := content(t, m)["payload"].([]any); code == "page help" && len(payload) != 1 {
			t.Errorf("payload %v", payload)
		}
	}
}

func TestAnErrorIsPublishedOnceAndEqualInTheReply(t *testing.T) {
	d := dial(t)
	for code, want := range map[string][]any{
		"fail boom":     {"Error", "boom", []any{"boom"}},
		"panic boom":    {"Error", "boom", []any{"boom"}},
		"raise boom":    {"Oops", "boom", []any{"\x1b[31mOops\x1b[0m: boom", "cell[1]:1"}},
		"out x\nexit":   {"Error", "the cell called runtime.Goexit", []any{"the cell called runtime.Goexit"}},
		"out x\nbad":    {"Error", "show the result: encode content of execute_result: json: unsupported type: chan int", nil},
		"give 1\nfail ": {"Error", "", []any{""}},
	} {
		id := d.execute(code, nil)
		reply := d.reply(d.Shell, id)
		var published []map[string]any
		for _, m := range d.messages(id) {
			if m.Type() == "error" {
				published = append(published, content(t, m))
			}
			if m.Type() == "execute_result" {
				t.Errorf("%q has a result, too", code)
			}
		}
		if len(published) != 1 {
			t.Errorf("%q: %d error messages", code, len(published))
			continue
		}
		for _, key := range []string{"ename", "evalue", "traceback"} {
			if !reflect.DeepEqual(reply[key], published[0][key]) {
				t.Errorf("%q: %s is %q in the reply, %q in the message", code, key, reply[key], published[0][key])
			}
		}
		if got := []any{reply["ename"], reply["evalue"], reply["traceback"]}; reply["status"] != "error" || !reflect.DeepEqual(got[:2], want[:2]) ||
			want[2] != nil && !reflect.DeepEqual(got[2], want[2]) {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
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

func TestCellsQueuedBehindAFailureAreAbortedOnce(t *testing.T) {
	d := dial(t)
	first := d.execute("fail boom", nil) // fails before the others arrive
	second := d.execute("out never", nil)
	info := d.send(d.Shell, "kernel_info_request", map[string]any{})
	third := d.execute("fail never", nil)
	replies := map[string]any{}
	for len(replies) < 4 {
		m := d.recv(d.Shell)
		replies[m.Parent.MsgID] = content(t, m)["status"]
	}
	if want := map[string]any{first: "error", second: "aborted", info: "ok", third: "aborted"}; !reflect.DeepEqual(replies, want) {
		t.Errorf("replies %v, want %v", replies, want)
	}
	if got := d.published(third); !slices.Equal(got, []string{"status busy", "status idle"}) {
		t.Errorf("published %q", got)
	}
	if r, _ := d.run("out again"); r["status"] != "ok" || r["execution_count"] != 2.0 {
		t.Errorf("a later cell: %v", r)
	}
}

func TestCellsGoOnAfterAFailureThatDoesNotStopThem(t *testing.T) {
	d := dial(t)
	for _, flags := range []map[string]any{{"stop_on_error": false}, {"silent": true}} {
		first := d.execute("pause\nfail boom", flags)
		second := d.execute("out on", nil)
		if r := d.reply(d.Shell, first); r["status"] != "error" {
			t.Errorf("first reply %v", r)
		}
		if r := d.reply(d.Shell, second); r["status"] != "ok" {
			t.Errorf("%v: second reply %v", flags, r)
		}
	}
}

func TestSilentCellsPublishNothingAndDoNotCount(t *testing.T) {
	d := dial(t)
	for _, code := range []string{"out x\nshow y\nclear\ngive 1", "fail z"} {
		id := d.execute(code, map[string]any{"silent": true, "store_history": true})
		d.reply(d.Shell, id)
		if got := d.published(id); !slices.Equal(got, []string{"status busy", "status idle"}) {
			t.Errorf("published %q", got)
		}
	}
	id := d.execute("give 1", map[string]any{"store_history": false})
	d.reply(d.Shell, id)
	if got := d.published(id); !slices.Contains(got, "execute_result 1") {
		t.Errorf("published %q", got)
	}
	if r, _ := d.run("give 1"); r["execution_count"] != 1.0 {
		t.Errorf("count %v", r["execution_count"])
	}
}

func TestUserExpressionsAreEvaluatedAfterTheCell(t *testing.T) {
	d := dial(t)
	id := d.execute("out cell", map[string]any{"user_expressions": map[string]string{"a": "out hidden\ngive 7", "b": "fail no", "c": "out x"}})
	values := d.reply(d.Shell, id)["user_expressions"].(map[string]any)
	want := map[string]any{
		"a": map[string]any{"status": "ok", "data": map[string]any{"text/plain": "7"}, "metadata": map[string]any{}},
		"b": map[string]any{"status": "error", "ename": "Error", "evalue": "no", "traceback": []any{"no"}},
		"c": map[string]any{"status": "ok", "data": map[string]any{}, "metadata": map[string]any{}},
	}
	if !reflect.DeepEqual(values, want) {
		t.Errorf("user expressions\n%v, want\n%v", values, want)
	}
	if got := d.published(id); !slices.Equal(got, []string{"status busy", "execute_input", "stdout cell\n", "status idle"}) {
		t.Errorf("published %q", got)
	}
}

func TestCharactersAreNotCutBetweenMessages(t *testing.T) {
	d := dial(t)
	for code, want := range map[string]string{
		"raw":         strings.Repeat("é€😀", 50_000),
		"half\nout x": "\ufffdx\n", // never completed
		"half":        "\ufffd",
	} {
		if _, got := d.run(code); len(got) < 3 || got[2] != "stdout "+want {
			t.Errorf("%s: got %d bytes, want %d", code, len(got[2]), len(want))
		}
	}
}

func TestMuchTextArrivesWholeInFewMessages(t *testing.T) {
	d := dial(t)
	for code, c := range map[string]struct {
		want     string
		messages int
	}{
		"big":        {strings.Repeat("0123456789abcdef", 10<<20/16), 10 << 20 / flushSize},
		"lines line": {strings.Repeat("line\n", 10_000), 1000},
	} {
		id := d.execute(code, nil)
		d.reply(d.Shell, id)
		var got strings.Builder
		n := 0
		for _, m := range d.messages(id) {
			if m.Type() == "stream" {
				text := content(t, m)["text"].(string)
				if len(text) > flushSize {
					t.Errorf("%s: a message of %d bytes", code, len(text))
				}
				got.WriteString(text)
				n++
			}
		}
		if got.String() != c.want || n > c.messages {
			t.Errorf("%s: %d bytes in %d messages, want %d in at most %d", code, got.Len(), n, len(c.want), c.messages)
		}
	}
}

func TestTextAppearsWhileTheCellRuns(t *testing.T) {
	d := dial(t)
	id := d.execute("out now\nwait", nil)
	d.started(id)
	d.send(d.Control, "interrupt_request", map[string]any{})
	d.reply(d.Shell, id)
}

func TestOutputOfAGoroutineBelongsToTheCellThatStartedIt(t *testing.T) {
	d := dial(t)
	id := d.execute("late after", nil)
	d.reply(d.Shell, id)
	d.published(id)
	d.run("out another")
	close(d.engine.late)
	for {
		m := d.recv(d.IOPub)
		if m.Type() == "stream" {
			if c := content(t, m); c["text"] != "after\n" || m.Parent.MsgID != id {
				t.Errorf("%v of %s, want that of %s", c, m.Parent.MsgID, id)
			}
			return
		}
	}
}

func TestDisplaysCanBeReplacedAndCleared(t *testing.T) {
	d := dial(t)
	id := d.execute("id a\nupdate b\nshow c\nclear wait\nclear", nil)
	d.reply(d.Shell, id)
	var got []string
	for _, m := range d.messages(id) {
		c := content(t, m)
		got = append(got, fmt.Sprintf("%s %v %v", m.Type(), c["transient"], c["wait"]))
	}
	want := []string{
		"display_data map[display_id:d1] <nil>", "update_display_data map[display_id:d1] <nil>", "display_data map[] <nil>",
		"clear_output <nil> true", "clear_output <nil> false",
	}
	if !slices.Equal(got[2:len(got)-1], want) {
		t.Errorf("published %q, want %q", got, want)
	}
}

func TestAValueThatIsNotJSONIsNamedOnStderr(t *testing.T) {
	d := dial(t)
	if _, got := d.run("badshow"); !strings.Contains(strings.Join(got, "\n"), "stderr display: encode content of display_data: json: unsupported type") {
		t.Errorf("published %q", got)
	}
}

func TestValuesAreEnriched(t *testing.T) {
	d := dial(t)
	d.server.Enrich = func(b Bundle) Bundle {
		if b.Data["text/plain"] == "panic" {
			panic("no picture")
		}
		return Bundle{Data: map[string]any{"text/plain": fmt.Sprint("rich ", b.Data["text/plain"])}}
	}
	_, got := d.run("show a\nid b\nupdate c\nshow panic\ngive d")
	want := []string{"display_data rich a", "display_data rich b", "update_display_data rich c", "display_data panic", "execute_result rich d"}
	if !slices.Equal(got[2:len(got)-1], want) {
		t.Errorf("published %q", got)
	}
}
