package wire

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// pyzmq returns a Python with pyzmq from $ROOFLAB_PYTHON. Without it the test is skipped; a named one that does not work fails.
func pyzmq(t *testing.T) string {
	t.Helper()
	python := os.Getenv("ROOFLAB_PYTHON")
	if python == "" {
		t.Skip("set ROOFLAB_PYTHON to a Python with pyzmq to test against libzmq")
	}
	if out, err := exec.Command(python, "-c", "import zmq").CombinedOutput(); err != nil {
		msg := fmt.Sprintf("%s cannot import zmq: %v\n%s", python, err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	return python
}

func TestKernelSocketsTalkToLibzmq(t *testing.T) {
	python := pyzmq(t)
	c := Connection{Transport: "tcp", IP: "127.0.0.1"}
	kernel, err := Bind(c)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	c = kernel.Connection(c)
	go func() { // shell: answer, then publish 20,000 numbers
		for {
			msg, err := kernel.Shell.Recv(within(t))
			if err != nil {
				return
			}
			kernel.Shell.Send(msg)
			for i := range 20000 {
				kernel.IOPub.Send([][]byte{[]byte("n"), fmt.Appendf(nil, "%d", i)})
			}
		}
	}()
	script := `
import sys, time, zmq
shell, iopub, hb = sys.argv[1:]
ctx = zmq.Context()
d = ctx.socket(zmq.DEALER); d.identity = b"me"
d.setsockopt(zmq.HEARTBEAT_IVL, 50); d.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2000)
d.connect("tcp://127.0.0.1:" + shell)
s = ctx.socket(zmq.SUB); s.subscribe(b""); s.rcvhwm = 0; s.connect("tcp://127.0.0.1:" + iopub)
r = ctx.socket(zmq.REQ); r.connect("tcp://127.0.0.1:" + hb)
for p in (b"ping", b"", b"x" * 100000):
    r.send(p); assert r.recv() == p, p
time.sleep(0.5)  # ten heartbeats of ZMTP 3.1
big = b"y" * 5000000
d.send_multipart([b"", b"hello", big]); assert d.recv_multipart() == [b"", b"hello", big]
for i in range(20000):
    assert s.recv_multipart() == [b"n", str(i).encode()], i
print("ok")
`
	out, err := exec.CommandContext(within(t), python, "-c", script,
		fmt.Sprint(c.ShellPort), fmt.Sprint(c.IOPubPort), fmt.Sprint(c.HBPort)).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("python: %v\n%s", err, out)
	}
}

func TestClientSocketsTalkToLibzmq(t *testing.T) {
	python := pyzmq(t)
	script := `
import sys, zmq
ctx = zmq.Context()
ports = {}
def bind(kind, name):
    s = ctx.socket(kind); s.sndhwm = 0; ports[name] = s.bind_to_random_port("tcp://127.0.0.1"); return s
shell, control, iopub, hb = bind(zmq.ROUTER, "shell"), bind(zmq.ROUTER, "control"), bind(zmq.XPUB, "iopub"), bind(zmq.REP, "hb")
print(ports["shell"], ports["control"], ports["iopub"], ports["hb"], flush=True)
assert iopub.recv() == b"\x01"
hb.send(hb.recv())
msg = shell.recv_multipart()
shell.send_multipart(msg)
for i in range(20000):
    iopub.send_multipart([b"n", str(i).encode()])
control.send_multipart(control.recv_multipart())
`
	cmd := exec.CommandContext(within(t), python, "-c", script)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := Connection{Transport: "tcp", IP: "127.0.0.1"}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(line, &c.ShellPort, &c.ControlPort, &c.IOPubPort, &c.HBPort)
	client, err := Connect(within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Heartbeat(within(t)); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("z", 5_000_000)
	client.Shell.Send([][]byte{[]byte("a"), []byte(big)})
	if msg, err := client.Shell.Recv(within(t)); err != nil || len(msg) != 2 || string(msg[1]) != big {
		t.Fatalf("shell: %d frames, %v", len(msg), err)
	}
	for i := range 20000 {
		msg, err := client.IOPub.Recv(within(t))
		if err != nil || string(msg[1]) != fmt.Sprint(i) {
			t.Fatalf("iopub message %d: %q, %v", i, msg, err)
		}
	}
	client.Control.Send([][]byte{[]byte("bye")})
	if msg, err := client.Control.Recv(within(t)); err != nil || string(msg[0]) != "bye" {
		t.Fatalf("control: %q, %v", msg, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
