package launch

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/rooflab/rooflab/internal/secrets"
)

// kubernetes follows the containers of pods, deployments and the like; init containers start no server that stays.
func (r *reader) kubernetes(docs []node) error {
	configs, hidden := map[string]node{}, map[string]node{} // of the same file
	for _, d := range docs {
		switch d.get("kind").text() {
		case "ConfigMap":
			configs[d.get("metadata", "name").text()] = d.get("data")
		case "Secret":
			hidden[d.get("metadata", "name").text()] = d
		}
	}
	for _, d := range docs {
		for _, spec := range podSpecs(d, 0) {
			for _, c := range spec.get("containers").items() {
				name := c.get("name").text()
				if r.ctx.Container != "" && name != r.ctx.Container {
					continue
				}
				err := r.service(path.Join(d.get("metadata", "name").text(), name), func() error {
					r.mount(spec, c, configs)
					return r.pod(c, configs, hidden)
				})
				if err != nil {
					return fmt.Errorf("container %s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// podSpecs returns the pod templates of an object, wherever its kind keeps them.
func podSpecs(d node, depth int) []node {
	if depth > maxDepth {
		return nil
	}
	var specs []node
	if d.get("containers").isList() {
		specs = append(specs, d)
	}
	for _, p := range d.pairs() {
		if p.key != "containers" {
			specs = append(specs, podSpecs(p.value, depth+1)...)
		}
	}
	for _, it := range d.items() {
		specs = append(specs, podSpecs(it, depth+1)...)
	}
	return specs
}

// mount puts the files of config maps where a container sees them.
func (r *reader) mount(spec, c node, configs map[string]node) {
	for _, m := range c.get("volumeMounts").items() {
		for _, v := range spec.get("volumes").items() {
			if v.get("name").text() != m.get("name").text() {
				continue
			}
			names := map[string]string{} // of items:, key -> path
			for _, it := range v.get("configMap", "items").items() {
				names[it.get("key").text()] = it.get("path").text()
			}
			for _, file := range configs[v.get("configMap", "name").text()].pairs() {
				name, where := cmp.Or(names[file.key], file.key), m.get("mountPath").text()
				if sub := m.get("subPath").text(); sub == "" {
					where = path.Join(where, name)
				} else if sub != name {
					continue
				}
				r.write(where, file.value.text(), false)
			}
		}
	}
}

func (r *reader) pod(c node, configs, hidden map[string]node) error {
	ct := container{env: newEnviron(true), image: c.get("image").text()}
	for _, from := range c.get("envFrom").items() {
		prefix := from.get("prefix").text()
		if secret := from.get("secretRef", "name").text(); secret != "" {
			d, ok := hidden[secret]
			if !ok {
				r.note("secret_absent", secret, "the secret is not among the files; which variables it sets is not known")
			}
			for _, p := range append(d.get("data").pairs(), d.get("stringData").pairs()...) {
				ct.env.set(prefix+p.key, secrets.Mask)
			}
		}
		name := from.get("configMapRef", "name").text()
		if name == "" {
			continue
		}
		config, ok := configs[name]
		if !ok {
			r.note("config_map_absent", name, "the config map is not among the files; what it sets is not known")
		}
		for _, p := range config.pairs() {
			ct.env.set(prefix+p.key, p.value.text())
		}
	}
	for _, e := range c.get("env").items() { // env wins over envFrom; later ones may use earlier ones
		name := e.get("name").text()
		switch from := e.get("valueFrom"); {
		case !from.isMap():
			ct.env.set(name, dollarParens(e.get("value").text(), ct.env))
		case from.get("configMapKeyRef").isMap() && configs[from.get("configMapKeyRef", "name").text()].isMap():
			ref := from.get("configMapKeyRef")
			ct.env.set(name, configs[ref.get("name").text()].get(ref.get("key").text()).text())
		case from.get("secretKeyRef").isMap():
			ct.env.set(name, secrets.Mask)
		default:
			ct.env.unknown(name)
		}
	}
	for _, w := range c.get("command").items() {
		ct.entrypoint = append(ct.entrypoint, dollarParens(w.text(), ct.env))
	}
	for _, w := range c.get("args").items() {
		ct.args = append(ct.args, dollarParens(w.text(), ct.env))
	}
	return r.container(ct)
}

// dollarParens replaces $(NAME); an unknown name stays as it is, $$(NAME) gives $(NAME).
func dollarParens(s string, env *environ) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], "$$") {
			b.WriteByte('$')
			i++
			continue
		}
		if strings.HasPrefix(s[i:], "$(") {
			if end := strings.IndexByte(s[i:], ')'); end > 0 {
				if value, ok := env.lookup(s[i+2 : i+end]); ok {
					b.WriteString(value)
					i += end
					continue
				}
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
