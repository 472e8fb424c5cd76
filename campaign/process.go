package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/rooflab/rooflab/campaign/launch"
)

// findFolder finds out where the server writes its traces: as it was said, else as the server's own process was told.
//
// SGLang is told a folder with each start, on its own disk, where the one that was said may have another name. So it is told
// none when its process names one itself; what was said is then how that folder is seen from the host.
func (s *Session) findFolder(ctx context.Context) error {
	if s.folder != nil {
		return nil
	}
	said, own := s.traceDir, ""
	var failed error
	if said == "" || s.engineName == engineSGLang {
		own, failed = s.profilerDir(ctx)
	}
	dir := cmp.Or(said, own)
	switch {
	case dir == "" && failed != nil:
		return fmt.Errorf("where the server writes its traces is not known without --trace-dir: %w", failed)
	case dir == "":
		return errNoFolder
	}
	if s.host.Local() {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
		if said != "" {
			if err := s.elsewhere(ctx, dir); err != nil {
				return err
			}
		}
		s.folder = sharedFolder{dir}
	} else {
		s.folder = hostFolder{s.host, dir, filepath.Join(s.dir, ".fetch"), func(detail string) { s.tell("fetch the traces", detail) }}
	}
	s.ownDir, s.output = own, ""
	if own == "" {
		s.output = dir
	}
	return nil
}

// elsewhere refuses a folder that is not there when the server's own process names another one that is: a server makes its
// folder with the first trace, but not one that was mistyped.
func (s *Session) elsewhere(ctx context.Context, dir string) error {
	if exists(dir) || s.engineName == engineSGLang {
		return nil
	}
	own, err := s.profilerDir(ctx)
	if err != nil || own == "" || own == dir || !exists(own) {
		return nil // nothing is known that says otherwise
	}
	return fmt.Errorf("--trace-dir %s is not there, and the server's own command line says %s: give that, or leave --trace-dir out", dir, own)
}

var errNoTraces = errors.New("no complete trace has appeared where it was looked for")

// noTraces is the error of a round whose profile left no complete trace where it was looked for.
func (s *Session) noTraces(found int, why error) error {
	looked := fmt.Sprintf(" (%d new files", found)
	if why != nil {
		looked += fmt.Sprintf(", the last is not complete: %v", why)
	}
	looked += "): "
	switch {
	case s.engineName != engineSGLang:
		return fmt.Errorf("%w%sis --trace-dir the server's torch_profiler_dir, as seen from %s, and readable?", errNoTraces, looked, s.where())
	case s.output != "":
		return fmt.Errorf("%w%sSGLang was told to write into %s on its own disk; if that is not what %s sees under this name, say with --host where the server runs, such as docker:NAME or ssh:NODE: traces are then written and read there", errNoTraces, looked, s.output, s.where())
	}
	return fmt.Errorf("%w%sSGLang writes into %s, its SGLANG_TORCH_PROFILER_DIR, on its own disk: give --trace-dir, that folder as seen from %s", errNoTraces, looked, s.ownDir, s.where())
}

// profilerDir asks the server's own process where it writes its traces: the torch_profiler_dir of its command line.
// It returns "" when no process is found, may be read, or says so, and an error when the host that was named is not reached.
func (s *Session) profilerDir(ctx context.Context) (string, error) {
	at, err := url.Parse(s.client.Target())
	if err != nil || s.host.Local() && !here(at.Hostname()) {
		return "", nil
	}
	found, err := s.host.Servers(ctx)
	if err != nil && !s.host.Local() {
		return "", err // the host that was named cannot be reached: with --trace-dir it could not be read either
	}
	if err != nil {
		return "", nil
	}
	p, err := pick(found, at.Port(), s.host.Local())
	if err != nil {
		return "", nil // the caller asks for the folder
	}
	server, err := launch.Process(p.Cmdline, p.Environ)
	if err != nil {
		return "", nil
	}
	if server.Version, err = s.engine().Version(ctx); err != nil {
		return "", nil
	}
	dir := server.Profiler().Dir
	if dir != "" && !path.IsAbs(dir) && p.Dir != "" {
		dir = path.Join(p.Dir, dir)
	}
	return dir, nil
}

// here says that a name in an address is this machine's.
func here(name string) bool {
	own, _ := os.Hostname()
	ip := net.ParseIP(name)
	if ip == nil {
		return name == "localhost" || name == own
	}
	addresses, _ := net.InterfaceAddrs()
	return ip.IsLoopback() || ip.IsUnspecified() || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
