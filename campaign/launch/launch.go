// Package launch finds out how an inference server is, or would be, started: systemd units with drop-ins, docker and podman
// lines, quadlets, compose files, Kubernetes manifests, Slurm and shell scripts, Makefiles, supervisord, and the live process in /proc. Every level
// of quoting and replacing is undone, the server's arguments are parsed as the server parses them, and what a file says is
// compared with what runs.
//
// It reads files that it is given and executes nothing: what only a running shell could know stays "<runtime:NAME>".
// Secrets are masked before a Server leaves the package. It does not talk to servers and does not edit configurations.
package launch

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
)

// Server is one server process as a file starts it or as it runs.
type Server struct {
	Form    string // "systemd unit", "compose file", "process", ...
	Engine  string // "vllm" or "sglang"
	Program string // "vllm serve", "python -m ...", "vllm serve (entry point of the image)"
	Version string // from the image, or given; "" if not known
	Image   string // of the container, "" without
	Model   string

	Argv []string               // the words the program receives after its own name, secrets masked
	Args map[string]interface{} // option name without dashes -> bool, int64, float64, string, []interface{} or map
	Env  []Var                  // what this form sets for the process, sorted by name

	Refused     string // why the program refuses these words; "" if it takes them
	Diagnostics []diag.Diagnostic

	Service string   // which service, container, program or target of its file it is; "" in a file that starts one thing
	Others  []Server // what else the file starts, if it is a server too

	dir             string   // where it is started, in the reader's files
	config          string   // the file of --config, if it was read
	configWords     []string // its options
	modelFromConfig bool     // they name the model

	ModifiedUnix int64 // newest change of the files it was read from, if the caller knows; 0 else
	StartedUnix  int64 // start of the process, if the caller knows; 0 else
}

// Var is an environment variable of the server.
type Var struct {
	Name    string
	Value   string // secrets.Mask for a secret
	Unknown bool   // it is set, but no file says to what
}

// Context says what the files cannot: which instance, service or container is meant, and what the caller had set.
// The zero value is right for most files.
type Context struct {
	Instance  string            // %i of a template unit
	Service   string            // of a compose file; program of supervisord, target of a Makefile
	Container string            // of a Kubernetes pod
	Version   string            // of the server, if no image names it
	Home      string            // of the user who starts it; "/home" if empty
	Args      []string          // arguments of a script
	Env       map[string]string // environment of the caller, such as SLURM_NODEID
}

// Read finds the server that a file starts. The name is a path in fsys, whose root stands for "/" as well as for the
// folder of the file: /etc/vllm/x.env is read from etc/vllm/x.env. Units are told by .service, quadlets by .container,
// compose files and manifests by their YAML, supervisord's files by a [program:...], Makefiles by their name; everything else is read as a shell script.
func Read(fsys fs.FS, name string, c Context) (Server, error) {
	raw, err := readUnitAware(fsys, name)
	if err != nil {
		return Server{}, fmt.Errorf("read launch file: %w", err)
	}
	r := &reader{fsys: fsys, ctx: c}
	switch {
	case strings.HasSuffix(name, ".service"):
		return r.finish(name, "systemd unit", r.unit(name))
	case strings.HasSuffix(name, ".container"):
		return r.finish(name, "quadlet", r.quadlet(name))
	case strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		return r.yaml(name, raw)
	case strings.HasPrefix(path.Base(name), "Makefile"), strings.HasSuffix(name, ".mk"):
		return r.finish(name, "makefile", r.makefile(name, string(raw)))
	case strings.Contains("\n"+string(raw), "\n[program:"):
		return r.finish(name, "supervisord configuration", r.supervisor(name, string(raw)))
	}
	form := "shell script"
	if strings.Contains(string(raw), "\n#SBATCH ") {
		form = "slurm script"
	}
	return r.finish(name, form, r.script(name, string(raw), c.Args))
}

// Unit reads a systemd unit with its drop-ins, such as "vllm.service" or an instance "vllm@glm.service".
func Unit(fsys fs.FS, name string) (Server, error) {
	return Read(fsys, name, Context{})
}

// Line reads a command line as a shell would, such as `NCCL_PROTO=LL vllm serve MODEL -tp 8` or `docker run ...`.
func Line(command string) (Server, error) {
	r := &reader{}
	return r.finish("command line", "command line", r.script("command line", command, nil))
}

// reader carries what the levels of one launch share.
type reader struct {
	fsys    fs.FS
	ctx     Context
	diags   []diag.Diagnostic
	found   *Server
	servers []Server          // of the services before, whole
	written map[string]string // files that scripts and config maps make
	depth   int               // programs and files inside each other
	calls   int               // shell statements so far
}

const maxDepth = 12 // levels of scripts, shells and containers inside each other

func (r *reader) note(id, file, format string, args ...any) {
	r.diags = append(r.diags, diag.Diagnostic{ID: id, Severity: diag.Info, N: 1, Pos: diag.Pos{File: file}, Text: fmt.Sprintf(format, args...)})
}

// service reads one of several services. Behind a server, what cannot be read is no server.
func (r *reader) service(name string, read func() error) error {
	before := len(r.diags)
	err := read()
	if err == nil && r.found != nil {
		r.found.Service = name
		err = r.complete()
	}
	if len(r.servers) == 0 {
		return err
	}
	r.found, r.diags = nil, r.diags[:before]
	return nil
}

// complete makes a whole server of what was found.
func (r *reader) complete() error {
	s := *r.found
	if s.Version == "" {
		s.Version = r.ctx.Version
	}
	if err := r.applyConfig(&s); err != nil {
		return err
	}
	s.Diagnostics = slices.Clone(r.diags)
	s.parse()
	s.mask()
	r.servers = append(r.servers, s)
	return nil
}

// finish turns what was found into the result, or says that nothing was.
func (r *reader) finish(name, form string, err error) (Server, error) {
	if err == nil && r.found != nil {
		err = r.complete()
	}
	if err != nil {
		return Server{}, fmt.Errorf("read %s: %w", name, err)
	}
	if len(r.servers) == 0 {
		return Server{}, fmt.Errorf("read %s: no inference server is started here; looked for vllm serve, the vLLM and SGLang modules of python, and images with a server", name)
	}
	for i := range r.servers {
		r.servers[i].Form = form
	}
	s := r.servers[0]
	s.Others = r.servers[1:]
	return s, nil
}

// Closest returns the one of the file's servers that runs as the process: with most of its arguments. The first if none does.
func (s Server) Closest(process Server) Server {
	all := append([]Server{s}, s.Others...)
	best, most := 0, -1
	for i, one := range all {
		same := 0
		for name, value := range process.Args {
			if got, ok := one.Args[name]; ok && reflect.DeepEqual(got, value) {
				same++
			}
		}
		if one.Model == process.Model {
			same++
		}
		if same > most {
			best, most = i, same
		}
	}
	out := all[best]
	out.Others = slices.Delete(all, best, best+1)
	return out
}

// TensorParallel returns the tensor-parallel size, 1 if not given.
func (s Server) TensorParallel() int64 {
	for _, name := range []string{"tensor-parallel-size", "tp-size"} {
		if n, ok := s.Args[name].(int64); ok {
			return n
		}
	}
	return 1
}

// ExpertParallel reports whether experts are divided over ranks instead of each expert's weights.
func (s Server) ExpertParallel() bool {
	on, _ := s.Args["enable-expert-parallel"].(bool)
	n, _ := s.Args["ep-size"].(int64)
	return on || n > 1
}

// MaxNumSeqs returns the limit of concurrent sequences, 0 if the version's default holds.
func (s Server) MaxNumSeqs() int64 {
	for _, name := range []string{"max-num-seqs", "max-running-requests"} {
		if n, ok := s.Args[name].(int64); ok {
			return n
		}
	}
	return 0
}

// CUDAGraphs returns "off", "default", or the mode in lower case.
func (s Server) CUDAGraphs() string {
	if eager, _ := s.Args["enforce-eager"].(bool); eager {
		return "off"
	}
	if off, _ := s.Args["disable-cuda-graph"].(bool); off {
		return "off"
	}
	config, _ := s.Args["compilation-config"].(map[string]interface{})
	mode, _ := config["cudagraph_mode"].(string)
	switch {
	case mode == "":
		return "default"
	case strings.EqualFold(mode, "NONE"):
		return "off"
	}
	return strings.ToLower(mode)
}

// Getenv returns a variable that the form sets, "" without.
func (s Server) Getenv(name string) string {
	for _, v := range s.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// Arg returns an option as text, "" if it is not given: "8", "true", or JSON for lists and objects.
func (s Server) Arg(name string) string {
	v, ok := s.Args[name]
	if !ok {
		return ""
	}
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// ArgNames returns the names of the options, sorted.
func (s Server) ArgNames() []string {
	names := make([]string, 0, len(s.Args))
	for n := range s.Args {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Table shows the server with its options and environment. Of a live process, whose environment holds much that has
// nothing to do with the server, only variables that change what it does are shown.
func (s Server) Table() data.Table {
	t := data.Table{ID: "launch", Title: "How the server is started, from the " + s.Form, Columns: []data.Column{{Head: "What"}, {Head: "Name"}, {Head: "Value"}}}
	row := func(what, name, value string) {
		t.Rows = append(t.Rows, data.Row{Cells: []string{what, name, value}})
	}
	row("program", "", s.Program)
	if s.Version != "" {
		row("version", "", s.Version)
	}
	row("model", "", s.Model)
	for _, n := range s.ArgNames() {
		row("option", n, s.Arg(n))
	}
	for _, v := range s.Env {
		if s.Form == "process" && !relevant(v.Name) {
			continue
		}
		value := v.Value
		if v.Unknown {
			value = "(set, value not known)"
		}
		row("environment", v.Name, value)
	}
	if p := s.Profiler(); p.Kind != "" {
		row("profiler", p.Kind, p.Describe())
	}
	if s.Refused != "" {
		row("refused", "", s.Refused)
	}
	var notes []string
	for _, d := range s.Diagnostics {
		notes = append(notes, d.String())
	}
	t.Note = strings.Join(notes, "; ")
	return t
}
