package assist

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/rooflab/rooflab/kernel/serve"
	"github.com/rooflab/rooflab/kernel/session"
)

// where is what the grammar allows at the cursor.
type where int

const (
	anything  where = iota // the parser gave up
	statement              // the beginning of one
	value
	typeName
)

var keywords = map[where][]string{
	statement: {"break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go", "goto", "if", "import",
		"interface", "map", "range", "return", "select", "struct", "switch", "type", "var"},
	value:    {"chan", "func", "interface", "map", "range", "struct"},
	typeName: {"chan", "func", "interface", "map", "struct"},
}

// place finds out what may stand in the place of the first node.
func place(path []ast.Node) where {
	if len(path) < 2 {
		return anything
	}
	n := path[0]
	switch p := path[1].(type) {
	case *ast.ExprStmt:
		return statement
	case *ast.Field, *ast.TypeSpec, *ast.ChanType, *ast.MapType:
		return typeName
	case *ast.ValueSpec:
		if p.Type == n {
			return typeName
		}
	case *ast.ArrayType:
		if p.Elt == n {
			return typeName
		}
	case *ast.TypeAssertExpr:
		if p.Type == n {
			return typeName
		}
	case *ast.CompositeLit:
		if p.Type == n {
			return typeName
		}
	case *ast.Ellipsis, *ast.StarExpr:
		if len(path) > 2 {
			if w := place(path[1:]); w == typeName {
				return w
			}
		}
	}
	return value
}

// names offers what is in scope, then what could be imported.
func (q *query) names(w where) {
	for s := q.innermost(); s != nil && s != q.pkg.Scope(); s = s.Parent() {
		level := inFunction
		if s.Parent() == q.pkg.Scope() { // the file: imports of this cell
			level = imported
		} else if s == q.runScope() {
			level = inCell
		}
		for _, name := range s.Names() {
			if _, o := s.LookupParent(name, q.pos); o != nil && o == s.Lookup(name) {
				q.inScope(name, o, level, w)
			}
		}
	}
	for _, name := range q.pkg.Scope().Names() {
		q.inScope(name, q.pkg.Scope().Lookup(name), inCell, w)
	}
	for _, n := range q.state.Names() {
		switch {
		case n.Object != nil:
			q.inScope(n.Name, n.Object, inCell, w)
		case !q.seen[n.Name]:
			q.add(candidate{Match: serve.Match{Text: n.Name, Type: "package", Signature: `"` + n.Path + `"`}, level: imported})
		}
	}
	for _, name := range types.Universe.Names() {
		q.inScope(name, types.Universe.Lookup(name), predeclared, w)
	}
	if w == anything {
		w = statement
	}
	for _, k := range keywords[w] {
		if k != "range" || q.afterFor() {
			q.add(candidate{Match: serve.Match{Text: k, Type: "keyword"}, level: keyword})
		}
	}
	if q.prefix != "" {
		for _, p := range q.a.lib.paths() {
			q.add(candidate{Match: serve.Match{Text: q.a.lib.name(p), Type: "package", Signature: `import "` + p + `"`}, level: notImported})
		}
	}
}

// innermost is the scope at the cursor. The package's scope cannot be asked for it: it has the earlier cells around it.
func (q *query) innermost() *types.Scope {
	if s := q.info.Scopes[q.file]; s != nil {
		return s.Innermost(q.pos)
	}
	return nil
}

func (q *query) inScope(name string, o types.Object, level int, w where) {
	if w == typeName {
		switch o.(type) {
		case *types.TypeName, *types.PkgName:
		default:
			return
		}
	}
	if !session.IsCell(o.Pkg()) && level == inCell { // a dot import
		level = imported
	}
	q.named(name, o, level)
}

// afterFor tells whether the line before the cursor makes a range possible.
func (q *query) afterFor() bool {
	off := q.tfile.Offset(q.pos)
	var prev, first token.Token
	for _, l := range lex(q.text[lineStart(q.text, off) : off-len(q.prefix)]) {
		if first == 0 {
			first = l.tok
		}
		prev = l.tok
	}
	return first == token.FOR && (prev == token.FOR || prev == token.DEFINE || prev == token.ASSIGN)
}

func lineStart(text string, off int) int {
	for off > 0 && text[off-1] != '\n' {
		off--
	}
	return off
}
