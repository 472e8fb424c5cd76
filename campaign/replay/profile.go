package replay

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// written is how long a trace is incomplete after it has appeared, in pieces. The recorded export took seconds;
// what a client must cope with is a file that is not there, then empty, then growing, then complete after the answer.
const written = 2 * time.Millisecond

func (s *Server) startProfile(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	twice := s.open
	s.open = true
	s.mu.Unlock()
	if twice {
		if s.opts.SecondStart == "409" {
			refuse(w, http.StatusConflict, "Conflict", "", "A profiling session is already active. Call /stop_profile before starting another session.")
		}
		return
	}
	s.engine.profileOpened()
}

// stopProfile leaves the traces of the load that ran while the profile was open. Without a start it does nothing, with 200.
func (s *Server) stopProfile(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	open := s.open
	s.open = false
	s.profile++
	round := s.profile
	s.mu.Unlock()
	if !open {
		return
	}
	if err := s.leaveTraces(round); err != nil {
		// vLLM logs such an error and answers 200 all the same
		fmt.Fprintln(os.Stderr, "rooflab replay: the trace was not written:", err)
	}
}

func (s *Server) leaveTraces(round int) error {
	if err := os.MkdirAll(s.TraceDir, 0o755); err != nil {
		return err
	}
	s.engine.mu.Lock()
	streams := s.engine.window
	s.engine.mu.Unlock()
	if streams == 0 {
		return s.leaveEmpty(round)
	}
	for _, t := range s.rec.traces[s.rec.nearest(streams).Streams] {
		if err := s.grow(t.file, s.traceName(round, t.rank)); err != nil {
			return err
		}
	}
	return nil
}

// traceName is the name that vLLM gives after 0.16. The number is the recorded server's start plus the round, so that a
// replay leaves the same names again.
func (s *Server) traceName(round, rank int) string {
	ns := (s.rec.created+int64(round))*1e9 + int64(rank)*1e6
	return filepath.Join(s.TraceDir, fmt.Sprintf("dp0_pp0_tp%d_dcp0_ep%d_rank%d.%d.pt.trace.json.gz", rank, rank, rank, ns))
}

// grow copies a trace in pieces; the last one follows after the answer.
func (s *Server) grow(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	const pieces = 4
	for i := range pieces - 1 {
		time.Sleep(written)
		if _, err := f.Write(b[len(b)*i/pieces : len(b)*(i+1)/pieces]); err != nil {
			f.Close()
			return err
		}
	}
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		defer f.Close()
		time.Sleep(5 * written)
		f.Write(b[len(b)*(pieces-1)/pieces:]) // a full disk leaves an incomplete file, which clients must notice anyway
	}()
	return nil
}

// leaveEmpty writes what vLLM leaves when nothing ran: a valid trace of every rank without a step in it.
func (s *Server) leaveEmpty(round int) error {
	for rank := range s.rec.about.WorldSize {
		f, err := os.Create(s.traceName(round, rank))
		if err != nil {
			return err
		}
		z := gzip.NewWriter(f)
		_, err = io.WriteString(z, fmt.Sprintf(`{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":%d},"traceEvents":[],"traceName":"empty.json"}`, rank, s.rec.about.WorldSize))
		if err == nil {
			err = z.Close()
		}
		if err2 := f.Close(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
	}
	return nil
}
