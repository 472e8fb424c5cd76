package assist

import (
	"go/ast"
	"go/doc"
	"go/format"
	"go/token"
	"os"
	"strings"
)

// item is one exported thing of a package's source.
type item struct {
	name, kind string
	decl       ast.Node
	doc        string
}

// items lists what a package exports.
func (s *source) items() []item {
	var out []item
	values := func(vs []*doc.Value, kind string) {
		for _, v := range vs {
			for _, name := range v.Names {
				if name != "_" {
					out = append(out, item{name, kind, v.Decl, v.Doc})
				}
			}
		}
	}
	funcs := func(fs []*doc.Func) {
		for _, f := range fs {
			out = append(out, item{f.Name, "function", f.Decl, f.Doc})
		}
	}
	values(s.doc.Consts, "const")
	values(s.doc.Vars, "variable")
	funcs(s.doc.Funcs)
	for _, t := range s.doc.Types {
		out = append(out, item{t.Name, "type", t.Decl, t.Doc})
		values(t.Consts, "const")
		values(t.Vars, "variable")
		funcs(t.Funcs)
	}
	return out
}

// find looks up a package-level name, or with a receiver a method or field of that type.
func (s *source) find(recv, name string) (item, bool) {
	if recv == "" {
		for _, it := range s.items() {
			if it.name == name {
				return it, true
			}
		}
		return item{}, false
	}
	for _, t := range s.doc.Types {
		if t.Name != recv {
			continue
		}
		for _, m := range t.Methods {
			if m.Name == name {
				return item{name, "method", m.Decl, m.Doc}, true
			}
		}
		return member(t.Decl, name)
	}
	return item{}, false
}

// member finds a struct's field or an interface's method in a type declaration.
func member(decl ast.Node, name string) (found item, ok bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		f, isField := n.(*ast.Field)
		if !isField || ok {
			return !ok
		}
		for _, id := range f.Names {
			if id.Name == name {
				text := f.Doc.Text()
				if text == "" {
					text = f.Comment.Text()
				}
				found, ok = item{name, "field", f, text}, true
			}
		}
		return !ok
	})
	return found, ok
}

// signature is the type of a function as written.
func (s *source) signature(it item) string {
	if f, ok := it.decl.(*ast.FuncDecl); ok {
		return strings.TrimPrefix(nodeText(s.fset, f.Type), "func")
	}
	return ""
}

func nodeText(fset *token.FileSet, n ast.Node) string {
	var b strings.Builder
	if format.Node(&b, fset, n) != nil {
		return ""
	}
	return b.String()
}

// declaration writes a declaration without its body and comment above. Of a group of constants or variables only the
// one of that name is written.
func (s *source) declaration(it item) string {
	switch d := it.decl.(type) {
	case *ast.FuncDecl:
		f := *d
		f.Body, f.Doc = nil, nil
		return nodeText(s.fset, &f)
	case *ast.GenDecl:
		g := *d
		g.Doc = nil
		if g.Tok != token.TYPE {
			for _, sp := range g.Specs {
				v, ok := sp.(*ast.ValueSpec)
				for i := 0; ok && i < len(v.Names); i++ {
					if v.Names[i].Name == it.name && (v.Values != nil || v.Type != nil) {
						w := *v
						w.Doc = nil
						return d.Tok.String() + " " + nodeText(s.fset, &w)
					}
				}
			}
			return d.Tok.String() + " " + it.name
		}
		return nodeText(s.fset, &g)
	}
	return ""
}

// text is the source text of a function with its body.
func (s *source) text(it item) string {
	d, ok := it.decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	p := s.fset.Position(d.Pos())
	b, err := os.ReadFile(p.Filename)
	if err != nil || p.Offset >= len(b) {
		return ""
	}
	pieces, text := cut(string(b[p.Offset:]))
	if len(pieces) == 0 {
		return ""
	}
	return text[pieces[0].off:pieces[0].end]
}
