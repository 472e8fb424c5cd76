package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// within is the outer limit of a test that would otherwise hang; nothing is timed by it.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// pair gives a kernel's sockets and a client connected to them, iopub subscribed.
func pair(t *testing.T, key string) (*Kernel, *Client) {
	t.Helper()
	c := Connection{Transport: "tcp", IP: "127.0.0.1", Key: key}
	kernel, err := Bind(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kernel.Close)
	client, err := Connect(within(t), kernel.Connection(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	waitSubscribed(t, kernel.IOPub, "")
	return kernel, client
}

func waitSubscribed(t testing.TB, pub *Socket, topic string) {
	t.Helper()
	for ctx := within(t); ; time.Sleep(time.Millisecond) {
		for _, c := range pub.all() {
			if c.wants([]byte(topic)) {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatal("subscription never arrived")
		}
	}
}

func TestRouterAnswersEachDealerByIdentity(t *testing.T) {
	router, err := Listen(Router, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	addr := fmt.Sprintf("127.0.0.1:%d", router.Port())
	ctx := within(t)
	go func() {
		for {
			msg, err := router.Recv(ctx)
			if err != nil {
				return
			}
			router.Send(append(msg, []byte("echo")))
		}
	}()
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			var id []byte
			if i > 0 { // one without an identity of its own
				id = fmt.Appendf(nil, "client-%d", i)
			}
			d, err := Dial(ctx, Dealer, addr, id)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			for n := range 100 {
				want := fmt.Sprintf("%d/%d", i, n)
				d.Send([][]byte{[]byte(want)})
				got, err := d.Recv(ctx)
				if err != nil || len(got) != 2 || string(got[0]) != want || string(got[1]) != "echo" {
					t.Errorf("got %q, %v, want %s and echo", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := router.Send([][]byte{[]byte("nobody"), {}}); !errors.Is(err, ErrNoPeer) {
		t.Errorf("send to an unknown identity: %v, want ErrNoPeer", err)
	}
}

func TestPublishLosesNothingAtHighRate(t *testing.T) {
	kernel, client := pair(t, "key")
	const n, size = 50_000, 220 // 11 MB of text in small messages, far faster than the client reads
	go func() {
		for i := range n {
			m, _ := kernel.Session.New("stream", map[string]string{"text": fmt.Sprintf("%0*d", size, i)})
			m.IDs = [][]byte{[]byte("stream")}
			kernel.Session.Send(kernel.IOPub, m)
		}
	}()
	ctx := within(t)
	for i := range n {
		m, err := client.Session.Recv(ctx, client.IOPub)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		var c struct{ Text string }
		if err := m.Decode(&c); err != nil || c.Text != fmt.Sprintf("%0*d", size, i) {
			t.Fatalf("message %d holds %q, %v", i, c.Text, err)
		}
	}
}

func TestLargeFramesArriveWhole(t *testing.T) {
	kernel, client := pair(t, "")
	big := bytes.Repeat([]byte("0123456789abcdef"), 12<<16) // 12 MiB
	for range 12 {                                          // more than one queue holds
		go kernel.IOPub.Send([][]byte{[]byte("t"), big, {}, []byte("end")})
	}
	for range 12 {
		msg, err := client.IOPub.Recv(within(t))
		if err != nil || len(msg) != 4 || !bytes.Equal(msg[1], big) || string(msg[3]) != "end" {
			t.Fatalf("got %d frames, %v", len(msg), err)
		}
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	kernel, client := pair(t, "")
	for i := range 1000 {
		kernel.IOPub.Send([][]byte{{}, fmt.Appendf(nil, "%d", i)})
	}
	kernel.Close()
	for i := range 1000 {
		msg, err := client.IOPub.Recv(within(t))
		if err != nil || string(msg[1]) != fmt.Sprint(i) {
			t.Fatalf("message %d: %q, %v", i, msg, err)
		}
	}
	if _, err := client.IOPub.Recv(within(t)); err == nil || within(t).Err() != nil {
		t.Errorf("after the last message: %v, want the lost connection", err)
	}
}

func TestHeartbeatEchoesAlsoEmptyPayload(t *testing.T) {
	_, client := pair(t, "")
	for range 3 {
		if err := client.Heartbeat(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	client.HB.Send([][]byte{{}})
	if msg, err := client.HB.Recv(within(t)); err != nil || len(msg) != 1 || len(msg[0]) != 0 {
		t.Errorf("empty heartbeat came back as %q, %v", msg, err)
	}
}

func TestSubscriberGetsOnlyItsTopics(t *testing.T) {
	pub, err := Listen(Pub, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	sub, err := Dial(within(t), Sub, fmt.Sprintf("127.0.0.1:%d", pub.Port()), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	sub.Subscribe("kernel.a")
	waitSubscribed(t, pub, "kernel.a.status")
	pub.Send([][]byte{[]byte("kernel.b"), []byte("no")})
	pub.Send([][]byte{[]byte("kernel.a.status"), []byte("yes")})
	if msg, err := sub.Recv(within(t)); err != nil || string(msg[1]) != "yes" {
		t.Errorf("got %q, %v", msg, err)
	}
}

func TestSilentOrRudePeersDoNotBlockOthers(t *testing.T) {
	router, err := Listen(Router, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	addr := fmt.Sprintf("127.0.0.1:%d", router.Port())
	rude := [][]byte{
		nil,                            // a port scan: says nothing
		[]byte("GET / HTTP/1.1\r\n\r"), // another protocol
		append(greeting(), flagLong, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), // 8 EiB promised
		append(greeting(), 0, 1, 'x'), // no READY
		appendFrame(greeting(), command{"READY", appendProperty(nil, "Socket-Type", []byte("SUB"))}.frame()),                 // wrong kind
		appendFrame(appendFrame(greeting(), command{"READY", dealer()}.frame()), frame{flags: flagCommand, body: []byte{9}}), // broken command
	}
	for _, hello := range rude {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(hello)
	}
	d, err := Dial(within(t), Dealer, addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Send([][]byte{[]byte("hello")})
	if msg, err := router.Recv(within(t)); err != nil || string(msg[1]) != "hello" {
		t.Errorf("got %q, %v", msg, err)
	}
}

func dealer() []byte { return appendProperty(nil, "Socket-Type", []byte("DEALER")) }

func TestPingIsAnsweredWithItsContext(t *testing.T) {
	router, err := Listen(Router, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", router.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.Write(appendFrame(greeting(), command{"READY", dealer()}.frame()))
	nc.Write(appendFrame(nil, command{"PING", []byte("\x00\x0actx")}.frame()))
	r := bufio.NewReader(nc)
	r.Discard(64)
	for {
		f, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		cmd, err := parseCommand(f.body)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.name == "PONG" {
			if string(cmd.data) != "ctx" {
				t.Errorf("PONG with %q, want the context of the PING", cmd.data)
			}
			return
		}
	}
}

func TestRecvEndsWithItsContext(t *testing.T) {
	_, client := pair(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := client.Shell.Recv(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestPeerThatReturnsUnderItsIdentityTakesOver(t *testing.T) {
	router, err := Listen(Router, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	addr := fmt.Sprintf("127.0.0.1:%d", router.Port())
	for n := range 2 {
		d, err := Dial(within(t), Dealer, addr, []byte("same"))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.Send([][]byte{[]byte("hi")})
		msg, err := router.Recv(within(t))
		if err != nil {
			t.Fatal(err)
		}
		router.Send(msg)
		if _, err := d.Recv(within(t)); err != nil {
			t.Errorf("connection %d got no answer: %v", n+1, err)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	pub, err := Listen(Pub, "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer pub.Close()
	sub, err := Dial(context.Background(), Sub, fmt.Sprintf("127.0.0.1:%d", pub.Port()), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Close()
	sub.Subscribe("")
	waitSubscribed(b, pub, "")
	msg := [][]byte{[]byte("topic"), bytes.Repeat([]byte("x"), 200)}
	b.SetBytes(205)
	b.ResetTimer()
	go func() {
		for range b.N {
			pub.Send(msg)
		}
	}()
	for range b.N {
		if _, err := sub.Recv(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAPeerThatTakesNothingIsKeptUntilSomebodyWaitsForIt(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := &conn{nc: near, out: newQueue(1 << 20), stall: 5 * time.Millisecond}
	go c.writeLoop()
	late := item{frames: [][]byte{[]byte("late")}}
	if err := c.out.push(late); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * c.stall) // several deadlines pass
	got := make([]byte, len(late.encode()))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, late.encode()) {
		t.Fatalf("got %q, %v", got, err)
	}
	var err error
	for large := (item{frames: [][]byte{make([]byte, 1<<20)}}); err == nil; { // until there is no room
		err = c.out.push(large)
	}
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("a sender that waits: %v", err)
	}
}
