package launch

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// parse reads Argv as the server's own parser does and fills Model, Args and Refused.
func (s *Server) parse() {
	p := argParser{s: s, flags: vllmFlags, short: vllmShort, dotted: map[string]map[string]interface{}{}}
	if s.Engine == "sglang" {
		p.flags, p.short = sglangFlags, nil
	}
	s.Args = map[string]interface{}{}
	argv := s.Argv
	if len(argv) > 0 && argv[0] == "serve" {
		argv = argv[1:]
	}
	p.words(argv)
	for name, obj := range p.dotted { // appended at the end as one JSON: they replace a plain --name JSON
		s.Args[name] = obj
	}
	for _, key := range []string{"model", "model-path"} {
		if m, ok := s.Args[key]; ok {
			if s.Model == "" {
				s.Model = fmt.Sprint(m)
			}
			delete(s.Args, key)
		}
	}
}

type argParser struct {
	s      *Server
	flags  map[string]kind
	short  map[string]string
	dotted map[string]map[string]interface{}
}

func (p *argParser) refuse(format string, args ...any) {
	if p.s.Refused == "" {
		p.s.Refused = fmt.Sprintf(format, args...)
	}
}

func (p *argParser) words(argv []string) {
	for i := 0; i < len(argv); {
		word := argv[i]
		if !isOption(word) {
			p.positional(word)
			i++
			continue
		}
		name, text, inline := strings.Cut(word, "=")
		i++
		if level, ok := strings.CutPrefix(name, "-O"); ok && p.short != nil {
			i += p.optimization(level, text, inline, argv[i:])
			continue
		}
		full, negated := p.resolve(name)
		if key, path, ok := strings.Cut(full, "."); ok {
			if !inline && i < len(argv) {
				text = argv[i]
				i++
			}
			p.set(key, path, text)
			continue
		}
		n := 0
		for !inline && i+n < len(argv) && !isOption(argv[i+n]) {
			n++
		}
		i += p.option(full, negated, inline, text, argv[i:i+n])
	}
}

// isOption follows argparse: a dash, not a negative number, no blank before an equals sign.
func isOption(word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	if _, err := strconv.ParseFloat(word, 64); err == nil {
		return false
	}
	name, _, _ := strings.Cut(word, "=")
	return !strings.Contains(name, " ")
}

func (p *argParser) positional(word string) {
	if p.s.Model != "" || p.s.Engine == "sglang" || strings.HasPrefix(word, "-") || strings.HasPrefix(p.s.Program, "python -m vllm") {
		p.refuse("unrecognised argument %q", word)
		return
	}
	p.s.Model = word
}

// resolve returns the long name of an option: underscores, short forms, aliases and unambiguous beginnings.
func (p *argParser) resolve(word string) (name string, negated bool) {
	dashes := strings.HasPrefix(word, "--")
	name = strings.TrimLeft(word, "-")
	head, tail, dot := strings.Cut(name, ".")
	if long, ok := p.short[head]; ok && !dashes {
		head = long
	}
	head = strings.ReplaceAll(head, "_", "-")
	if dot {
		return head + "." + tail, false
	}
	if long, ok := sglangAlias[head]; ok && p.s.Engine == "sglang" {
		head = long
	}
	if _, known := p.flags[head]; known {
		return head, false
	}
	if off, ok := strings.CutPrefix(head, "no-"); ok {
		if k, known := p.flags[p.complete(off)]; known && k == toggle {
			return p.complete(off), true
		}
	}
	return p.complete(head), false
}

// complete expands an unambiguous beginning of a known option; other names stay as they are.
func (p *argParser) complete(name string) string {
	if _, known := p.flags[name]; known {
		return name
	}
	var hits []string
	for f := range p.flags {
		if strings.HasPrefix(f, name) {
			hits = append(hits, f)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0]
	case 0:
		return name
	}
	slices.Sort(hits)
	p.refuse("option --%s is ambiguous: %s", name, strings.Join(hits, ", "))
	return name
}

// option takes an option with the words that follow it and returns how many belong to it.
func (p *argParser) option(name string, negated, inline bool, text string, words []string) int {
	k, known := p.flags[name]
	if !known && !inline && len(words) == 0 {
		k = toggle
	}
	if name == "config" && inline && p.s.Engine == "vllm" {
		p.s.Args[name] = text
		p.s.warnConfig(text)
		return 0
	}
	switch {
	case k == toggle && inline:
		p.s.Args[name] = strings.EqualFold(text, "true") || text == "1"
		return 0
	case k == toggle:
		p.s.Args[name] = !negated
		if old := len(words) > 0 && (strings.EqualFold(words[0], "true") || strings.EqualFold(words[0], "false")); old {
			p.s.Args[name] = strings.EqualFold(words[0], "true") // 0.6 takes a word here
			return 1
		}
		return 0
	case k == list:
		all := words
		if inline {
			all = []string{text}
		}
		values := make([]interface{}, 0, len(all))
		for _, w := range all {
			values = append(values, listItem(name, w))
		}
		p.s.Args[name] = values
		if inline {
			return 0
		}
		return len(words)
	}
	used := 0
	if !inline {
		if len(words) == 0 {
			p.refuse("option --%s has no value", name)
			return 0
		}
		text, used = words[0], 1
	}
	p.s.Args[name] = convert(k, name, text)
	return used
}

func listItem(name, word string) interface{} {
	if strings.Contains(name, "sizes") || strings.HasSuffix(name, "-bs") {
		return number(word)
	}
	return word
}

// texts are options whose value is a name even when it looks like a number.
var texts = map[string]bool{"model": true, "model-path": true, "tokenizer": true, "revision": true, "served-model-name": true, "host": true}

func convert(k kind, name, text string) interface{} {
	switch {
	case k == object:
		return parsed(text)
	case k == count:
		if n, ok := humanCount(text); ok {
			return n
		}
	}
	if texts[name] {
		return text
	}
	return number(text)
}

// humanCount reads 32k (32000), 32K (32768), 25.6k (25600) and the like.
func humanCount(text string) (int64, bool) {
	if len(text) < 2 || len(text) > 20 {
		return 0, false
	}
	scales := map[byte]int64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}
	scale, ok := scales[text[len(text)-1]]
	digits := text[:len(text)-1]
	if !ok || strings.Trim(digits, "0123456789.") != "" {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return 0, false
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// number returns whole numbers as int64 and decimals as float64, other words as they are.
func number(text string) interface{} {
	if !plainNumber.MatchString(text) {
		return text
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}

// parsed returns JSON as values (numbers as int64 or float64), text that is none as it is.
func parsed(text string) interface{} {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v interface{}
	if err := dec.Decode(&v); err != nil || dec.More() {
		return text
	}
	return plain(v)
}

func plain(v interface{}) interface{} {
	switch x := v.(type) {
	case json.Number:
		return number(x.String())
	case []interface{}:
		for i := range x {
			x[i] = plain(x[i])
		}
	case map[string]interface{}:
		for k := range x {
			x[k] = plain(x[k])
		}
	}
	return v
}

// set keeps --key.a.b VALUE; a plus at the end (--key.a+ x,y) appends to a list.
func (p *argParser) set(key, path, text string) {
	obj := p.dotted[key]
	if obj == nil {
		obj = map[string]interface{}{}
		p.dotted[key] = obj
	}
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		next, ok := obj[step].(map[string]interface{})
		if !ok {
			next = map[string]interface{}{}
			obj[step] = next
		}
		obj = next
	}
	leaf := steps[len(steps)-1]
	if name, add := strings.CutSuffix(leaf, "+"); add {
		old, _ := obj[name].([]interface{})
		for _, item := range strings.Split(text, ",") {
			old = append(old, parsed(item))
		}
		obj[name] = old
		return
	}
	obj[leaf] = parsed(text)
}

// optimization reads -O3, -O 3 and -O=3: the optimisation level since 0.12, the level of --compilation-config before.
func (p *argParser) optimization(level, text string, inline bool, rest []string) int {
	if key, ok := strings.CutPrefix(level, "."); ok { // -O.mode=3
		used := 0
		if !inline && len(rest) > 0 {
			text, used = rest[0], 1
		}
		p.set("compilation-config", key, text)
		return used
	}
	used := 0
	switch {
	case level == "" && inline:
		level = text
	case level == "" && len(rest) > 0:
		level, used = rest[0], 1
	}
	if !vllm.ParseVersion(p.s.Version).AtLeast("0.12.0rc0") {
		p.s.Args["compilation-config"] = map[string]interface{}{"level": number(level)}
	} else {
		p.s.Args["optimization-level"] = number(level)
	}
	return used
}
