package assist

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// lsp is a connection to a language server: JSON-RPC messages over the pipes of a child.
type lsp struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended

	mu      sync.Mutex
	in      io.WriteCloser
	last    int
	waiting map[int]*call
}

// call is a request that was sent.
type call struct {
	id     int
	answer chan json.RawMessage // gets the result; null after an error
}

type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

func startLSP(cmd *exec.Cmd) (*lsp, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	s := &lsp{cmd: cmd, in: in, done: make(chan struct{}), waiting: map[int]*call{}}
	go s.read(bufio.NewReader(out))
	return s, nil
}

// read handles what the server sends until it ends.
func (s *lsp) read(r *bufio.Reader) {
	defer close(s.done)
	defer s.cmd.Wait() // how it ended does not matter
	for {
		body, err := readFrame(r)
		if err != nil {
			_ = s.cmd.Process.Kill() // it may have ended by itself
			return
		}
		var m struct {
			message
			Params struct{ Items []any }
		}
		if json.Unmarshal(body, &m) != nil {
			continue
		}
		switch {
		case m.Method != "" && len(m.ID) > 0: // a request of the server: there is nothing to say
			result := json.RawMessage("null")
			if m.Method == "workspace/configuration" {
				result, _ = json.Marshal(make([]any, len(m.Params.Items)))
			}
			_ = s.send(message{ID: m.ID, Result: result})
		case m.Method == "":
			s.deliver(m.message)
		}
	}
}

func (s *lsp) deliver(m message) {
	id, err := strconv.Atoi(string(m.ID))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.waiting[id]; c != nil {
		delete(s.waiting, id)
		c.answer <- m.Result
	}
}

// readFrame reads one message: headers, an empty line, the body.
func readFrame(r *bufio.Reader) ([]byte, error) {
	length := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSpace(line)
		if line == "" {
			break
		}
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 {
				return nil, fmt.Errorf("read message: bad length %q", value)
			}
		}
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

func (s *lsp) send(m message) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = fmt.Fprintf(s.in, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

func (s *lsp) notify(method string, params any) error {
	return s.send(message{Method: method, Params: params})
}

func (s *lsp) call(method string, params any) (*call, error) {
	s.mu.Lock()
	s.last++
	c := &call{id: s.last, answer: make(chan json.RawMessage, 1)}
	s.waiting[c.id] = c
	s.mu.Unlock()
	return c, s.send(message{ID: json.RawMessage(strconv.Itoa(c.id)), Method: method, Params: params})
}

// cancel gives up a call.
func (s *lsp) cancel(c *call) {
	s.mu.Lock()
	delete(s.waiting, c.id)
	s.mu.Unlock()
	_ = s.notify("$/cancelRequest", map[string]any{"id": c.id}) // it may have ended
}

func (s *lsp) dead() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// close ends the child. Its input is closed first, which gopls takes for a goodbye.
func (s *lsp) close() {
	_ = s.in.Close() // a second time, perhaps
	_ = s.cmd.Process.Kill()
	<-s.done
}
