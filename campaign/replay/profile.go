package replay

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// written is how long a trace is incomplete after it has appeared, in pieces. The recorded export took seconds;
// what a client must cope with is a file that is not there, then empty, then growing, then complete after the answer.
const written = 2 * time.Millisecond

func (s *Server) startProfile(w http.ResponseWriter, r *http.Request) {
	var o startOptions
	if vllm.StartReadsOptions(s.rec.version) { // older versions do not read the body at all
		if no := o.read(r); no != nil {
			refuse(w, no.status, no.kind, no.param, no.message)
			return
		}
	}
	if no := s.openProfile(o); no != nil {
		refuse(w, no.status, no.kind, no.param, no.message)
	}
}

// openProfile opens a profile with the given options. A second start is ignored or refused, before its options are looked at.
func (s *Server) openProfile(o startOptions) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		if s.opts.SecondStart == "409" {
			return &refusal{http.StatusConflict, "Conflict", "", "A profiling session is already active. Call /stop_profile before starting another session."}
		}
		return nil
	}
	if no := o.check(); no != nil {
		return no
	}
	s.open, s.prefix = true, ""
	if o.Prefix != nil {
		s.prefix = *o.Prefix + "_"
	}
	s.engine.profileOpened()
	return nil
}

// startOptions are the body of /start_profile since 0.32. The bounds are checked and change nothing: a recorded trace has
// the steps that it has.
type startOptions struct {
	Prefix *string `json:"profile_prefix"`
	Delay  *int    `json:"delay_iterations"`
	Max    *int    `json:"max_iterations"`
}

func (o *startOptions) read(r *http.Request) *refusal {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || len(body) == 0 {
		return nil
	}
	err = json.Unmarshal(body, o)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		kind, where := [2]string{"model_attributes_type", "dictionary or object to extract fields from"}, "body"
		if wrong.Field != "" {
			kind, where = map[string][2]string{"string": {"string_type", "string"}, "int": {"int_type", "integer"}}[wrong.Type.Name()], "body."+wrong.Field
		}
		return malformed(where, fmt.Sprintf("{'type': '%s', 'loc': '%s', 'msg': 'Input should be a valid %s'}", kind[0], where, kind[1]))
	case err != nil:
		return malformed("body.1", "{'type': 'json_invalid', 'loc': 'body.1', 'msg': 'JSON decode error'}")
	}
	return nil
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (o startOptions) check() *refusal {
	if o.Prefix != nil && !prefixForm.MatchString(*o.Prefix) {
		return bad("", "profile_prefix must be 1-128 ASCII characters, start with a letter or number, and contain only letters, numbers, '.', '_', or '-'")
	}
	for _, bound := range []struct {
		name  string
		value *int
	}{{"delay_iterations", o.Delay}, {"max_iterations", o.Max}} {
		if bound.value != nil && *bound.value < 0 {
			return bad("", "%s must be greater than or equal to 0", bound.name)
		}
	}
	return nil
}

// stopProfile leaves the traces of the load that ran while the profile was open. Without a start it does nothing, with 200.
func (s *Server) stopProfile(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	open, prefix := s.open, s.prefix
	s.open = false
	s.profile++
	round := s.profile
	s.mu.Unlock()
	if !open {
		return
	}
	if err := s.leaveTraces(round, prefix); err != nil {
		// vLLM logs such an error and answers 200 all the same
		fmt.Fprintln(os.Stderr, "rooflab replay: the trace was not written:", err)
	}
}

func (s *Server) leaveTraces(round int, prefix string) error {
	if err := os.MkdirAll(s.TraceDir, 0o755); err != nil {
		return err
	}
	s.engine.mu.Lock()
	streams := s.engine.window
	s.engine.mu.Unlock()
	if streams == 0 {
		return s.leaveEmpty(round, prefix)
	}
	for _, t := range s.rec.traces[s.rec.nearest(streams).Streams] {
		if err := s.grow(t.file, s.traceName(round, t.rank, prefix)); err != nil {
			return err
		}
	}
	return nil
}

// traceName is the name that vLLM gives after 0.16. The number is the recorded server's start plus the round, so that a
// replay leaves the same names again.
func (s *Server) traceName(round, rank int, prefix string) string {
	ns := (s.rec.created+int64(round))*1e9 + int64(rank)*1e6
	return filepath.Join(s.TraceDir, prefix+fmt.Sprintf("dp0_pp0_tp%d_dcp0_ep%d_rank%d.%d.pt.trace.json.gz", rank, rank, rank, ns))
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
func (s *Server) leaveEmpty(round int, prefix string) error {
	for rank := range s.rec.about.WorldSize {
		f, err := os.Create(s.traceName(round, rank, prefix))
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
