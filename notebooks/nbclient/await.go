package nbclient

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// executeReply is the content of execute_reply, and when it was sent.
type executeReply struct {
	Status         string   `json:"status"` // "ok", "error", "aborted"; empty: no reply came
	ExecutionCount *int     `json:"execution_count"`
	Ename          string   `json:"ename"`
	Evalue         string   `json:"evalue"`
	Traceback      []string `json:"traceback"`
	date           string
}

// outcome is how a cell ended.
type outcome struct {
	reply  executeReply
	died   bool  // the kernel ended
	killed bool  // it ignored an interrupt
	quiet  bool  // the reply came but not the status "idle"
	cause  error // why the cell was interrupted: errTimeout or the context's cause
}

// await follows one request until the kernel has replied and is idle. All messages of iopub go to take, in order.
func (k *kernel) await(ctx context.Context, request *wire.Message, limit time.Duration, take func(*wire.Message)) outcome {
	w := &waiting{k: k, id: request.Header.MsgID, take: take}
	if limit > 0 {
		w.limit = time.After(limit)
	}
	w.cancelled, w.exited = ctx.Done(), k.proc.exited
	for !w.over {
		select {
		case e := <-k.events:
			w.event(e)
		case <-w.exited:
			w.lost()
		case <-w.drained: // a child of the dead kernel may keep the connection open
			w.over, w.out.died = true, true
		case <-w.silence:
			w.over, w.out.quiet = true, true
		case <-w.limit:
			w.interrupt(errTimeout)
		case <-w.cancelled:
			w.interrupt(context.Cause(ctx))
		case <-w.grace:
			w.out.killed = true
			k.kill()
			w.over = true
		}
	}
	return w.out
}

// waiting is the state of await. A nil channel stands for what is not waited for.
type waiting struct {
	k       *kernel
	id      string
	take    func(*wire.Message)
	out     outcome
	replied bool
	idle    bool
	over    bool

	exited, cancelled              <-chan struct{}
	limit, grace, silence, drained <-chan time.Time
}

func (w *waiting) event(e event) {
	switch {
	case e.err != nil && e.iopub: // the connection ended, so all that was sent has been read
		w.lost()
		w.over, w.out.died = true, true
	case e.err != nil:
		w.lost()
	case e.iopub:
		w.take(e.msg)
		if e.msg.Parent.MsgID == w.id && isIdle(e.msg) {
			w.idle = true
		}
		if w.silence != nil {
			w.silence = time.After(idleLimit)
		}
	case e.msg.Parent.MsgID == w.id && e.msg.Type() == "execute_reply":
		if err := e.msg.Decode(&w.out.reply); err != nil { // such as a traceback that is no list: the status counts
			w.out.reply.Status = statusOf(e.msg)
		}
		w.out.reply.date = e.msg.Header.Date
		w.replied = true
		w.silence = time.After(idleLimit)
	}
	if w.replied && w.idle {
		w.over = true
	}
}

// lost notes the end of the kernel and leaves time to read what it had sent.
func (w *waiting) lost() {
	if w.drained == nil {
		w.k.onLost()
		w.drained = time.After(w.k.patience)
	}
	w.exited, w.limit, w.cancelled, w.grace, w.silence = nil, nil, nil, nil, nil
}

// interrupt stops the cell; if it does not stop, its time is up later.
func (w *waiting) interrupt(cause error) {
	w.out.cause = cause
	w.limit, w.cancelled = nil, nil
	w.grace = time.After(w.k.patience)
	w.k.interrupt()
}

func isIdle(m *wire.Message) bool {
	if m.Type() != "status" {
		return false
	}
	var c struct {
		State string `json:"execution_state"`
	}
	return m.Decode(&c) == nil && c.State == "idle"
}

func statusOf(m *wire.Message) string {
	var c struct{ Status string }
	json.Unmarshal(m.Content, &c)
	return c.Status
}
