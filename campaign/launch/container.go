package launch

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// dockerSwitches are the options of `docker run` and `podman run` that take no value.
var dockerSwitches = map[string]bool{"--detach": true, "--rm": true, "--interactive": true, "--tty": true, "--privileged": true, "--init": true,
	"--read-only": true, "--no-healthcheck": true, "--oom-kill-disable": true, "--publish-all": true, "--sig-proxy": true, "--quiet": true,
	"--replace": true, "--tls-verify": true, "--disable-content-trust": true, "--no-hosts": true, "--use-api-socket": true}

// dockerShort are single letters without a value; all others take one.
const dockerShort = "ditPq"

// container is what a level that starts containers says about one.
type container struct {
	image      string
	entrypoint []string // replaces that of the image
	args       []string // after the image
	env        *environ
}

// docker follows the words after `docker run`.
func (r *reader) docker(argv []string, outer *environ, dir string) error {
	c := container{env: newEnviron(true)}
	var files []string
	explicit := newEnviron(true)
	i := 0
	for ; i < len(argv) && strings.HasPrefix(argv[i], "-"); i++ {
		name, value, ok := dockerOption(argv[i])
		if !ok { // a value is expected in the next word
			if i++; i >= len(argv) {
				return fmt.Errorf("docker run: option %s has no value", name)
			}
			value = argv[i]
		}
		switch name {
		case "-e", "--env":
			if k, v, ok := strings.Cut(value, "="); ok {
				explicit.set(k, v)
			} else {
				outer.pass(value, explicit)
			}
		case "--env-file":
			files = append(files, resolve(dir, value))
		case "--entrypoint":
			c.entrypoint = []string{value}
		}
	}
	if i >= len(argv) {
		return nil
	}
	for _, f := range files {
		if err := r.rawEnvFile(f, c.env, outer); err != nil {
			return err
		}
	}
	for k, v := range explicit.vars { // -e wins over --env-file wherever it stands
		c.env.vars[k] = v
	}
	c.image, c.args = argv[i], argv[i+1:]
	return r.container(c)
}

// dockerOption splits a word into option and value; ok is false when the value is the next word.
func dockerOption(word string) (name, value string, ok bool) {
	if strings.HasPrefix(word, "--") {
		name, value, ok = strings.Cut(word, "=")
		return name, value, ok || dockerSwitches[name]
	}
	for i := 1; i < len(word); i++ { // -it, -eNAME=VALUE, -dp 80:80
		if strings.IndexByte(dockerShort, word[i]) < 0 {
			return "-" + word[i:i+1], strings.TrimPrefix(word[i+1:], "="), i+1 < len(word)
		}
	}
	return word, "", true
}

// rawEnvFile reads an env file as docker and podman do: quotes are part of the value, a bare name is passed through.
func (r *reader) rawEnvFile(name string, env, outer *environ) error {
	raw, err := r.readFile(name)
	if err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimRight(strings.TrimLeft(line, " \t"), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		if k, v, ok := strings.Cut(line, "="); ok {
			env.set(k, v)
		} else {
			outer.pass(line, env)
		}
	}
	return nil
}

func (r *reader) readFile(name string) ([]byte, error) {
	if r.fsys == nil {
		return nil, fmt.Errorf("%s: %w (no folder of files was given)", name, fs.ErrNotExist)
	}
	return fs.ReadFile(r.fsys, name)
}

// container follows what runs inside: the given entry point, or that of the image.
func (r *reader) container(c container) error {
	argv := append(slices.Clone(c.entrypoint), c.args...)
	serverImage := len(c.entrypoint) == 0 && strings.Contains(imageName(c.image), "vllm")
	isOpenAI := strings.Contains(c.image, "vllm-openai")
	switch {
	case serverImage && (isOpenAI || len(argv) > 0 && strings.HasPrefix(argv[0], "-")):
		r.keep("vllm", "", c.args, c.env)
		r.setImage(c.image)
		r.entryPoint()
	default:
		if err := r.command(argv, c.env, ""); err != nil {
			return err
		}
	}
	r.setImage(c.image)
	return nil
}

// imageName is the last part of an image's name without registry, tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}

// entryPoint names the program of a vLLM image: `vllm serve` takes a positional model, the older API server does not.
func (r *reader) entryPoint() {
	s := r.found
	positional := len(s.Argv) > 0 && !strings.HasPrefix(s.Argv[0], "-")
	if positional && path.Base(s.Argv[0]) == "vllm" {
		s.Refused = "the image starts `vllm serve` already; the words \"vllm serve\" after its name are unrecognised arguments"
	}
	if positional || vllm.ParseVersion(s.Version).AtLeast("0.12.0rc0") {
		s.Program = "vllm serve (entry point of the image)"
	} else {
		s.Program = "python -m vllm.entrypoints.openai.api_server (entry point of the image)"
	}
}
