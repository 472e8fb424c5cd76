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

// answerLimit is how long a kernel may take from its start to its first answer. A slow disk needs some seconds.
const answerLimit = 20 * time.Second

// answer is what a kernel says about itself.
type answer struct {
	Protocol       string `json:"protocol_version"`
	Implementation string `json:"implementation"`
	Language       struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"language_info"`
}

// ask starts a kernel as Jupyter would, asks it who it is and ends it.
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

// info asks a running kernel for its kernel_info and then asks it to end.
func info(ctx context.Context, c wire.Connection) (answer, error) {
	var a answer
	client, err := wire.Connect(ctx, c)
	if err != nil {
		return a, fmt.Errorf("connect to the kernel: %w", err)
	}
	defer client.Close()
	request, err := client.Session.New("kernel_info_request", struct{}{})
	if err != nil {
		return a, err
	}
	if err := client.Session.Send(client.Shell, request); err != nil {
		return a, err
	}
	reply, err := client.Session.Recv(ctx, client.Shell)
	if err != nil {
		return a, fmt.Errorf("wait for kernel_info_reply: %w", err)
	}
	return a, reply.Decode(&a)
}
