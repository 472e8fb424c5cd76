// Package fake imitates an SGLang server for tests: paths, answers, key check, metrics and the files of its profiler, as
// SGLang's source has them. Its engine makes a token for every stream each 2 ms and knows nothing of models.
// It is no SGLang: what holds here was never tried on a running one.
package fake

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Options say which server is imitated.
type Options struct {
	Dir       string // where traces go when a start names no folder
	Root      string // where the folder that a start names lies, as in a container; "" is here
	Key       string // "" asks for none
	TP        int    // ranks; 0 is 1
	Old       bool   // names of traces without groups and prefix; steps are not annotated
	NoMetrics bool   // started without --enable-metrics
	Hidden    bool   // the models do not say who serves them
}

// Server is a running imitation.
type Server struct {
	URL string

	opts Options
	http *http.Server
	done chan struct{}

	mu      sync.Mutex
	streams map[*stream]bool
	made    int // tokens
	ended   int // requests
	profile *profile
	names   int // profiles so far
	started []string
}

type stream struct{ tokens chan int }

type profile struct {
	OutputDir string   `json:"output_dir"`
	NumSteps  int      `json:"num_steps"`
	WithStack *bool    `json:"with_stack"`
	Prefix    string   `json:"profile_prefix"`
	Activity  []string `json:"activities"`
	steps     []int    // streams of each step
}

const version = "0.5.4"

// Start serves until Close.
func Start(o Options) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.TP = max(o.TP, 1)
	s := &Server{URL: "http://" + l.Addr().String(), opts: o, done: make(chan struct{}), streams: map[*stream]bool{}}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve)}
	go s.http.Serve(l) // ends with ErrServerClosed
	go s.engine()
	return s, nil
}

// Close ends the server and its streams.
func (s *Server) Close() {
	close(s.done)
	s.http.Close()
}

// ProfileOpen says whether a profile runs.
func (s *Server) ProfileOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profile != nil
}

// Started returns the bodies of the starts so far.
func (s *Server) Started() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.started...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if s.opts.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.opts.Key && !strings.HasPrefix(path, "/health") && !strings.HasPrefix(path, "/metrics") {
		answer(w, http.StatusUnauthorized, `{"error":"Unauthorized"}`)
		return
	}
	methods := map[string]string{"/v1/completions": "POST", "/start_profile": "GET, POST", "/stop_profile": "GET, POST",
		"/health": "GET", "/v1/models": "GET", "/get_model_info": "GET", "/get_server_info": "GET", "/metrics": "GET"}
	allowed, ok := methods[path]
	switch {
	case !ok || path == "/metrics" && s.opts.NoMetrics:
		answer(w, http.StatusNotFound, `{"detail":"Not Found"}`)
		return
	case !strings.Contains(allowed, r.Method):
		w.Header().Set("Allow", allowed)
		answer(w, http.StatusMethodNotAllowed, `{"detail":"Method Not Allowed"}`)
		return
	}
	switch path {
	case "/v1/models":
		owner := `"owned_by":"sglang",`
		if s.opts.Hidden {
			owner = ""
		}
		answer(w, 200, `{"object":"list","data":[{"id":"tiny","object":"model","created":1,`+owner+`"root":"/models/tiny","max_model_len":4096}]}`)
	case "/get_model_info":
		answer(w, 200, `{"model_path":"/models/tiny","tokenizer_path":"/models/tiny","is_generation":true,"preferred_sampling_params":null}`)
	case "/get_server_info":
		answer(w, 200, fmt.Sprintf(`{"model_path":"/models/tiny","served_model_name":"tiny","api_key":%q,"tp_size":%d,"dp_size":1,"ep_size":1,"version":%q,"internal_states":[{}]}`, s.opts.Key, s.opts.TP, version))
	case "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		fmt.Fprint(w, s.metrics())
	case "/start_profile":
		s.start(w, r)
	case "/stop_profile":
		s.stop(w)
	case "/v1/completions":
		s.complete(w, r)
	}
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// failed is how the scheduler's success=false comes out: an exception without its words.
func failed(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprint(w, "Internal Server Error")
}

func (s *Server) metrics() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, m := range []struct {
		name, kind string
		value      int
	}{
		{"num_running_reqs", "gauge", len(s.streams)}, {"num_queue_reqs", "gauge", 0}, {"token_usage", "gauge", 0},
		{"generation_tokens_total", "counter", s.made}, {"num_requests_total", "counter", s.ended},
	} {
		fmt.Fprintf(&b, "# HELP sglang:%[1]s x\n# TYPE sglang:%[1]s %[2]s\nsglang:%[1]s{engine_type=\"unified\",model_name=\"tiny\",tp_rank=\"0\"} %[3]d.0\n", m.name, m.kind, m.value)
	}
	return b.String()
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	p := &profile{}
	if json.NewDecoder(r.Body).Decode(&raw) == nil {
		if err := json.Unmarshal(raw, p); err != nil {
			answer(w, http.StatusUnprocessableEntity, `{"detail":[{"msg":"Input should be valid"}]}`)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, string(raw))
	if s.profile != nil {
		failed(w)
		return
	}
	s.profile = p
	fmt.Fprint(w, "Start profiling.\n")
}

func (s *Server) stop(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.profile == nil {
		failed(w)
		return
	}
	s.export()
	fmt.Fprint(w, "Stop profiling. This will take some time.\n")
}

// export writes the traces of all ranks. The lock is held: serving stands still meanwhile.
func (s *Server) export() {
	p := s.profile
	s.profile = nil
	s.names++
	dir := filepath.Join(s.opts.Root, p.OutputDir)
	if p.OutputDir == "" {
		dir = s.opts.Dir
	}
	if os.MkdirAll(dir, 0o755) != nil {
		return
	}
	for rank := range s.opts.TP {
		name := fmt.Sprintf("%d.25-TP-%d", 1700000000+s.names, rank)
		if !s.opts.Old {
			name += "-DP-0-PP-0-EP-0"
			if p.Prefix != "" {
				name = p.Prefix + "-" + name
			}
		}
		f, err := os.Create(filepath.Join(dir, name+".trace.json.gz"))
		if err != nil {
			return
		}
		z := gzip.NewWriter(f)
		fmt.Fprintf(z, `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":%d},"traceEvents":[`, rank, s.opts.TP)
		for i, n := range p.steps {
			if i > 0 {
				fmt.Fprint(z, ",")
			}
			kind := fmt.Sprintf("step[DECODE bs=%d]", n)
			if s.opts.Old {
				kind = "forward"
			}
			fmt.Fprintf(z, `{"ph":"X","cat":"user_annotation","name":%q,"pid":1,"tid":1,"ts":%d,"dur":1900}`, kind, 1000+2000*i)
		}
		fmt.Fprint(z, `],"traceName":"x.json"}`)
		z.Close()
		f.Close()
	}
}

// engine makes a step each 2 ms.
func (s *Server) engine() {
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case <-s.done:
			tick.Stop()
			return
		case <-tick.C:
			s.step()
		}
	}
}

func (s *Server) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == 0 {
		return
	}
	for q := range s.streams {
		select {
		case q.tokens <- 1:
		default: // its client does not read
		}
	}
	if p := s.profile; p != nil {
		p.steps = append(p.steps, len(s.streams))
		if p.NumSteps > 0 && len(p.steps) >= p.NumSteps {
			s.export()
		}
	}
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Prompt    []int
		MaxTokens int `json:"max_tokens"`
		Stream    bool
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || !ask.Stream {
		answer(w, http.StatusBadRequest, `{"object":"error","message":"only streams here","type":"BadRequestError","code":400}`)
		return
	}
	q := &stream{tokens: make(chan int, 4096)}
	s.mu.Lock()
	s.streams[q] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	sent := 0
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, q)
		s.made, s.ended = s.made+sent, s.ended+1
	}()
	for sent < ask.MaxTokens {
		select {
		case <-s.done:
			return
		case <-r.Context().Done():
			return
		case <-q.tokens:
		}
		sent++
		finish := "null"
		if sent == ask.MaxTokens {
			finish = `"length"`
		}
		fmt.Fprintf(w, `data: {"id":"x","object":"text_completion","created":1,"model":"tiny","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":%s,"matched_stop":null}],"usage":null}`+"\n\n", finish)
		http.NewResponseController(w).Flush()
	}
	fmt.Fprintf(w, `data: {"id":"x","object":"text_completion","created":1,"model":"tiny","choices":[],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", len(ask.Prompt), len(ask.Prompt)+sent, sent)
}
