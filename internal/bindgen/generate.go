package main

import (
	"bytes"
	"fmt"
	"go/constant"
	"go/format"
	"go/types"
	"slices"
	"strings"
)

// Generate returns the source of the file for the packages that the patterns name in the module at dir, and one
// line for each exported symbol that cells cannot use.
func Generate(dir string, patterns []string) (src []byte, skipped []string, err error) {
	pkgs, err := load(dir, patterns)
	if err != nil {
		return nil, nil, err
	}
	g := &generator{aliases: map[string]string{}}
	for _, p := range pkgs {
		g.bind(p)
	}
	src, err = format.Source(g.file())
	if err != nil {
		return nil, nil, fmt.Errorf("format the bindings: %w", err)
	}
	return src, g.skipped, nil
}

type generator struct {
	aliases map[string]string // import path -> its name in the file
	entries bytes.Buffer      // assignments to imports.Packages
	proxies bytes.Buffer      // declarations of proxy types
	skipped []string
}

// alias returns the name of a package in the file and makes the file import it. Numbers keep packages apart that
// have the same name.
func (g *generator) alias(p *types.Package) string {
	name, ok := g.aliases[p.Path()]
	if !ok {
		name = fmt.Sprintf("p%d_%s", len(g.aliases), p.Name())
		g.aliases[p.Path()] = name
	}
	return name
}

func (g *generator) skip(p *types.Package, symbol, reason string) {
	g.skipped = append(g.skipped, fmt.Sprintf("%s.%s: %s", p.Path(), symbol, reason))
}

// tables are the elements of the maps of one imports.Package, as source.
type tables struct{ binds, types, proxies, untypeds, wrappers []string }

// bind writes the entry of one package.
func (g *generator) bind(p *types.Package) {
	var t tables
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Const:
			g.bindConst(p, obj, &t)
		case *types.Var:
			t.binds = append(t.binds, fmt.Sprintf("%q: r.ValueOf(&%s.%s).Elem()", name, g.alias(p), name))
		case *types.Func:
			if obj.Signature().TypeParams().Len() > 0 {
				g.skip(p, name, "generic function")
				continue
			}
			t.binds = append(t.binds, fmt.Sprintf("%q: r.ValueOf(%s.%s)", name, g.alias(p), name))
		case *types.TypeName:
			g.bindType(p, obj, &t)
		}
	}
	fmt.Fprintf(&g.entries, "imports.Packages[%q] = imports.Package{Name: %q,\n", p.Path(), p.Name())
	for _, m := range []struct {
		field, typ string
		elements   []string
	}{
		{"Binds", "map[string]r.Value", t.binds},
		{"Types", "map[string]r.Type", t.types},
		{"Proxies", "map[string]r.Type", t.proxies},
		{"Untypeds", "map[string]string", t.untypeds},
		{"Wrappers", "map[string][]string", t.wrappers},
	} {
		if len(m.elements) > 0 {
			fmt.Fprintf(&g.entries, "%s: %s{\n%s,\n},\n", m.field, m.typ, strings.Join(m.elements, ",\n"))
		}
	}
	fmt.Fprint(&g.entries, "}\n")
}

// bindConst writes a constant as a value and, when it has no type, also exactly, as text.
func (g *generator) bindConst(p *types.Package, c *types.Const, t *tables) {
	expr := func() string { return g.alias(p) + "." + c.Name() }
	basic, ok := c.Type().(*types.Basic)
	if !ok || basic.Info()&types.IsUntyped == 0 {
		t.binds = append(t.binds, fmt.Sprintf("%q: r.ValueOf(%s)", c.Name(), expr()))
		return
	}
	t.untypeds = append(t.untypeds, fmt.Sprintf("%q: %q", c.Name(), untyped(basic, c.Val())))
	if conv, fits := conversion(basic, c.Val()); fits {
		t.binds = append(t.binds, fmt.Sprintf("%q: r.ValueOf(%s)", c.Name(), fmt.Sprintf(conv, expr())))
	}
}

// conversion returns the format that gives an untyped constant a Go type which holds it on every platform. A
// constant that fits no type exists for cells only as an operand.
func conversion(b *types.Basic, v constant.Value) (format string, fits bool) {
	switch b.Kind() {
	case types.UntypedInt:
		if n, ok := constant.Int64Val(v); ok {
			if n == int64(int32(n)) {
				return "%s", true
			}
			return "int64(%s)", true
		}
		_, ok := constant.Uint64Val(v)
		return "uint64(%s)", ok
	case types.UntypedFloat:
		return "%s", constant.Compare(magnitude(v), lessOrEqual, maxFloat64)
	case types.UntypedComplex:
		return "%s", constant.Compare(magnitude(constant.Real(v)), lessOrEqual, maxFloat64) &&
			constant.Compare(magnitude(constant.Imag(v)), lessOrEqual, maxFloat64)
	}
	return "%s", true
}

// bindType writes a type, the proxy of an interface and the promoted methods of a struct.
func (g *generator) bindType(p *types.Package, obj *types.TypeName, t *tables) {
	name := obj.Name()
	if isGeneric(obj.Type()) {
		g.skip(p, name, "generic type")
		return
	}
	under := obj.Type().Underlying()
	iface, _ := under.(*types.Interface)
	if iface != nil && !iface.IsMethodSet() {
		g.skip(p, name, "constraint interface")
		return
	}
	t.types = append(t.types, fmt.Sprintf("%q: r.TypeOf((*%s.%s)(nil)).Elem()", name, g.alias(p), name))
	if iface != nil && iface.NumMethods() > 0 {
		if reason := unproxied(iface); reason != "" {
			g.skip(p, name, "a type declared in a cell cannot implement it: "+reason)
			return
		}
		t.proxies = append(t.proxies, fmt.Sprintf("%q: r.TypeOf((*%s)(nil)).Elem()", name, g.writeProxy(p, name, iface)))
	}
	if named, ok := types.Unalias(obj.Type()).(*types.Named); ok {
		if _, ok := under.(*types.Struct); ok {
			if methods := promoted(named); len(methods) > 0 {
				t.wrappers = append(t.wrappers, fmt.Sprintf("%q: {%s}", name, strings.Join(methods, ", ")))
			}
		}
	}
}

func isGeneric(t types.Type) bool {
	switch t := t.(type) {
	case *types.Alias:
		return t.TypeParams().Len() > t.TypeArgs().Len() || isGeneric(t.Rhs())
	case *types.Named:
		return t.TypeParams().Len() > t.TypeArgs().Len()
	}
	return false
}

// promoted returns the quoted names of the methods that a struct has only by embedding: reflection cannot tell
// them from its own.
func promoted(t *types.Named) []string {
	own := map[string]bool{}
	for m := range t.Methods() {
		own[m.Name()] = true
	}
	var names []string
	for sel := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if m := sel.Obj(); m.Exported() && !own[m.Name()] {
			names = append(names, fmt.Sprintf("%q", m.Name()))
		}
	}
	return names
}

// file puts the parts together.
func (g *generator) file() []byte {
	var paths []string
	for path := range g.aliases {
		paths = append(paths, path)
	}
	slices.Sort(paths)

	var b bytes.Buffer
	fmt.Fprint(&b, "// Code generated by bindgen. DO NOT EDIT.\n\npackage main\n\nimport (\n")
	fmt.Fprint(&b, "r \"reflect\"\n\n\"github.com/cosmos72/gomacro/imports\"\n")
	for _, path := range paths {
		fmt.Fprintf(&b, "%s %q\n", g.aliases[path], path)
	}
	fmt.Fprintf(&b, ")\n\nfunc init() {\n%s}\n\n%s", g.entries.Bytes(), g.proxies.Bytes())
	return b.Bytes()
}
