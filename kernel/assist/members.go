package assist

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/rooflab/rooflab/kernel/serve"
)

// selector offers what may follow a dot.
func (q *query) selector(sel *ast.SelectorExpr) {
	if id, ok := ast.Unparen(sel.X).(*ast.Ident); ok {
		switch o := q.info.Uses[id].(type) {
		case *types.PkgName:
			q.exported(o.Imported(), "")
			return
		case nil:
			for _, p := range q.a.lib.called(id.Name) {
				if q.exported(nil, p); len(q.list) > 0 {
					return
				}
			}
			return
		}
	}
	tv, ok := q.info.Types[sel.X]
	if !ok || !known(tv.Type) {
		return
	}
	q.members(tv)
}

// exported offers the names of a package. One that is not read, or not imported, is known by its source.
func (q *query) exported(pkg *types.Package, path string) {
	if pkg != nil && pkg.Complete() && len(pkg.Scope().Names()) > 0 {
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				q.object(o, imported)
			}
		}
		return
	}
	note := ""
	if pkg != nil {
		path = pkg.Path()
	} else {
		note = ` (import "` + path + `")`
	}
	s := q.a.lib.source(path)
	if s == nil {
		return
	}
	for _, it := range s.items() {
		q.add(candidate{Match: serve.Match{Text: it.name, Type: it.kind, Signature: strings.TrimSpace(s.signature(it) + note)}, level: imported})
	}
}

// members offers the fields and methods of a value, or the methods of a type.
func (q *query) members(tv types.TypeAndValue) {
	t := tv.Type
	if tv.IsValue() {
		for depth, level := range fieldLevels(t) {
			for _, f := range level {
				if visible(f) {
					q.object(f, depth)
				}
			}
		}
	}
	recv := t
	if _, isPointer := t.Underlying().(*types.Pointer); tv.Addressable() && !isPointer && !types.IsInterface(t) {
		recv = types.NewPointer(t)
	}
	set := types.NewMethodSet(recv)
	for m := range set.Methods() {
		if visible(m.Obj()) {
			q.object(m.Obj(), len(m.Index())-1)
		}
	}
}

// fieldLevels lists a struct's fields, then those that it gets from embedded structs, level by level.
func fieldLevels(t types.Type) (levels [][]*types.Var) {
	seen := map[types.Type]bool{}
	taken := map[string]bool{}
	for next := []types.Type{t}; len(next) > 0; {
		var level []*types.Var
		var embedded []types.Type
		count := map[string]int{}
		for _, t := range next {
			if p, ok := t.Underlying().(*types.Pointer); ok {
				t = p.Elem()
			}
			st, ok := t.Underlying().(*types.Struct)
			if !ok || seen[t] {
				continue
			}
			seen[t] = true
			for f := range st.Fields() {
				count[f.Name()]++
				if !taken[f.Name()] {
					level = append(level, f)
				}
				if f.Embedded() {
					embedded = append(embedded, f.Type())
				}
			}
		}
		var clear []*types.Var // a name that two structs of a level have is ambiguous
		for _, f := range level {
			if taken[f.Name()] = true; count[f.Name()] == 1 {
				clear = append(clear, f)
			}
		}
		levels, next = append(levels, clear), embedded
	}
	return levels
}

// wanted is the type that the place of the first node asks for, or nil.
func (q *query) wanted(path []ast.Node) types.Type {
	if len(path) < 2 {
		return nil
	}
	x, _ := path[0].(ast.Expr)
	switch p := path[1].(type) {
	case *ast.CallExpr:
		sig, ok := q.info.TypeOf(p.Fun).(*types.Signature)
		if !ok || p.Fun == x {
			return nil
		}
		for i, arg := range p.Args {
			if arg == x {
				return param(sig, i)
			}
		}
	case *ast.AssignStmt:
		for i, r := range p.Rhs {
			if r == x && len(p.Lhs) == len(p.Rhs) {
				return q.settled(q.info.TypeOf(p.Lhs[i]))
			}
		}
	case *ast.ValueSpec:
		if p.Type != nil && p.Type != x {
			return q.settled(q.info.TypeOf(p.Type))
		}
	case *ast.BinaryExpr:
		if p.Y == x {
			return q.settled(q.info.TypeOf(p.X))
		}
	case *ast.KeyValueExpr:
		if lit, ok := path[2].(*ast.CompositeLit); ok && p.Value == x {
			return q.elem(lit, p.Key)
		}
	case *ast.ReturnStmt:
		return q.result(path, p, x)
	}
	return nil
}

func (q *query) settled(t types.Type) types.Type {
	if !known(t) {
		return nil
	}
	return types.Default(t)
}

// param is the type of the ith argument.
func param(sig *types.Signature, i int) types.Type {
	n := sig.Params().Len()
	if sig.Variadic() && i >= n-1 {
		if s, ok := sig.Params().At(n - 1).Type().(*types.Slice); ok {
			return s.Elem()
		}
		return nil
	}
	if i >= n {
		return nil
	}
	return sig.Params().At(i).Type()
}

// elem is the type of what belongs to a key in a composite literal.
func (q *query) elem(lit *ast.CompositeLit, key ast.Expr) types.Type {
	t := q.info.TypeOf(lit)
	if !known(t) {
		return nil
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		id, ok := key.(*ast.Ident)
		for f := range u.Fields() {
			if ok && f.Name() == id.Name {
				return f.Type()
			}
		}
	case interface{ Elem() types.Type }:
		return u.Elem()
	}
	return nil
}

// result is the type of a function's result in whose place an expression stands.
func (q *query) result(path []ast.Node, ret *ast.ReturnStmt, x ast.Expr) types.Type {
	for _, n := range path {
		var t *ast.FuncType
		switch f := n.(type) {
		case *ast.FuncDecl:
			t = f.Type
		case *ast.FuncLit:
			t = f.Type
		default:
			continue
		}
		var results []types.Type
		if t.Results != nil {
			for _, f := range t.Results.List {
				for range max(1, len(f.Names)) {
					results = append(results, q.info.TypeOf(f.Type))
				}
			}
		}
		for i, r := range ret.Results {
			if r == x && i < len(results) {
				return q.settled(results[i])
			}
		}
		return nil
	}
	return nil
}
