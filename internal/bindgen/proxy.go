package main

import (
	"fmt"
	"go/types"
	"strings"
)

// unproxied says why no proxy can be written for an interface, or "" when one can.
func unproxied(it *types.Interface) string {
	names := map[string]bool{"Object": true} // the proxy's own field
	for m := range it.Methods() {
		names[m.Name()+"_"] = true
	}
	for m := range it.Methods() {
		switch {
		case !m.Exported():
			return "method " + m.Name() + " is not exported"
		case names[m.Name()]:
			return "method " + m.Name() + " has the name of a field of the proxy"
		}
		for _, tuple := range []*types.Tuple{m.Signature().Params(), m.Signature().Results()} {
			for v := range tuple.Variables() {
				if !nameable(v.Type()) {
					return "method " + m.Name() + " has a type that other packages cannot name"
				}
			}
		}
	}
	return ""
}

// nameable tells whether a package outside can write the type down.
func nameable(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return t.Kind() != types.Invalid && t.Kind() != types.UnsafePointer
	case *types.Alias:
		return nameableName(t.Obj()) && nameableArgs(t.TypeArgs())
	case *types.Named:
		return nameableName(t.Obj()) && nameableArgs(t.TypeArgs())
	case *types.Pointer:
		return nameable(t.Elem())
	case *types.Slice:
		return nameable(t.Elem())
	case *types.Array:
		return nameable(t.Elem())
	case *types.Chan:
		return nameable(t.Elem())
	case *types.Map:
		return nameable(t.Key()) && nameable(t.Elem())
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				if !nameable(v.Type()) {
					return false
				}
			}
		}
		return true
	case *types.Struct:
		for f := range t.Fields() {
			if !f.Exported() || !nameable(f.Type()) {
				return false
			}
		}
		return true
	case *types.Interface:
		return t.IsMethodSet() && unproxied(t) == ""
	}
	return false
}

func nameableName(obj *types.TypeName) bool {
	if obj.Pkg() == nil {
		return true // predeclared: error, any
	}
	return obj.Exported() && obj.Parent() == obj.Pkg().Scope() && !isInternal(obj.Pkg().Path())
}

func nameableArgs(args *types.TypeList) bool {
	for t := range args.Types() {
		if !nameable(t) {
			return false
		}
	}
	return true
}

// writeProxy writes the struct through which types declared in cells satisfy the interface, and returns its name.
func (g *generator) writeProxy(p *types.Package, name string, it *types.Interface) string {
	proxy := "proxy_" + g.alias(p) + "_" + name
	var fields, methods strings.Builder
	for m := range it.Methods() {
		sig := m.Signature()
		params, args := []string{}, []string{"p.Object"}
		for i := range sig.Params().Len() {
			typ := types.TypeString(sig.Params().At(i).Type(), g.alias)
			arg := fmt.Sprintf("a%d", i)
			if sig.Variadic() && i == sig.Params().Len()-1 {
				params = append(params, arg+" ..."+strings.TrimPrefix(typ, "[]"))
				args = append(args, arg+"...")
				continue
			}
			params = append(params, arg+" "+typ)
			args = append(args, arg)
		}
		var results []string
		for v := range sig.Results().Variables() {
			results = append(results, types.TypeString(v.Type(), g.alias))
		}
		give := ""
		if len(results) > 0 {
			give = "return "
		}
		fmt.Fprintf(&fields, "%s_ func(%s) (%s)\n", m.Name(),
			strings.Join(append([]string{"o interface{}"}, params...), ", "), strings.Join(results, ", "))
		fmt.Fprintf(&methods, "func (p *%s) %s(%s) (%s) { %sp.%s_(%s) }\n", proxy, m.Name(),
			strings.Join(params, ", "), strings.Join(results, ", "), give, m.Name(), strings.Join(args, ", "))
	}
	fmt.Fprintf(&g.proxies, "type %s struct {\nObject interface{}\n%s}\n\n%s\n", proxy, fields.String(), methods.String())
	return proxy
}
