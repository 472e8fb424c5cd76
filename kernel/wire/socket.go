package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Kind is a ZeroMQ socket type.
type Kind string

// The kinds a kernel binds (Router, Pub, Rep) and a client connects (Dealer, Sub, Req).
const (
	Router Kind = "ROUTER" // Recv puts the peer's identity first, Send takes it from there
	Pub    Kind = "PUB"    // Send reaches every peer that subscribed to a prefix of the first frame
	Rep    Kind = "REP"    // Send answers the peer of the last Recv
	Dealer Kind = "DEALER"
	Sub    Kind = "SUB"
	Req    Kind = "REQ"
)

// talksTo reports whether a peer of kind other may connect.
func (k Kind) talksTo(other Kind) bool {
	switch k {
	case Router:
		return other == Dealer || other == Req || other == Router
	case Pub:
		return other == Sub || other == "XSUB"
	case Rep:
		return other == Req || other == Dealer
	case Dealer:
		return other == Router || other == Rep || other == Dealer
	case Sub:
		return other == Pub || other == "XPUB"
	case Req:
		return other == Rep || other == Router
	}
	return false
}

// ErrNoPeer means that a Router has no peer with the identity of a message, or a Rep has nobody to answer.
var ErrNoPeer = errors.New("no such peer")

var errStopped = errors.New("stopped")

// lingerTime is how long Close waits for messages on their way out.
const lingerTime = time.Second

// Socket is one end of a ZeroMQ connection. Its methods may be called from several goroutines.
type Socket struct {
	kind     Kind
	listener net.Listener // nil for a connected socket
	in       *queue

	mu     sync.Mutex
	peers  map[string]*conn
	nextID uint32
	reply  [][]byte // envelope of the last message received by a Rep
	early  *early   // of a Pub that listens, while it is new
	closed bool
}

// Listen binds a socket of kind Router, Pub or Rep to a TCP address such as "127.0.0.1:0".
func Listen(kind Kind, addr string) (*Socket, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", kind, err)
	}
	s := newSocket(kind)
	s.listener = l
	if kind == Pub {
		s.early = &early{until: time.Now().Add(earlyTime)}
	}
	go s.accept()
	return s, nil
}

// Dial connects a socket of kind Dealer, Sub or Req. It tries again until the other side listens or ctx ends.
// An identity may be nil. A lost connection is not made again: Recv then returns an error.
func Dial(ctx context.Context, kind Kind, addr string, identity []byte) (*Socket, error) {
	var d net.Dialer
	for {
		nc, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			var c *conn
			if c, err = dialed(ctx, nc, kind, identity); err == nil {
				s := newSocket(kind)
				s.add(c)
				return s, nil
			}
			nc.Close()
			if errors.Is(err, errProtocol) {
				return nil, fmt.Errorf("connect %s to %s: %w", kind, addr, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect %s to %s: %w (%v)", kind, addr, context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func dialed(ctx context.Context, nc net.Conn, kind Kind, identity []byte) (*conn, error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	return handshake(nc, kind, identity)
}

func newSocket(kind Kind) *Socket {
	return &Socket{kind: kind, in: newQueue(4 * queueBytes), peers: map[string]*conn{}}
}

// Port returns the TCP port a listening socket is bound to.
func (s *Socket) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *Socket) accept() {
	for {
		nc, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files: it may pass
			time.Sleep(50 * time.Millisecond)
			continue
		}
		go func() { // a peer that says nothing must not keep others waiting
			c, err := handshake(nc, s.kind, nil)
			if err != nil {
				nc.Close()
				return
			}
			s.add(c)
		}()
	}
}

// add registers a connection and starts its goroutines. A peer that comes back under its old identity takes over.
func (s *Socket) add(c *conn) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		c.close()
		return
	}
	if len(c.peerID) == 0 || s.kind == Pub || s.kind == Sub {
		s.nextID++
		c.peerID = binary.BigEndian.AppendUint32([]byte{0}, s.nextID)
	}
	if s.kind == Pub {
		c.onTopic = func(topic []byte, on bool) { s.subscribe(c, topic, on) }
	}
	old := s.peers[string(c.peerID)]
	s.peers[string(c.peerID)] = c
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	go c.writeLoop()
	go s.readLoop(c)
}

func (s *Socket) readLoop(c *conn) {
	err := s.readAll(c)
	c.close()
	s.mu.Lock()
	if s.peers[string(c.peerID)] == c {
		delete(s.peers, string(c.peerID))
	}
	s.mu.Unlock()
	if s.listener == nil { // the only peer is gone
		s.in.close(fmt.Errorf("connection lost: %w", err))
	}
}

func (s *Socket) readAll(c *conn) error {
	for {
		msg, err := c.read()
		if err != nil {
			return err
		}
		switch s.kind {
		case Pub: // ZMTP 3.0 subscribes by message: 1 or 0, then the topic
			if len(msg) == 1 && len(msg[0]) > 0 && msg[0][0] <= 1 {
				c.topic(msg[0][1:], msg[0][0] == 1)
			}
			continue
		case Router, Rep:
			msg = append([][]byte{c.peerID}, msg...)
		case Req:
			if len(msg) > 0 && len(msg[0]) == 0 {
				msg = msg[1:]
			}
		}
		if err := s.in.push(item{frames: msg}); err != nil {
			return err
		}
	}
}

// Recv returns the frames of the next message. For a Router the first frame is the peer's identity.
// It ends with ctx, when the socket is closed, or when a connected socket has lost its peer and all it sent was read.
func (s *Socket) Recv(ctx context.Context) ([][]byte, error) {
	stop := context.AfterFunc(ctx, s.in.wake)
	defer stop()
	it, err := s.in.pop(ctx.Done())
	if err == errStopped {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if s.kind == Rep {
		return s.opened(it.frames), nil
	}
	return it.frames, nil
}

// opened takes the envelope (identities up to an empty frame) off a request and keeps it for the answer.
func (s *Socket) opened(msg [][]byte) [][]byte {
	n := 1
	for n < len(msg) && len(msg[n]) > 0 {
		n++
	}
	n = min(n+1, len(msg))
	s.mu.Lock()
	s.reply = msg[:n:n]
	s.mu.Unlock()
	return msg[n:]
}

// Send queues a message; it waits when the peer's queue is full. The frames must not be changed afterwards.
func (s *Socket) Send(frames [][]byte) error {
	switch s.kind {
	case Pub:
		return s.publish(frames)
	case Router:
		if len(frames) == 0 {
			return ErrNoPeer
		}
		return s.sendTo(frames[0], frames[1:])
	case Rep:
		s.mu.Lock()
		envelope := s.reply
		s.reply = nil
		s.mu.Unlock()
		if envelope == nil {
			return ErrNoPeer
		}
		return s.sendTo(envelope[0], append(envelope[1:], frames...))
	case Req:
		frames = append([][]byte{{}}, frames...)
	}
	for _, c := range s.all() {
		return c.out.push(item{frames: frames})
	}
	return fmt.Errorf("send on %s: %w", s.kind, net.ErrClosed)
}

func (s *Socket) sendTo(id []byte, frames [][]byte) error {
	s.mu.Lock()
	c := s.peers[string(id)]
	s.mu.Unlock()
	if c == nil {
		return ErrNoPeer
	}
	return c.out.push(item{frames: frames})
}

func (s *Socket) publish(frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	for _, c := range s.audience(frames) {
		c.out.push(item{frames: frames}) // fails only when this subscriber is gone, which is no trouble of the others
	}
	return nil
}

// audience returns who is to get a message now. Who subscribes later gets it from early, and not twice.
func (s *Socket) audience(frames [][]byte) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.early.keep(frames)
	var list []*conn
	for _, c := range s.peers {
		if c.wants(frames[0]) {
			list = append(list, c)
		}
	}
	return list
}

// Subscribe asks for messages whose first frame starts with topic. The other side learns of it a little later.
func (s *Socket) Subscribe(topic string) error {
	return s.Send([][]byte{append([]byte{1}, topic...)})
}

func (s *Socket) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.peers))
	for _, c := range s.peers {
		list = append(list, c)
	}
	return list
}

// Close sends what is queued (for at most a second), then disconnects. Recv ends with net.ErrClosed.
func (s *Socket) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	deadline := time.Now().Add(lingerTime)
	for _, c := range s.all() {
		c.out.drain(time.Until(deadline))
		c.close()
	}
	s.in.close(net.ErrClosed)
	return err
}
