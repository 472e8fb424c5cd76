package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign/launch"
	"github.com/rooflab/rooflab/campaign/model"
	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/units"
)

// PreflightOptions say what a server is compared with and what the next phases want of it. Zero values are the defaults named here.
type PreflightOptions struct {
	Unit          string  // what starts the server: a file of the campaign, here or on the host, or the name of a systemd unit; "" is launch/vllm.service of the campaign, else the process's own unit
	Config        string  // the model's config.json here; "" is the campaign's, else the one on the server's disk
	C             []int   // loads of the next phases; 1, 64, 256
	Ranks         int     // of the tensor-parallel group; 0 is as the process has it
	InputTokens   int     // 256
	OutputTokens  int     // 128
	WindowSteps   int     // 16
	SampleSeconds float64 // how long other people's traffic is watched; 2
}

func (o PreflightOptions) fill() PreflightOptions {
	if len(o.C) == 0 {
		o.C = []int{1, 64, 256}
	}
	o.InputTokens, o.OutputTokens, o.WindowSteps = cmp.Or(o.InputTokens, defaultInput), cmp.Or(o.OutputTokens, defaultOutput), cmp.Or(o.WindowSteps, defaultWindow)
	if o.SampleSeconds <= 0 {
		o.SampleSeconds = 2
	}
	return o
}

// Preflight is what is known about a server before anything is measured. Secrets are masked.
type Preflight struct {
	Server  ServerInfo
	Traffic Traffic
	Machine Machine
	Disks   []Disk

	Process  launch.Server // without an engine if it was not found
	PID      int           // 0 for a recorded process
	User     string        // whose process it is
	Where    string        // why the process was not found, else where
	Unit     launch.Server // without an engine if it was not found
	UnitFrom string        // where the unit was read, or why not
	Drifts   launch.Drifts

	Model     *model.Model // nil if its config.json was not found
	ModelFrom string       // where it was read, or why not

	Costs    []Cost
	Findings []PreflightFinding

	options    PreflightOptions
	traceDir   string
	privateTmp bool                     // the unit has a /tmp and /var/tmp of its own
	ownUnit    string                   // systemd unit of the process, "" without
	container  bool                     // the process lives in a container that the host is not
	away       bool                     // the host could not be reached
	nameless   func(text string) string // of a report that will be published: takes the names of machines and people out; else nil
}

// PreflightFinding is something to know before the next phases.
type PreflightFinding struct {
	diag.Diagnostic
	Blocks string // "phase 1": it cannot or must not start like this; "" if it can
}

// Blocking reports whether a finding stands against the next phase.
func (p Preflight) Blocking() bool {
	for _, f := range p.Findings {
		if f.Blocks != "" {
			return true
		}
	}
	return false
}

// Preflight asks the server, its machine and the campaign's folder, and changes nothing. What cannot be read is said in
// the report; only a server that does not answer, or serves another model, is an error. Its tables are for a notebook,
// which will be published: machines, users, processes and the folders of traces are not named.
func (s *Session) Preflight(o PreflightOptions) (Preflight, error) {
	ctx, stop := Interruptible(context.Background())
	defer stop()
	p, err := s.look(ctx, o)
	if err != nil {
		return p, err
	}
	s.publish(&p)
	s.judge(&p)
	return p, nil
}

// publish takes the names of machines, users and containers out of what was found, and those of machines and people out of
// the tables to come: in a command line the name of a container may be that of the model.
func (s *Session) publish(p *Preflight) {
	p.nameless = s.withoutPlaces
	clean := func(text string) string {
		if !s.host.Local() {
			text = strings.ReplaceAll(text, s.host.String(), "the server's machine")
		}
		for _, name := range s.host.Names() {
			text = replaceHost(text, name)
		}
		return s.withoutPlaces(text)
	}
	for _, text := range []*string{&p.Where, &p.UnitFrom, &p.ModelFrom, &p.Machine.Why, &p.Machine.SMI} {
		*text = clean(*text)
	}
	for i := range p.Disks {
		d := &p.Disks[i]
		d.Why, d.Dir = clean(strings.ReplaceAll(d.Why, d.Dir, "the folder")), ""
	}
}

// PreflightContext is Session.Preflight for a target without a campaign's folder, when there is none.
func PreflightContext(ctx context.Context, o Options, p PreflightOptions) (Preflight, error) {
	s, err := openOrBare(o)
	if err != nil {
		return Preflight{}, err
	}
	report, err := s.look(ctx, p)
	if err == nil {
		s.judge(&report)
	}
	return report, errors.Join(err, s.Close())
}

// openOrBare opens a campaign, or with no folder given and none around a session that can only look.
func openOrBare(o Options) (*Session, error) {
	if dir, err := findDir(o.Dir); err == nil {
		o.Dir = dir
		return Open(o)
	}
	s := &Session{opts: o, traceDir: o.TraceDir}
	var err error
	if s.limits, err = o.Limits.fill(); err != nil {
		return nil, err
	}
	if s.host, err = target.FromEnv(o.Host); err != nil {
		return nil, err
	}
	address, err := findTarget(o.Target)
	if err != nil {
		return nil, err
	}
	if archive, ok := strings.CutPrefix(address, "replay:"); ok {
		if s.server, err = replay.Start(context.Background(), replay.Options{Dir: archive, Run: o.Run}); err != nil {
			return nil, err
		}
		s.archive, s.dir, s.traceDir, address, s.host = archive, archive, s.server.TraceDir, s.server.URL, target.Host{}
	}
	if s.client, err = connect(address); err != nil {
		return nil, err
	}
	s.run = s.runName()
	return s, nil
}

// look asks and reads.
func (s *Session) look(ctx context.Context, o PreflightOptions) (Preflight, error) {
	p := Preflight{options: o.fill()}
	var err error
	if p.Server, err = s.Server(); err != nil {
		return p, err
	}
	for _, look := range []func(context.Context, *Preflight){s.lookAtTraffic, s.lookForProcess, s.lookForUnit, s.lookForModel, s.lookAtMachine} {
		if look(ctx, &p); ctx.Err() != nil {
			return p, ctx.Err()
		}
	}
	return p, nil
}

// judge says what follows from what was found.
func (s *Session) judge(p *Preflight) {
	http := launch.HTTP{Version: p.Server.Version, MaxModelLen: int64(p.Server.MaxModelLen), StartedUnix: p.Traffic.StartedUnix}
	if len(p.Server.Models) > 0 {
		http.ServedName = p.Server.Models[0]
	}
	if p.Process.Engine != "" {
		unit := p.Unit
		if unit.Engine == "" {
			unit = p.Process // settings with consequences are listed all the same
		}
		p.Drifts = launch.Compare(unit, p.Process, http)
		for i := range p.Drifts {
			d := &p.Drifts[i]
			if p.Unit.Engine == "" {
				d.Unit = "" // no file says it
			}
			if size := p.messages(); d.Item == "NCCL_PROTO" && d.Process == "LL" && size != "" {
				d.Consequence += ". " + size
			}
		}
	}
	p.Costs = s.costs(*p)
	p.find(s.limits)
	if unseen := s.unseen(p.Server.Version); unseen != "" {
		p.Findings = append(p.Findings, PreflightFinding{diag.Diagnostic{ID: "profile_unseen", Severity: diag.Info, N: 1, Text: unseen, Hint: howUnseen}, ""})
	}
}

// messages says how large the all-reduces of the loads are, "" if there are none or the model is not known.
func (p *Preflight) messages() string {
	rank, err := p.rank()
	if err != nil || rank.TP < 2 {
		return ""
	}
	var parts []string
	for _, c := range p.options.C {
		parts = append(parts, fmt.Sprintf("%s at C = %d", units.Bytes(rank.Step(int64(c)).AllReduceBytes), c))
	}
	return "Here a message has " + strings.Join(parts, ", ")
}

// find says what stands against the next phases, or should be known.
func (p *Preflight) find(limits Limits) {
	add := func(id string, severity diag.Severity, blocks, text, hint string) {
		p.Findings = append(p.Findings, PreflightFinding{diag.Diagnostic{ID: id, Severity: severity, N: 1, Text: text, Hint: hint}, blocks})
	}
	if p.Server.Profiler == "no" {
		add("no_profiler", diag.Warning, "phase 1", "the server has no profiler over HTTP", p.Server.ProfilerWhy)
	}
	if t := p.Traffic; t.Running+t.Waiting > 0 {
		add("foreign_traffic", diag.Warning, "phase 1", "requests that are not ours run: "+t.words(), "measure when they have ended, or ask whose they are: a window beside them is not kept")
	}
	for _, d := range p.Disks {
		switch {
		case d.Why != "":
			add("disk_unknown", diag.Info, "", d.For+": free space is not known: "+d.Why, "")
		case d.Free < d.Need:
			add("disk_full", diag.Warning, "phase 1", fmt.Sprintf("%s: %s free%s, about %s needed", d.For, bytesText(d.Free), prefixed(" in ", d.Dir), bytesText(d.Need)), "make room there, or profile fewer steps or loads")
		}
	}
	if p.privateTmp && (strings.HasPrefix(p.traceDir, "/tmp/") || strings.HasPrefix(p.traceDir, "/var/tmp/")) {
		dir := p.traceDir
		if p.nameless != nil {
			dir = "/TRACE_DIR"
		}
		add("private_tmp", diag.Warning, "phase 1", "the unit has PrivateTmp: "+dir+" is a folder that only the server sees",
			"give the profiler a folder outside of /tmp and /var/tmp, or as root --trace-dir /proc/PID/root"+dir)
	}
	for _, c := range p.Costs {
		if c.C > limits.Streams && !p.Server.Replay {
			add("over_limit", diag.Info, "", fmt.Sprintf("C = %d is above the limit of %d streams", c.C, limits.Streams), "raise it with --max-streams when the server's owner agrees")
		}
	}
	if n := p.Process.MaxNumSeqs(); n > 0 {
		for _, c := range p.options.C {
			if int64(c) > n {
				add("over_max_num_seqs", diag.Warning, "", fmt.Sprintf("C = %d is above the server's max_num_seqs of %d: %d streams would wait", c, n, int64(c)-n), "give loads up to that")
			}
		}
	}
	switch {
	case p.away:
		add("host_unreachable", diag.Warning, "phase 1", p.Where, "traces are fetched through the host; correct --host, or give a --trace-dir that this machine shares with it")
	case p.Process.Engine == "" && !p.Server.Replay:
		add("no_process", diag.Info, "", "the server's process was not found: "+p.Where, "")
	case p.container:
		add("in_container", diag.Info, "", "the server runs in a container of this host: its folders are those of the container", "reach it there, with --host docker:NAME or ssh:NODE+docker:NAME")
	}
	for _, d := range p.Process.Diagnostics {
		p.Findings = append(p.Findings, PreflightFinding{d, ""})
	}
	if p.Process.Refused != "" {
		add("refused", diag.Info, "", p.Process.Refused, "")
	}
}

// lookForModel reads the model's config.json: as given, from the campaign, else from the server's disk.
func (s *Session) lookForModel(ctx context.Context, p *Preflight) {
	name := p.options.Config
	if name == "" {
		name = s.own("model/config.json")
	}
	if name != "" {
		m, err := model.Load(name)
		if err != nil {
			p.ModelFrom = err.Error()
			return
		}
		p.Model, p.ModelFrom = &m, "the campaign's model/config.json"
		if p.options.Config != "" {
			p.ModelFrom = name
		}
		return
	}
	m, from, err := s.modelThere(ctx, p)
	if err != nil {
		p.ModelFrom = err.Error()
		return
	}
	p.Model, p.ModelFrom = &m, from
}

// own returns the path of a file of the campaign, "" without one.
func (s *Session) own(rel string) string {
	if s.dir == "" {
		return ""
	}
	name, err := s.File(rel)
	if err != nil {
		return ""
	}
	return name
}

// recordedFile returns a file that was kept with the run, nil without.
func (s *Session) recordedFile(name string) []byte {
	raw, err := os.ReadFile(s.own("runs/" + s.run + "/" + name))
	if err != nil {
		return nil
	}
	return raw
}

// Traffic is what other people's requests do to the server.
type Traffic struct {
	Known            bool
	Running, Waiting int     // the most that were seen
	Seconds          float64 // how long it was watched
	TokensPerS       float64 // generated meanwhile, by all requests
	Finished         int64   // requests since the server started, -1 if it does not say
	StartedUnix      int64   // start of the server's process, 0 if it does not say
}

func (t Traffic) words() string {
	text := fmt.Sprintf("%d running, %d waiting during %.1f s", t.Running, t.Waiting, t.Seconds)
	if t.TokensPerS > 0 {
		text += fmt.Sprintf(", %.0f tokens/s", t.TokensPerS)
	}
	if t.Finished >= 0 && t.StartedUnix > 0 {
		text += fmt.Sprintf("; %d requests ended since the server started at %s", t.Finished, utc(t.StartedUnix))
	}
	return text
}

func utc(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02 15:04:05 UTC") }

// where is the machine that the process was looked for on.
func (s *Session) where() string {
	if s.host.Local() {
		return "this machine"
	}
	return s.host.String()
}

// PreflightPlan lists every request and command of a preflight of a live server, in order.
func PreflightPlan(host target.Host, o PreflightOptions) []Step {
	o = o.fill()
	run := func(why string, words []string, here string) Step {
		with := here
		if !host.Local() || here == "" {
			with = target.Quote(words...)
		}
		return Step{Do: "run", Times: "1", With: with, Why: why}
	}
	remote := func(why, here string, argv ...string) Step { return run(why, host.Words(argv...), here) }
	unit := o.Unit
	if unit == "" {
		unit = "UNIT"
	}
	steps := append(asking(0), Step{Do: "GET /metrics", Times: "1", Why: fmt.Sprintf("again after %g s: whose requests run?", o.SampleSeconds)},
		run("the server's process: command line, environment (secrets are masked), start, unit", host.ServersWords(), "read /proc"))
	if o.Unit == "" || !strings.Contains(o.Unit, "/") {
		steps = append(steps, remote("the systemd unit that the process belongs to, if there is one", "", "systemctl", "cat", "--no-pager", "--", unit))
	} else {
		steps = append(steps, run("what starts the server; its environment files as well", host.ReadWords(o.Unit), "read "+o.Unit))
	}
	steps = append(steps, remote("profilers, GPUs and driver", "", machineWords()...),
		run("room for traces", host.FreeWords("TRACE_DIR"), "ask for free space at TRACE_DIR"), run("room for unpacked traces", host.FreeWords("/tmp"), "ask for free space at /tmp"))
	if o.Config == "" {
		steps = append(steps, run("the model, unless the campaign has its config.json", host.ReadWords("MODEL/config.json"), "read MODEL/config.json"))
	}
	return steps
}
