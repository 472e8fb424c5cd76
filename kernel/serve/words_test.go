package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// words is an engine whose cells are lines of "verb rest".
type words struct {
	stop   chan struct{} // one token for each interrupt
	late   chan struct{} // closed by the test: what goroutines of cells wait for
	closed chan struct{}
	comms  chan CommMessage
}

func newWords() *words {
	return &words{
		stop: make(chan struct{}, 8), late: make(chan struct{}), closed: make(chan struct{}), comms: make(chan CommMessage, 8),
	}
}

var wordsInfo = Info{Name: "words", Version: "1", LanguageVersion: "1.26"}

func (w *words) Info() Info { return wordsInfo }

func (w *words) Run(cell Cell, out Output) (result Result, err error) {
	result.Metadata = map[string]any{"run_ms": 1}
	for line := range strings.Lines(cell.Code) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "give":
			result.Value = text(rest)
		case "bad":
			result.Value = Bundle{Data: map[string]any{"text/plain": make(chan int)}}
		case "page":
			result.Payload = []any{map[string]any{"source": "page", "data": map[string]any{"text/plain": rest}}}
		case "pause":
			time.Sleep(200 * time.Millisecond)
		case "fail":
			return result, errors.New(rest)
		case "raise":
			return result, &CellError{"\x1b[31mOops\x1b[0m", rest, []string{"\x1b[31mOops\x1b[0m: " + rest, "cell[1]:1"}}
		case "panic":
			panic(rest)
		case "exit":
			runtime.Goexit()
		case "wait":
			select {
			case <-w.stop:
			case <-w.closed:
			}
			return result, ErrInterrupted
		case "stuck":
			<-w.closed
			return result, errors.New("the engine ended")
		case "late":
			go func() {
				<-w.late
				out.Stream("stdout", rest+"\n")
			}()
		case "ask", "askpass":
			answer, err := out.Input(rest, verb == "askpass")
			if err != nil {
				return result, err
			}
			out.Stream("stdout", "got "+answer)
		case "ask2": // two goroutines ask at once
			answers := make(chan string)
			for range 2 {
				go func() {
					answer, err := out.Input(rest, false)
					answers <- answer + errorText(err)
				}()
			}
			out.Stream("stdout", <-answers+" "+<-answers)
		case "asklater":
			go func() {
				<-w.late
				_, err := out.Input(rest, false)
				out.Stream("stderr", errorText(err))
			}()
		default:
			write(out, verb, rest)
		}
	}
	return result, nil
}

// write handles the verbs that only print and show.
func write(out Output, verb, rest string) {
	switch verb {
	case "out":
		out.Stream("stdout", rest+"\n")
	case "err":
		out.Stream("stderr", rest+"\n")
	case "raw": // in pieces that cut characters
		for all := strings.Repeat("é€😀", 50_000); all != ""; {
			n := min(1001, len(all))
			out.Stream("stdout", all[:n])
			all = all[n:]
		}
	case "half":
		out.Stream("stdout", "é"[:1])
	case "big":
		out.Stream("stdout", strings.Repeat("0123456789abcdef", 10<<20/16))
	case "lines":
		for range 10_000 {
			out.Stream("stdout", rest+"\n")
		}
	case "show":
		out.Display(text(rest))
	case "badshow":
		out.Display(Bundle{Data: map[string]any{"text/plain": make(chan int)}})
	case "id":
		out.Display(Bundle{Data: text(rest).Data, DisplayID: "d1"})
	case "update":
		out.Update(Bundle{Data: text(rest).Data, DisplayID: "d1"})
	case "clear":
		out.Clear(rest == "wait")
	case "open":
		out.Comm(CommMessage{Type: "comm_open", ID: rest, Target: "slider", Data: json.RawMessage(`{"v":1}`),
			Metadata: json.RawMessage(`{"version":"2"}`), Buffers: [][]byte{{1, 2}}})
	case "close":
		out.Comm(CommMessage{Type: "comm_close", ID: rest})
	}
}

func text(s string) Bundle { return Bundle{Data: map[string]any{"text/plain": s}} }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (w *words) Complete(code string, cursor int) Completion {
	if code == "panic" {
		panic("completion")
	}
	start := strings.LastIndexByte(code[:cursor], ' ') + 1
	if start == cursor {
		return Completion{}
	}
	return Completion{[]Match{{"é" + code[start:cursor], "function", "func()"}}, start, cursor}
}

func (w *words) Inspect(code string, cursor, detail int) Bundle {
	if cursor == 0 {
		return Bundle{}
	}
	return Bundle{Data: map[string]any{"text/plain": code[:cursor], "text/markdown": strings.Repeat("*", detail)}}
}

func (w *words) State(code string) (string, string) {
	if strings.HasSuffix(code, "{") {
		return "incomplete", "\t"
	}
	return "complete", ""
}

func (w *words) Interrupt()                 { w.stop <- struct{}{} }
func (w *words) Comm(m CommMessage)         { w.comms <- m }
func (w *words) HasTarget(name string) bool { return name == "known" }
func (w *words) Close()                     { close(w.closed) }

// client drives the server under test.
type client struct {
	t *testing.T
	*wire.Client
	ctx    context.Context
	server *Server
	engine *words
	stdin  *wire.Socket
	ended  chan struct{} // closed when Serve has returned
}

// dial starts a server with the words engine.
func dial(t *testing.T) *client {
	t.Helper()
	w := newWords()
	return dialWith(t, w, func(context.Context) (Engine, error) { return w, nil })
}

func dialWith(t *testing.T, w *words, start func(context.Context) (Engine, error)) *client {
	t.Helper()
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
	server.log = io.Discard
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(wordsInfo, start)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	k, err := wire.Connect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := wire.Dial(ctx, wire.Dealer, net.JoinHostPort(c.IP, strconv.Itoa(c.StdinPort)), []byte(k.Session.ID()))
	if err != nil {
		t.Fatal(err)
	}
	d := &client{t: t, Client: k, ctx: ctx, server: server, engine: w, stdin: stdin, ended: ended}
	d.subscribed()
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
		stdin.Close()
		cancel()
	})
	return d
}

// subscribed returns when the kernel knows the subscription, which takes effect a little later than it is made.
func (d *client) subscribed() {
	for done := false; !done; {
		id := d.send(d.Shell, "kernel_info_request", map[string]any{})
		d.reply(d.Shell, id)
		short, stop := context.WithTimeout(d.ctx, 100*time.Millisecond)
		_, err := d.Session.Recv(short, d.IOPub)
		stop()
		done = err == nil
	}
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

// execute sends a cell with content beside its code.
func (d *client) execute(code string, content map[string]any) string {
	d.t.Helper()
	all := map[string]any{"code": code}
	for key, v := range content {
		all[key] = v
	}
	return d.send(d.Shell, "execute_request", all)
}

func (d *client) recv(from *wire.Socket) *wire.Message {
	d.t.Helper()
	m, err := d.Session.Recv(d.ctx, from)
	if err != nil {
		d.t.Fatal("wait for a message: ", err)
	}
	return m
}

func (d *client) replyMessage(from *wire.Socket, id string) *wire.Message {
	d.t.Helper()
	for {
		if m := d.recv(from); m.Parent.MsgID == id {
			return m
		}
	}
}

func (d *client) reply(from *wire.Socket, id string) map[string]any {
	d.t.Helper()
	return content(d.t, d.replyMessage(from, id))
}

func content(t *testing.T, m *wire.Message) map[string]any {
	t.Helper()
	var c map[string]any
	if err := m.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// messages returns what belongs to a request on iopub, up to and with its idle.
func (d *client) messages(id string) []*wire.Message {
	d.t.Helper()
	var all []*wire.Message
	for {
		m := d.recv(d.IOPub)
		if m.Parent.MsgID != id {
			continue
		}
		all = append(all, m)
		if m.Type() == "status" && content(d.t, m)["execution_state"] == "idle" {
			return all
		}
	}
}

// published returns the messages of a request as lines of "type text". Neighbouring texts of one stream are joined:
// their borders depend on time.
func (d *client) published(id string) []string {
	d.t.Helper()
	var lines []string
	stream := ""
	for _, m := range d.messages(id) {
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
		case "display_data", "update_display_data", "execute_result":
			line += " " + c["data"].(map[string]any)["text/plain"].(string)
		case "error":
			line += " " + c["evalue"].(string)
		}
		stream = name
		lines = append(lines, line)
	}
	return lines
}

func (d *client) run(code string) (reply map[string]any, published []string) {
	d.t.Helper()
	id := d.execute(code, nil)
	reply = d.reply(d.Shell, id)
	return reply, d.published(id)
}

// started waits for the first text of a cell.
func (d *client) started(id string) {
	d.t.Helper()
	for {
		if m := d.recv(d.IOPub); m.Type() == "stream" && m.Parent.MsgID == id {
			return
		}
	}
}
