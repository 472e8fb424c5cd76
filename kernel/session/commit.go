package session

import (
	"go/ast"
	"go/types"
)

// commit moves the cell's declarations into the session.
func (c *checker) commit() {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source[c.n] = c.src
	for name, e := range c.imports {
		if e.importPath != "C" {
			s.env[name] = e
		}
	}
	for _, o := range c.declares() {
		text := c.textOf(o)
		if o.Parent() == c.scope { // a variable of a statement: in later cells it is one of the package
			o = types.NewVar(o.Pos(), c.pkg, o.Name(), o.Type())
		}
		s.env[o.Name()] = entry{obj: o}
		s.home[o] = c.n
		s.texts[o] = text
	}
	for o := range c.ptrs {
		s.ptr[o] = true
	}
	decls := c.newDecls()
	s.forget()
	s.decls = append(s.decls, decls...)
}

// newDecls are the declarations of this cell that may have to be emitted again.
func (c *checker) newDecls() (out []*decl) {
	made := map[*chunk]*decl{}
	for _, d := range c.file.Decls {
		k := c.chunkOf(d.Pos())
		if k == nil || k.kind == kVar || k.kind == kStmt || k.kind == kFunc && k.name == "init" {
			continue
		}
		if made[k] == nil {
			kk := *k
			kk.off, kk.end, kk.adopted = 0, 0, false
			made[k] = &decl{c: &kk, uses: map[types.Object]bool{}, names: map[string]entry{}}
		}
		c.references(d, made[k])
	}
	for _, k := range c.chunks {
		if d := made[k]; d != nil {
			out = append(out, d)
		}
	}
	return out
}

// references notes what a declaration makes and what it refers to.
func (c *checker) references(d ast.Decl, nd *decl) {
	s := c.s
	member := map[*ast.Ident]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok {
			member[x.Sel] = true
		}
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if o := c.info.Defs[id]; o != nil && s.home[o] > 0 {
			nd.objs = append(nd.objs, o)
			return true
		}
		o := c.info.Uses[id]
		if o == nil || member[id] {
			return true
		}
		if c.predecl[id.Name] != nil && o.Parent() == c.top {
			o = s.env[id.Name].obj // what was checked only stood for the := variable of this cell
		}
		_, isPkg := o.(*types.PkgName)
		cell := s.home[o] > 0
		if cell {
			nd.uses[o] = true
		}
		if cell || isPkg || o.Parent() == types.Universe || o.Pkg() != nil && !IsCell(o.Pkg()) && o.Parent() == o.Pkg().Scope() {
			nd.names[id.Name] = s.resolve(id.Name, nil)
		}
		return true
	})
	for _, o := range nd.objs {
		delete(nd.names, o.Name())
		delete(nd.uses, o)
	}
}

// forget drops declarations that nothing can refer to any more.
func (s *Session) forget() {
	keep := s.decls[:0]
	for _, d := range s.decls {
		if s.reachable(d) {
			keep = append(keep, d)
		}
	}
	clear(s.decls[len(keep):])
	s.decls = keep
}

func (s *Session) reachable(d *decl) bool {
	if d.c.kind == kMethod {
		for o := range d.uses {
			if o.Name() == d.c.recv && s.env[d.c.recv].obj != o {
				return false
			}
		}
		return true
	}
	for _, o := range d.objs {
		if s.env[o.Name()].obj == o {
			return true
		}
	}
	return len(d.objs) == 0
}
