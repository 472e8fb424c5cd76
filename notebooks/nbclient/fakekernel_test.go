package nbclient

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// modeVar makes the test binary a kernel. Its value names a habit: "normal", "ignores-interrupt", "unsigned",
// "late-subscriber" (the first statuses are not sent), "dies-at-start", "port-taken" (once), "no-idle".
const modeVar = "ROOFLAB_FAKE_KERNEL"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		if err := fakeKernel(mode, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeSpec installs the fake kernel as "fake" below a new folder and returns that folder.
func fakeSpec(t *testing.T, mode, interruptMode string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{
		"argv": []string{exe, "{connection_file}"}, "display_name": "Fake", "language": "go",
		"interrupt_mode": interruptMode, "env": map[string]string{modeVar: mode, "FAKE_DIR": "${PWD}"},
	}
	data, _ := json.Marshal(spec)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "fake"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fake", "kernel.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fake is a kernel whose language is one command a line; see (*fake).do.
type fake struct {
	*wire.Kernel
	mode      string
	count     int
	quiet     int           // statuses not to send
	interrupt chan struct{} // has something in it after an interrupt
}

func fakeKernel(mode, file string) error {
	c, err := wire.ReadConnection(file)
	if err != nil {
		return err
	}
	if marker := filepath.Join(os.TempDir(), "port-taken"); mode == "port-taken" {
		if _, err := os.Stat(marker); err != nil {
			os.WriteFile(marker, nil, 0o600)
			return fmt.Errorf("listen: address already in use")
		}
	}
	if mode == "dies-at-start" {
		fmt.Fprintln(os.Stderr, "no license file")
		os.Exit(7)
	}
	if mode == "unsigned" {
		c.Key = "some other key"
	}
	k, err := wire.Bind(c)
	if err != nil {
		return err
	}
	f := &fake{Kernel: k, mode: mode, interrupt: make(chan struct{}, 1)}
	if mode == "unsigned" {
		k.Session = wire.NewSession("", "forger") // reads everything, signs nothing
	}
	if mode == "late-subscriber" {
		f.quiet = 4
	}
	sigint := make(chan os.Signal, 1)
	signal.Notify(sigint, syscall.SIGINT)
	go func() {
		for range sigint {
			f.interrupted()
		}
	}()
	go f.serveControl()
	for {
		m, err := k.Session.Recv(context.Background(), k.Shell)
		if err != nil {
			return err
		}
		f.shell(m)
	}
}

func (f *fake) interrupted() {
	if f.mode != "ignores-interrupt" {
		select {
		case f.interrupt <- struct{}{}:
		default:
		}
	}
}

func (f *fake) serveControl() {
	for {
		m, err := f.Session.Recv(context.Background(), f.Control)
		if err != nil {
			return
		}
		switch m.Type() {
		case "interrupt_request":
			f.interrupted()
			f.reply(f.Control, m, "interrupt_reply", map[string]any{"status": "ok"})
		case "shutdown_request":
			if f.mode == "ignores-interrupt" {
				continue
			}
			f.reply(f.Control, m, "shutdown_reply", map[string]any{"status": "ok", "restart": false})
			f.Close()
			os.Exit(0)
		}
	}
}

func (f *fake) shell(m *wire.Message) {
	f.publish(m, "status", map[string]string{"execution_state": "busy"})
	switch m.Type() {
	case "kernel_info_request":
		f.reply(f.Shell, m, "kernel_info_reply", map[string]any{
			"status": "ok", "language_info": map[string]string{"name": "go", "version": "1", "mimetype": "", "file_extension": ".go"}})
	case "execute_request":
		f.execute(m)
	}
	if f.mode == "no-idle" && m.Type() == "execute_request" {
		return
	}
	f.publish(m, "status", map[string]string{"execution_state": "idle"})
}

func (f *fake) execute(m *wire.Message) {
	var request struct{ Code string }
	m.Decode(&request)
	f.count++
	f.publish(m, "execute_input", map[string]any{"code": request.Code, "execution_count": f.count})
	for i, line := range strings.Split(request.Code, "\n") {
		if ename := f.do(m, strings.TrimSpace(line)); ename != "" {
			e := map[string]any{"ename": ename, "evalue": strings.TrimSpace(line), "execution_count": f.count,
				"traceback": []string{"\x1b[31m" + ename, fmt.Sprintf("cell[%d]:%d:1", f.count, i+1)}}
			f.publish(m, "error", e)
			e["status"] = "error"
			f.reply(f.Shell, m, "execute_reply", e)
			return
		}
	}
	f.reply(f.Shell, m, "execute_reply", map[string]any{"status": "ok", "execution_count": f.count})
}

// do runs one line and returns the name of an error.
func (f *fake) do(m *wire.Message, line string) string {
	command, arg, _ := strings.Cut(line, " ")
	n, _ := strconv.Atoi(arg)
	switch command {
	case "print", "warn":
		name := map[string]string{"print": "stdout", "warn": "stderr"}[command]
		f.publish(m, "stream", map[string]string{"name": name, "text": arg + "\n"})
	case "getenv":
		f.publish(m, "stream", map[string]string{"name": "stdout", "text": os.Getenv(arg) + "\n"})
	case "pwd":
		dir, _ := os.Getwd()
		f.publish(m, "stream", map[string]string{"name": "stdout", "text": filepath.Base(dir)})
	case "split": // each byte of the text in a message of its own
		for _, b := range []byte(arg) {
			f.publish(m, "stream", json.RawMessage(fmt.Sprintf(`{"name":"stdout","text":"%s"}`, []byte{b})))
		}
	case "chatty": // arg lines of 100 bytes
		for i := range n {
			f.publish(m, "stream", map[string]string{"name": "stdout", "text": fmt.Sprintf("%099d\n", i)})
		}
	case "result":
		f.publish(m, "execute_result", map[string]any{"data": map[string]string{"text/plain": arg}, "metadata": struct{}{}, "execution_count": f.count})
	case "display", "update":
		id, text, _ := strings.Cut(arg, " ")
		kind := map[string]string{"display": "display_data", "update": "update_display_data"}[command]
		f.publish(m, kind, map[string]any{"data": map[string]any{"text/plain": text, "application/vnd.x+json": []int{1}},
			"metadata": struct{}{}, "transient": map[string]string{"display_id": id}})
	case "clear":
		f.publish(m, "clear_output", map[string]bool{"wait": arg == "wait"})
	case "later": // prints when its cell has ended
		go func() {
			time.Sleep(100 * time.Millisecond)
			f.publish(m, "stream", map[string]string{"name": "stdout", "text": arg + "\n"})
		}()
	case "sleep":
		time.Sleep(time.Duration(n) * time.Millisecond)
	case "hang":
		select {
		case <-f.interrupt:
			return "Interrupted"
		case <-time.After(60 * time.Second):
		}
	case "child": // a child in the kernel's group, which keeps its stderr open
		c := exec.Command("sleep", "60")
		c.Stderr = os.Stderr
		if c.Start() == nil {
			f.publish(m, "stream", map[string]string{"name": "stdout", "text": strconv.Itoa(c.Process.Pid)})
		}
	case "die":
		fmt.Fprintf(os.Stderr, "fatal: told to die\nexit %d\n", n)
		f.IOPub.Close() // a real kernel's libzmq sends what it has
		os.Exit(n)
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "fail":
		return arg
	}
	return ""
}

func (f *fake) publish(parent *wire.Message, kind string, content any) {
	if kind == "status" && f.quiet > 0 {
		f.quiet--
		return
	}
	m, err := f.Session.Reply(parent, kind, content)
	if err == nil {
		m.IDs = [][]byte{[]byte(kind)}
		err = f.Session.Send(f.IOPub, m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (f *fake) reply(socket *wire.Socket, to *wire.Message, kind string, content any) {
	m, err := f.Session.Reply(to, kind, content)
	if err == nil {
		err = f.Session.Send(socket, m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
