package session

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

const rt = own + "rt."

// rewrite collects the edits that make the cell's text code of the emitted world.
func (c *checker) rewrite() {
	topStmt := map[ast.Stmt]bool{}
	for _, st := range c.run.Body.List {
		for {
			topStmt[st] = true
			l, ok := st.(*ast.LabeledStmt)
			if !ok {
				break
			}
			st = l.Stmt
		}
	}
	c.recursive = c.findRecursive()
	member := map[*ast.Ident]bool{}
	var after []func() // of the nodes around the present one: what is to do when all inside has been visited
	ast.Inspect(c.file, func(n ast.Node) bool {
		if n == nil {
			if f := after[len(after)-1]; f != nil {
				f()
			}
			after = after[:len(after)-1]
			return true
		}
		var done func()
		switch n := n.(type) {
		case *ast.SelectorExpr:
			member[n.Sel] = true
			c.skip[n.Sel] = c.ofC(n)
			c.stdMember(n)
		case *ast.Ident:
			if !c.skip[n] {
				c.ident(n, member[n])
			}
		case *ast.StructType:
			c.embedded(n)
		case *ast.FuncDecl:
			c.funcDecl(n)
		case *ast.FuncLit:
			if c.callsOuter(n) {
				c.poll(n.Body)
			}
		case *ast.LabeledStmt:
			c.labels[n.Stmt] = n
		case *ast.ForStmt:
			done = c.forStmt(n)
		case *ast.RangeStmt:
			done = c.rangeStmt(n)
		case *ast.SelectStmt:
			c.selectStmt(n)
		case *ast.SendStmt:
			done = c.send(n)
		case *ast.UnaryExpr:
			done = c.receive(n)
		case *ast.ValueSpec:
			if len(n.Names) == 2 && len(n.Values) == 1 {
				c.commaOK(n.Values[0], c.info.TypeOf(n.Names[1]), n.Names[1].Name == "_")
			}
		case *ast.AssignStmt:
			c.assign(n, topStmt[n])
		case *ast.ExprStmt:
			done = c.exprStmt(n)
		case *ast.GoStmt:
			c.skip[n.Call] = true
			done = c.goStmt(n)
		case *ast.DeferStmt:
			c.direct[n.Call] = true
		case *ast.CallExpr:
			done = c.call(n)
		}
		after = append(after, done)
		return true
	})
}

// poll makes a block end when the cell is interrupted.
func (c *checker) poll(b *ast.BlockStmt) { c.insert(b.Lbrace+1, rt+"Poll();") }

func (c *checker) funcDecl(d *ast.FuncDecl) {
	if d.Body != nil && c.recursive[d] {
		c.poll(d.Body)
	}
	if d.Recv == nil && d.Name.Name == "init" {
		c.inits = append(c.inits, fmt.Sprintf("%sinit%d", own, len(c.inits)+1))
		c.replace(d.Name.Pos(), d.Name.End(), c.inits[len(c.inits)-1])
	}
}

// exprStmt displays the last expression of the cell, and gives idle ones a place to go to.
func (c *checker) exprStmt(n *ast.ExprStmt) func() {
	if n.X == c.show {
		c.insert(n.Pos(), own+"c.Show(")
		return func() { c.insert(n.End(), ")") }
	}
	if c.idle[n.X] {
		c.insert(n.Pos(), "_ = ")
	}
	return nil
}

// assign turns a := of a cell's own level into an assignment to package-level variables.
func (c *checker) assign(n *ast.AssignStmt, top bool) {
	if len(n.Lhs) == 2 && len(n.Rhs) == 1 {
		id, _ := n.Lhs[1].(*ast.Ident)
		c.commaOK(n.Rhs[0], c.info.TypeOf(n.Lhs[1]), id != nil && id.Name == "_")
	}
	if n.Tok != token.DEFINE || !top {
		return
	}
	c.replace(n.TokPos, n.TokPos+2, "=")
	for i, l := range n.Lhs {
		id, ok := l.(*ast.Ident)
		if !ok || id.Name == "_" {
			continue
		}
		if v, ok := c.info.Defs[id].(*types.Var); ok {
			c.variable(v, n.Rhs, i)
		}
	}
}

// variable notes a top-level variable and the expression that it got its type from: values[i], or result i of a call.
func (c *checker) variable(v *types.Var, values []ast.Expr, i int) {
	g := global{v: v, index: i}
	switch {
	case len(values) == 1:
		g.from = values[0]
	case i < len(values):
		g.from, g.index = values[i], 0
	}
	c.vars = append(c.vars, g)
}

// ident renames an identifier as its object asks for.
func (c *checker) ident(id *ast.Ident, isMember bool) {
	o := c.info.Uses[id]
	if o == nil {
		if o = c.info.Defs[id]; o == nil {
			return
		}
	}
	if name := c.newName(o, isMember); name != "" && name != id.Name {
		c.replace(id.Pos(), id.End(), name)
	}
}

// newName is the name of an object in the emitted text; empty if the name stays as it is.
func (c *checker) newName(o types.Object, isMember bool) string {
	switch x := o.(type) {
	case *types.PkgName:
		if x.Imported().Path() == "C" {
			return ""
		}
		return c.alias(x.Imported().Path())
	case *types.Label:
		return ""
	case *types.Var:
		if x.IsField() {
			return c.memberName(x)
		}
	case *types.Func:
		if x.Signature().Recv() != nil {
			return c.memberName(x)
		}
		if x.Name() == "init" || x.Name() == RunName {
			return ""
		}
	}
	if c.known(o) || c.topLevel(o) {
		return c.ref(o)
	}
	if !isMember && o.Pkg() != nil && !IsCell(o.Pkg()) && o.Parent() == o.Pkg().Scope() { // a dot import
		return c.ref(o)
	}
	return ""
}

// memberName is the name of a field or method.
func (c *checker) memberName(o types.Object) string {
	if IsCell(o.Pkg()) && !c.s.fromC(o) {
		return mangle(o.Name())
	}
	return ""
}

// known: an object of an earlier cell.
func (c *checker) known(o types.Object) bool { _, ok := c.s.home[o]; return ok }

// topLevel reports whether o is declared by this cell outside all blocks.
func (c *checker) topLevel(o types.Object) bool {
	return o.Parent() != nil && (o.Parent() == c.top || o.Parent() == c.scope)
}

// ref is how the emitted text refers to a package-level object.
func (c *checker) ref(o types.Object) string {
	if k, ok := c.s.home[o]; ok {
		c.cells[k] = true
		name := fmt.Sprintf("%sc%d.%s", own, k, mangle(o.Name()))
		if c.s.ptr[o] {
			return "(*" + name + ")"
		}
		return name
	}
	switch {
	case o.Pkg() == nil:
		return o.Name()
	case !IsCell(o.Pkg()):
		return c.alias(o.Pkg().Path()) + "." + o.Name()
	case c.ptrs[o] != nil:
		return "(*" + mangle(o.Name()) + ")"
	}
	return mangle(o.Name())
}

// alias is the name under which a package is imported.
func (c *checker) alias(path string) string {
	a := c.aliases[path]
	if a == "" {
		a = fmt.Sprintf("%sp%d", own, len(c.aliases))
		c.aliases[path] = a
	}
	return a
}

// embedded gives predeclared types that a struct embeds an exported alias, so that later cells can use the field.
func (c *checker) embedded(st *ast.StructType) {
	for _, f := range st.Fields.List {
		if len(f.Names) > 0 {
			continue
		}
		x := ast.Unparen(f.Type)
		if p, ok := x.(*ast.StarExpr); ok {
			x = ast.Unparen(p.X)
		}
		if id, ok := x.(*ast.Ident); ok {
			if o := c.info.Uses[id]; o != nil && o.Pkg() == nil {
				c.replace(id.Pos(), id.End(), c.predeclared(id.Name))
			}
		}
	}
}

// predeclared is an alias of a type of the universe.
func (c *checker) predeclared(name string) string {
	c.basics[name] = true
	return mangle(name)
}
