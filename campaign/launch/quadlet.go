package launch

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/internal/secrets"
)

// quadlet follows a podman .container file, which becomes a `podman run` in the ExecStart= of a unit: Environment= of
// [Container] is the container's, that of [Service] replaces ${NAME} in the words.
func (r *reader) quadlet(name string) error {
	file, instance := r.fileOf(name)
	entries, err := r.unitEntries(file, name)
	if err != nil {
		return err
	}
	sp := unitSpecifiers(strings.TrimSuffix(name, path.Ext(name))+".service", instance, r.home())
	host, err := r.unitEnv(entries, sp)
	if err != nil {
		return err
	}
	words := func(key string) (out []string, err error) {
		for _, line := range last(entries, "Container", key) {
			split, err := unitWords(line)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			for i := range split {
				split[i] = sp.expand(split[i])
			}
			if key == "Exec" {
				out = nil // the last one holds
			}
			out = append(out, unitVariables(split, host)...)
		}
		return out, nil
	}
	run := newRun(r, host, path.Dir(name))
	for _, f := range last(entries, "Container", "EnvironmentFile") {
		run.files = append(run.files, resolve(path.Dir(name), sp.expand(f)))
	}
	for _, secret := range last(entries, "Container", "Secret") {
		run.secret(sp.expand(secret))
	}
	env, err := words("Environment")
	if err != nil {
		return err
	}
	for _, item := range env {
		if k, v, ok := strings.Cut(item, "="); ok {
			run.explicit.set(k, v)
		}
	}
	for _, entrypoint := range last(entries, "Container", "Entrypoint") {
		run.c.entry(sp.expand(entrypoint))
	}
	extra, err := words("PodmanArgs")
	if err != nil {
		return err
	}
	if _, err := run.options(extra); err != nil {
		return fmt.Errorf("PodmanArgs: %w", err)
	}
	for _, image := range last(entries, "Container", "Image") {
		run.c.image = strings.Join(unitVariables([]string{sp.expand(image)}, host), "")
	}
	if run.c.args, err = words("Exec"); err != nil {
		return err
	}
	return run.start()
}

// containerRun is a `docker run`, `podman run` or their like while its options are read.
type containerRun struct {
	r        *reader
	c        container
	outer    *environ
	dir      string
	files    []string // --env-file
	explicit *environ // -e wins over --env-file wherever it stands
}

func newRun(r *reader, outer *environ, dir string) *containerRun {
	return &containerRun{r: r, c: container{env: newEnviron(true)}, outer: outer, dir: dir, explicit: newEnviron(true)}
}

// options reads options and returns the words after them.
func (d *containerRun) options(argv []string) ([]string, error) {
	i := 0
	for ; i < len(argv) && strings.HasPrefix(argv[i], "-"); i++ {
		if argv[i] == "--" {
			return argv[i+1:], nil
		}
		name, value, ok := dockerOption(argv[i])
		if !ok { // a value is expected in the next word
			if i++; i >= len(argv) {
				return nil, fmt.Errorf("option %s has no value", name)
			}
			value = argv[i]
		}
		switch name {
		case "-e", "--env":
			d.env(value)
		case "--env-file":
			d.files = append(d.files, resolve(d.dir, value))
		case "--entrypoint":
			d.c.entry(value)
		case "--secret":
			d.secret(value)
		}
	}
	return argv[i:], nil
}

func (d *containerRun) env(item string) {
	if k, v, ok := strings.Cut(item, "="); ok {
		d.explicit.set(k, v)
	} else if prefix, all := strings.CutSuffix(item, "*"); all { // podman
		for name := range d.outer.vars {
			if strings.HasPrefix(name, prefix) {
				d.outer.pass(name, d.explicit)
			}
		}
	} else {
		d.outer.pass(item, d.explicit)
	}
}

// secret reads podman's NAME,type=env,target=VARIABLE.
func (d *containerRun) secret(spec string) {
	parts := strings.Split(spec, ",")
	if !slices.Contains(parts, "type=env") {
		return
	}
	name := parts[0]
	for _, p := range parts[1:] {
		if target, ok := strings.CutPrefix(p, "target="); ok {
			name = target
		}
	}
	d.explicit.set(name, secrets.Mask)
}

// start follows what runs in the container.
func (d *containerRun) start() error {
	for _, f := range d.files {
		if err := d.r.rawEnvFile(f, d.c.env, d.outer); err != nil {
			return err
		}
	}
	for k, v := range d.explicit.vars {
		d.c.env.vars[k] = v
	}
	return d.r.container(d.c)
}
