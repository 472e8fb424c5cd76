package classify

import (
	_ "embed"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
)

//go:embed rules.txt
var rulesText string

// rule is one line of rules.txt.
type rule struct {
	line            int    // in rules.txt, from 1
	written         string // the line with single spaces
	priority        int
	component, part string
	block           Block // BlockAny: anywhere
	stream          string
	full            bool
	pattern         *regexp.Regexp
}

// ruleSet is the parsed file.
type ruleSet struct {
	rules                  []rule
	gemm, activation, norm *regexp.Regexp
}

// rules parses the embedded file once; a test proves that it parses.
var rules = sync.OnceValue(func() *ruleSet {
	set, err := parseRules(rulesText)
	if err != nil {
		panic(err)
	}
	return set
})

func parseRules(text string) (*ruleSet, error) {
	set := &ruleSet{}
	defined := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "define "); ok {
			name, pattern, _ := strings.Cut(strings.TrimSpace(rest), " ")
			defined[name] = strings.TrimSpace(pattern)
			continue
		}
		r, err := parseRule(line, defined)
		if err != nil {
			return nil, fmt.Errorf("rules.txt:%d: %w", i+1, err)
		}
		r.line, r.written = i+1, strings.Join(strings.Fields(line), " ")
		set.rules = append(set.rules, r)
	}
	sort.SliceStable(set.rules, func(i, j int) bool { return set.rules[i].priority > set.rules[j].priority })
	for name, to := range map[string]**regexp.Regexp{"gemm": &set.gemm, "activation": &set.activation, "norm": &set.norm} {
		p, err := regexp.Compile(defined[name])
		if err != nil || defined[name] == "" {
			return nil, fmt.Errorf("rules.txt: define %s: missing or %w", name, err)
		}
		*to = p
	}
	return set, nil
}

func parseRule(line string, defined map[string]string) (rule, error) {
	var r rule
	f := strings.Fields(line)
	if len(f) < 4 {
		return r, fmt.Errorf("expected priority, component, where and pattern, found %q", line)
	}
	var err error
	if r.priority, err = strconv.Atoi(f[0]); err != nil {
		return r, fmt.Errorf("priority %q is no number", f[0])
	}
	r.component, r.part, _ = strings.Cut(f[1], "/")
	if f[2] != "-" {
		for _, cond := range strings.Split(f[2], ",") {
			key, value, _ := strings.Cut(cond, "=")
			switch key {
			case "block":
				if r.block = blockNamed(value); r.block == BlockAny {
					return r, fmt.Errorf("unknown block %q", value)
				}
			case "stream":
				r.stream = value
			default:
				return r, fmt.Errorf("unknown condition %q", cond)
			}
		}
	}
	pattern := strings.Join(f[3:], " ")
	pattern, r.full = strings.CutPrefix(pattern, "full:")
	if name, ok := strings.CutPrefix(pattern, "@"); ok {
		if pattern = defined[name]; pattern == "" {
			return r, fmt.Errorf("@%s is not defined above", name)
		}
	}
	r.pattern, err = regexp.Compile(pattern)
	return r, err
}

// found returns the text of a name that the pattern finds; empty for a pattern that takes any name.
func (r *rule) found(name, function string) string {
	if r.pattern.String() == "." {
		return ""
	}
	return r.pattern.FindString(r.text(name, function))
}

// text is what the pattern is held to: the function part of the name, or all of it.
func (r *rule) text(name, function string) string {
	if r.full {
		return name
	}
	return function
}

// match returns what the first rule says for a name at a place.
func (s *ruleSet) match(name, function string, block Block, side bool) (component, part string) {
	if r := s.find(name, function, block, side); r != nil {
		return r.component, r.part
	}
	return Unknown, ""
}

// find returns the first rule for a name at a place; nil when there is none.
func (s *ruleSet) find(name, function string, block Block, side bool) *rule {
	for i := range s.rules {
		r := &s.rules[i]
		if r.block != BlockAny && r.block != block || r.stream == "side" && !side || r.stream == "main" && side {
			continue
		}
		if r.pattern.MatchString(r.text(name, function)) {
			return r
		}
	}
	return nil
}
