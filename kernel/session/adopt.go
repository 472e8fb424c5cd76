package session

import (
	"go/types"
	"strings"
)

// adopt finds the earlier declarations that must be emitted again in this cell: the type (with its methods) for
// which a method comes late, and all functions, types and constants that depend on it. Variables of such types
// are declared again too, as pointers to the same memory: the layout of the new type is that of the old one.
// Hidden are imports that the texts of these variables' types need.
func (s *Session) adopt(chunks []*chunk) (out []*chunk, hidden map[string]entry) {
	declared := map[string]bool{}
	for _, k := range chunks {
		for _, name := range k.defines {
			declared[name] = true
		}
		if k.kind == kMethod {
			declared[k.recv+"."+k.name] = true
		}
	}
	stale := s.lateMethods(chunks, declared)
	if len(stale) == 0 {
		return nil, nil
	}
	take := s.dependents(stale)
	for _, d := range s.decls {
		if !take[d] || d.c.kind == kMethod && declared[d.c.recv+"."+d.c.name] || d.c.kind == kFunc && declared[d.c.name] {
			continue
		}
		k := *d.c
		k.adopted = true
		out = append(out, &k)
	}
	hidden = map[string]entry{}
	for _, name := range s.Variables() {
		v := s.env[name].obj
		if declared[name] {
			continue
		}
		if text, hit := s.typeInCells(v.Type(), stale, hidden); hit && text != "" {
			out = append(out, &chunk{kind: kVar, text: "var " + name + " " + text, cell: s.writtenIn(v), line: 1, col: 1,
				defines: []string{name}, adopted: true, migrate: v})
		}
	}
	return out, hidden
}

// lateMethods gives the types of earlier cells that get methods in this one.
func (s *Session) lateMethods(chunks []*chunk, declared map[string]bool) map[types.Object]bool {
	stale := map[types.Object]bool{}
	for _, k := range chunks {
		if k.kind != kMethod || declared[k.recv] {
			continue
		}
		if tn, ok := s.env[k.recv].obj.(*types.TypeName); ok && s.home[tn] > 0 {
			stale[tn] = true
		}
	}
	return stale
}

// dependents gives the declarations that make or use a stale object; what they declare becomes stale as well.
func (s *Session) dependents(stale map[types.Object]bool) map[*decl]bool {
	take := map[*decl]bool{}
	for changed := true; changed; {
		changed = false
		for _, d := range s.decls {
			if take[d] || !d.touches(stale) {
				continue
			}
			take[d], changed = true, true
			for _, o := range d.objs {
				stale[o] = true
			}
		}
	}
	return take
}

func (d *decl) touches(stale map[types.Object]bool) bool {
	for _, o := range d.objs {
		if stale[o] {
			return true
		}
	}
	for o := range d.uses {
		if stale[o] {
			return true
		}
	}
	return false
}

// typeInCells writes a type as a cell would. Hit says whether it mentions a stale type; the text is empty if the
// type cannot be written with the names that are valid now.
func (s *Session) typeInCells(t types.Type, stale map[types.Object]bool, hidden map[string]entry) (text string, hit bool) {
	ok := true
	eachName(t, func(o *types.TypeName) {
		hit = hit || stale[o]
		switch {
		case o.Pkg() == nil:
		case IsCell(o.Pkg()):
			ok = ok && s.env[o.Name()].obj == o
		default:
			ok = ok && o.Exported()
		}
	})
	if !ok || !hit {
		return "", hit
	}
	return textInCell(t, hidden), true
}

// textInCell writes a type as the text of a cell. Hidden gets the imports that it needs.
func textInCell(t types.Type, hidden map[string]entry) string {
	return types.TypeString(t, func(p *types.Package) string {
		if IsCell(p) {
			return ""
		}
		name := own + "i" + strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(p.Path())
		hidden[name] = entry{importPath: p.Path()}
		return name
	})
}

// eachName calls f for every type name in a type as it would be written, not for those in declarations of named types.
func eachName(t types.Type, f func(*types.TypeName)) {
	seen := map[types.Type]bool{}
	var walk func(t types.Type)
	args := func(l *types.TypeList) {
		for i := 0; i < l.Len(); i++ {
			walk(l.At(i))
		}
	}
	walk = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			f(t.Obj())
			args(t.TypeArgs())
		case *types.Named:
			f(t.Obj())
			args(t.TypeArgs())
		case *types.Map:
			walk(t.Key())
			walk(t.Elem())
		case interface{ Elem() types.Type }: // pointer, slice, array, chan
			walk(t.Elem())
		case *types.Signature:
			walk(t.Params())
			walk(t.Results())
		case *types.Tuple:
			for i := 0; i < t.Len(); i++ {
				walk(t.At(i).Type())
			}
		case *types.Struct:
			for i := 0; i < t.NumFields(); i++ {
				walk(t.Field(i).Type())
			}
		case *types.Interface:
			for i := 0; i < t.NumExplicitMethods(); i++ {
				walk(t.ExplicitMethod(i).Type())
			}
			for i := 0; i < t.NumEmbeddeds(); i++ {
				walk(t.EmbeddedType(i))
			}
		}
	}
	walk(t)
}
