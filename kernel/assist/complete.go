package assist

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"sort"
	"strings"

	"github.com/rooflab/rooflab/kernel/serve"
	"github.com/rooflab/rooflab/kernel/session"
)

// How near a name is. Nearer names come first.
const (
	inFunction = iota
	inCell
	imported
	predeclared
	keyword
	notImported
)

// candidate is a possible match.
type candidate struct {
	serve.Match
	level int
	fits  bool // its type is the wanted one
}

// query is one question for completions. The identifier at the cursor has the mark in its name.
type query struct {
	a *Assist
	*checked
	prefix string
	pos    token.Pos

	want types.Type // what the place asks for; may be nil
	list []candidate
	seen map[string]bool
}

// candidates finds the matches.
func (q *query) candidates() []serve.Match {
	q.seen = map[string]bool{}
	path := q.marked()
	if path == nil {
		q.names(anything)
		return q.sorted()
	}
	id := path[0].(*ast.Ident)
	if len(path) > 1 {
		switch p := path[1].(type) {
		case *ast.SelectorExpr:
			if p.Sel == id {
				q.want = q.wanted(path[1:])
				q.selector(p)
				return q.sorted()
			}
		case *ast.BranchStmt:
			q.labels(path)
			return q.sorted()
		}
		if declaresName(path[1], id) {
			return nil
		}
		if lit, only := literalKey(path); lit != nil && q.fields(lit) && only {
			return q.sorted()
		}
	}
	q.want = q.wanted(path)
	q.names(place(path))
	return q.sorted()
}

// declaresName tells whether an identifier is a new name.
func declaresName(parent ast.Node, id *ast.Ident) bool {
	switch p := parent.(type) {
	case *ast.FuncDecl:
		return p.Name == id
	case *ast.TypeSpec:
		return p.Name == id
	case *ast.LabeledStmt:
		return p.Label == id
	case *ast.ImportSpec:
		return true
	case *ast.ValueSpec:
		return slices.Contains(p.Names, id)
	case *ast.Field:
		return slices.Contains(p.Names, id)
	}
	return false
}

// literalKey finds the composite literal of which the identifier may be a key. Only tells that it can be nothing else.
func literalKey(path []ast.Node) (lit *ast.CompositeLit, only bool) {
	id := path[0].(ast.Expr)
	i := 1
	if kv, ok := path[1].(*ast.KeyValueExpr); ok {
		if kv.Key != id || len(path) < 3 {
			return nil, false
		}
		id, i, only = kv, 2, true
	}
	lit, ok := path[i].(*ast.CompositeLit)
	if !ok || lit.Type == id {
		return nil, false
	}
	for _, e := range lit.Elts {
		if _, ok := e.(*ast.KeyValueExpr); ok {
			only = true
		}
	}
	return lit, only
}

// fields offers the keys of a struct literal that are not set yet, and tells whether it is one.
func (q *query) fields(lit *ast.CompositeLit) bool {
	t := q.info.TypeOf(lit)
	if t == nil {
		return false
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	set := map[string]bool{}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok {
				set[id.Name] = true
			}
		}
	}
	for f := range st.Fields() {
		if !set[f.Name()] && visible(f) {
			q.object(f, inFunction)
		}
	}
	return true
}

// visible tells whether cells may name a field or method.
func visible(o types.Object) bool { return o.Exported() || session.IsCell(o.Pkg()) }

// labels offers the labels of the function.
func (q *query) labels(path []ast.Node) {
	for _, n := range path {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			ast.Inspect(n, func(n ast.Node) bool {
				if l, ok := n.(*ast.LabeledStmt); ok {
					q.add(candidate{Match: serve.Match{Text: l.Label.Name, Type: "label"}})
				}
				return true
			})
			return
		}
	}
}

// object offers an object under its own name.
func (q *query) object(o types.Object, level int) { q.named(o.Name(), o, level) }

func (q *query) named(name string, o types.Object, level int) {
	c := candidate{Match: serve.Match{Text: name, Type: kindOf(o), Signature: q.signature(o)}, level: level}
	if q.want != nil {
		c.fits = fits(o, q.want)
	}
	q.add(c)
}

func (q *query) add(c candidate) {
	if c.Text == "_" || strings.Contains(c.Text, mark) || strings.HasPrefix(c.Text, session.Prefix) || q.seen[c.Text] {
		return
	}
	if len(c.Text) < len(q.prefix) || !strings.EqualFold(c.Text[:len(q.prefix)], q.prefix) {
		return
	}
	q.seen[c.Text] = true
	q.list = append(q.list, c)
}

// fits tells whether a variable, or what a function returns, can be used where a type is wanted.
func fits(o types.Object, want types.Type) bool {
	t := o.Type()
	if t == nil {
		return false
	}
	switch o := o.(type) {
	case *types.Var, *types.Const:
	case *types.Func:
		res := o.Signature().Results()
		if res.Len() == 0 {
			return false
		}
		if t = res.At(0).Type(); o.Signature().TypeParams().Len() > 0 {
			return false
		}
	default:
		return false
	}
	if i, ok := want.Underlying().(*types.Interface); ok && i.Empty() {
		return false // anything fits
	}
	return known(t) && types.AssignableTo(t, want)
}

// sorted ranks the candidates. Names in the other case only count if there are no others.
func (q *query) sorted() []serve.Match {
	exact := false
	for _, c := range q.list {
		exact = exact || strings.HasPrefix(c.Text, q.prefix)
	}
	var list []candidate
	for _, c := range q.list {
		if !exact || strings.HasPrefix(c.Text, q.prefix) {
			list = append(list, c)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case (a.Text == q.prefix) != (b.Text == q.prefix):
			return a.Text == q.prefix
		case a.fits != b.fits:
			return a.fits
		case a.level != b.level:
			return a.level < b.level
		}
		if x, y := strings.ToLower(a.Text), strings.ToLower(b.Text); x != y {
			return x < y
		}
		return a.Text < b.Text
	})
	out := make([]serve.Match, 0, len(list))
	for _, c := range list {
		out = append(out, c.Match)
	}
	return out
}
