package campaign

import (
	"context"
	"net"
	"net/url"
	"os"
	"path"
	"slices"

	"github.com/rooflab/rooflab/campaign/launch"
)

// profilerDir asks the server's own process where it writes its traces: the torch_profiler_dir of its command line.
// It returns "" when no process is found, may be read, or says so.
func (s *Session) profilerDir(ctx context.Context) string {
	at, err := url.Parse(s.client.Target())
	if err != nil || s.host.Local() && !here(at.Hostname()) {
		return ""
	}
	found, err := s.host.Servers(ctx)
	if err != nil {
		return ""
	}
	p, err := pick(found, at.Port(), s.host.Local())
	if err != nil {
		return "" // the caller asks for the folder
	}
	server, err := launch.Process(p.Cmdline, p.Environ)
	if err != nil {
		return ""
	}
	if server.Version, err = s.engine().Version(ctx); err != nil {
		return ""
	}
	dir := server.Profiler().Dir
	if dir != "" && !path.IsAbs(dir) && p.Dir != "" {
		dir = path.Join(p.Dir, dir)
	}
	return dir
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
