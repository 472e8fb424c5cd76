package assist

import (
	"go/ast"
	"go/doc/comment"
	"go/token"
	"go/types"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/kernel/serve"
)

// description is what is known about a name.
type description struct {
	decl   string   // as Go writes it
	more   []string // methods of a type
	where  string   // the package or cell
	doc    string
	links  *comment.Parser // resolves names in doc; may be nil
	source string          // the text of the declaration, for more detail
}

// Inspect describes the name under or before the cursor, a byte offset in code; inside the parentheses of a call, with no
// name there, the function. A detail of 1 adds the source text.
func (a *Assist) Inspect(code string, cursor, detail int) serve.Bundle {
	cursor = onRune(code, cursor)
	text, foreign := blank(code, goArguments...)
	if foreign || atBlanked(code, text, cursor) {
		return serve.Bundle{}
	}
	c := parse(text, cursor)
	if c == nil {
		return serve.Bundle{}
	}
	a.check(c)
	d, ok := a.describe(c, text, cursor)
	if !ok {
		return serve.Bundle{}
	}
	if detail < 1 {
		d.source = ""
	}
	return serve.Bundle{Data: map[string]any{"text/plain": d.plain(), "text/markdown": d.markdown()}, Metadata: map[string]any{}}
}

func (a *Assist) describe(c *checked, text string, cursor int) (description, bool) {
	v, ok := c.toView(cursor)
	if !ok {
		return description{}, false
	}
	path := c.path(c.tfile.Pos(v))
	for _, n := range path {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return a.describePackage(strings.Trim(n.Path.Value, "\"`"))
		case *ast.Ident:
			return a.describeIdent(c, text, n)
		}
	}
	for _, n := range path {
		if call, ok := n.(*ast.CallExpr); ok && call.Lparen < c.tfile.Pos(v) {
			switch f := ast.Unparen(call.Fun).(type) {
			case *ast.Ident:
				return a.describeIdent(c, text, f)
			case *ast.SelectorExpr:
				return a.describeIdent(c, text, f.Sel)
			}
		}
	}
	return description{}, false
}

func (a *Assist) describeIdent(c *checked, text string, id *ast.Ident) (description, bool) {
	o := c.info.ObjectOf(id)
	if o == nil {
		for _, n := range c.path(id.Pos()) { // the variable of a type switch has no object of its own
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel == id {
				return a.describeUnimported(c, s)
			}
		}
		if paths := a.lib.called(id.Name); len(paths) > 0 {
			return a.describePackage(paths[0])
		}
		return description{}, false
	}
	if p, ok := o.(*types.PkgName); ok {
		return a.describePackage(p.Imported().Path())
	}
	d := description{decl: declarationOf(o)}
	if t, ok := o.(*types.TypeName); ok {
		d.more = methodsOf(t)
	}
	switch {
	case o.Pkg() == nil:
		a.fromSource(&d, "builtin", "", o.Name())
		d.where = "predeclared"
	case c.pkg == o.Pkg():
		d.where = "declared in this cell"
		if off, ok := c.toCell(c.tfile.Offset(o.Pos())); ok && o.Pos().IsValid() {
			d.fromCell(o, text, off)
		}
	default:
		if cell, line, col, ok := c.state.Place(o); ok {
			src := c.state.Source(cell)
			d.where = "declared in cell " + strconv.Itoa(cell)
			d.fromCell(o, src, offsetOf(src, line, col))
			break
		}
		d.where = "package " + o.Pkg().Path()
		a.fromSource(&d, o.Pkg().Path(), c.owner(id, o), o.Name())
	}
	return d, true
}

// describePackage tells what a package is for.
func (a *Assist) describePackage(path string) (description, bool) {
	s := a.lib.source(path)
	if s == nil {
		return description{}, false
	}
	return description{decl: "package " + s.doc.Name, where: `import "` + path + `"`, doc: s.doc.Doc, links: s.doc.Parser()}, true
}

// describeUnimported describes strings.Builder before strings is imported.
func (a *Assist) describeUnimported(c *checked, sel *ast.SelectorExpr) (d description, ok bool) {
	id, isIdent := sel.X.(*ast.Ident)
	if !isIdent {
		return d, false
	}
	paths := a.lib.called(id.Name)
	switch o := c.info.Uses[id].(type) {
	case *types.PkgName:
		paths = []string{o.Imported().Path()}
	case nil:
	default:
		return d, false
	}
	for _, p := range paths {
		if a.fromSource(&d, p, "", sel.Sel.Name) {
			d.where = `import "` + p + `"`
			return d, true
		}
	}
	return d, false
}

// fromSource adds what a package's source says about a name.
func (a *Assist) fromSource(d *description, path, recv, name string) bool {
	s := a.lib.source(path)
	if s == nil {
		return false
	}
	it, ok := s.find(recv, name)
	if !ok {
		return false
	}
	d.doc, d.links, d.source = it.doc, s.doc.Parser(), s.text(it)
	if g, isType := it.decl.(*ast.GenDecl); d.decl == "" || isType && g.Tok == token.TYPE {
		d.decl = s.declaration(it)
	}
	return true
}

// fromCell adds the comment above a declaration in a cell and its text.
func (d *description) fromCell(o types.Object, cell string, off int) {
	text, _ := blank(cell)
	pieces, text := cut(text)
	i := pieceAt(pieces, off)
	if i < 0 {
		return
	}
	p := pieces[i]
	if v, ok := o.(*types.Var); ok && v.IsField() {
		if decl := parsePiece(text[p.off:p.end]); decl != nil {
			it, _ := member(decl, o.Name())
			d.doc = it.doc
		}
		return
	}
	d.doc = commentAbove(cell, p.off)
	d.source = text[p.off:p.end]
	if _, ok := o.(*types.TypeName); ok && p.decl && strings.HasPrefix(d.source, "type "+o.Name()) {
		d.decl = d.source
	}
}

// owner is the name of the type that a field or method belongs to.
func (c *checked) owner(id *ast.Ident, o types.Object) string {
	t := types.Type(nil)
	switch o := o.(type) {
	case *types.Func:
		if r := o.Signature().Recv(); r != nil {
			t = r.Type()
		}
	case *types.Var:
		if o.IsField() {
			t = c.holder(id)
		}
	}
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// holder is the struct type that has the field which an identifier selects.
func (c *checked) holder(id *ast.Ident) types.Type {
	for _, n := range c.path(id.Pos()) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			s := c.info.Selections[n]
			if n.Sel != id || s == nil {
				continue
			}
			t := s.Recv()
			for _, i := range s.Index()[:len(s.Index())-1] {
				if st, ok := deref(t).Underlying().(*types.Struct); ok {
					t = st.Field(i).Type()
				}
			}
			return deref(t)
		case *ast.CompositeLit:
			if t := c.info.TypeOf(n); t != nil {
				return deref(t)
			}
		}
	}
	return nil
}

func deref(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return types.Unalias(t)
}
