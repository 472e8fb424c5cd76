package campaign

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/internal/units"
)

// Machine is what the server's machine has for profiling.
type Machine struct {
	Looked   bool
	Why      string // why it was not looked at
	Nsys     string // version, "" if it is not there
	Ncu      string // version, "" if it is not there
	Counters string // who may read GPU counters: "everybody", "administrators", "" if not known
	Admin    bool   // this user may read them even so (CAP_SYS_ADMIN or CAP_PERFMON)
	Driver   string
	GPUs     []GPU
	Apps     int    // processes on the GPUs
	SMI      string // why nvidia-smi gave nothing

	name          string // as it calls itself
	dir, tmp, hub string // of the server's process, on its machine
}

// GPU is one line of nvidia-smi. Numbers that it does not know are -1.
type GPU struct {
	Index, Name              string
	SMClock, MaxSM, MemClock int64 // MHz
	PowerLimit               int64 // W
	MemUsed, MemTotal        int64 // MiB
	Busy                     int64 // percent
}

// Disk is a place that traces are written to.
type Disk struct {
	For  string
	Dir  string
	Free int64
	Need int64  // estimate
	Why  string // why Free is not known
}

const gpuFields = "index,name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,memory.used,memory.total,utilization.gpu"

// machineScript prints NAME<TAB>VALUE lines. Programs that a login shell would find but ours does not are looked for where
// their installers put them.
const machineScript = `PATH="$PATH:/usr/local/cuda/bin:/opt/nvidia/nsight-systems/bin:/usr/local/bin"; for d in /opt/nvidia/nsight-systems/*/bin /opt/nvidia/nsight-compute/*; do [ -d "$d" ] && PATH="$PATH:$d"; done; ` +
	`p() { [ -n "$2" ] && printf "%s\t%s\n" "$1" "$2"; }; p name "$(uname -n)"; ` +
	`command -v nsys >/dev/null && p nsys "$(nsys --version 2>/dev/null | head -n 1 || :) "; ` +
	`command -v ncu >/dev/null && p ncu "$(ncu --version 2>/dev/null | tail -n 1 || :) "; ` +
	`p counters "$(sed -n "s/^RmProfilingAdminOnly: *//p" /proc/driver/nvidia/params 2>/dev/null)"; ` +
	`p caps "$(sed -n "s/^CapEff:[^0-9a-f]*//p" /proc/self/status 2>/dev/null)"; ` +
	`if command -v nvidia-smi >/dev/null; then nvidia-smi --query-gpu=` + gpuFields + ` --format=csv,noheader,nounits 2>&1 | sed "s/^/gpu	/"; ` +
	`nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null | sed "s/^/app	/"; else p smi absent; fi; exit 0`

func machineWords() []string { return []string{"sh", "-c", machineScript} }

func (s *Session) lookAtMachine(ctx context.Context, p *Preflight) {
	m := &p.Machine
	switch {
	case p.Server.Replay:
		m.Why = "not recorded"
		if raw, err := os.ReadFile(s.own("host/nvidia-smi-q.txt")); err == nil {
			m.recorded(string(raw))
		}
		return
	case p.Process.Engine == "" && s.host.Local() && p.PID == 0:
		m.Why = "which machine the server runs on is not known"
		return
	}
	out, err := s.host.Output(ctx, machineWords()...)
	if err != nil {
		m.Why = err.Error()
		return
	}
	m.read(string(out))
	s.itself = append(s.itself, m.name)
	p.lookAtDisks(ctx, s)
}

func (m *Machine) read(text string) {
	m.Looked = true
	for _, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(line, "\t")
		if value = strings.TrimSpace(value); !ok {
			continue
		}
		switch name {
		case "name":
			m.name = value
		case "nsys":
			m.Nsys = cmp.Or(lastVersion(value), "of unknown version")
		case "ncu":
			m.Ncu = cmp.Or(lastVersion(value), "of unknown version")
		case "counters":
			m.Counters = map[string]string{"0": "everybody", "1": "administrators"}[value]
		case "caps":
			caps, err := strconv.ParseUint(value, 16, 64)
			m.Admin = err == nil && caps&(1<<21|1<<38) != 0
		case "gpu":
			m.gpu(value)
		case "app":
			if _, err := strconv.Atoi(value); err == nil {
				m.Apps++
			}
		case "smi":
			m.SMI = "nvidia-smi is not there"
		}
	}
}

// lastVersion returns the word of a line that begins with a digit: "NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0", "Version 2025.2.1.0 (build 35987062)".
func lastVersion(line string) string {
	for _, word := range strings.Fields(line) {
		if word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return ""
}

func (m *Machine) gpu(line string) {
	f := strings.Split(line, ", ")
	if len(f) != 10 {
		m.SMI = "nvidia-smi says: " + line
		return
	}
	n := func(i int) int64 {
		v, err := strconv.ParseFloat(strings.TrimSpace(f[i]), 64)
		if err != nil {
			return -1 // [N/A], [Not Supported]
		}
		return int64(v + 0.5)
	}
	m.Driver = f[2]
	m.GPUs = append(m.GPUs, GPU{Index: f[0], Name: f[1], SMClock: n(3), MaxSM: n(4), MemClock: n(5), PowerLimit: n(6), MemUsed: n(7), MemTotal: n(8), Busy: n(9)})
}

// lookAtDisks asks for room where the server writes: the finished traces, and before that each of them unpacked in TMPDIR.
func (p *Preflight) lookAtDisks(ctx context.Context, s *Session) {
	if p.container {
		return // its folders are not this machine's
	}
	est := p.traces()
	for _, d := range []Disk{{For: "traces", Dir: p.traceDir, Need: est.all}, {For: "unpacked traces while they are written", Dir: p.Machine.tmp, Need: est.unpacked}} {
		if d.Dir == "" || strings.Contains(d.Dir, "://") {
			continue
		}
		var err error
		if d.Free, err = s.host.FreeBytes(ctx, d.Dir); err != nil {
			d.Why = err.Error()
		}
		p.Disks = append(p.Disks, d)
	}
}

func bytesText(n int64) string { return units.Bytes(n) }

// recorded reads the output of `nvidia-smi -q` that was kept with a campaign.
func (m *Machine) recorded(text string) {
	section := ""
	for _, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(line, " : ")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case strings.HasPrefix(line, "GPU "):
			m.GPUs = append(m.GPUs, GPU{Index: strconv.Itoa(len(m.GPUs)), SMClock: -1, MaxSM: -1, MemClock: -1, PowerLimit: -1, MemUsed: -1, MemTotal: -1, Busy: -1})
			section = ""
			continue
		case name == "Driver Version":
			m.Driver = value
		case !ok && indent == 4:
			section = name
		}
		if len(m.GPUs) == 0 || !ok {
			continue
		}
		g := &m.GPUs[len(m.GPUs)-1]
		number, _, _ := strings.Cut(value, " ")
		n, err := strconv.ParseFloat(number, 64)
		field := map[string]*int64{"Clocks/SM": &g.SMClock, "Max Clocks/SM": &g.MaxSM, "Clocks/Memory": &g.MemClock, "FB Memory Usage/Used": &g.MemUsed,
			"FB Memory Usage/Total": &g.MemTotal, "Utilization/GPU": &g.Busy, "Utilization/Gpu": &g.Busy, "GPU Power Readings/Current Power Limit": &g.PowerLimit}[section+"/"+name]
		switch {
		case name == "Product Name":
			g.Name = value
		case field != nil && err == nil && *field < 0:
			*field = int64(n + 0.5)
		}
	}
}
