package launch

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// supervisor follows the programs of a supervisord configuration: `command` is split like shell words but no shell runs it,
// `environment` is A="b",C="d" and comes after the [supervisord] section's, %(ENV_X)s is replaced in both.
func (r *reader) supervisor(name, text string) error {
	outer := newEnviron(false)
	outer.caller = r.ctx.Env
	sections := iniSections(text)
	for _, s := range sections {
		if s.name == "supervisord" {
			if err := supervisorEnv(s.values["environment"], "", name, outer); err != nil {
				return err
			}
		}
	}
	for _, s := range sections {
		program, ok := strings.CutPrefix(s.name, "program:")
		if !ok || r.ctx.Service != "" && r.ctx.Service != program {
			continue
		}
		err := r.service(program, func() error {
			env := outer.clone()
			if err := supervisorEnv(s.values["environment"], program, name, env); err != nil {
				return err
			}
			words, err := shellWords(percent(s.values["command"], program, name, env))
			if err != nil {
				return err
			}
			return r.command(words, env, strings.TrimPrefix(s.values["directory"], "/"))
		})
		if err != nil {
			return fmt.Errorf("program %s: %w", program, err)
		}
	}
	return nil
}

func supervisorEnv(list, program, file string, env *environ) error {
	words, err := shellWords(strings.ReplaceAll(percent(list, program, file, env), ",", " ,")) // a comma outside of quotes ends an item
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	for _, item := range words {
		if k, v, ok := strings.Cut(strings.TrimPrefix(item, ","), "="); ok {
			env.set(k, strings.ReplaceAll(v, " ,", ","))
		}
	}
	return nil
}

var percentMark = regexp.MustCompile(`%\(([A-Za-z0-9_]+)\)[0-9]*[sd]|%%`)

// percent replaces %(ENV_X)s, %(program_name)s, %(here)s and %%; what is not known stays a mark.
func percent(text, program, file string, env *environ) string {
	return percentMark.ReplaceAllStringFunc(text, func(mark string) string {
		if mark == "%%" {
			return "%"
		}
		name := percentMark.FindStringSubmatch(mark)[1]
		if variable, ok := strings.CutPrefix(name, "ENV_"); ok {
			if v, ok := env.lookup(variable); ok {
				return v
			}
			return "<runtime:" + variable + ">"
		}
		switch name {
		case "program_name", "group_name":
			return program
		case "process_num":
			return "0"
		case "here":
			return "/" + strings.TrimPrefix(path.Dir(file), ".")
		}
		return "<runtime:" + name + ">"
	})
}

type iniSection struct {
	name   string
	values map[string]string
}

// iniSections reads an INI file: indented lines go on with the value above, `;` after a blank begins a comment, lines that
// begin with # or ; are comments.
func iniSections(text string) []iniSection {
	var sections []iniSection
	key := ""
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r"), " ;")
		bare := strings.TrimSpace(line)
		switch {
		case bare == "" || bare[0] == '#' || bare[0] == ';':
		case bare[0] == '[' && bare[len(bare)-1] == ']':
			sections, key = append(sections, iniSection{bare[1 : len(bare)-1], map[string]string{}}), ""
		case len(sections) == 0:
		case line[0] == ' ' || line[0] == '\t':
			if key != "" {
				sections[len(sections)-1].values[key] += "\n" + bare
			}
		default:
			k, v, _ := strings.Cut(bare, "=")
			key = strings.ToLower(strings.TrimSpace(k))
			sections[len(sections)-1].values[key] = strings.TrimSpace(v)
		}
	}
	return sections
}
