package nbclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

const (
	startLimit = 60 * time.Second       // from the start of the process to its first answer
	askAgain   = 300 * time.Millisecond // between two requests while the kernel starts
	idleLimit  = 10 * time.Second       // of silence on iopub after a reply, without a status "idle"
)

var (
	errTimeout = errors.New("cell timeout")
	errLost    = errors.New("kernel lost")
)

// kernel is a running kernel and the connection to it.
type kernel struct {
	spec     Spec
	proc     *process
	dir      string // holds the connection file
	client   *wire.Client
	events   chan event
	stop     context.CancelFunc // ends the receivers
	info     kernelInfo
	onLost   func()
	patience time.Duration
}

// event is a message from one of the two channels, or its end.
type event struct {
	iopub bool
	msg   *wire.Message
	err   error
}

type kernelInfo struct {
	LanguageInfo map[string]json.RawMessage `json:"language_info"`
}

// startKernel starts a kernel and waits until it answers and its outputs arrive. A port that another program took in
// the meantime is no reason to fail: it tries again with others.
func startKernel(ctx context.Context, spec Spec, o *Options) (*kernel, error) {
	for attempt := 1; ; attempt++ {
		k, err := tryKernel(ctx, spec, o)
		var died *KernelDiedError
		if err == nil || attempt == 3 || !errors.As(err, &died) || !strings.Contains(strings.ToLower(died.Output), "address already in use") {
			return k, err
		}
	}
}

func tryKernel(ctx context.Context, spec Spec, o *Options) (*kernel, error) {
	k := &kernel{spec: spec, events: make(chan event), patience: o.wait()}
	k.onLost = sync.OnceFunc(func() {
		if o.OnKernelLost != nil {
			o.OnKernelLost()
		}
	})
	var err error
	if k.dir, err = os.MkdirTemp("", "rooflab-kernel-"); err != nil {
		return nil, fmt.Errorf("make a folder for the connection file: %w", err)
	}
	if err = k.start(ctx, o); err != nil {
		k.abandon()
		return nil, err
	}
	return k, nil
}

func (k *kernel) start(ctx context.Context, o *Options) error {
	conn, err := wire.NewConnection()
	if err != nil {
		return err
	}
	conn.KernelName = k.spec.Name
	file := filepath.Join(k.dir, "connection.json")
	if err := conn.Write(file); err != nil {
		return err
	}
	if k.proc, err = startProcess(k.spec.command(file), k.spec.environ(o.Env), o.workDir()); err != nil {
		return missingProgram(k.spec, err)
	}
	late := fmt.Errorf("kernel %s did not answer within %v", k.spec.Name, startLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, late)
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	go func() {
		select {
		case <-k.proc.exited:
			lost(errLost)
		case <-ctx.Done():
		}
	}()
	if k.client, err = wire.Connect(ctx, conn); err == nil {
		k.receive()
		err = k.meet(ctx)
	}
	switch {
	case context.Cause(ctx) == errLost || err == errLost:
		return k.diedError(Place{Notebook: o.Notebook})
	case context.Cause(ctx) == late && k.client != nil && k.client.Session.Dropped() > 0:
		return fmt.Errorf("%w; %d messages were not signed with the key of the connection file", late, k.client.Session.Dropped())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// receive passes messages of shell and iopub on to k.events until stop is called.
func (k *kernel) receive() {
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	pump := func(from *wire.Socket, iopub bool) {
		for {
			m, err := k.client.Session.Recv(ctx, from)
			select {
			case k.events <- event{iopub, m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}
	go pump(k.client.Shell, false)
	go pump(k.client.IOPub, true)
}

// meet asks for kernel_info until the reply and a message on iopub have come. A subscription reaches the kernel some
// time after the connection, and what it publishes before is lost.
func (k *kernel) meet(ctx context.Context) error {
	asked := map[string]bool{}
	heard, answered := false, false
	tick := time.NewTimer(0)
	defer tick.Stop()
	for !heard || !answered {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			m, err := k.client.Session.New("kernel_info_request", struct{}{})
			if err != nil {
				return err
			}
			if err := k.client.Session.Send(k.client.Shell, m); err != nil {
				return errLost
			}
			asked[m.Header.MsgID] = true
			tick.Reset(askAgain)
		case e := <-k.events:
			switch {
			case e.err != nil:
				return errLost
			case e.iopub:
				heard = heard || asked[e.msg.Parent.MsgID]
			case asked[e.msg.Parent.MsgID] && e.msg.Type() == "kernel_info_reply":
				if err := e.msg.Decode(&k.info); err != nil {
					return err
				}
				answered = true
			}
		}
	}
	return nil
}

// languageInfo is what the kernel says about its language. For Go, what is empty is filled in: without it no program
// colours the code.
func (k *kernel) languageInfo() json.RawMessage {
	info := k.info.LanguageInfo
	if info == nil {
		info = map[string]json.RawMessage{}
	}
	var name string
	json.Unmarshal(info["name"], &name)
	if name == "" {
		name = k.spec.Language
	}
	fill := map[string]string{"name": name}
	if strings.EqualFold(name, "go") {
		fill = map[string]string{
			"name": name, "mimetype": "text/x-go", "pygments_lexer": "go", "codemirror_mode": "go", "file_extension": ".go",
		}
	}
	for key, value := range fill {
		if s := string(info[key]); s == "" || s == `""` || s == "null" {
			info[key], _ = json.Marshal(value) // a string always encodes
		}
	}
	raw, _ := json.Marshal(info) // values were decoded from JSON
	return raw
}

// request sends a cell's source.
func (k *kernel) request(source string, stopOnError bool) (*wire.Message, error) {
	m, err := k.client.Session.New("execute_request", map[string]any{
		"code": source, "silent": false, "store_history": true, "user_expressions": struct{}{},
		"allow_stdin": false, "stop_on_error": stopOnError,
	})
	if err != nil {
		return nil, err
	}
	k.client.Session.Send(k.client.Shell, m) // a connection that is lost shows in await
	return m, nil
}

// interrupt asks the kernel to stop the running cell.
func (k *kernel) interrupt() {
	if k.spec.InterruptMode == "message" {
		k.control("interrupt_request", struct{}{})
		return
	}
	k.proc.signal(syscall.SIGINT)
}

func (k *kernel) control(msgType string, content any) {
	if m, err := k.client.Session.New(msgType, content); err == nil {
		k.client.Session.Send(k.client.Control, m) // a lost kernel is noticed elsewhere
	}
}

// shutdown ends the kernel, politely first.
func (k *kernel) shutdown() {
	k.control("shutdown_request", map[string]bool{"restart": false})
	k.proc.end(k.patience)
	k.abandon()
}

// kill ends a kernel that does not react.
func (k *kernel) kill() {
	k.proc.signal(syscall.SIGKILL)
	<-k.proc.exited
	k.onLost()
}

// abandon frees what belongs to the kernel; a process that still runs is killed.
func (k *kernel) abandon() {
	if k.proc != nil && !k.proc.ended(0) {
		k.proc.signal(syscall.SIGKILL)
		<-k.proc.exited
	}
	if k.stop != nil {
		k.stop()
	}
	if k.client != nil {
		k.client.Close()
	}
	os.RemoveAll(k.dir)
}

// diedError describes the death; the connection may be lost a little before the process has ended.
func (k *kernel) diedError(p Place) *KernelDiedError {
	k.proc.ended(3 * time.Second)
	return &KernelDiedError{Place: p, State: k.proc.state(), Output: k.proc.tail.String()}
}
