package launch

import (
	"maps"
	"slices"
	"strings"
)

// environ is the environment of a process: what the levels so far have set.
type environ struct {
	vars   map[string]Var
	caller map[string]string // known, but set by nobody whom the files show
	closed bool              // nothing else can be set: a unit or a container; a shell's caller may have set more
}

func newEnviron(closed bool) *environ { return &environ{vars: map[string]Var{}, closed: closed} }

func (e *environ) set(name, value string) {
	e.vars[name] = Var{Name: name, Value: value}
}

func (e *environ) unknown(name string) {
	e.vars[name] = Var{Name: name, Unknown: true}
}

// pass hands a variable of e on to the inner environment under the same name, as `docker run -e NAME` does.
func (e *environ) pass(name string, inner *environ) {
	v, ok := e.vars[name]
	value, known := e.caller[name]
	switch {
	case ok:
		inner.vars[name] = v
	case known:
		inner.set(name, value)
	case !e.closed:
		inner.unknown(name)
	}
}

// drop unsets a variable, also one of the caller.
func (e *environ) drop(name string) {
	delete(e.vars, name)
	e.caller = maps.Clone(e.caller)
	delete(e.caller, name)
}

func (e *environ) clone() *environ {
	c := &environ{vars: make(map[string]Var, len(e.vars)), caller: e.caller, closed: e.closed}
	for k, v := range e.vars {
		c.vars[k] = v
	}
	return c
}

func (e *environ) sorted() []Var {
	list := make([]Var, 0, len(e.vars))
	for _, v := range e.vars {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// lookup returns the text of a variable for replacing: unknown ones become a mark.
func (e *environ) lookup(name string) (string, bool) {
	if v, ok := e.vars[name]; ok {
		if v.Unknown {
			return "<runtime:" + name + ">", true
		}
		return v.Value, true
	}
	value, ok := e.caller[name]
	return value, ok
}
