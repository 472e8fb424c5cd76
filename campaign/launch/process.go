package launch

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/rooflab/rooflab/data"
)

// Process reads a live server from the contents of /proc/PID/cmdline and /proc/PID/environ (nil if it may not be read).
// Words may be separated by NUL, as the kernel writes them, or by line breaks. The version is not in /proc: set
// Server.Version from GET /version.
func Process(cmdline, environ []byte) (Server, error) {
	argv := split(cmdline)
	if len(argv) == 0 {
		return Server{}, errors.New("read process: the command line is empty: a kernel thread, a zombie, or the process has ended")
	}
	if strings.HasPrefix(argv[0], "VLLM::") || strings.HasPrefix(argv[0], "sglang::") {
		return Server{}, fmt.Errorf("read process: %q is a worker that renamed itself; give the process that it was started from (its parent)", argv[0])
	}
	env := newEnviron(true)
	for _, item := range split(environ) {
		if k, v, ok := strings.Cut(item, "="); ok {
			env.set(k, v)
		}
	}
	r := &reader{}
	if err := r.command(argv, env, ""); err != nil {
		return Server{}, fmt.Errorf("read process: %w", err)
	}
	if r.found == nil {
		return Server{}, fmt.Errorf("read process: %q is not an inference server", path.Base(argv[0]))
	}
	s, err := r.finish("process", "process", nil)
	if environ == nil && err == nil {
		s.Diagnostics = append(s.Diagnostics, noEnviron)
	}
	return s, err
}

// Environment returns what a campaign keeps of a live server: its words and those variables that change what it does,
// secrets masked, its ranks and its CUDA graphs. The version is Server.Version.
func (s Server) Environment() data.Environment {
	e := data.Environment{Engine: s.Engine, Version: s.Version, Args: append([]string{}, s.Argv...), TP: int(s.TensorParallel())}
	for _, v := range s.Env {
		if v.Unknown || !relevant(v.Name) {
			continue
		}
		if e.Env == nil {
			e.Env = map[string]string{}
		}
		e.Env[v.Name] = v.Value
	}
	switch mode := s.CUDAGraphs(); mode {
	case "off":
		e.Graphs = "none"
	case "default":
		e.Graphs = "the version's default"
	default:
		e.Graphs = strings.ReplaceAll(mode, "_", " ")
	}
	return e
}

func split(raw []byte) []string {
	sep := []byte("\n")
	if bytes.IndexByte(raw, 0) >= 0 {
		sep = []byte{0}
	}
	raw = bytes.TrimRight(raw, "\x00\n")
	if len(raw) == 0 {
		return nil
	}
	var words []string
	for _, w := range bytes.Split(raw, sep) {
		words = append(words, string(w))
	}
	return words
}
