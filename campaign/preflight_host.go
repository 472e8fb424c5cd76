package campaign

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign/launch"
	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/model"
	"github.com/rooflab/rooflab/campaign/target"
)

// lookAtTraffic reads /metrics twice. Nothing of ours runs meanwhile.
func (s *Session) lookAtTraffic(ctx context.Context, p *Preflight) {
	t := &p.Traffic
	t.Finished = -1
	if p.Server.Replay {
		return
	}
	before, err := s.client.Metrics(ctx)
	if err != nil {
		return
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Duration(p.options.SampleSeconds * float64(time.Second))):
	}
	after, err := s.client.Metrics(ctx)
	if err != nil {
		return
	}
	t.Seconds = time.Since(begin).Seconds()
	for _, scrape := range []metrics.Scrape{before, after} {
		running, waiting, ok := metrics.Traffic(scrape)
		t.Known = t.Known || ok
		t.Running, t.Waiting = max(t.Running, running), max(t.Waiting, waiting)
	}
	names := metrics.NamesOf(after)
	if d := metrics.Compare(before, after, names.GenerationTokens); t.Seconds > 0 {
		t.TokensPerS = max(d.Increase(), 0) / t.Seconds
	}
	if n, ok := after.Sum(names.Finished); ok {
		t.Finished = int64(n)
	}
	t.StartedUnix = processOf(after)
}

// lookForProcess finds the process that answers at the target: as it was recorded for a replay, else through the host.
func (s *Session) lookForProcess(ctx context.Context, p *Preflight) {
	defer func() {
		if p.Process.Engine != "" {
			p.Process.Version = p.Server.Version
		}
	}()
	recorded := func() bool {
		cmdline := s.recordedFile("cmdline.txt")
		if cmdline == nil {
			return false
		}
		var err error
		if p.Process, err = launch.Process(cmdline, s.recordedFile("environ.txt")); err != nil {
			p.Where = err.Error()
			return true
		}
		p.Where = "recorded with the run"
		return true
	}
	if p.Server.Replay {
		if !recorded() {
			p.Where = "it was not recorded with the run"
		}
		return
	}
	at, err := url.Parse(s.client.Target())
	if err == nil && s.host.Local() && !here(at.Hostname()) {
		if !recorded() {
			p.Where = "the server is on another machine: say how to reach it, with --host ssh:USER@NODE or ROOFLAB_HOST"
		}
		return
	}
	found, err := s.host.Servers(ctx)
	if err != nil {
		var e *target.Error
		p.away = errors.As(err, &e) && !e.Reached()
		p.Where = err.Error()
		return
	}
	one, err := pick(found, at.Port(), s.host.Local())
	if err != nil {
		if !recorded() {
			p.Where = err.Error()
		}
		return
	}
	if p.Process, err = launch.Process(one.Cmdline, one.Environ); err != nil {
		p.Where = err.Error()
		return
	}
	p.Process.StartedUnix = one.StartedUnix
	p.PID, p.User, p.Where = one.PID, one.User, "process "+strconv.Itoa(one.PID)+" of "+one.User+" on "+s.where()
	p.process(s, one)
}

// process takes from a live process what the other parts of the report need.
func (p *Preflight) process(s *Session, one target.Process) {
	p.container = inContainer(one.Cgroup) && !insideContainer(s.host)
	p.traceDir = s.traceDir
	if p.traceDir == "" {
		version := p.Process
		version.Version = p.Server.Version
		p.traceDir = under(one.Dir, version.Profiler().Dir)
	}
	p.Machine.dir, p.Machine.tmp, p.Machine.hub = one.Dir, "/tmp", hub(one)
	if tmp := environ(one, "TMPDIR"); tmp != "" {
		p.Machine.tmp = under(one.Dir, tmp)
	}
	p.ownUnit = one.Unit()
	s.itself = append(s.itself, environ(one, "HOSTNAME"), p.Process.Arg("host"))
}

func under(dir, name string) string {
	if name == "" || path.IsAbs(name) || dir == "" || strings.Contains(name, "://") {
		return name
	}
	return path.Join(dir, name)
}

// environ returns one variable of a process, for use on its machine; it is no secret.
func environ(p target.Process, name string) string {
	for _, item := range bytes.Split(p.Environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(item, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// hub is the folder that Hugging Face's library keeps models in for a process, "" if it is not known.
func hub(p target.Process) string {
	if dir := environ(p, "HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := environ(p, "HF_HOME"); dir != "" {
		return path.Join(dir, "hub")
	}
	if dir := environ(p, "HOME"); dir != "" {
		return path.Join(dir, ".cache/huggingface/hub")
	}
	return ""
}

func inContainer(cgroup string) bool {
	for _, word := range []string{"docker", "kubepods", "libpod", "containerd", "crio"} {
		if strings.Contains(cgroup, word) {
			return true
		}
	}
	return false
}

// insideContainer reports whether the host's last part is a container already.
func insideContainer(h target.Host) bool {
	spec := h.String()
	last := spec[strings.LastIndexByte(spec, '+')+1:]
	return !strings.HasPrefix(last, "ssh:") && last != "local" || last == "local" && exists("/.dockerenv")
}

// pick chooses the process that listens on the target's port. Through a tunnel or into a container the port may be another
// one: there a server that is alone is the one.
func pick(found []target.Process, port string, local bool) (target.Process, error) {
	var fits []target.Process
	var ports []string
	for _, p := range found {
		own := portOf(p)
		ports = append(ports, own)
		if own == port {
			fits = append(fits, p)
		}
	}
	switch {
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) > 1:
		return target.Process{}, fmt.Errorf("%d servers say that they listen on port %s", len(fits), port)
	case len(found) == 1 && !local:
		return found[0], nil
	case len(found) == 0:
		return target.Process{}, errors.New("no process of vLLM or SGLang runs there; in a container, name it: --host docker:NAME, kubectl:NAMESPACE/POD")
	}
	return target.Process{}, fmt.Errorf("the target's port is %s, the servers there listen on %s; in a container, name it: --host docker:NAME", port, strings.Join(ports, ", "))
}

func portOf(p target.Process) string {
	server, err := launch.Process(p.Cmdline, nil)
	if err != nil {
		return ""
	}
	if port := server.Arg("port"); port != "" {
		return port
	}
	if server.Engine == "sglang" {
		return "30000"
	}
	return "8000"
}

const unitOfCampaign = "launch/vllm.service"

// lookForUnit reads the file that starts the server: one of the campaign or here, one of the host, or a unit of its systemd.
func (s *Session) lookForUnit(ctx context.Context, p *Preflight) {
	name := p.options.Unit
	if name == "" && s.own(unitOfCampaign) != "" {
		name = unitOfCampaign
	}
	name = cmp.Or(name, p.ownUnit)
	switch {
	case name == "" && p.PID == 0:
		p.UnitFrom = "no file that starts this server was given"
		return
	case name == "":
		p.UnitFrom = "no file that starts this server was given, and its process belongs to no systemd unit"
		return
	}
	if file := s.own(name); file != "" {
		p.readUnit(os.DirFS(filepath.Dir(file)), filepath.Base(file), name)
		return
	}
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		files := &unitFiles{ctx: ctx, dir: filepath.Dir(name)}
		p.readUnit(files, filepath.Base(name), name)
		p.Unit.ModifiedUnix, p.privateTmp = files.modified(), files.privateTmp
		return
	}
	if p.Server.Replay {
		p.UnitFrom = name + " is not in the campaign's folder"
		return
	}
	files := &unitFiles{ctx: ctx, host: s.host, dir: path.Dir(name)}
	from := name + " on " + s.where()
	if !strings.Contains(name, "/") {
		out, err := s.systemctl(ctx, name)
		if err != nil {
			p.UnitFrom = fmt.Sprintf("%s is no file here and no unit of systemd: %v", name, err)
			return
		}
		files.unit(name, string(out))
		from = "systemctl cat " + name + " on " + s.where()
	}
	p.readUnit(files, path.Base(name), from)
	p.Unit.ModifiedUnix, p.privateTmp = files.modified(), files.privateTmp
}

// systemctl prints a unit with its drop-ins: of the system, else of the user.
func (s *Session) systemctl(ctx context.Context, name string) ([]byte, error) {
	out, err := s.host.Output(ctx, "systemctl", "cat", "--no-pager", "--", name)
	if err == nil {
		return out, nil
	}
	if out, err := s.host.Output(ctx, "systemctl", "--user", "cat", "--no-pager", "--", name); err == nil {
		return out, nil
	}
	return nil, err
}

func (p *Preflight) readUnit(files fs.FS, name, from string) {
	unit, err := launch.Unit(files, name)
	if err != nil {
		p.UnitFrom = err.Error()
		return
	}
	p.Unit, p.UnitFrom = unit.Closest(p.Process), from
	if len(unit.Others) == 0 {
		return
	}
	var others []string
	for _, o := range p.Unit.Others {
		others = append(others, o.Service)
	}
	why := "the one that fits the process best"
	if p.Process.Engine == "" {
		why = "the first"
	}
	p.UnitFrom += fmt.Sprintf(": its %s, %s of %d servers (there: %s)", p.Unit.Service, why, 1+len(others), strings.Join(others, ", "))
}

var privateTmp = regexp.MustCompile(`(?m)^\s*PrivateTmp\s*=\s*(yes|true|on|1|disconnected)\s*$`)

// unitFiles are the files of a host as package launch wants them: a name is looked for beside the unit, then from the root.
type unitFiles struct {
	ctx        context.Context
	host       target.Host
	dir        string
	texts      map[string]string // what systemctl printed, by name
	paths      []string          // what was read, for its time
	privateTmp bool
}

// unit takes the output of `systemctl cat` apart: each file begins with a comment that is its path.
func (u *unitFiles) unit(name, text string) {
	u.texts = map[string]string{}
	at, main := "", ""
	for _, line := range strings.SplitAfter(text, "\n") {
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), "# /"); ok && strings.Contains(file, "systemd/") && (strings.HasSuffix(file, ".service") || strings.HasSuffix(file, ".conf")) {
			u.paths = append(u.paths, "/"+file)
			if main == "" {
				main, u.dir = path.Base(file), path.Dir("/"+file)
				at = main // the template of an instance
			} else {
				at = path.Base(name) + ".d/" + path.Base(file)
			}
			continue
		}
		if at != "" {
			u.texts[at] += line
			u.privateTmp = u.privateTmp || privateTmp.MatchString(line)
		}
	}
	if main != "" {
		u.texts[path.Base(name)] = u.texts[main]
	}
}

// Open makes unitFiles an fs.FS; package launch reads whole files.
func (u *unitFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// ReadFile reads a file of the host.
func (u *unitFiles) ReadFile(name string) ([]byte, error) {
	if text, ok := u.texts[name]; ok {
		return []byte(text), nil
	}
	var err error
	for _, file := range []string{path.Join(u.dir, name), "/" + name} {
		var b bytes.Buffer
		if err = u.host.Read(u.ctx, file, 0, &b); err == nil {
			u.paths = append(u.paths, file)
			u.privateTmp = u.privateTmp || privateTmp.Match(b.Bytes())
			return b.Bytes(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, err
}

// Glob lists drop-ins, which systemctl printed with the unit, and environment files that a pattern names.
func (u *unitFiles) Glob(pattern string) ([]string, error) {
	dir, last := path.Split(pattern)
	var found []string
	dropIns := strings.HasSuffix(dir, ".d/") && strings.HasSuffix(last, ".conf")
	if u.texts != nil && dropIns {
		for name := range u.texts {
			if ok, _ := path.Match(pattern, name); ok {
				found = append(found, name)
			}
		}
		return found, nil // launch sorts them
	}
	at := path.Join(u.dir, dir)
	if !dropIns {
		at = "/" + dir
	}
	files, err := u.host.List(u.ctx, at)
	for _, f := range files {
		if ok, _ := path.Match(last, f.Name); ok {
			found = append(found, dir+f.Name)
		}
	}
	return found, err
}

// modified is the time of the newest file that was read, 0 if it is not known.
func (u *unitFiles) modified() int64 {
	newest := int64(0)
	if u.host.Local() {
		for _, name := range u.paths {
			if st, err := os.Stat(name); err == nil {
				newest = max(newest, st.ModTime().Unix())
			}
		}
		return newest
	}
	if len(u.paths) == 0 {
		return 0
	}
	out, _ := u.host.Output(u.ctx, append([]string{"stat", "-c", "%Y", "--"}, u.paths...)...)
	for _, line := range strings.Fields(string(out)) {
		if n, err := strconv.ParseInt(line, 10, 64); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}

// modelThere reads config.json on the server's disk: the folder that it serves, or the cache of what it was downloaded to.
func (s *Session) modelThere(ctx context.Context, p *Preflight) (model.Model, string, error) {
	root := p.Process.Model
	switch {
	case p.Server.Replay:
		return model.Model{}, "", errors.New("the campaign has no model/config.json")
	case p.Process.Engine == "" || root == "":
		return model.Model{}, "", errors.New("no config.json: give --model FILE, or put it into the campaign as model/config.json")
	}
	read := func(name string) ([]byte, error) {
		var b bytes.Buffer
		err := s.host.Read(ctx, name, 0, &b)
		return b.Bytes(), err
	}
	dir := under(p.Machine.dir, root)
	config, err := read(path.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) && strings.Count(root, "/") == 1 && p.Machine.hub != "" {
		repo := path.Join(p.Machine.hub, "models--"+strings.ReplaceAll(root, "/", "--"))
		if commit, err := read(path.Join(repo, "refs/main")); err == nil {
			dir = path.Join(repo, "snapshots", strings.TrimSpace(string(commit)))
			config, err = read(path.Join(dir, "config.json"))
			if err != nil {
				return model.Model{}, "", err
			}
			return parseModel(config, nil, root+" in the server's cache")
		}
	}
	if err != nil {
		return model.Model{}, "", err
	}
	quant, err := read(path.Join(dir, "hf_quant_config.json"))
	if err != nil {
		quant = nil // most models have none
	}
	return parseModel(config, quant, "the server's model folder")
}

func parseModel(config, quant []byte, from string) (model.Model, string, error) {
	m, err := model.Parse(config, quant)
	return m, from, err
}
