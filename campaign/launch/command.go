package launch

import (
	"cmp"
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
			r.keep("vllm", "vllm serve", argv[1:], env, dir)
		}
	case base == "sglang" && len(argv) > 1 && argv[1] == "serve":
		r.keep("sglang", "sglang serve", argv[1:], env, dir)
	case strings.HasPrefix(base, "python"):
		return r.python(argv, env, dir)
	case base == "env":
		return r.env(argv[1:], env, dir)
	case isShell(base):
		return r.shell(argv, env, dir)
	case base == "sudo":
		return r.sudo(argv[1:], env, dir)
	case base == "ssh":
		return r.ssh(argv[1:])
	case base == "su" || base == "runuser" || base == "tmux" || base == "sbatch":
		return r.commandInText(argv, env, dir)
	case base == "docker" || base == "podman" || base == "nerdctl":
		return r.containerTool(argv[1:], env, dir)
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

// containerTool follows `docker run`, `docker container run`, `docker create` and `docker exec`, after the tool's own options.
func (r *reader) containerTool(argv []string, env *environ, dir string) error {
	for i, word := range argv {
		switch word {
		case "run", "create":
			return r.docker(argv[i+1:], env, dir)
		case "exec":
			return r.dockerExec(argv[i+1:], env, dir)
		case "compose", "build", "pull", "rm", "stop", "logs":
			return nil
		}
	}
	return nil
}

// wrappers start the program that stands somewhere in their words; their own options are not needed here.
var wrappers = map[string]bool{"nohup": true, "setsid": true, "nice": true, "ionice": true, "numactl": true, "taskset": true,
	"timeout": true, "chrt": true, "tini": true, "dumb-init": true, "stdbuf": true, "time": true, "nsys": true, "ncu": true, "uv": true, "uvx": true,
	"mpirun": true, "mpiexec": true, "exec": true, "command": true, "conda": true, "mamba": true, "micromamba": true, "systemd-run": true, "xargs": true,
	"gosu": true, "su-exec": true, "setpriv": true, "flock": true, "prlimit": true, "unshare": true, "catchsegv": true, "strace": true, "perf": true,
	"screen": true, "poetry": true, "pixi": true, "pipenv": true, "hatch": true, "rocprofv3": true, "doas": true, "unbuffer": true, "chroot": true, "s6-setuidgid": true}

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
	return base == "env" || isShell(base) || base == "ssh" || base == "sudo" || base == "runuser" || base == "su" || base == "docker" || base == "podman" || base == "srun" || base == "apptainer" || base == "singularity" || wrappers[base] || strings.HasSuffix(base, ".sh")
}

func (r *reader) keep(engine, program string, argv []string, env *environ, dir string) {
	r.found = &Server{Engine: engine, Program: program, Argv: append([]string(nil), argv...), Env: env.sorted(), dir: dir}
}

// modules are the python modules that are servers.
var modules = map[string]string{
	"vllm.entrypoints.openai.api_server": "vllm", "vllm.entrypoints.api_server": "vllm", "vllm.entrypoints.cli.main": "vllm",
	"sglang.launch_server": "sglang", "sglang": "sglang",
}

func (r *reader) python(argv []string, env *environ, dir string) error {
	for i := 1; i < len(argv); i++ {
		switch {
		case pythonModule.MatchString(argv[i]): // -m, -um, -mNAME
			rest := argv[i+1:]
			name := pythonModule.FindStringSubmatch(argv[i])[1]
			if name == "" && len(rest) > 0 {
				name, rest = rest[0], rest[1:]
			}
			if engine, ok := modules[name]; ok {
				r.keep(engine, "python -m "+name, rest, env, dir)
			}
			return nil
		case argv[i] == "-c":
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

var pythonModule = regexp.MustCompile(`^-[bBdEiIOPqsSuv]*m(.*)$`)

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// env follows env(1): options, assignments, program.
func (r *reader) env(argv []string, env *environ, dir string) error {
	env = env.clone()
	for i := 0; i < len(argv); i++ {
		word := argv[i]
		switch {
		case word == "-i" || word == "-" || word == "--ignore-environment":
			env = newEnviron(true)
		case word == "-u" || word == "--unset":
			if i++; i < len(argv) {
				env.drop(argv[i])
			}
		case strings.HasPrefix(word, "--unset="), strings.HasPrefix(word, "-u"):
			env.drop(strings.TrimPrefix(strings.TrimPrefix(word, "--unset="), "-u"))
		case word == "-C" || word == "--chdir":
			if i++; i < len(argv) {
				dir = resolve(dir, argv[i])
			}
		case strings.HasPrefix(word, "--chdir="):
			dir = resolve(dir, strings.TrimPrefix(word, "--chdir="))
		case word == "-S" || word == "--split-string" || strings.HasPrefix(word, "--split-string=") || strings.HasPrefix(word, "-S"):
			text := strings.TrimPrefix(strings.TrimPrefix(word, "--split-string="), "-S")
			rest := argv[i+1:]
			if (word == "-S" || word == "--split-string") && len(rest) > 0 {
				text, rest = rest[0], rest[1:]
			}
			words, err := shellWords(text)
			if err != nil {
				return fmt.Errorf("env -S: %w", err)
			}
			return r.env(append(words, rest...), env, dir)
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

// sudo follows sudo(8): it takes assignments and, unless told to keep it, forgets the environment.
func (r *reader) sudo(argv []string, outer *environ, dir string) error {
	env := newEnviron(true)
	for i := 0; i < len(argv); i++ {
		word := argv[i]
		list, listed := strings.CutPrefix(word, "--preserve-env=")
		switch {
		case listed:
			for _, name := range strings.Split(list, ",") {
				outer.pass(name, env)
			}
		case word == "--preserve-env", sudoSwitches.MatchString(word) && strings.Contains(word, "E"):
			kept := outer.clone()
			for name, v := range env.vars {
				kept.vars[name] = v
			}
			env = kept
		case word == "--", sudoSwitches.MatchString(word), strings.HasPrefix(word, "--") && strings.Contains(word, "="):
		case len(word) > 2 && word[0] == '-' && word[1] != '-': // -uNAME
		case word == "--login" || word == "--shell" || word == "--non-interactive" || word == "--set-home" || word == "--background":
		case strings.HasPrefix(word, "-"):
			i++ // takes a value
		case assignment.MatchString(word):
			name, value, _ := strings.Cut(word, "=")
			env.set(name, value)
		default:
			return r.command(argv[i:], env, dir)
		}
	}
	return nil
}

// ssh follows a command on another machine, where nothing of the environment is known but what the command sets.
func (r *reader) ssh(argv []string) error {
	i := 0
	for i < len(argv) && strings.HasPrefix(argv[i], "-") {
		if len(argv[i]) == 2 && strings.Contains("BbcDEeFIiJLlmOopQRSWw", argv[i][1:]) {
			i++ // takes a value
		}
		i++
	}
	if i+1 >= len(argv) {
		return nil
	}
	return newShell(r, newEnviron(false), "").run("ssh", strings.Join(argv[i+1:], " "))
}

var sudoSwitches = regexp.MustCompile(`^-[ABbEHiKklnPSsv]+$`)

// commandInText follows programs that hand a text to a shell: su -c, runuser -c, sbatch --wrap, and tmux, whose last word it
// is. A program in words of its own is followed as well.
func (r *reader) commandInText(argv []string, env *environ, dir string) error {
	for i, word := range argv[1:] {
		rest := argv[i+2:]
		text, ok := strings.CutPrefix(word, "--wrap=")
		if c, inline := strings.CutPrefix(word, "--command="); inline {
			text, ok = c, true
		}
		if (word == "-c" || word == "--command" || word == "--wrap") && argv[0] != "tmux" && len(rest) > 0 {
			text, ok = rest[0], true
		}
		if ok {
			return newShell(r, env, dir).run(path.Base(argv[0]), text)
		}
	}
	for i := 1; i < len(argv); i++ {
		if startsProgram(argv[i:]) {
			return r.command(argv[i:], env, dir)
		}
	}
	if last := argv[len(argv)-1]; path.Base(argv[0]) == "tmux" && len(argv) > 2 && strings.Contains(last, " ") {
		return newShell(r, env, dir).run("tmux", last)
	}
	return nil
}

// shell follows `bash -lc SCRIPT [NAME ARGS]` and `bash FILE ARGS`.
func (r *reader) shell(argv []string, env *environ, dir string) error {
	for i := 1; i < len(argv); i++ {
		word := argv[i]
		switch {
		case word == "--rcfile" || word == "--init-file":
			i++
		case !strings.HasPrefix(word, "--") && strings.IndexAny(word, "-+") == 0 && strings.HasSuffix(word, "o"): // -euo pipefail
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
		name, value, inline := strings.Cut(word, "=")
		if !inline && i+1 < len(argv) {
			value = argv[i+1]
		}
		switch name {
		case "--container-image":
			image = value
		case "--export":
			env = slurmExport(value, env)
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
	outer := env
	if env = env.clone(); slices.ContainsFunc(argv, func(w string) bool { return w == "--cleanenv" || w == "-e" || w == "--containall" || w == "-C" }) {
		env = newEnviron(true)
	}
	for name, v := range outer.vars {
		for _, prefix := range []string{"APPTAINERENV_", "SINGULARITYENV_"} {
			if inner, ok := strings.CutPrefix(name, prefix); ok {
				v.Name = inner
				env.vars[inner] = v
			}
		}
	}
	for i := 1; i < len(argv); i++ {
		if f, ok := strings.CutPrefix(argv[i], "--env-file="); ok {
			if err := r.rawEnvFile(resolve(dir, f), env, outer); err != nil {
				return err
			}
		}
		list, ok := strings.CutPrefix(argv[i], "--env=")
		if argv[i] == "--env" && i+1 < len(argv) {
			i++
			list, ok = argv[i], true
		}
		if ok {
			env = slurmExport(list, env)
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

// slurmExport returns the environment after --export=ALL,NAME=VALUE; with NONE or NIL nothing of the old one is left.
func slurmExport(list string, env *environ) *environ {
	if list == "NONE" || list == "NIL" {
		none := newEnviron(true)
		none.caller = env.caller // Slurm's own variables stay
		return none
	}
	env = env.clone()
	for _, item := range strings.Split(list, ",") {
		if name, value, ok := strings.Cut(item, "="); ok {
			env.set(name, value)
		}
	}
	return env
}

var (
	versionInImage = regexp.MustCompile(`(?i)([a-z]*)[-_]?v?(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)`)
	otherVersions  = map[string]bool{"rocm": true, "cu": true, "cuda": true, "torch": true, "pytorch": true, "python": true, "py": true, "ubuntu": true, "oneapi": true}
)

// imageVersion returns the server's version in a tag, not that of CUDA or ROCm beside it.
func imageVersion(tag string) string {
	for _, found := range versionInImage.FindAllStringSubmatch(tag, -1) {
		if !otherVersions[strings.ToLower(found[1])] {
			return found[2]
		}
	}
	return ""
}

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
		r.found.Version = cmp.Or(imageVersion(tag), r.ctx.Version)
	}
}

// resolve returns the place of a file in the reader's file system, given the folder of the program that names it.
func resolve(dir, name string) string {
	if strings.HasPrefix(name, "/") {
		return strings.TrimPrefix(path.Clean(name), "/")
	}
	return strings.TrimPrefix(path.Join(dir, name), "/")
}
