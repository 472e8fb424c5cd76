package launch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/secrets"
)

// parse reads Argv as the server's own parser does and fills Model, Args and Refused.
func (s *Server) parse() {
	s.Args = map[string]interface{}{}
	p := s.parser()
	words := s.afterSubcommand()
	p.words(words)
	if _, named := s.Args["served-model-name"]; named && strings.HasPrefix(s.Program, "vllm serve") && s.config == "" && isOption(words[0]) && s.Args["model"] == nil && s.Args["config"] == nil && !s.before("0.10.0rc0") {
		p.refuse("with --served-model-name, the model must be the first word after serve")
	}
	for name, obj := range p.dotted { // appended at the end as one JSON: they replace a plain --name JSON
		s.Args[name] = obj
	}
	p.model()
}

func (s *Server) parser() *argParser {
	if s.Engine == "sglang" {
		return &argParser{s: s, flags: sglangFlags, dotted: map[string]map[string]interface{}{}}
	}
	return &argParser{s: s, flags: vllmFlags, short: vllmShort, dotted: map[string]map[string]interface{}{}}
}

// longName returns what a short or abbreviated option stands for.
func (s *Server) longName(option string) string {
	name, _ := (&Server{Engine: s.Engine, Version: s.Version}).parser().resolve(option)
	return name
}

// afterSubcommand returns the words without "serve"; the entry point of an image has that word already.
func (s *Server) afterSubcommand() []string {
	if len(s.Argv) > 0 && s.Argv[0] == "serve" && !strings.Contains(s.Program, "entry point") {
		return s.Argv[1:]
	}
	return s.Argv
}

// model settles what --model says. `vllm serve` was strict about it up to 0.9; later it puts the model of --model in front,
// and a positional one is then one too many.
func (p *argParser) model() {
	s := p.s
	for _, key := range []string{"model", "model-path"} {
		m, ok := s.Args[key]
		if !ok {
			continue
		}
		delete(s.Args, key)
		named := fmt.Sprint(m)
		if s.Engine == "vllm" && !strings.HasPrefix(s.Program, "python -m vllm.entrypoints.openai") && !s.modelFromConfig {
			if s.before("0.10.0rc0") {
				p.refuse("this version takes the model as a positional argument, not as --model")
			} else if s.Model != "" {
				p.refuse("unrecognised argument %q: the model is given by --model as well", s.Model)
				s.Model = named
			}
		}
		s.Model = cmp.Or(s.Model, named)
	}
}

// before reports whether the version is known and older than another.
func (s *Server) before(version string) bool {
	own := vllm.ParseVersion(s.Version)
	return own.Known && !own.AtLeast(version)
}

// since reports whether the version is known and at least another.
func (s *Server) since(version string) bool {
	own := vllm.ParseVersion(s.Version)
	return own.Known && own.AtLeast(version)
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
		if word == "--" { // no options after it
			for _, w := range argv[i+1:] {
				p.positional(w)
			}
			return
		}
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
	if p.s.Model != "" || p.s.Engine == "sglang" || strings.HasPrefix(word, "-") || strings.HasPrefix(p.s.Program, "python -m vllm.entrypoints.openai") {
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
	if !dashes && p.short != nil {
		head = p.shortName(head)
	}
	head = strings.ReplaceAll(head, "_", "-")
	if dot {
		return p.complete(head) + "." + tail, false
	}
	if long, ok := sglangAlias[head]; ok && p.s.Engine == "sglang" {
		head = long
	}
	if _, known := p.flags[head]; known {
		return head, false
	}
	if off, ok := strings.CutPrefix(head, "no-"); ok {
		full := p.complete(off)
		if k, known := p.flags[full]; known && k == toggle {
			return full, true
		} else if known && p.s.Engine == "vllm" {
			p.refuse("option --%s is no switch; there is no --no-%s", full, off)
		}
	}
	full := p.complete(head)
	if _, known := p.flags[full]; !known && dashes && p.short[head] != "" {
		p.refuse("the short form of --%s is -%s, with one dash", p.short[head], head)
	}
	return full, false
}

// shortName returns what a short form or its unambiguous beginning stands for.
func (p *argParser) shortName(head string) string {
	if long, ok := p.short[head]; ok {
		return long
	}
	var hits []string
	for s := range p.short {
		if strings.HasPrefix(s, head) {
			hits = append(hits, s)
		}
	}
	if len(hits) == 1 {
		return p.short[hits[0]]
	}
	p.refuse("unrecognised argument -%s", head)
	return head
}

// complete expands an unambiguous beginning of an option that the version has; other names stay as they are.
func (p *argParser) complete(name string) string {
	if _, known := p.flags[name]; known {
		return name
	}
	hits := p.beginning(name, true)
	if len(hits) == 0 {
		hits = p.beginning(name, false)
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

// beginning returns the options that begin with a name: all, or without those that the version has no more or not yet.
func (p *argParser) beginning(name string, fitting bool) []string {
	var hits []string
	for f := range p.flags {
		foreign := p.s.Engine == "vllm" && (wasGone[f] && !p.s.before("0.12.0rc0") || isNewest[f] && !p.s.since("0.29.0rc0"))
		if strings.HasPrefix(f, name) && !(fitting && foreign) {
			hits = append(hits, f)
		}
	}
	return hits
}

// option takes an option with the words that follow it and returns how many belong to it.
func (p *argParser) option(name string, negated, inline bool, text string, words []string) int {
	k, known := p.flags[name]
	if !known && p.s.Engine == "vllm" {
		p.s.Diagnostics = append(p.s.Diagnostics, diag.Diagnostic{ID: "option_unknown", Severity: diag.Info, N: 1,
			Text: "--" + name + " is no option of the versions known here; one that does not have it refuses to start"})
	}
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
		if p.s.Engine == "vllm" && p.s.since(switchesTakeNoWord) {
			p.refuse("option --%s is a switch and takes no value; to switch it off: --no-%s", name, name)
		}
		return 0
	case k == toggle:
		p.s.Args[name] = !negated
		word := len(words) > 0 && (strings.EqualFold(words[0], "true") || strings.EqualFold(words[0], "false"))
		if word && !(p.s.Engine == "vllm" && p.s.since(switchesTakeNoWord)) {
			p.s.Args[name] = strings.EqualFold(words[0], "true")
			return 1
		}
		return 0
	case k == optional && !inline && len(words) == 0:
		p.s.Args[name] = true
		return 0
	case k == each:
		text, used := oneWord(inline, text, words)
		old, _ := p.s.Args[name].([]interface{})
		p.s.Args[name] = append(old, text)
		return used
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
	if !inline && len(words) == 0 {
		p.refuse("option --%s has no value", name)
		return 0
	}
	text, used := oneWord(inline, text, words)
	p.s.Args[name] = p.convert(k, name, text)
	return used
}

const switchesTakeNoWord = "0.9.0rc0" // before, --enable-chunked-prefill and its like took true or false

// oneWord returns the value of an option and how many words it takes.
func oneWord(inline bool, text string, words []string) (string, int) {
	if inline || len(words) == 0 {
		return text, 0
	}
	return words[0], 1
}

func listItem(name, word string) interface{} {
	if strings.Contains(name, "sizes") || strings.HasSuffix(name, "-bs") {
		return number(word)
	}
	return word
}

// texts are options whose value is a name even when it looks like a number.
var texts = map[string]bool{"model": true, "model-path": true, "tokenizer": true, "revision": true, "served-model-name": true, "host": true}

func (p *argParser) convert(k kind, name, text string) interface{} {
	switch {
	case k == object:
		v := parsed(text)
		if s, isText := v.(string); isText && s == text && strings.HasPrefix(text, "{") && !strings.Contains(text, "<runtime:") {
			p.refuse("the value of --%s is no JSON: %s", name, shorten(secrets.Clean(text)))
		}
		return v
	case k == count:
		if n, ok := humanCount(text); ok {
			return n
		}
		if binaryDecimal.MatchString(text) {
			p.refuse("--%s %s: decimals go with k, m, g, t only", name, text)
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
	if !r.IsInt() || !r.Num().IsInt64() || binaryDecimal.MatchString(text) {
		return 0, false
	}
	return r.Num().Int64(), true
}

var (
	binaryDecimal = regexp.MustCompile(`^[0-9]*\.[0-9]*[KMGT]$`) // vLLM refuses these
	plainNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)?(\.[0-9]+)?$`)
)

// number returns whole numbers as int64 and decimals as float64, other words as they are.
func number(text string) interface{} {
	if !plainNumber.MatchString(text) || text == "" || text == "-" {
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
		if n, err := x.Int64(); err == nil {
			return n
		}
		if f, err := x.Float64(); err == nil {
			return f
		}
		return x.String()
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

// set keeps --key.a.b VALUE; a plus at the end (--key.a+ x,y) makes a list of texts. Objects and lists are merged.
func (p *argParser) set(key, path, text string) {
	obj := p.dotted[key]
	if obj == nil {
		obj = map[string]interface{}{}
		p.dotted[key] = obj
	}
	path, add := strings.CutSuffix(path, "+")
	var v interface{} = parsed(text)
	if n, ok := humanCount(text); ok {
		v = n
	}
	if add {
		var items []interface{}
		for _, item := range strings.Split(text, ",") {
			items = append(items, item)
		}
		v = items
	}
	steps := strings.Split(path, ".")
	for i := len(steps) - 1; i >= 0; i-- {
		v = map[string]interface{}{steps[i]: v}
	}
	merge(obj, v.(map[string]interface{}))
}

// merge puts the keys of update into obj, objects key by key, lists one after the other.
func merge(obj, update map[string]interface{}) {
	for k, v := range update {
		switch old := obj[k].(type) {
		case map[string]interface{}:
			if more, ok := v.(map[string]interface{}); ok {
				merge(old, more)
				continue
			}
		case []interface{}:
			if more, ok := v.([]interface{}); ok {
				v = append(old, more...)
			}
		}
		obj[k] = v
	}
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
