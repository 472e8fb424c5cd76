package launch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// command looks at the words of a program that is started: a server is kept as found, and programs that start others
// (shells, env, docker, srun, profilers) are followed. Other programs are passed over.
func (r *reader) command(argv []string, env *environ, dir string) error {
	if len(argv) == 0 || r.found != nil {
		return nil
	}
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("more than %d programs start each other", maxDepth)
	}
	defer func() { r.depth-- }()
	base := path.Base(argv[0])
	switch {
	case base == "vllm":
		if len(argv) > 1 && argv[1] == "serve" {
			r.keep("vllm", "vllm serve", argv[1:], env)
		}
	case base == "sglang" && len(argv) > 1 && argv[1] == "serve":
		r.keep("sglang", "sglang serve", argv[1:], env)
	case strings.HasPrefix(base, "python"):
		return r.python(argv, env, dir)
	case base == "env":
		return r.env(argv[1:], env, dir)
	case isShell(base):
		return r.shell(argv, env, dir)
	case (base == "docker" || base == "podman" || base == "nerdctl") && slices.Contains(argv, "run"):
		return r.docker(argv[slices.Index(argv, "run")+1:], env, dir)
	case base == "srun":
		return r.srun(argv, env, dir)
	case base == "apptainer" || base == "singularity":
		return r.apptainer(argv, env, dir)
	case wrappers[base]:
		for i := 1; i < len(argv); i++ {
			if startsProgram(argv[i:]) {
				return r.command(argv[i:], env, dir)
			}
		}
	case strings.Contains(argv[0], "/") && strings.HasSuffix(base, ".sh"):
		return r.scriptFile(resolve(dir, argv[0]), argv[1:], env)
	}
	return nil
}

// wrappers start the program that stands somewhere in their words; their own options are not needed here.
var wrappers = map[string]bool{"nohup": true, "setsid": true, "nice": true, "ionice": true, "numactl": true, "taskset": true, "sudo": true,
	"timeout": true, "chrt": true, "tini": true, "dumb-init": true, "stdbuf": true, "time": true, "nsys": true, "ncu": true, "uv": true,
	"mpirun": true, "exec": true, "command": true, "conda": true, "systemd-run": true, "xargs": true}

func isShell(base string) bool {
	return base == "bash" || base == "sh" || base == "dash" || base == "zsh"
}

// startsProgram reports whether the words begin with a program that command follows.
func startsProgram(argv []string) bool {
	base := path.Base(argv[0])
	switch {
	case base == "vllm", base == "sglang":
		return len(argv) > 1 && argv[1] == "serve"
	case strings.HasPrefix(base, "python"):
		return len(argv) > 1
	}
	return base == "env" || isShell(base) || base == "docker" || base == "podman" || base == "srun" || base == "apptainer" || base == "singularity" || wrappers[base] || strings.HasSuffix(base, ".sh")
}

func (r *reader) keep(engine, program string, argv []string, env *environ) {
	r.found = &Server{Engine: engine, Program: program, Argv: append([]string(nil), argv...), Env: env.sorted()}
}

// modules are the python modules that are servers.
var modules = map[string]string{
	"vllm.entrypoints.openai.api_server": "vllm", "vllm.entrypoints.api_server": "vllm", "vllm.entrypoints.cli.main": "vllm",
	"sglang.launch_server": "sglang", "sglang": "sglang",
}

func (r *reader) python(argv []string, env *environ, dir string) error {
	for i := 1; i < len(argv); i++ {
		switch {
		case argv[i] == "-m" && i+1 < len(argv):
			if engine, ok := modules[argv[i+1]]; ok {
				r.keep(engine, "python -m "+argv[i+1], argv[i+2:], env)
			}
			return nil
		case argv[i] == "-X" || argv[i] == "-W": // take a value
			i++
		case !strings.HasPrefix(argv[i], "-"):
			if base := path.Base(argv[i]); base == "vllm" || base == "sglang" { // the console script of a virtual environment
				return r.command(argv[i:], env, dir)
			}
			return nil
		}
	}
	return nil
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// env follows env(1): options, assignments, program.
func (r *reader) env(argv []string, env *environ, dir string) error {
	env = env.clone()
	for i := 0; i < len(argv); i++ {
		word := argv[i]
		switch {
		case word == "-i" || word == "-" || word == "--ignore-environment":
			env = newEnviron(true)
		case word == "-u" || word == "-C" || word == "--unset" || word == "--chdir":
			if i++; i < len(argv) && strings.HasPrefix(strings.TrimLeft(word, "-"), "u") {
				delete(env.vars, argv[i])
			}
		case strings.HasPrefix(word, "--unset="):
			delete(env.vars, strings.TrimPrefix(word, "--unset="))
		case strings.HasPrefix(word, "-"):
		case assignment.MatchString(word):
			name, value, _ := strings.Cut(word, "=")
			env.set(name, value)
		default:
			return r.command(argv[i:], env, dir)
		}
	}
	return nil
}

// shell follows `bash -lc SCRIPT [NAME ARGS]` and `bash FILE ARGS`.
func (r *reader) shell(argv []string, env *environ, dir string) error {
	for i := 1; i < len(argv); i++ {
		word := argv[i]
		switch {
		case word == "-o" || word == "+o" || word == "--rcfile" || word == "--init-file":
			i++
		case strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.Contains(word, "c"):
			for i++; i < len(argv) && strings.HasPrefix(argv[i], "-"); i++ { // bash -c -l SCRIPT
			}
			if i >= len(argv) {
				return nil
			}
			sh := newShell(r, env, dir)
			if i+1 < len(argv) {
				sh.name, sh.args = argv[i+1], argv[i+2:]
			}
			return sh.run(argv[0]+" -c", argv[i])
		case strings.HasPrefix(word, "-") || strings.HasPrefix(word, "+"):
		default:
			return r.scriptFile(resolve(dir, word), argv[i+1:], env)
		}
	}
	return nil
}

// srun follows Slurm's launcher: the program runs in the environment of the job, in a container if one is named.
func (r *reader) srun(argv []string, env *environ, dir string) error {
	image := ""
	for i := 1; i < len(argv); i++ {
		word := argv[i]
		if v, ok := strings.CutPrefix(word, "--container-image="); ok {
			image = v
		}
		if v, ok := strings.CutPrefix(word, "--export="); ok {
			slurmExport(v, env)
		}
		if !strings.HasPrefix(word, "-") && startsProgram(argv[i:]) {
			if err := r.command(argv[i:], env, dir); err != nil {
				return err
			}
			break
		}
	}
	r.setImage(image)
	return nil
}

// apptainer follows `apptainer exec [OPTIONS] IMAGE PROGRAM`: the program has the caller's environment, what --env adds, and
// APPTAINERENV_NAME as NAME.
func (r *reader) apptainer(argv []string, env *environ, dir string) error {
	env = env.clone()
	for name, v := range env.vars {
		for _, prefix := range []string{"APPTAINERENV_", "SINGULARITYENV_"} {
			if inner, ok := strings.CutPrefix(name, prefix); ok {
				v.Name = inner
				env.vars[inner] = v
			}
		}
	}
	for i := 1; i < len(argv); i++ {
		list, ok := strings.CutPrefix(argv[i], "--env=")
		if argv[i] == "--env" && i+1 < len(argv) {
			i++
			list, ok = argv[i], true
		}
		if ok {
			slurmExport(list, env)
			continue
		}
		if i > 2 && !strings.HasPrefix(argv[i], "-") && startsProgram(argv[i:]) {
			err := r.command(argv[i:], env, dir)
			r.setImage(argv[i-1])
			return err
		}
	}
	return nil
}

// slurmExport applies --export=ALL,NAME=VALUE.
func slurmExport(list string, env *environ) {
	for _, item := range strings.Split(list, ",") {
		if name, value, ok := strings.Cut(item, "="); ok {
			env.set(name, value)
		}
	}
}

var versionInImage = regexp.MustCompile(`\d+\.\d+\.\d+(\.?(post|rc|dev)\d+)?`)

// setImage notes the container's image on what was found in it and takes the version from its tag or file name.
func (r *reader) setImage(image string) {
	if r.found == nil || image == "" || r.found.Image != "" {
		return
	}
	r.found.Image = image
	tag, _, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], "@")
	if _, after, ok := strings.Cut(tag, ":"); ok {
		tag = after
	}
	if r.found.Version == "" {
		r.found.Version = versionInImage.FindString(tag)
	}
}

// resolve returns the place of a file in the reader's file system, given the folder of the program that names it.
func resolve(dir, name string) string {
	if strings.HasPrefix(name, "/") {
		return strings.TrimPrefix(path.Clean(name), "/")
	}
	return strings.TrimPrefix(path.Join(dir, name), "/")
}
