package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/kernel/wire"
)

// answerLimit is how long a kernel may take from its start to the end of its first cell. A slow disk needs some seconds.
const answerLimit = 40 * time.Second

// endLimit is how long it may take to end when it is asked to.
const endLimit = 4 * time.Second

// answer is what a kernel says about itself.
type answer struct {
	Protocol       string `json:"protocol_version"`
	Implementation string `json:"implementation"`
	Language       struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"language_info"`
}

// ask starts a kernel as Jupyter would, asks it who it is, has it run a cell and ends it.
func ask(ctx context.Context, argv []string) (answer, error) {
	var a answer
	if len(argv) == 0 {
		return a, errors.New("kernel.json names no program")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
	defer cancel()
	dir, err := os.MkdirTemp("", "rooflab-doctor-")
	if err != nil {
		return a, fmt.Errorf("make a folder for the connection file: %w", err)
	}
	defer os.RemoveAll(dir)
	c, err := wire.NewConnection()
	if err != nil {
		return a, err
	}
	file := filepath.Join(dir, "connection.json")
	if err := c.Write(file); err != nil {
		return a, err
	}

	args := make([]string, len(argv))
	for i, arg := range argv {
		args[i] = strings.ReplaceAll(arg, "{connection_file}", file)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second // what the kernel has started may hold its stderr open
	if err := cmd.Start(); err != nil {
		return a, fmt.Errorf("start the kernel: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		cancel() // nobody will answer any more
		close(ended)
	}()
	a, err = info(ctx, c)
	stopped := ctx.Err() != nil
	if err == nil {
		select { // it was asked to end
		case <-ended:
		case <-time.After(endLimit):
		}
	}
	cancel() // kills the process if it is still there
	<-ended
	if err != nil && stopped {
		err = context.Cause(ctx)
		if errors.Is(err, context.Canceled) {
			err = fmt.Errorf("the kernel ended at once: %s", bytes.TrimSpace(said.Bytes()))
		}
	}
	return a, err
}

// info asks a running kernel for its kernel_info and to run a cell, and then to end.
func info(ctx context.Context, c wire.Connection) (answer, error) {
	var a answer
	client, err := wire.Connect(ctx, c)
	if err != nil {
		return a, fmt.Errorf("connect to the kernel: %w", err)
	}
	defer client.Close()
	if err := exchange(ctx, client, "kernel_info", struct{}{}, &a); err != nil {
		return a, err
	}
	var ran struct {
		Status string `json:"status"`
		Name   string `json:"ename"`
		Value  string `json:"evalue"`
	}
	if err := exchange(ctx, client, "execute", map[string]any{"code": "1 + 1", "silent": true}, &ran); err != nil {
		return a, err
	}
	if ran.Status != "ok" {
		return a, fmt.Errorf("it answers, but a cell that holds 1 + 1 fails: %s: %s", ran.Name, ran.Value)
	}
	shutdown, err := client.Session.New("shutdown_request", map[string]bool{"restart": false})
	if err != nil {
		return a, err
	}
	return a, client.Session.Send(client.Control, shutdown)
}

// exchange sends a request on the shell channel and reads its reply.
func exchange(ctx context.Context, client *wire.Client, name string, content, into any) error {
	request, err := client.Session.New(name+"_request", content)
	if err != nil {
		return err
	}
	if err := client.Session.Send(client.Shell, request); err != nil {
		return err
	}
	reply, err := client.Session.Recv(ctx, client.Shell)
	if err != nil {
		return fmt.Errorf("wait for %s_reply: %w", name, err)
	}
	return reply.Decode(into)
}
