package serve

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// TestMain lets the test binary be a kernel process.
func TestMain(m *testing.M) {
	if os.Getenv("ROOFLAB_SERVE_PROCESS") == "" {
		os.Exit(m.Run())
	}
	server, err := Listen(os.Args[1])
	if err != nil {
		panic(err)
	}
	server.Serve(wordsInfo, func(context.Context) (Engine, error) { return newWords(), nil })
}

// dialProcess starts a kernel by a line of shell, in which "$0" "$1" is its command. Closing stdin ends a read there.
func dialProcess(t *testing.T, shell string) (*client, *exec.Cmd, io.Closer) {
	t.Helper()
	c, err := wire.NewConnection()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "connection.json")
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "sh", "-c", shell, os.Args[0], file)
	cmd.Env = append(os.Environ(), "ROOFLAB_SERVE_PROCESS=1")
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := wire.Connect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	d := &client{t: t, Client: k, ctx: ctx}
	d.subscribed()
	return d, cmd, stdin
}

// A Jupyter server that a script started in the background hands an ignored SIGINT down.
func TestASignalInterruptsAlsoWhereItWasIgnoredAtTheStart(t *testing.T) {
	d, cmd, _ := dialProcess(t, `trap '' INT; exec "$0" "$1"`)
	id := d.execute("out started\nwait", nil)
	d.started(id)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := d.reply(d.Shell, id); r["evalue"] != "interrupted" {
		t.Errorf("reply %v", r)
	}
	d.ask(d.Control, "shutdown_request", "{}")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the kernel ended with %v", err)
	}
}

func TestAKernelWhoseParentIsGoneEnds(t *testing.T) {
	d, cmd, stdin := dialProcess(t, `JPY_PARENT_PID=$$ "$0" "$1" & read x; exit 0`)
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Session.Recv(d.ctx, d.Shell); err == nil || d.ctx.Err() != nil {
		t.Errorf("the kernel goes on: %v", err)
	}
}
