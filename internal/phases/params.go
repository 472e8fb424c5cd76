package phases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// ParamError means that no notebook of the run declares a parameter, which would be ignored in silence, or that a value does
// not fit the variable of its name.
type ParamError struct {
	Unknown []string
	Known   []string // sorted
	Value   error    // what is wrong with a value; nil when names are
}

func (e *ParamError) Error() string {
	if e.Value != nil {
		return e.Value.Error()
	}
	return fmt.Sprintf("no notebook of these phases has a parameter %s; there are %s", strings.Join(e.Unknown, ", "), strings.Join(e.Known, ", "))
}

// CheckParams returns a *ParamError when a parameter is meant for none of the phases to run, or its value does not fit.
func (o Options) CheckParams() error {
	if len(o.Params) == 0 {
		return nil
	}
	todo, err := o.phases()
	if err != nil {
		return err
	}
	e := &ParamError{}
	for _, p := range todo {
		nb, names, err := parameterNames(o.Dir, p)
		if err != nil {
			return err
		}
		e.Known = append(e.Known, names...)
		if err := nbclient.CheckGoParams(nb, among(names, o.Params)); err != nil && e.Value == nil {
			e.Value = err
		}
	}
	slices.Sort(e.Known)
	e.Known = slices.Compact(e.Known)
	for _, v := range o.Params {
		if !slices.Contains(e.Known, v.Name) {
			e.Unknown = append(e.Unknown, v.Name)
		}
	}
	if e.Unknown == nil && e.Value == nil {
		return nil
	}
	return e
}

// declared picks the parameters that a notebook's parameters cell declares; the others are meant for other notebooks.
func declared(dir string, p notebooks.Phase, params []nbclient.Param) ([]nbclient.Param, error) {
	if len(params) == 0 {
		return nil, nil
	}
	_, names, err := parameterNames(dir, p)
	return among(names, params), err
}

func parameterNames(dir string, p notebooks.Phase) (*nbformat.Notebook, []string, error) {
	nb, err := readNotebook(dir, p)
	if err != nil {
		return nil, nil, err
	}
	names, err := nbclient.GoParameters(nb)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", notebookPath(dir, p), err)
	}
	return nb, names, nil
}

func among(names []string, params []nbclient.Param) (out []nbclient.Param) {
	for _, v := range params {
		if slices.Contains(names, v.Name) {
			out = append(out, v)
		}
	}
	return out
}

// readNotebook reads the campaign's own notebook, which may have been edited, else the built-in one.
func readNotebook(dir string, p notebooks.Phase) (*nbformat.Notebook, error) {
	name := notebookPath(dir, p)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = notebooks.Read(p.Notebook)
	}
	if err != nil {
		return nil, err
	}
	nb, _, err := nbformat.Parse(name, b)
	return nb, err
}
