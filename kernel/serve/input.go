package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/rooflab/rooflab/kernel/wire"
)

// Input asks the front end that sent the cell. A goroutine that outlived its cell cannot ask: front ends have
// forgotten the request by then.
func (e *execution) Input(prompt string, password bool) (string, error) {
	if !e.want.AllowStdin {
		return "", ErrNoInput
	}
	select {
	case e.server.asking <- struct{}{}: // one question at a time
		defer func() { <-e.server.asking }()
	case <-e.interrupted:
		return "", ErrInterrupted
	case <-e.done:
		return "", ErrNoInput
	}
	question, err := e.ask(prompt, password)
	if errors.Is(err, wire.ErrNoPeer) {
		return "", ErrNoInput
	}
	if err != nil {
		return "", fmt.Errorf("ask for input: %w", err)
	}
	for {
		select {
		case <-e.interrupted:
			return "", ErrInterrupted
		case <-e.done:
			return "", ErrNoInput
		case m := <-e.server.answers:
			var answer struct{ Value string }
			if !e.answers(m, question) || m.Decode(&answer) != nil {
				continue
			}
			return answer.Value, nil
		}
	}
}

// ask sends the question and returns its id. Answers to earlier questions that nobody waits for are dropped.
func (e *execution) ask(prompt string, password bool) (id string, err error) {
	s := e.server
	for len(s.answers) > 0 {
		<-s.answers
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	m, err := s.sockets.Session.Reply(e.request.Message, "input_request", map[string]any{"prompt": prompt, "password": password})
	if err != nil {
		return "", err
	}
	return m.Header.MsgID, s.sockets.Session.Send(s.sockets.Stdin, m)
}

// answers tells whether m may be meant for a question. Some front ends name it as the parent, some the cell, some nothing.
func (e *execution) answers(m *wire.Message, question string) bool {
	switch m.Parent.MsgID {
	case "", question, e.request.Header.MsgID:
		return m.Type() == "input_reply"
	}
	return false
}

// receiveAnswers reads the stdin channel until it is closed.
func (s *Server) receiveAnswers() {
	for {
		m, err := s.sockets.Session.Recv(context.Background(), s.sockets.Stdin)
		if err != nil {
			return
		}
		select {
		case s.answers <- m:
		default: // nobody asked for that many
		}
	}
}
