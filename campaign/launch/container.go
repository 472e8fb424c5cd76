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
	"--replace": true, "--tls-verify": true, "--env-host": true, "--rmi": true, "--read-only-tmpfs": true, "--http-proxy": true, "--passwd": true,
	"--no-hostname": true, "--unsetenv-all": true, "--disable-content-trust": true, "--no-hosts": true, "--use-api-socket": true}

// dockerShort are single letters without a value; all others take one.
const dockerShort = "ditPq"

// container is what a level that starts containers says about one.
type container struct {
	image      string
	entrypoint []string // replaces that of the image
	noEntry    bool     // nor has the image one
	args       []string // after the image
	env        *environ
}

// docker follows the words after `docker run`.
func (r *reader) docker(argv []string, outer *environ, dir string) error {
	d := newRun(r, outer, dir)
	rest, err := d.options(argv)
	if err != nil {
		return fmt.Errorf("docker run: %w", err)
	}
	if len(rest) == 0 {
		return nil
	}
	d.c.image, d.c.args = rest[0], rest[1:]
	return d.start()
}

// dockerExec follows the words after `docker exec`: what the container itself sets is not known.
func (r *reader) dockerExec(argv []string, outer *environ, dir string) error {
	d := newRun(r, outer, dir)
	rest, err := d.options(argv)
	if err != nil {
		return fmt.Errorf("docker exec: %w", err)
	}
	if len(rest) < 2 {
		return nil
	}
	d.c.args = rest[1:]
	return d.start()
}

// entry takes the value of --entrypoint: a program, podman's list in JSON, or nothing to run the words themselves.
func (c *container) entry(value string) {
	c.noEntry, c.entrypoint = value == "", nil
	if list, ok := parsed(value).([]interface{}); ok {
		for _, w := range list {
			c.entrypoint = append(c.entrypoint, fmt.Sprint(w))
		}
	} else if value != "" {
		c.entrypoint = []string{value}
	}
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

const maxWritten = 1 << 20 // bytes of a file, against files that grow in a loop

// write keeps a file that comes into being on the way.
func (r *reader) write(name, text string, add bool) {
	if r.written == nil {
		r.written = map[string]string{}
	}
	name = resolve("", name)
	if add {
		text = r.written[name] + text
	}
	r.written[name] = text[:min(len(text), maxWritten)]
}

func (r *reader) readFile(name string) ([]byte, error) {
	if text, ok := r.written[resolve("", name)]; ok {
		return []byte(text), nil
	}
	if r.fsys == nil {
		return nil, fmt.Errorf("%s: %w (no folder of files was given)", name, fs.ErrNotExist)
	}
	return fs.ReadFile(r.fsys, name)
}

// container follows what runs inside: the given entry point, or that of the image.
func (r *reader) container(c container) error {
	argv := append(slices.Clone(c.entrypoint), c.args...)
	serverImage := len(c.entrypoint) == 0 && !c.noEntry && strings.Contains(imageName(c.image), "vllm")
	isOpenAI := strings.Contains(c.image, "vllm-openai")
	switch {
	case serverImage && (isOpenAI || len(argv) > 0 && strings.HasPrefix(argv[0], "-")):
		r.keep("vllm", "", c.args, c.env, "")
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
	if positional && (path.Base(s.Argv[0]) == "vllm" || s.Argv[0] == "serve") {
		s.Refused = "the image starts the server already; the words \"vllm serve\" after its name are unrecognised arguments"
	}
	if vllm.ParseVersion(s.Version).AtLeast("0.12.0rc0") {
		s.Program = "vllm serve (entry point of the image)"
	} else {
		s.Program = "python -m vllm.entrypoints.openai.api_server (entry point of the image)"
	}
}
