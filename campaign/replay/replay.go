// Package replay answers vLLM's HTTP API from a recorded campaign: the recorded gaps between tokens, the recorded metrics
// as a starting point, and on /stop_profile the recorded traces under the names that vLLM would give them.
// It announces itself on every answer and at GET /rooflab/replay, and gives arrival times on a virtual clock.
// It does not generate text, model loads that were not recorded, or write to the campaign's folder.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// Options say what is replayed and where.
type Options struct {
	Dir         string // the campaign folder
	Run         string // "" is the campaign's main run
	Addr        string // "" is 127.0.0.1:0, a port picked by the system
	TraceDir    string // where /stop_profile leaves traces; "" is a temporary folder that Close removes
	Speed       int    // 0: as fast as possible, on the virtual clock; 1: as slowly as recorded
	SecondStart string // what a second /start_profile gets: "ignore" (200, as vLLM 0.24) or "409" (as 0.32); "" is as the recorded version
	NoProfiler  bool   // answer as a server without a profiler
}

// Server is a running replay.
type Server struct {
	URL      string
	TraceDir string
	About    vllm.Replay

	opts   Options
	rec    *recording
	engine *engine
	http   *http.Server
	stop   context.CancelFunc
	done   sync.WaitGroup
	temp   string // to remove at Close, or ""

	mu      sync.Mutex
	open    bool   // a profile is open
	prefix  string // of the names of its traces
	profile int    // profiles that were written
	ids     int    // completions that were asked for
}

// Start reads the recording and serves it until Close or the end of the context.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Speed != 0 && o.Speed != 1 {
		return nil, fmt.Errorf("speed %d: a replay runs at speed 0 (as fast as possible) or 1 (as recorded)", o.Speed)
	}
	if o.SecondStart != "" && o.SecondStart != "ignore" && o.SecondStart != "409" {
		return nil, fmt.Errorf("second start %q: give ignore or 409", o.SecondStart)
	}
	rec, err := readRecording(o.Dir, o.Run)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if o.SecondStart == "" && vllm.StartTellsOpen(rec.version) {
		o.SecondStart = "409"
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // without the address, which is said already
		}
		return nil, fmt.Errorf("replay: listen on %s: %w; give another address", o.Addr, err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), TraceDir: o.TraceDir, About: rec.about, opts: o, rec: rec, engine: newEngine(rec, o.Speed)}
	if s.TraceDir == "" {
		if s.temp, err = os.MkdirTemp("", "rooflab-replay-"); err != nil {
			l.Close()
			return nil, err
		}
		s.TraceDir = s.temp
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	s.done.Add(2)
	go func() { defer s.done.Done(); s.engine.run(ctx) }()
	go func() { defer s.done.Done(); s.http.Serve(l) }() // ends with ErrServerClosed
	context.AfterFunc(ctx, func() { s.http.Close() })
	return s, nil
}

// Close stops the server, ends open streams and removes the temporary trace folder.
func (s *Server) Close() error {
	s.stop()
	err := s.http.Close()
	s.done.Wait()
	if s.temp != "" {
		err = errors.Join(err, os.RemoveAll(s.temp))
	}
	return err
}

// ProfileOpen says whether a client left a profile running.
func (s *Server) ProfileOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// serve routes as vLLM's server does: unknown paths are 404, wrong methods 405.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(vllm.ReplayHeader, s.rec.about.Campaign+"/"+s.rec.about.Run)
	method, handle := http.MethodGet, http.HandlerFunc(nil)
	switch r.URL.Path {
	case "/health", "/ping":
		handle = func(w http.ResponseWriter, _ *http.Request) {}
	case "/version":
		handle = s.json(map[string]string{"version": s.rec.version})
	case "/v1/models":
		handle = s.raw(s.rec.models)
	case "/load":
		handle = s.raw(s.rec.load)
	case "/rooflab/replay":
		handle = s.json(s.rec.about)
	case "/metrics":
		handle = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
			w.Write([]byte(s.engine.scrape()))
		}
	case "/v1/completions":
		method, handle = http.MethodPost, s.completions
	case "/start_profile":
		method, handle = http.MethodPost, s.startProfile
	case "/stop_profile":
		method, handle = http.MethodPost, s.stopProfile
	}
	if handle == nil || s.opts.NoProfiler && strings.HasSuffix(r.URL.Path, "_profile") {
		answer(w, http.StatusNotFound, `{"detail":"Not Found"}`)
		return
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		answer(w, http.StatusMethodNotAllowed, `{"detail":"Method Not Allowed"}`)
		return
	}
	status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	handle(status, r)
	if r.URL.Path != "/metrics" && r.URL.Path != "/health" && r.URL.Path != "/rooflab/replay" { // vLLM does not count these either
		s.engine.countAnswer(r.URL.Path, r.Method, status.status)
	}
}

func (s *Server) json(v any) http.HandlerFunc {
	b, err := json.Marshal(v)
	if err != nil { // a NaN in a recording
		return func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusInternalServerError, `{}`) }
	}
	return s.raw(b)
}

func (s *Server) raw(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, string(b)) }
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write([]byte(body))
}

// refuse answers with vLLM's error object.
func refuse(w http.ResponseWriter, status int, kind, param, message string) {
	var p *string
	if param != "" {
		p = &param
	}
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": p, "code": status}}) // strings and a number
	answer(w, status, string(b))
}

// statusWriter remembers the status for the counters.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
