// Package faultproxy is an HTTP proxy for tests that stands in front of one server and breaks what a test wants broken:
// late, cut, wrong and missing answers, and a network that is gone. It changes nothing else and is no proxy for use.
package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to some requests. Fields that are set add up: a late answer may also be cut.
type Fault struct {
	// Which requests: "POST /v1/completions"; the path alone is any method, and "" is every request.
	On string
	// Skip is how many of them pass unharmed first, Times how many are then hit; 0 is all.
	Skip, Times int

	Delay   time.Duration // before the request goes to the server
	Hang    bool          // the request never reaches the server and is never answered
	Status  int           // answered in place of the server, with Body
	Body    string
	Drop    bool          // the server gets the request, the answer is lost with the connection
	CutAt   int           // bytes of the answer's body after which the connection breaks
	Garbage string        // sent after CutAt bytes in place of the rest, and the answer ends as if it were whole
	Drip    time.Duration // between two bytes of the answer's body
}

// Proxy is a running proxy.
type Proxy struct {
	URL string

	t      testing.TB
	to     *url.URL
	client *http.Transport
	addr   string
	hide   bool

	mu      sync.Mutex
	server  *http.Server // nil while the network is down
	stop    context.CancelFunc
	faults  []Fault
	counted []int
	seen    []string
	left    int // events until then is called
	then    func()
}

// Start starts a proxy in front of the server at target, without faults. It ends with the test.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	return start(t, target, false)
}

// StartLive is Start for a replay, which then looks like a live server: its own headers and addresses are held back.
func StartLive(t testing.TB, target string) *Proxy {
	t.Helper()
	return start(t, target, true)
}

func start(t testing.TB, target string, hide bool) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, to: to, addr: "127.0.0.1:0", hide: hide, client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024}}
	p.Up()
	p.URL = "http://" + p.addr
	t.Cleanup(func() {
		p.Down()
		p.client.CloseIdleConnections()
	})
	return p
}

// Set replaces the faults. Requests that are under way keep theirs.
func (p *Proxy) Set(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.counted = faults, make([]int, len(faults))
}

// After calls f once, in a goroutine of its own, when n more requests or pieces of answers have passed; n is at least 1.
// It replaces an earlier call that has not come, and f may be nil.
func (p *Proxy) After(n int, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.then = n, f
}

// passed counts one request or piece of an answer. The lock is held.
func (p *Proxy) passed() {
	if p.left--; p.left == 0 && p.then != nil {
		go p.then()
	}
}

// Seen lists the requests so far, such as "POST /start_profile", and forgets them.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

// Down takes the network away: connections break, new ones are refused, and the server's requests end.
func (p *Proxy) Down() {
	p.mu.Lock()
	server, stop := p.server, p.stop
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		stop()
		server.Close()
	}
}

// Break breaks all connections; new ones are let in.
func (p *Proxy) Break() {
	p.t.Helper()
	p.Down()
	p.Up()
}

// Up brings it back on the same port.
func (p *Proxy) Up() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Errorf("bring the network back: %v", err)
		return
	}
	p.addr = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.server = &http.Server{Handler: p, BaseContext: func(net.Listener) context.Context { return ctx }}
	go p.server.Serve(l)
}

// fault finds what is to happen to a request, and counts it.
func (p *Proxy) fault(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Method+" "+r.URL.Path)
	p.passed()
	for i, f := range p.faults {
		method, path, ok := strings.Cut(f.On, " ")
		if !ok {
			method, path = "", f.On
		}
		if method != "" && method != r.Method || path != "" && path != r.URL.Path {
			continue
		}
		p.counted[i]++
		if n := p.counted[i] - f.Skip; n > 0 && (f.Times == 0 || n <= f.Times) {
			return f
		}
	}
	return Fault{}
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The whole body first: a server that answers before it has read all would close the connection to it.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f := p.fault(r)
	if f.Hang {
		<-r.Context().Done()
		return
	}
	if !pause(r.Context(), f.Delay) {
		return
	}
	if p.hide && strings.HasPrefix(r.URL.Path, "/rooflab/") {
		f = Fault{Status: http.StatusNotFound}
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
		io.WriteString(w, f.Body)
		return
	}
	answer, err := p.forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler) // as if there were no proxy
	}
	defer answer.Body.Close()
	if f.Drop {
		io.Copy(io.Discard, answer.Body)
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.Header {
		if !p.hide || !strings.HasPrefix(k, "Rooflab-") {
			w.Header()[k] = v
		}
	}
	if f.Garbage != "" {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(answer.StatusCode)
	piece := func() {
		p.mu.Lock()
		p.passed()
		p.mu.Unlock()
	}
	if err := f.copy(r.Context(), w, answer.Body, piece); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (p *Proxy) forward(r *http.Request, body []byte) (*http.Response, error) {
	u := *r.URL
	u.Scheme, u.Host = p.to.Scheme, p.to.Host
	out, err := http.NewRequestWithContext(r.Context(), r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header
	return p.client.RoundTrip(out)
}

var errCut = errors.New("cut")

// copy passes the body on as it comes, with the fault, and calls piece for every part.
func (f Fault) copy(ctx context.Context, w http.ResponseWriter, body io.Reader, piece func()) error {
	flush := http.NewResponseController(w).Flush
	buf, sent := make([]byte, 4096), 0
	broken := f.CutAt > 0 || f.Garbage != ""
	for {
		n, err := body.Read(buf)
		part := buf[:n]
		if broken {
			part = part[:min(n, f.CutAt-sent)]
		}
		sent += len(part)
		if !f.write(ctx, w, part) {
			return errCut
		}
		flush()
		piece()
		switch {
		case broken && sent == f.CutAt && f.Garbage != "":
			_, err := io.WriteString(w, f.Garbage)
			return err
		case broken && sent == f.CutAt:
			return errCut
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (f Fault) write(ctx context.Context, w http.ResponseWriter, part []byte) bool {
	if f.Drip == 0 {
		_, err := w.Write(part)
		return err == nil
	}
	for i := range part {
		if _, err := w.Write(part[i : i+1]); err != nil || http.NewResponseController(w).Flush() != nil || !pause(ctx, f.Drip) {
			return false
		}
	}
	return true
}

// pause waits, and returns false when the client has gone meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
