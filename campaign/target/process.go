package target

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rooflab/rooflab/campaign/launch"
)

// Process is a server's process as /proc has it. Environ holds secrets: hand it to launch.Process, which masks them,
// and print or keep it nowhere.
type Process struct {
	PID         int
	Parent      int
	User        string // whose process it is; a number where the machine has no name for it
	Cmdline     []byte // words, each ended by NUL
	Environ     []byte // NAME=VALUE, each ended by NUL; nil if this user may not read it
	Cgroup      string // /proc/PID/cgroup: names the systemd unit or the container
	Dir         string // working directory, "" if this user may not see it
	StartedUnix int64  // seconds
}

// Unit returns the systemd service that the process belongs to, "" if it is none or a container's.
func (p Process) Unit() string {
	for _, line := range strings.Split(p.Cgroup, "\n") {
		for _, part := range strings.Split(line, "/") {
			if strings.HasSuffix(part, ".service") && !strings.HasPrefix(part, "user@") && part != "docker.service" && part != "containerd.service" {
				return unescape(part)
			}
		}
	}
	return ""
}

// unescape undoes \x2d in names of units.
func unescape(name string) string {
	for {
		i := strings.Index(name, `\x`)
		if i < 0 || i+4 > len(name) {
			return name
		}
		n, err := strconv.ParseUint(name[i+2:i+4], 16, 8)
		if err != nil {
			return name
		}
		name = name[:i] + string(rune(n)) + name[i+4:]
	}
}

// One line a process: pid, then fields in base64, because all of them may hold anything. grep -z takes each word of a
// command line for a line. /proc/stat has the time of the boot, which starts of processes are counted from.
const serversScript = `[ -r /proc/self/stat ] || { echo "there is no /proc here" >&2; exit 3; }; command -v base64 >/dev/null || { echo "base64 is not installed" >&2; exit 3; }; ` +
	`b() { base64 2>/dev/null | tr -d "\n"; printf " "; }; ` +
	`echo "btime $(sed -n "s/^btime //p" /proc/stat) $(getconf CLK_TCK 2>/dev/null || echo 100)"; ` +
	`for f in $(grep -lzE "vllm|sglang" /proc/[0-9]*/cmdline 2>/dev/null); do d=${f%/cmdline}; printf "%s " "${d#/proc/}"; ` +
	`b <"$f"; b <$d/stat; (b <$d/environ) 2>/dev/null || printf -- " "; b <$d/cgroup; readlink $d/cwd 2>/dev/null | b; stat -c %U $d 2>/dev/null | b; echo; done 2>/dev/null`

// ServersWords returns the command that Servers runs; nil on this machine, where it reads /proc itself.
func (h Host) ServersWords() []string {
	return h.there(serversScript)
}

// Servers returns the processes of vLLM and SGLang that answer requests, by PID. Workers, which rename themselves, and the
// shells, containers and profilers around a server are not among them. Elsewhere it takes one round trip.
func (h Host) Servers(ctx context.Context) ([]Process, error) {
	if h.Local() {
		return serversLocal("/proc")
	}
	out := &bounded{max: maxOutput}
	if err := h.script(ctx, out, "look for servers", serversScript); err != nil {
		return nil, err
	}
	return servers(parseProcesses(out.b.String())), nil
}

func parseProcesses(text string) []Process {
	var list []Process
	var btime, hz int64
	for _, line := range strings.Split(text, "\n") {
		f := strings.Split(line, " ")
		if f[0] == "btime" && len(f) == 3 {
			btime, _ = strconv.ParseInt(f[1], 10, 64)
			hz, _ = strconv.ParseInt(f[2], 10, 64)
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil || len(f) < 7 {
			continue
		}
		var field [6][]byte
		for i := range field {
			field[i], _ = base64.StdEncoding.DecodeString(f[i+1]) // half of one is as good as none
		}
		p := Process{PID: pid, Cmdline: field[0], Cgroup: string(field[3]), Dir: strings.TrimSuffix(string(field[4]), "\n"), User: strings.TrimSpace(string(field[5]))}
		if len(field[2]) > 0 {
			p.Environ = field[2]
		}
		p.Parent, p.StartedUnix = parseStat(field[1], btime, hz)
		list = append(list, p)
	}
	return list
}

// parseStat reads parent and start from /proc/PID/stat, whose second field is a name in brackets that may hold anything.
func parseStat(stat []byte, btime, hz int64) (parent int, started int64) {
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 20 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(f[1])
	ticks, err := strconv.ParseInt(f[19], 10, 64)
	if err != nil || btime == 0 || hz <= 0 {
		return parent, 0
	}
	return parent, btime + ticks/hz
}

func serversLocal(proc string) ([]Process, error) {
	raw, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return nil, fmt.Errorf("look for servers: this machine shows no processes: %w", err)
	}
	_, after, _ := strings.Cut(string(raw), "\nbtime ")
	first, _, _ := strings.Cut(after, "\n")
	btime, _ := strconv.ParseInt(first, 10, 64)
	dirs, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	var list []Process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		p := Process{PID: pid}
		if p.Cmdline, err = os.ReadFile(filepath.Join(dir, "cmdline")); err != nil || !bytes.Contains(p.Cmdline, []byte("vllm")) && !bytes.Contains(p.Cmdline, []byte("sglang")) {
			continue
		}
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil {
			p.Environ = env
		}
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		p.Parent, p.StartedUnix = parseStat(stat, btime, 100) // USER_HZ is 100 on every Linux that Go runs on
		cgroup, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		p.Cgroup = string(cgroup)
		p.Dir, _ = os.Readlink(filepath.Join(dir, "cwd"))
		if info, err := os.Stat(dir); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				p.User = userName(strconv.FormatUint(uint64(st.Uid), 10))
			}
		}
		list = append(list, p)
	}
	return servers(list), nil
}

func userName(uid string) string {
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// servers keeps the processes that are API servers. A worker that was forked and could not rename itself looks like its
// parent; the parent is the one.
func servers(list []Process) []Process {
	var found []Process
	for _, p := range list {
		if isServer(p.Cmdline) {
			found = append(found, p)
		}
	}
	byPID := map[int]Process{}
	for _, p := range found {
		byPID[p.PID] = p
	}
	found = slices.DeleteFunc(found, func(p Process) bool {
		parent, ok := byPID[p.Parent]
		return ok && bytes.Equal(parent.Cmdline, p.Cmdline)
	})
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found
}

// isServer reports whether a command line is that of an API server itself, not of something that starts one.
func isServer(cmdline []byte) bool {
	first, _, _ := bytes.Cut(cmdline, []byte{0})
	base := filepath.Base(string(first))
	if !strings.HasPrefix(base, "python") && base != "vllm" && base != "sglang" {
		return false
	}
	_, err := launch.Process(cmdline, nil)
	return err == nil
}
