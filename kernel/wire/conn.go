package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	handshakeTime = 10 * time.Second // for greeting and READY together
	stallTime     = 30 * time.Second // a peer that takes no byte for so long is disconnected if senders wait for it
	queueBytes    = 64 << 20         // waiting in one direction for one peer before the sender has to wait
)

// conn is one connection after the handshake: a goroutine each for reading and writing.
type conn struct {
	nc     net.Conn
	r      *bufio.Reader
	peerID []byte // identity the peer gave, or one made up by the socket
	out    *queue
	stall  time.Duration

	onTopic func(topic []byte, on bool) // a subscription came or went (PUB only)

	mu   sync.Mutex
	subs map[string]int // topics the peer subscribed to, counted (PUB only)
}

// greeting is the fixed first 64 bytes of each side: signature, version 3.0, mechanism NULL.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[9] = 0xff, 0x7f
	g[10], g[11] = 3, 0
	copy(g[12:32], "NULL")
	return g
}

// handshake exchanges greetings and READY commands and checks that the two socket types may talk.
func handshake(nc net.Conn, kind Kind, identity []byte) (*conn, error) {
	if err := nc.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	props := appendProperty(nil, "Socket-Type", []byte(kind))
	props = appendProperty(props, "Identity", identity)
	hello := appendFrame(greeting(), command{"READY", props}.frame())
	if _, err := nc.Write(hello); err != nil {
		return nil, err
	}
	c := &conn{nc: nc, r: bufio.NewReaderSize(nc, 64<<10), out: newQueue(queueBytes), stall: stallTime, subs: map[string]int{}}
	if err := c.readGreeting(); err != nil {
		return nil, err
	}
	peer, err := c.readReady()
	if err != nil {
		return nil, err
	}
	if !kind.talksTo(Kind(peer["socket-type"])) {
		return nil, fmt.Errorf("%w: %s cannot talk to %q", errProtocol, kind, peer["socket-type"])
	}
	c.peerID = peer["identity"]
	return c, nc.SetDeadline(time.Time{})
}

func (c *conn) readGreeting() error {
	var g [64]byte
	if _, err := io.ReadFull(c.r, g[:]); err != nil {
		return noEOF(err)
	}
	if g[0] != 0xff || g[9]&1 == 0 || g[10] < 3 {
		return fmt.Errorf("%w: peer does not speak ZMTP 3", errProtocol)
	}
	if mechanism := string(bytes.TrimRight(g[12:32], "\x00")); mechanism != "NULL" {
		return fmt.Errorf("%w: peer wants mechanism %q, only NULL is supported", errProtocol, mechanism)
	}
	return nil
}

func (c *conn) readReady() (map[string][]byte, error) {
	f, err := readFrame(c.r)
	if err != nil {
		return nil, noEOF(err)
	}
	if !f.command() {
		return nil, fmt.Errorf("%w: message before READY", errProtocol)
	}
	cmd, err := parseCommand(f.body)
	if err != nil {
		return nil, err
	}
	if cmd.name != "READY" {
		return nil, fmt.Errorf("%w: command %q instead of READY", errProtocol, cmd.name)
	}
	return parseProperties(cmd.data)
}

// read returns the next message. Commands between messages are answered here.
func (c *conn) read() ([][]byte, error) {
	var msg [][]byte
	size := 0
	for {
		f, err := readFrame(c.r)
		if err != nil {
			if len(msg) > 0 {
				err = noEOF(err)
			}
			return nil, err
		}
		if f.command() {
			if err := c.obey(f.body); err != nil {
				return nil, err
			}
			continue
		}
		msg = append(msg, f.body)
		if size += len(f.body); size > maxFrame || len(msg) > maxFrames {
			return nil, fmt.Errorf("%w: message over the size limit", errProtocol)
		}
		if !f.more() {
			return msg, nil
		}
	}
}

// obey handles a command of an established connection: PING wants a PONG with its context back (ZMTP 3.1).
func (c *conn) obey(body []byte) error {
	cmd, err := parseCommand(body)
	if err != nil {
		return err
	}
	switch cmd.name {
	case "PING":
		if len(cmd.data) >= 2 {
			c.out.tryPush(item{command: true, frames: [][]byte{command{"PONG", cmd.data[2:]}.frame().body}})
		}
	case "SUBSCRIBE":
		c.topic(cmd.data, true)
	case "CANCEL":
		c.topic(cmd.data, false)
	}
	return nil
}

// topic tells the socket, which owns what subscribers get.
func (c *conn) topic(topic []byte, on bool) {
	if c.onTopic != nil {
		c.onTopic(topic, on)
	}
}

func (c *conn) subscribe(topic []byte, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if on {
		c.subs[string(topic)]++
	} else if c.subs[string(topic)]--; c.subs[string(topic)] <= 0 {
		delete(c.subs, string(topic))
	}
}

func (c *conn) wants(topic []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.subs {
		if len(s) <= len(topic) && s == string(topic[:len(s)]) {
			return true
		}
	}
	return false
}

// writeLoop sends what is queued until the queue is closed or the peer is gone.
func (c *conn) writeLoop() {
	defer c.close()
	for {
		it, err := c.out.pop(nil)
		if err != nil {
			return
		}
		if err := c.write(it.encode()); err != nil {
			return
		}
		c.out.done()
	}
}

// write sends b in pieces, so that the deadline means "no progress" and not "large message". A peer without progress
// may catch up as long as there is room for what it does not take.
func (c *conn) write(b []byte) error {
	const piece = 256 << 10
	for len(b) > 0 {
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return err
		}
		n, err := c.nc.Write(b[:min(len(b), piece)])
		b = b[n:]
		late := errors.Is(err, os.ErrDeadlineExceeded) && (n > 0 || !c.out.full())
		if err != nil && !late {
			return err
		}
	}
	return nil
}

func (c *conn) close() {
	c.out.close(net.ErrClosed)
	c.nc.Close()
}
