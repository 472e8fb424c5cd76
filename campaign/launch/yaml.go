package launch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// yaml tells a compose file from a Kubernetes manifest.
func (r *reader) yaml(name string, raw []byte) (Server, error) {
	docs, err := yamlDocs(raw)
	if err != nil {
		return Server{}, fmt.Errorf("read %s: %w", name, err)
	}
	for _, d := range docs {
		switch {
		case d.get("services").isMap():
			return r.finish(name, "compose file", r.compose(name, d))
		case d.get("kind").text() != "":
			return r.finish(name, "kubernetes manifest", r.kubernetes(docs))
		}
	}
	return Server{}, fmt.Errorf("read %s: neither a compose file (services:) nor a Kubernetes manifest (kind:)", name)
}

// node is a YAML value; aliases are followed and merge keys applied where a key is looked up.
type node struct{ n *yaml.Node }

func yamlDocs(raw []byte) ([]node, error) {
	var list []yaml.Node
	if err := yaml.Load(raw, &list, yaml.WithAllDocuments()); err != nil {
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	var docs []node
	for i := range list {
		d := node{&list[i]}
		if list[i].Kind == yaml.DocumentNode && len(list[i].Content) > 0 {
			d = node{list[i].Content[0]}
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func (d node) deref() *yaml.Node {
	n := d.n
	for i := 0; n != nil && n.Kind == yaml.AliasNode && i < maxDepth; i++ {
		n = n.Alias
	}
	return n
}

func (d node) isMap() bool  { n := d.deref(); return n != nil && n.Kind == yaml.MappingNode }
func (d node) isList() bool { n := d.deref(); return n != nil && n.Kind == yaml.SequenceNode }
func (d node) isNull() bool {
	n := d.deref()
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// text returns a scalar as the file spells it.
func (d node) text() string {
	if n := d.deref(); n != nil && n.Kind == yaml.ScalarNode && !d.isNull() {
		return n.Value
	}
	return ""
}

// isBool reports a boolean and its value; yes, no, on and off are some too for PyYAML.
func (d node) isBool() (value, ok bool) {
	n := d.deref()
	if n == nil || n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	return false, false
}

func (d node) items() []node {
	var list []node
	if n := d.deref(); n != nil && n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			list = append(list, node{c})
		}
	}
	return list
}

// pair is a key of a mapping with its value.
type pair struct {
	key   string
	value node
}

// pairs returns the keys in the order of the file. Keys of the mapping itself win over merged ones (<<).
func (d node) pairs() []pair { return d.merged(0) }

func (d node) merged(depth int) []pair {
	n := d.deref()
	if n == nil || n.Kind != yaml.MappingNode || depth > maxDepth {
		return nil
	}
	var own, merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, node{n.Content[i+1]}
		if key != "<<" {
			own = append(own, pair{key, value})
			continue
		}
		sources := value.items()
		if value.isMap() {
			sources = []node{value}
		}
		for _, s := range sources {
			merged = append(merged, s.merged(depth+1)...)
		}
	}
	for _, m := range merged {
		if !slices.ContainsFunc(own, func(p pair) bool { return p.key == m.key }) {
			own = append(own, m)
		}
	}
	return own
}

func (d node) get(keys ...string) node {
	for _, k := range keys {
		next := node{}
		for _, p := range d.pairs() {
			if p.key == k {
				next = p.value
				break
			}
		}
		d = next
	}
	return d
}

// json writes the value as Python's json.dumps does, keys in the order of the file.
func (d node) json() string { return d.jsonAt(0) }

func (d node) jsonAt(depth int) string {
	switch {
	case depth > 4*maxDepth:
		return "null"
	case d.isMap():
		var parts []string
		for _, p := range d.pairs() {
			parts = append(parts, quoteJSON(p.key)+": "+p.value.jsonAt(depth+1))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case d.isList():
		var parts []string
		for _, it := range d.items() {
			parts = append(parts, it.jsonAt(depth+1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case d.isNull():
		return "null"
	}
	if v, ok := d.isBool(); ok {
		return fmt.Sprint(v)
	}
	if tag := d.deref().ShortTag(); (tag == "!!int" || tag == "!!float") && json.Valid([]byte(d.text())) {
		return d.text()
	}
	return quoteJSON(d.text())
}

func quoteJSON(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(raw)
}
