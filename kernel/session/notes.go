package session

import (
	"fmt"
	"go/types"
	"sort"
)

// notes tells what keeps the old meaning of a name that this cell declares anew: variables whose type was redefined,
// and functions and types that refer to what was replaced. An unchanged function or constant is no news.
func (c *checker) notes() (out []string) {
	s := c.s
	fresh := map[string]bool{}          // what this cell declares
	replaced := map[types.Object]bool{} // what that meant before
	for _, o := range c.declares() {
		fresh[o.Name()] = true
		old := s.env[o.Name()].obj
		if old != nil && s.home[old] > 0 && (anew(o) || s.texts[old] != c.textOf(o)) {
			replaced[old] = true
		}
	}
	for _, k := range c.chunks {
		if k.kind == kMethod {
			fresh[k.recv+"."+k.name] = true
		}
	}
	boxed := c.takenOver()
	for o := range replaced {
		if t, ok := o.(*types.TypeName); ok {
			boxed = append(boxed, t)
		}
	}
	if len(replaced)+len(boxed) == 0 {
		return nil
	}
	note := func(name string, cell int, what string) {
		out = append(out, fmt.Sprintf("%s (cell %d) still %s; run that cell again", name, cell, what))
	}
	for _, name := range s.Variables() {
		if fresh[name] {
			continue
		}
		v, old := s.env[name].obj, ""
		eachName(v.Type(), func(o *types.TypeName) {
			if replaced[o] && old == "" {
				old = o.Name()
			}
		})
		if old != "" {
			note(name, s.writtenIn(v), "has the old "+old)
		} else if old := inInterface(v.Type(), boxed); old != "" {
			note(name, s.writtenIn(v), "has the old "+old+" where it holds one in an interface")
		}
	}
	for _, d := range s.decls {
		name := d.name()
		if fresh[name] || d.c.kind == kMethod && fresh[d.c.recv] || d.c.kind == kConst || !s.inForce(d) {
			continue
		}
		var used []string
		for o := range d.uses {
			if replaced[o] {
				used = append(used, verb(o)+" the old "+o.Name())
			}
		}
		sort.Strings(used)
		for _, u := range used {
			note(name, d.c.cell, u)
		}
	}
	return out
}

// takenOver are the types that this cell makes anew because a method came late. Variables of them move along, values in
// interfaces cannot.
func (c *checker) takenOver() (out []*types.TypeName) {
	for _, k := range c.chunks {
		if !k.adopted || k.kind != kType {
			continue
		}
		for _, name := range k.defines {
			if t, ok := c.s.env[name].obj.(*types.TypeName); ok {
				out = append(out, t)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name() < out[j].Name() })
	return out
}

// inInterface names one of some types whose values may be in an interface that a value of type t holds. Interfaces
// without methods do not count: they may hold anything, and mostly hold something else.
func inInterface(t types.Type, old []*types.TypeName) (name string) {
	seen := map[types.Type]bool{}
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if name != "" || seen[t] {
			return
		}
		seen[t] = true
		if n, ok := types.Unalias(t).(*types.Named); ok && !IsCell(n.Obj().Pkg()) && !types.IsInterface(n) {
			return
		}
		switch u := t.Underlying().(type) {
		case *types.Interface:
			for _, o := range old {
				if n, ok := o.Type().(*types.Named); !ok || n.TypeParams().Len() > 0 {
					continue // many types
				}
				if name == "" && u.NumMethods() > 0 && types.Implements(types.NewPointer(o.Type()), u) {
					name = o.Name()
				}
			}
		case *types.Struct:
			for i := range u.NumFields() {
				walk(u.Field(i).Type())
			}
		case *types.Map:
			walk(u.Key())
			walk(u.Elem())
		case interface{ Elem() types.Type }:
			walk(u.Elem())
		}
	}
	walk(t)
	return name
}

// name is how a note calls the declaration.
func (d *decl) name() string {
	switch {
	case d.c.kind == kMethod:
		return d.c.recv + "." + d.c.name
	case len(d.objs) > 0:
		return d.objs[0].Name()
	}
	return d.c.name
}

// anew tells whether declaring an object again makes another one even if the text is the same.
func anew(o types.Object) bool {
	switch o.(type) {
	case *types.TypeName, *types.Var:
		return true
	}
	return false
}

func verb(o types.Object) string {
	if _, ok := o.(*types.Func); ok {
		return "calls"
	}
	return "uses"
}

// textOf is the chunk that declares an object of this cell.
func (c *checker) textOf(o types.Object) string {
	if k := c.chunkOf(o.Pos()); k != nil {
		return k.text
	}
	return ""
}

// declares lists what this cell adds to the session, variables of statements last: they shadow.
func (c *checker) declares() (out []types.Object) {
	for _, scope := range []*types.Scope{c.top, c.scope} {
		for _, name := range scope.Names() {
			if o := scope.Lookup(name); c.chunkOf(o.Pos()) != nil {
				out = append(out, o)
			}
		}
	}
	return out
}
