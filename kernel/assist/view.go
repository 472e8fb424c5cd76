package assist

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/kernel/session"
)

// span says that length bytes of the cell are at view in the file made of it.
type span struct{ cell, view, length int }

// view is a cell as a Go file. The piece with the cursor comes last, so that nothing suffers from what it lacks.
type view struct {
	text  string
	spans []span
}

// layout writes the file. Imports come first, then declarations, then one function with the statements up to the one
// with the cursor.
func layout(text string, cursor int) *view {
	pieces, text := cut(text)
	here := pieceAt(pieces, cursor)
	v := &view{}
	var b strings.Builder
	b.WriteString("package main\n")
	put := func(p piece) {
		v.spans = append(v.spans, span{p.off, b.Len(), p.end - p.off})
		b.WriteString(text[p.off:p.end])
		if p.needs && p.closers == "" {
			b.WriteString("{}")
		}
		if last := text[lineStart(text, p.end):p.end]; strings.Contains(last, "//") {
			b.WriteString("\n") // the brackets must not become part of a comment
		}
		b.WriteString(p.closers + "\n")
	}
	for i, p := range pieces {
		if p.imports && (i != here || p.closers == "") {
			put(p)
		}
	}
	for i, p := range pieces {
		if p.decl && !p.imports && i != here {
			put(p)
		}
	}
	b.WriteString("func " + session.RunName + "() {\n")
	for i, p := range pieces {
		if !p.decl && (i <= here || here < 0) {
			put(p)
		}
	}
	b.WriteString("}\n")
	if here >= 0 && pieces[here].decl && (!pieces[here].imports || pieces[here].closers != "") {
		put(pieces[here])
	}
	v.text = b.String()
	return v
}

// pieceAt finds the piece at an offset or directly before it.
func pieceAt(pieces []piece, off int) int {
	for i, p := range pieces {
		if p.off <= off && off <= p.end {
			return i
		}
	}
	return -1
}

// toView maps an offset of the cell to the file.
func (v *view) toView(off int) (int, bool) {
	for _, s := range v.spans {
		if s.cell <= off && off <= s.cell+s.length {
			return s.view + off - s.cell, true
		}
	}
	return 0, false
}

// toCell maps an offset of the file to the cell.
func (v *view) toCell(off int) (int, bool) {
	for _, s := range v.spans {
		if s.view <= off && off <= s.view+s.length {
			return s.cell + off - s.view, true
		}
	}
	return 0, false
}

// checked is a cell whose types are known as far as they can be.
type checked struct {
	*view
	fset  *token.FileSet
	file  *ast.File
	tfile *token.File
	pkg   *types.Package
	info  *types.Info
	run   *ast.FuncDecl
	state *session.View
}

// parse makes the file of a cell.
func parse(text string, cursor int) *checked {
	c := &checked{view: layout(text, cursor), fset: token.NewFileSet()}
	c.file, _ = parser.ParseFile(c.fset, "", c.text, parser.AllErrors|parser.SkipObjectResolution|parser.ParseComments)
	if c.file == nil {
		return nil
	}
	c.tfile = c.fset.File(c.file.FileStart)
	for _, d := range c.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == session.RunName {
			c.run = f
		}
	}
	return c
}

// endings are what the parser may need behind a name to keep it: go and defer want a call, the header of an if wants a
// condition and a block, and a list of names wants to be assigned to.
var endings = []string{"", "()", "; true {}", " = 0"}

// parseMarked makes the file of a cell with the mark at the cursor.
func parseMarked(text string, cursor int) (first *checked) {
	for _, end := range endings {
		c := parse(text[:cursor]+mark+end+text[cursor:], cursor)
		if c == nil {
			continue
		}
		if c.marked() != nil {
			return c
		}
		if first == nil {
			first = c
		}
	}
	return first
}

// check finds out the types.
func (a *Assist) check(c *checked) {
	c.state = a.opts.Session.View()
	imp := &importer{state: c.state, left: a.patience}
	for _, n := range c.state.Names() { // those that need no import are not read yet
		if n.Object == nil && n.Path != "" {
			_, _ = imp.Import(n.Path) // without it its name means nothing
		}
	}
	missing := c.types(imp, nil)
	// a declaration may use what a statement of the same cell defines
	var vars []*types.Var
	if scope := c.runScope(); scope != nil {
		for _, name := range scope.Names() {
			if o, ok := scope.Lookup(name).(*types.Var); ok && missing[name] && known(o.Type()) {
				vars = append(vars, o)
			}
		}
	}
	if len(vars) > 0 {
		c.types(imp, vars)
	}
}

// types runs go/types and returns the names it did not find.
func (c *checked) types(imp types.Importer, vars []*types.Var) map[string]bool {
	c.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Scopes: map[ast.Node]*types.Scope{}, Implicits: map[ast.Node]types.Object{},
	}
	missing := map[string]bool{}
	c.pkg = c.state.Check(c.fset, c.file, imp, vars, c.info, func(e types.Error) {
		if name, ok := strings.CutPrefix(e.Msg, "undefined: "); ok {
			missing[name] = true
		}
	})
	return missing
}

// runScope is the scope of the cell's statements.
func (c *checked) runScope() *types.Scope {
	if c.run == nil {
		return nil
	}
	return c.info.Scopes[c.run.Type]
}

func known(t types.Type) bool { return t != nil && t != types.Typ[types.Invalid] }

// pos is the position in the file of an offset in the cell.
func (c *checked) pos(off int) token.Pos {
	if v, ok := c.toView(off); ok {
		return c.tfile.Pos(v)
	}
	if c.run != nil { // between the pieces: at the end of the statements
		return c.run.Body.Rbrace
	}
	return c.file.FileEnd
}

// path lists the nodes around a position, the innermost first.
func (c *checked) path(pos token.Pos) []ast.Node {
	var out []ast.Node
	ast.Inspect(c.file, func(n ast.Node) bool {
		if n == nil || pos < n.Pos() || n.End() < pos {
			return false
		}
		out = append(out, n)
		return true
	})
	slices.Reverse(out)
	return out
}

// marked returns the nodes around the identifier at the cursor, the identifier first.
func (c *checked) marked() (path []ast.Node) {
	var stack []ast.Node
	ast.Inspect(c.file, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		if id, ok := n.(*ast.Ident); ok && path == nil && strings.Contains(id.Name, mark) {
			for i := len(stack) - 1; i >= 0; i-- {
				path = append(path, stack[i])
			}
		}
		return true
	})
	return path
}
