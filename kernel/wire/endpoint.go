package wire

import (
	"context"
	"fmt"
)

// Kernel holds the five bound sockets of a kernel. The heartbeat answers by itself, also while a cell runs.
type Kernel struct {
	Session *Session
	Shell   *Socket
	Control *Socket
	Stdin   *Socket
	IOPub   *Socket
	hb      *Socket
}

// Bind opens a kernel's sockets. Ports of 0 are picked by the system; Connection tells them.
func Bind(c Connection) (*Kernel, error) {
	k := &Kernel{Session: NewSession(c.Key, "kernel")}
	for _, s := range []struct {
		socket **Socket
		kind   Kind
		port   int
	}{
		{&k.Shell, Router, c.ShellPort}, {&k.Control, Router, c.ControlPort}, {&k.Stdin, Router, c.StdinPort},
		{&k.IOPub, Pub, c.IOPubPort}, {&k.hb, Rep, c.HBPort},
	} {
		socket, err := Listen(s.kind, c.addr(s.port))
		if err != nil {
			k.Close()
			return nil, err
		}
		*s.socket = socket
	}
	go echo(k.hb)
	return k, nil
}

// Connection returns c with the ports the kernel is bound to.
func (k *Kernel) Connection(c Connection) Connection {
	c.ShellPort, c.ControlPort, c.StdinPort = k.Shell.Port(), k.Control.Port(), k.Stdin.Port()
	c.IOPubPort, c.HBPort = k.IOPub.Port(), k.hb.Port()
	return c
}

func echo(s *Socket) {
	for {
		msg, err := s.Recv(context.Background())
		if err != nil {
			return
		}
		s.Send(msg) // a client that left does not need an answer
	}
}

// Close sends what is queued and closes all sockets.
func (k *Kernel) Close() { closeAll(k.IOPub, k.Shell, k.Control, k.Stdin, k.hb) }

// Client holds the sockets of a program that drives a kernel. There is none for stdin: a headless client has no answers.
type Client struct {
	Session *Session
	Shell   *Socket
	Control *Socket
	IOPub   *Socket // subscribed to everything
	HB      *Socket
}

// Connect connects to a kernel, trying until it listens or ctx ends.
func Connect(ctx context.Context, c Connection) (*Client, error) {
	k := &Client{Session: NewSession(c.Key, "client")}
	id := []byte(k.Session.ID())
	for _, s := range []struct {
		socket **Socket
		kind   Kind
		port   int
	}{
		{&k.IOPub, Sub, c.IOPubPort}, {&k.Shell, Dealer, c.ShellPort}, {&k.Control, Dealer, c.ControlPort}, {&k.HB, Req, c.HBPort},
	} {
		socket, err := Dial(ctx, s.kind, c.addr(s.port), id)
		if err != nil {
			k.Close()
			return nil, err
		}
		*s.socket = socket
	}
	if err := k.IOPub.Subscribe(""); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close closes all sockets.
func (k *Client) Close() { closeAll(k.Control, k.Shell, k.IOPub, k.HB) }

// Heartbeat sends a payload and waits for its echo.
func (k *Client) Heartbeat(ctx context.Context) error {
	if err := k.HB.Send([][]byte{[]byte("ping")}); err != nil {
		return fmt.Errorf("send heartbeat: %w", err)
	}
	if _, err := k.HB.Recv(ctx); err != nil {
		return fmt.Errorf("wait for heartbeat: %w", err)
	}
	return nil
}

// Send encodes and sends a message on a socket of this session.
func (s *Session) Send(to *Socket, m *Message) error {
	frames, err := s.Encode(m)
	if err != nil {
		return err
	}
	if err := to.Send(frames); err != nil {
		return fmt.Errorf("send %s: %w", m.Header.MsgType, err)
	}
	return nil
}

// Recv returns the next message with a good signature. What cannot be read or was not signed with the key is dropped
// and counted, as Jupyter asks: it may come from anybody who found the port.
func (s *Session) Recv(ctx context.Context, from *Socket) (*Message, error) {
	for {
		frames, err := from.Recv(ctx)
		if err != nil {
			return nil, err
		}
		m, err := s.Parse(frames)
		if err == nil {
			return m, nil
		}
		s.dropped.Add(1)
	}
}

// Dropped tells how many received messages were badly signed or could not be read.
func (s *Session) Dropped() int { return int(s.dropped.Load()) }

func closeAll(sockets ...*Socket) {
	for _, s := range sockets {
		if s != nil {
			s.Close()
		}
	}
}
