package campaign

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rooflab/rooflab/campaign/launch"
	"github.com/rooflab/rooflab/campaign/model"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
)

// Tables returns every part of the report, in the order to read it.
func (p Preflight) Tables() []data.Table {
	step := p.StepTable()
	if p.Model != nil {
		step.Note = strings.TrimSpace(p.Model.Describe() + ", from " + p.ModelFrom + ". " + step.Note)
	}
	tables := []data.Table{p.ServerTable(), step, p.ProcessTable(), p.DriftTable(), p.ToolsTable()}
	if len(p.Machine.GPUs) > 0 {
		tables = append(tables, p.GPUTable())
	}
	return append(tables, p.CostTable(), p.FindingTable())
}

// ServerTable shows what the server says about itself, and what others ask of it.
func (p Preflight) ServerTable() data.Table {
	t := p.Server.Table()
	for i, row := range t.Rows {
		if row.Cells[0] != "Other traffic" || p.Server.Replay {
			continue
		}
		t.Rows[i].Cells = []string{"Other traffic", p.Traffic.words()}
		if !p.Traffic.Known {
			t.Rows[i].Cells[1] = "the server does not say (/metrics has no running requests)"
		}
	}
	return t
}

// ModelNote says what model it is.
func (p Preflight) ModelNote() data.Note {
	if p.Model == nil {
		return data.Note("The model is not known: " + p.ModelFrom)
	}
	return data.Note(p.Model.Describe())
}

// ShapeTable shows every GEMM of a decode step on one rank, at the load in the middle.
func (p Preflight) ShapeTable() data.Table {
	rank, err := p.rank()
	if err != nil {
		return unknown("shapes", "The shapes are not known", err.Error())
	}
	return rank.Shapes(int64(p.options.C[len(p.options.C)/2]))
}

// StepTable shows what a decode step reads, computes and exchanges at each load, on one rank.
func (p Preflight) StepTable() data.Table {
	rank, err := p.rank()
	if err != nil {
		return unknown("step", "What a step reads and computes is not known", err.Error())
	}
	var tokens []int64
	for _, c := range p.options.C {
		tokens = append(tokens, int64(c))
	}
	return rank.StepTable(tokens...)
}

func (p Preflight) rank() (model.Rank, error) {
	if p.Model == nil {
		return model.Rank{}, errors.New(p.ModelFrom)
	}
	return p.Model.Rank(p.ranks())
}

// ranks is the size of the tensor-parallel group: as asked for, else as the process has it.
func (p Preflight) ranks() int64 {
	if p.options.Ranks > 0 {
		return int64(p.options.Ranks)
	}
	return max(p.Process.TensorParallel(), 1)
}

// unknown stands for a table that cannot be made.
func unknown(id, title, why string) data.Table {
	return data.Table{ID: id, Title: title, Columns: []data.Column{{Head: "Why"}}, Rows: []data.Row{{Cells: []string{why}}}}
}

// ProcessTable shows the command line and environment of the process that answers, secrets masked.
func (p Preflight) ProcessTable() data.Table {
	if p.Process.Engine == "" {
		t := unknown("launch", "The server's process was not found", p.Where)
		t.Note = "Without a way to its machine: save /proc/PID/cmdline and /proc/PID/environ of the server as cmdline.txt and environ.txt in the run's folder."
		return t
	}
	t := p.public(p.Process.Table())
	if p.PID == 0 || p.nameless != nil {
		return t
	}
	t.Title = "How the server runs: " + p.Where
	if p.Process.StartedUnix > 0 {
		t.Title += ", since " + utc(p.Process.StartedUnix)
	}
	return t
}

// DriftTable shows where the file, the process and the server's answers differ, and settings with consequences.
func (p Preflight) DriftTable() data.Table {
	if p.Process.Engine == "" {
		return unknown("drift", "The process was not found: drift is not known", p.Where)
	}
	t := p.Drifts.Table()
	if p.Unit.Engine == "" {
		t.Note = "Drift is not known: " + p.UnitFrom + ". Listed are settings of the process that change what a measurement means."
		return p.public(t)
	}
	t.Note = "Compared with " + p.UnitFrom + "."
	var notes []string
	for _, d := range p.Unit.Diagnostics {
		notes = append(notes, d.String())
	}
	if p.Unit.Refused != "" {
		notes = append(notes, p.Unit.Refused)
	}
	if len(notes) > 0 {
		t.Note += " In the file: " + strings.Join(notes, "; ") + "."
	}
	return p.public(t)
}

// public takes the names of machines out of a table that will be published: command lines hold them.
func (p Preflight) public(t data.Table) data.Table {
	if p.nameless == nil {
		return t
	}
	for _, row := range t.Rows {
		for i := range row.Cells {
			row.Cells[i] = p.nameless(row.Cells[i])
		}
	}
	t.Note = p.nameless(t.Note)
	return t
}

// ToolsTable shows which profilers are within reach, and the room for their files.
func (p Preflight) ToolsTable() data.Table {
	t := data.Table{ID: "tools", Title: "Profilers within reach", Columns: []data.Column{{Head: "Tool"}, {Head: "There"}, {Head: "Needed for"}}}
	row := func(cells ...string) { t.Rows = append(t.Rows, data.Row{Cells: cells}) }
	m := p.Machine
	there := func(version string) string {
		switch {
		case p.Server.Replay:
			return "not recorded"
		case m.Why != "":
			return "not known"
		case version == "":
			return "no"
		}
		return version
	}
	row("torch.profiler over HTTP", join(": ", p.Server.Profiler, p.Server.ProfilerWhy), "phase 1")
	row("nsys", there(m.Nsys), "phase 3, nodes of CUDA graphs and host gaps")
	ncu := there(m.Ncu)
	if m.Looked {
		ncu = join("; ", ncu, m.counters())
	}
	row("ncu", ncu, "phase 2, counters of single kernels")
	driver := there(m.SMI)
	if len(m.GPUs) > 0 {
		driver = fmt.Sprintf("driver %s, %d GPUs, %d processes on them", m.Driver, len(m.GPUs), m.Apps)
		if p.Server.Replay {
			driver = fmt.Sprintf("driver %s, %d GPUs, as recorded", m.Driver, len(m.GPUs))
		}
	}
	row("nvidia-smi", driver, "clocks, driver, other processes on the GPUs")
	for _, d := range p.Disks {
		free := bytesText(d.Free) + " free"
		if d.Why != "" {
			free = "not known: " + d.Why
		}
		row("disk"+prefixed(" in ", d.Dir), free, fmt.Sprintf("%s, about %s", d.For, bytesText(d.Need)))
	}
	if m.Why != "" && !p.Server.Replay {
		t.Note = "The server's machine was not looked at: " + m.Why + "."
	}
	return t
}

func (m Machine) counters() string {
	switch {
	case m.Counters == "everybody":
		return "counters: for everybody"
	case m.Counters == "administrators" && m.Admin:
		return "counters: for administrators, as this user is"
	case m.Counters == "administrators":
		return "counters: for administrators only (RmProfilingAdminOnly is 1): run ncu as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
	}
	return ""
}

// GPUTable shows what nvidia-smi says.
func (p Preflight) GPUTable() data.Table {
	t := data.Table{ID: "gpus", Title: "GPUs of the server's machine", Columns: []data.Column{{Head: "GPU"}, {Head: "Name"}, {Head: "SM clock", Unit: "MHz", Numeric: true},
		{Head: "highest", Unit: "MHz", Numeric: true}, {Head: "Memory", Unit: "MHz", Numeric: true}, {Head: "Power limit", Unit: "W", Numeric: true},
		{Head: "Memory used", Unit: "MiB", Numeric: true}, {Head: "of", Unit: "MiB", Numeric: true}, {Head: "Busy", Unit: "%", Numeric: true}}}
	if len(p.Machine.GPUs) == 0 {
		return unknown("gpus", "GPUs are not known", join("; ", p.Machine.Why, p.Machine.SMI))
	}
	for _, g := range p.Machine.GPUs {
		cells := []string{g.Index, g.Name}
		for _, v := range []int64{g.SMClock, g.MaxSM, g.MemClock, g.PowerLimit, g.MemUsed, g.MemTotal, g.Busy} {
			text := "not said"
			if v >= 0 {
				text = units.Count(v)
			}
			cells = append(cells, text)
		}
		t.Rows = append(t.Rows, data.Row{Cells: cells})
	}
	return t
}

// FindingTable shows what stands against the next phases, and what to know before them.
func (p Preflight) FindingTable() data.Table {
	t := data.Table{ID: "preflight", Title: "Before you go on", Columns: []data.Column{{Head: "Blocks"}, {Head: "What"}, {Head: "What to do"}}}
	for _, blocking := range []bool{true, false} {
		for _, f := range p.Findings {
			if (f.Blocks != "") == blocking {
				t.Rows = append(t.Rows, data.Row{Cells: []string{cmp.Or(f.Blocks, "nothing"), f.Text, f.Hint}, Bold: blocking})
			}
		}
	}
	if len(t.Rows) == 0 {
		t.Note = "Nothing stands against the next phases."
	}
	return p.public(t)
}

// report is the JSON form. Names of fields are an interface: add, do not change.
type report struct {
	Schema   int             `json:"schema"`
	Server   serverReport    `json:"server"`
	Traffic  trafficReport   `json:"traffic"`
	Process  *launchReport   `json:"process"` // null: not found
	Unit     *launchReport   `json:"unit"`
	Drift    []driftReport   `json:"drift"`
	Machine  machineReport   `json:"machine"`
	Disks    []diskReport    `json:"disks"`
	Model    string          `json:"model"` // in words; "" if it is not known
	Costs    []costReport    `json:"costs"`
	Findings []findingReport `json:"findings"`
}

type serverReport struct {
	Version     string   `json:"version"`
	Models      []string `json:"models"`
	MaxModelLen int      `json:"max_model_len"`
	Healthy     bool     `json:"healthy"`
	Replay      bool     `json:"replay"`
	Profiler    string   `json:"profiler"` // yes, no, unknown
	ProfilerWhy string   `json:"profiler_why,omitempty"`
}

type trafficReport struct {
	Known       bool    `json:"known"`
	Running     int     `json:"running"`
	Waiting     int     `json:"waiting"`
	Seconds     float64 `json:"seconds"`
	TokensPerS  float64 `json:"tokens_per_s"`
	Finished    int64   `json:"finished"`     // -1: not said
	StartedUnix int64   `json:"started_unix"` // 0: not said
}

type launchReport struct {
	From     string                 `json:"from"`
	PID      int                    `json:"pid,omitempty"`
	User     string                 `json:"user,omitempty"`
	Started  int64                  `json:"started_unix,omitempty"`
	Modified int64                  `json:"modified_unix,omitempty"`
	Engine   string                 `json:"engine"`
	Program  string                 `json:"program"`
	Version  string                 `json:"version,omitempty"`
	Model    string                 `json:"model"`
	Argv     []string               `json:"argv"`
	Args     map[string]interface{} `json:"args"`
	Env      map[string]interface{} `json:"env"` // null: set, value not known
	Refused  string                 `json:"refused,omitempty"`
}

type driftReport struct {
	Item        string        `json:"item"`
	Unit        string        `json:"unit"`
	Process     string        `json:"process"`
	HTTP        string        `json:"http"`
	Severity    diag.Severity `json:"severity"`
	Consequence string        `json:"consequence"`
}

type machineReport struct {
	Looked   bool        `json:"looked"`
	Why      string      `json:"why,omitempty"`
	Nsys     string      `json:"nsys"` // version, "" without
	Ncu      string      `json:"ncu"`
	Counters string      `json:"gpu_counters"` // everybody, administrators, "" not known
	Driver   string      `json:"driver"`
	SMI      string      `json:"nvidia_smi,omitempty"` // why it gave nothing
	GPUs     []gpuReport `json:"gpus"`
}

type gpuReport struct {
	Index      string `json:"index"`
	Name       string `json:"name"`
	SMClock    int64  `json:"sm_clock_mhz"` // -1: not said
	MaxSM      int64  `json:"max_sm_clock_mhz"`
	MemClock   int64  `json:"memory_clock_mhz"`
	PowerLimit int64  `json:"power_limit_w"`
	MemUsed    int64  `json:"memory_used_mib"`
	MemTotal   int64  `json:"memory_total_mib"`
	Busy       int64  `json:"busy_percent"`
}

type diskReport struct {
	For  string `json:"for"`
	Dir  string `json:"dir"`
	Free int64  `json:"free_bytes"`
	Need int64  `json:"need_bytes"`
	Why  string `json:"why,omitempty"`
}

type costReport struct {
	C          int   `json:"c"`
	Requests   int64 `json:"requests"`
	Tokens     int64 `json:"tokens"`
	Steps      int   `json:"profiled_steps"`
	Ns         int64 `json:"ns"` // 0: not measured yet
	TraceBytes int64 `json:"trace_bytes"`
}

type findingReport struct {
	ID       string        `json:"id"`
	Severity diag.Severity `json:"severity"`
	Blocks   string        `json:"blocks,omitempty"`
	Text     string        `json:"text"`
	Hint     string        `json:"hint,omitempty"`
}

// JSON returns the report for programs: a value for encoding/json.
func (p Preflight) JSON() interface{} {
	i, m := p.Server, p.Machine
	r := report{Schema: 1, Server: serverReport{i.Version, append([]string{}, i.Models...), i.MaxModelLen, i.Healthy, i.Replay, i.Profiler, i.ProfilerWhy},
		Traffic: trafficReport(p.Traffic), Process: launched(p.Process, p.Where), Unit: launched(p.Unit, p.UnitFrom), Drift: []driftReport{},
		Machine: machineReport{m.Looked, m.Why, m.Nsys, m.Ncu, m.Counters, m.Driver, m.SMI, []gpuReport{}}, Disks: []diskReport{}, Costs: []costReport{}, Findings: []findingReport{}}
	if r.Process != nil {
		r.Process.PID, r.Process.User = p.PID, p.User
	}
	if p.Model != nil {
		r.Model = p.Model.Describe()
	}
	for _, d := range p.Drifts {
		r.Drift = append(r.Drift, driftReport{d.Item, d.Unit, d.Process, d.HTTP, d.Severity, d.Consequence})
	}
	for _, g := range m.GPUs {
		r.Machine.GPUs = append(r.Machine.GPUs, gpuReport(g))
	}
	for _, d := range p.Disks {
		r.Disks = append(r.Disks, diskReport(d))
	}
	for _, c := range p.Costs {
		r.Costs = append(r.Costs, costReport(c))
	}
	for _, f := range p.Findings {
		r.Findings = append(r.Findings, findingReport{f.ID, f.Severity, f.Blocks, f.Text, f.Hint})
	}
	return r
}

func launched(s launch.Server, from string) *launchReport {
	if s.Engine == "" {
		return nil
	}
	l := &launchReport{From: from, Started: s.StartedUnix, Modified: s.ModifiedUnix, Engine: s.Engine, Program: s.Program, Version: s.Version, Model: s.Model,
		Argv: s.Argv, Args: s.Args, Env: map[string]interface{}{}, Refused: s.Refused}
	for _, v := range s.Env {
		if l.Env[v.Name] = v.Value; v.Unknown {
			l.Env[v.Name] = nil
		}
	}
	return l
}
