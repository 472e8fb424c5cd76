package sitegen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"
)

// liveScript reloads the page when the server has built it again. It is part of served sites only.
const liveScript = `new EventSource("events").onmessage = function () { location.reload(); };
`

// Server serves a site on this machine and builds it again when the campaign changes.
type Server struct {
	opts   Options
	listen net.Listener
	log    io.Writer

	mu      sync.Mutex
	waiting map[chan struct{}]bool // pages that wait for the next build
}

// Listen builds the site and opens a port of 127.0.0.1; port 0 lets the system choose. Messages go to log.
func Listen(ctx context.Context, o Options, port int, log io.Writer) (*Server, error) {
	o.live = true
	s := &Server{opts: o, log: log, waiting: map[chan struct{}]bool{}}
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.listen, err = (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return nil, fmt.Errorf("serve site: %w; give another port", err)
	}
	return s, nil
}

// build keeps serving what it can: a notebook that cannot be read is told and not fatal.
func (s *Server) build(ctx context.Context) error {
	r, err := Build(ctx, s.opts)
	if err != nil && len(r.Pages) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintln(s.log, err)
	}
	return nil
}

// URL is the address of the start page.
func (s *Server) URL() string { return "http://" + s.listen.Addr().String() + "/" }

// Run serves until the context ends and looks at the inputs twice a second.
func (s *Server) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(pages(s.opts.Out)))
	mux.HandleFunc("/events", s.events)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(s.listen) }()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	before := stamp(s.opts.In)
	for {
		select {
		case <-ctx.Done():
			_ = srv.Close()
			return nil
		case err := <-done:
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve site: %w", err)
		case <-tick.C:
			now := stamp(s.opts.In)
			if now == before {
				continue
			}
			before = now
			if err := s.build(ctx); err != nil {
				fmt.Fprintln(s.log, err)
				continue
			}
			s.tell()
		}
	}
}

// pages are the files of a built site. What a link in it leads to outside is none, and neither is the list of a folder. A
// build may put another folder in its place, so it is opened for each file.
type pages string

func (dir pages) Open(name string) (fs.File, error) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if info, err := root.Stat(name); err == nil && info.IsDir() {
		if _, err := root.Stat(path.Join(name, "index.html")); err != nil {
			return nil, err
		}
	}
	return root.Open(name)
}

// events tells a page when the site was built again.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	flusher, ok := w.(http.Flusher)
	if !ok {
		http.Error(w, "this connection cannot stream", http.StatusNotImplemented)
		return
	}
	built := make(chan struct{}, 1)
	s.mu.Lock()
	s.waiting[built] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, built)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flusher.Flush()
	select {
	case <-r.Context().Done():
	case <-built:
		fmt.Fprint(w, "data: built\n\n")
		flusher.Flush()
	}
}

func (s *Server) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.waiting {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// stamp sums up names, sizes and times of the files a site is built from; it changes when they do.
func stamp(dir string) string {
	var total string
	look := func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that vanished shows in the next look
		}
		if info, err := d.Info(); err == nil {
			total += fmt.Sprintf("%s %d %d\n", p, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	}
	for _, sub := range []string{"manifest.json", "notebooks", "runs", "results"} {
		if _, err := os.Stat(filepath.Join(dir, sub)); err == nil {
			_ = filepath.WalkDir(filepath.Join(dir, sub), look)
		}
	}
	return total
}
