package phases

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

var declaration = regexp.MustCompile(`(?m)^\s*(?:var\s+)?([\pL_][\pL\d_]*)\s*(?::?=|\s\S+\s*=)`)

// declared picks the parameters that a notebook's parameters cell declares; the others are meant for other notebooks.
func declared(p notebooks.Phase, params []nbclient.Param) ([]nbclient.Param, error) {
	names, err := parameterNames(p)
	if err != nil {
		return nil, err
	}
	var out []nbclient.Param
	for _, v := range params {
		if names[v.Name] {
			out = append(out, v)
		}
	}
	return out, nil
}

// CheckParams refuses a parameter that no notebook declares: it would be ignored in silence.
func CheckParams(params []nbclient.Param) error {
	known := map[string]bool{}
	var list []string
	for _, p := range notebooks.Phases() {
		names, err := parameterNames(p)
		if err != nil {
			return err
		}
		for n := range names {
			known[n] = true
		}
	}
	for _, v := range params {
		if !known[v.Name] {
			list = append(list, v.Name)
		}
	}
	if len(list) > 0 {
		return fmt.Errorf("no notebook has a parameter %s", strings.Join(list, ", "))
	}
	return nil
}

func parameterNames(p notebooks.Phase) (map[string]bool, error) {
	b, err := notebooks.Read(p.Notebook)
	if err != nil {
		return nil, err
	}
	nb, _, err := nbformat.Parse(p.Notebook, b)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, c := range nb.Cells {
		for _, tag := range c.Tags() {
			if tag != "parameters" {
				continue
			}
			for _, m := range declaration.FindAllStringSubmatch(c.Source, -1) {
				names[m[1]] = true
			}
		}
	}
	return names, nil
}
