package session

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// This file finds the loops whose rounds are short: they call nothing that could take long or block. See loops.go for
// what becomes of them.

// chunks are how many short rounds may pass between two polls: in a loop without loops, and in one that holds such
// loops. Loops around these poll in each round. All in all some hundred thousand short rounds pass, which takes
// milliseconds.
var chunks = []int64{1024, 256}

// mostWords is the size up to which a value is copied in no time.
const mostWords = 128

// chunk is how many rounds of a loop may pass between two polls; 0 if its rounds may take long.
func (c *checker) chunk(loop ast.Stmt) int64 {
	if l := c.level(loop); 0 <= l && l < len(chunks) {
		return chunks[l]
	}
	return 0
}

// level is how deep the loops inside a loop are nested; -1 if its rounds may take long. What is done once, before the
// first round, does not matter.
func (c *checker) level(loop ast.Stmt) int {
	if l, ok := c.levels[loop]; ok {
		return l
	}
	l := -1
	switch n := loop.(type) {
	case *ast.ForStmt:
		l = c.levelOf(n.Cond, n.Post, n.Body)
	case *ast.RangeStmt:
		if n.Tok != token.ASSIGN && (c.counts(n.X) || c.isSlice(n.X) || c.fixed(n.X) > 0) && (n.Value == nil || c.small(n.Value)) {
			l = c.levelOf(n.Body)
		}
		if 0 <= l && c.fixed(n.X) > chunks[l] {
			l = -1
		}
	}
	c.levels[loop] = l
	return l
}

func (c *checker) levelOf(parts ...ast.Node) int {
	level, long := 0, false
	for _, n := range parts {
		if n == nil {
			continue
		}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case nil:
				return true
			case *ast.ForStmt, *ast.RangeStmt:
				inner := c.level(n.(ast.Stmt))
				long = long || inner < 0
				level = max(level, inner+1)
			case ast.Expr:
				if c.info.Types[n].IsType() {
					return false
				}
				long = long || !c.shortExpr(n)
			default:
				long = long || !c.shortNode(n)
			}
			return !long
		})
	}
	if long || level >= len(chunks) {
		return -1
	}
	return level
}

func (c *checker) shortNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt, *ast.IfStmt, *ast.ExprStmt, *ast.EmptyStmt, *ast.CaseClause, *ast.DeclStmt, *ast.GenDecl, *ast.IncDecStmt:
		return true
	case *ast.ReturnStmt:
		return c.small(n.Results...)
	case *ast.ValueSpec:
		return c.small(n.Values...) && (n.Type == nil || c.small(n.Type))
	case *ast.AssignStmt:
		simple := n.Tok == token.ASSIGN || n.Tok == token.DEFINE || c.plain(n.Lhs[0])
		return simple && c.small(n.Rhs...)
	case *ast.SwitchStmt:
		return n.Tag == nil || c.plain(n.Tag)
	case *ast.BranchStmt:
		return n.Tok != token.GOTO
	case *ast.LabeledStmt:
		return isLoop(n.Stmt)
	}
	return false
}

func isLoop(st ast.Stmt) bool {
	switch st.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	}
	return false
}

// shortExpr tells whether an operation takes little time; its operands are looked at elsewhere.
func (c *checker) shortExpr(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident, *ast.BasicLit, *ast.ParenExpr, *ast.StarExpr, *ast.KeyValueExpr:
		return true
	case *ast.SelectorExpr:
		s := c.info.Selections[x]
		return s == nil || s.Kind() == types.FieldVal
	case *ast.IndexExpr:
		return c.isSlice(x.X) || c.fixed(x.X) >= 0 || has(c.info.TypeOf(x.X), types.IsString)
	case *ast.SliceExpr: // of an array would be its address
		return c.isSlice(x.X) || has(c.info.TypeOf(x.X), types.IsString)
	case *ast.UnaryExpr:
		return x.Op != token.AND && x.Op != token.ARROW
	case *ast.BinaryExpr:
		return c.plain(x.X) && c.plain(x.Y)
	case *ast.CompositeLit:
		switch c.info.TypeOf(x).Underlying().(type) {
		case *types.Struct, *types.Array:
			return c.small(x)
		}
	case *ast.CallExpr:
		return c.shortCall(x)
	}
	return false
}

// shortCall allows conversions of numbers, some builtins, and what is computed from numbers in package math.
func (c *checker) shortCall(n *ast.CallExpr) bool {
	if c.info.Types[n.Fun].IsType() {
		return c.plain(n) && c.plain(n.Args[0])
	}
	if id, ok := ast.Unparen(n.Fun).(*ast.Ident); ok {
		if b, ok := c.info.Uses[id].(*types.Builtin); ok {
			switch b.Name() {
			case "len", "cap", "panic":
				return true
			case "min", "max", "real", "imag", "complex":
				return c.plain(n)
			}
			return false
		}
	}
	f := c.callee(n)
	return f != nil && f.Pkg() != nil && slices.Contains([]string{"math", "math/bits", "math/cmplx"}, f.Pkg().Path())
}

// plain tells whether the values of x are compared and computed in a few instructions.
func (c *checker) plain(x ast.Expr) bool {
	t := c.info.TypeOf(x)
	if t == nil {
		return false
	}
	if _, ok := t.Underlying().(*types.Pointer); ok {
		return true
	}
	b := basic(t)
	return b != nil && b.Info()&types.IsString == 0
}

// small tells whether values can be copied in no time.
func (c *checker) small(xs ...ast.Expr) bool {
	return !slices.ContainsFunc(xs, func(x ast.Expr) bool {
		t := c.info.TypeOf(x)
		return t != nil && words(t) > mostWords
	})
}

// words is about how many machine words a value of type t has; more than mostWords for one of a type parameter.
func words(t types.Type) int64 {
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return mostWords + 1
	}
	n := int64(1)
	switch u := t.Underlying().(type) {
	case *types.Array:
		n = u.Len()
		if n <= mostWords {
			n *= words(u.Elem())
		}
	case *types.Struct:
		for f := range u.Fields() {
			n += words(f.Type())
		}
	case *types.Tuple:
		for v := range u.Variables() {
			n += words(v.Type())
		}
	}
	return n
}

// isSlice: a slice, not of a type parameter.
func (c *checker) isSlice(x ast.Expr) bool {
	t := c.info.TypeOf(x)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Slice)
	return ok
}

// fixed is the length of an array or of what a pointer to an array points to; -1 if x is no such thing.
func (c *checker) fixed(x ast.Expr) int64 {
	t := c.info.TypeOf(x)
	if t == nil {
		return -1
	}
	u := t.Underlying()
	if p, ok := u.(*types.Pointer); ok {
		u = p.Elem().Underlying()
	}
	if a, ok := u.(*types.Array); ok {
		return a.Len()
	}
	return -1
}

// counts tells whether x is an integer of at least 32 bits: loops over smaller ones end soon, and rarely matter.
func (c *checker) counts(x ast.Expr) bool {
	b := basic(c.info.TypeOf(x))
	return b != nil && b.Info()&types.IsInteger != 0 && !slices.Contains([]types.BasicKind{types.Int8, types.Uint8, types.Int16, types.Uint16}, b.Kind())
}

// number is the value of a constant integer.
func (c *checker) number(x ast.Expr) (int64, bool) {
	v := c.info.Types[x].Value
	if v == nil || !has(c.info.TypeOf(x), types.IsInteger) {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(v))
}
