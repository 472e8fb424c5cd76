package session

import (
	"go/ast"
	"go/types"
)

// This file finds what may call itself: an interrupt must end it although it has no loop.

// findRecursive finds the functions and methods of the cell that may come to call themselves. Functions of earlier
// cells call only what was declared by then, so all are within the cell. A call by an interface may reach each method
// of that name.
func (c *checker) findRecursive() map[*ast.FuncDecl]bool {
	decls := map[types.Object]*ast.FuncDecl{}
	methods := map[string][]*ast.FuncDecl{}
	for _, d := range c.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f != c.run {
			decls[c.info.Defs[f.Name]] = f
			if f.Recv != nil {
				methods[f.Name.Name] = append(methods[f.Name.Name], f)
			}
		}
	}
	calls := map[*ast.FuncDecl][]*ast.FuncDecl{}
	for _, d := range decls {
		ast.Inspect(d.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			f, ok := c.info.Uses[id].(*types.Func)
			if !ok {
				return true
			}
			if to := decls[f.Origin()]; to != nil {
				calls[d] = append(calls[d], to)
			} else if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
				calls[d] = append(calls[d], methods[f.Name()]...)
			}
			return true
		})
	}
	recursive := map[*ast.FuncDecl]bool{}
	for _, d := range decls {
		recursive[d] = reaches(calls, d, d, map[*ast.FuncDecl]bool{})
	}
	return recursive
}

// reaches tells whether a call of from may come to call to.
func reaches(calls map[*ast.FuncDecl][]*ast.FuncDecl, from, to *ast.FuncDecl, seen map[*ast.FuncDecl]bool) bool {
	for _, d := range calls[from] {
		if d == to {
			return true
		}
		if !seen[d] {
			seen[d] = true
			if reaches(calls, d, to, seen) {
				return true
			}
		}
	}
	return false
}

// callsOuter tells whether a function literal calls a variable from outside itself: that may hold the literal.
func (c *checker) callsOuter(f *ast.FuncLit) (yes bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !yes
		}
		id, ok := ast.Unparen(call.Fun).(*ast.Ident)
		if !ok {
			return !yes
		}
		v, ok := c.info.Uses[id].(*types.Var)
		yes = yes || ok && (v.Pos() < f.Pos() || f.End() <= v.Pos())
		return !yes
	})
	return yes
}
