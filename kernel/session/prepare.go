package session

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

const embedDirective = "//go:embed "

// prepare fills in what needs parsing: receivers of methods, names that a declaration makes, patterns of embedded
// files. It finds the faults of syntax of all chunks.
func (s *Session) prepare(chunks []*chunk) error {
	if err := syntax(chunks); err != nil {
		return err
	}
	for _, c := range chunks {
		switch c.kind {
		case kStmt, kImport:
			continue
		}
		d, err := c.decl()
		if err != nil {
			return err
		}
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.recv = recvBase(d)
			if c.kind == kFunc {
				c.defines = []string{d.Name.Name}
			}
		case *ast.GenDecl:
			c.defines = declared(d)
		}
		if c.kind == kVar && strings.Contains(c.pragma+c.text, embedDirective) {
			if err := c.findEmbeds(); err != nil {
				return err
			}
		}
	}
	return lateVars(chunks)
}

func declared(g *ast.GenDecl) (names []string) {
	add := func(id *ast.Ident) {
		if id.Name != "_" {
			names = append(names, id.Name)
		}
	}
	for _, sp := range g.Specs {
		switch sp := sp.(type) {
		case *ast.TypeSpec:
			add(sp.Name)
		case *ast.ValueSpec:
			for _, id := range sp.Names {
				add(id)
			}
		}
	}
	return names
}

// findEmbeds finds the //go:embed directives of a var declaration: before it, or before its specs.
func (c *chunk) findEmbeds() error {
	f, _, err := c.parse(token.NewFileSet(), parser.ParseComments)
	if err != nil {
		return err
	}
	c.embeds = map[string]string{}
	add := func(v *ast.ValueSpec, text string) {
		for _, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, embedDirective) && len(v.Names) == 1 {
				c.embeds[v.Names[0].Name] += strings.TrimSpace(l) + "\n"
			}
		}
	}
	g := f.Decls[0].(*ast.GenDecl)
	for _, sp := range g.Specs {
		v := sp.(*ast.ValueSpec)
		if !g.Lparen.IsValid() {
			add(v, c.pragma)
		}
		if v.Doc != nil {
			for _, l := range v.Doc.List {
				add(v, l.Text)
			}
		}
	}
	return nil
}

// patterns lists what the cell's text embeds, with positions.
func patterns(src string) (out []Embed) {
	for i, l := range strings.Split(src, "\n") {
		rest, ok := strings.CutPrefix(strings.TrimLeft(l, " \t"), embedDirective)
		if !ok {
			continue
		}
		off := len(l) - len(rest)
		for _, p := range strings.Fields(rest) {
			off += strings.Index(l[off:], p)
			out = append(out, Embed{Pattern: p, Line: i + 1, Col: off + 1})
			off += len(p)
		}
	}
	return out
}

// lateVars turns some var declarations into statements: those whose initialiser needs a name that exists only from
// its statement on (a := of the same cell), and those that need the old meaning of the name that they declare.
func lateVars(chunks []*chunk) error {
	late := map[string]bool{}
	for _, c := range chunks {
		if c.kind == kStmt {
			for _, d := range c.defines {
				late[d] = true
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, c := range chunks {
			if c.kind != kVar {
				continue
			}
			d, err := c.decl()
			if err != nil {
				return err
			}
			g, ok := d.(*ast.GenDecl)
			if !ok || !isLate(g, c.defines, late) {
				continue
			}
			c.kind, changed = kStmt, true
			for _, d := range c.defines {
				late[d] = true
			}
		}
	}
	return nil
}

func isLate(g *ast.GenDecl, own []string, late map[string]bool) bool {
	used, direct := map[string]bool{}, map[string]bool{} // direct: outside function literals
	for _, sp := range g.Specs {
		for _, x := range sp.(*ast.ValueSpec).Values {
			idents(x, used, true)
			idents(x, direct, false)
		}
	}
	if len(g.Specs) == 1 {
		for _, d := range own {
			if direct[d] {
				return true
			}
		}
	}
	for name := range used {
		if late[name] {
			return true
		}
	}
	return false
}

// recvBase gives the name of a method's receiver base type.
func recvBase(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// idents collects the identifiers in a node, with or without those in function literals.
func idents(n ast.Node, into map[string]bool, lits bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok && !lits {
			return false
		}
		if id, ok := n.(*ast.Ident); ok {
			into[id.Name] = true
		}
		return true
	})
}

// mangle gives a name of the emitted world: exported names stay, all others get the prefix.
func mangle(name string) string {
	if token.IsExported(name) || name == "_" {
		return name
	}
	return Prefix + name
}
