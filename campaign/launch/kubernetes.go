package launch

import (
	"fmt"
	"strings"
)

// kubernetes follows the containers of pods, deployments and the like; init containers start no server that stays.
func (r *reader) kubernetes(docs []node) error {
	configs := map[string]node{} // config maps of the same file
	for _, d := range docs {
		if d.get("kind").text() == "ConfigMap" {
			configs[d.get("metadata", "name").text()] = d.get("data")
		}
	}
	for _, d := range docs {
		for _, spec := range podSpecs(d) {
			for _, c := range spec.get("containers").items() {
				if r.found != nil || r.ctx.Container != "" && c.get("name").text() != r.ctx.Container {
					continue
				}
				if err := r.pod(c, configs); err != nil {
					return fmt.Errorf("container %s: %w", c.get("name").text(), err)
				}
			}
		}
	}
	return nil
}

// podSpecs returns the pod templates of an object, wherever its kind keeps them.
func podSpecs(d node) []node {
	places := [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"},
		{"spec", "leaderWorkerTemplate", "leaderTemplate", "spec"}, {"spec", "leaderWorkerTemplate", "workerTemplate", "spec"},
		{"spec", "predictor"}}
	var specs []node
	if d.get("kind").text() == "List" {
		for _, it := range d.get("items").items() {
			specs = append(specs, podSpecs(it)...)
		}
		return specs
	}
	for _, p := range places {
		if s := d.get(p...); s.get("containers").isList() {
			specs = append(specs, s)
		}
	}
	return specs
}

func (r *reader) pod(c node, configs map[string]node) error {
	ct := container{env: newEnviron(true), image: c.get("image").text()}
	for _, from := range c.get("envFrom").items() {
		prefix := from.get("prefix").text()
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
			ct.env.set(name, Mask)
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
