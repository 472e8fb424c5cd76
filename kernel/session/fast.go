package session

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/rooflab/rooflab/kernel/proto"
)

// fast turns a cell that is one simple expression or assignment into a form that the worker can carry out by
// reflection. The answer must be what compiled code gives, in every case: what is doubtful is left to the compiler.
// The worker first evaluates all that has no effect; if that goes wrong (a division by zero, an index out of range) it
// says so, and the cell is compiled after all. Once a function was called there is no way back, so only operations that
// cannot fail may follow; see pure.
func (c *checker) fast() *proto.Expr {
	if c.noFast || len(c.chunks) != 1 || c.chunks[0].kind != kStmt || len(c.run.Body.List) != 1 {
		return nil
	}
	var e *proto.Expr
	switch st := c.run.Body.List[0].(type) {
	case *ast.ExprStmt:
		if c.show != nil {
			if e = c.fastExpr(st.X, nil); e != nil {
				e.Show = true
			}
		} else if call, ok := ast.Unparen(st.X).(*ast.CallExpr); ok && !c.idle[st.X] {
			if e = c.fastCall(call); !e.Calls() {
				return nil
			}
		}
	case *ast.AssignStmt:
		if len(st.Lhs) == 1 && len(st.Rhs) == 1 {
			e = c.fastAssign(st)
		}
	case *ast.IncDecStmt:
		if dst, t := c.fastPlace(st.X); dst != nil && isReal(t) {
			one := &proto.Expr{Op: "lit", Kind: "int", Lit: "1"}
			e = node("set", st.Tok.String()[:1]+"=", dst, one)
		}
	}
	if e != nil {
		e.Line = c.chunks[0].line
	}
	return e
}

func node(op, name string, x ...*proto.Expr) *proto.Expr {
	e := &proto.Expr{Op: op, Name: name}
	for _, x := range x {
		if x == nil {
			return nil
		}
		e.X = append(e.X, *x)
	}
	return e
}

// pure is a node whose operands call nothing.
func pure(op, name string, x ...*proto.Expr) *proto.Expr {
	if slices.ContainsFunc(x, (*proto.Expr).Calls) {
		return nil
	}
	return node(op, name, x...)
}

// settled tells whether no call can change what the operands are: all are literals or calls, or none is a call.
func settled(x ...*proto.Expr) bool {
	calls, others := false, false
	for _, e := range x {
		if e.Calls() {
			calls = true
		} else if e != nil && e.Op != "lit" {
			others = true
		}
	}
	return !calls || !others
}

func basic(t types.Type) *types.Basic {
	if t == nil {
		return nil
	}
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return nil
	}
	b, _ := t.Underlying().(*types.Basic)
	return b
}

func has(t types.Type, info types.BasicInfo) bool {
	b := basic(t)
	return b != nil && b.Info()&info != 0
}

func isReal(t types.Type) bool { return has(t, types.IsInteger|types.IsFloat) }

// fastExpr translates an expression. A constant of a named type needs a place of that type to go to: target.
func (c *checker) fastExpr(x ast.Expr, target types.Type) *proto.Expr {
	x = ast.Unparen(x)
	tv := c.info.Types[x]
	if tv.Value != nil {
		if _, plain := types.Unalias(tv.Type).(*types.Basic); !plain && (target == nil || !types.Identical(target, tv.Type)) {
			return nil
		}
		return literal(tv)
	}
	switch x := x.(type) {
	case *ast.Ident:
		o := c.info.Uses[x]
		if k, ok := c.s.home[o]; ok {
			if _, ok := o.(*types.Var); ok {
				return &proto.Expr{Op: "var", Pkg: PkgPath(k), Name: o.Name(), Cell: k}
			}
		}
	case *ast.StarExpr:
		return pure("deref", "", c.fastExpr(x.X, nil))
	case *ast.SelectorExpr:
		if s := c.info.Selections[x]; s != nil && s.Kind() == types.FieldVal {
			if e := pure("field", "", c.fastExpr(x.X, nil)); e != nil {
				e.Path = s.Index()
				return e
			}
		}
	case *ast.IndexExpr:
		return c.fastIndex(x)
	case *ast.SliceExpr:
		return c.fastSlice(x)
	case *ast.UnaryExpr:
		t := c.info.TypeOf(x.X)
		ok := false
		switch x.Op {
		case token.NOT:
			ok = has(t, types.IsBoolean)
		case token.ADD, token.SUB:
			ok = isReal(t)
		case token.XOR:
			ok = has(t, types.IsInteger)
		}
		if ok {
			return node("un", x.Op.String(), c.fastExpr(x.X, t))
		}
	case *ast.BinaryExpr:
		return c.fastBinary(x)
	case *ast.CallExpr:
		return c.fastCall(x)
	}
	return nil
}

// literal writes a constant so that no bit is lost.
func literal(tv types.TypeAndValue) *proto.Expr {
	b := basic(tv.Type)
	if b == nil {
		return nil
	}
	b = types.Default(b).(*types.Basic)
	e := &proto.Expr{Op: "lit", Kind: b.Name()}
	float := func(v constant.Value) string {
		f, _ := constant.Float64Val(constant.ToFloat(v))
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	switch info := b.Info(); {
	case info&types.IsString != 0:
		if e.Lit = constant.StringVal(tv.Value); !utf8.ValidString(e.Lit) {
			return nil // it travels as JSON
		}
	case info&types.IsBoolean != 0:
		e.Lit = tv.Value.ExactString()
	case info&types.IsInteger != 0:
		e.Lit = constant.ToInt(tv.Value).ExactString()
	case info&types.IsFloat != 0:
		e.Lit = float(tv.Value)
	case info&types.IsComplex != 0:
		v := constant.ToComplex(tv.Value)
		e.Lit = float(constant.Real(v)) + " " + float(constant.Imag(v))
	default:
		return nil
	}
	return e
}

func (c *checker) fastIndex(x *ast.IndexExpr) *proto.Expr {
	t := c.info.TypeOf(x.X)
	if t == nil {
		return nil
	}
	switch u := t.Underlying().(type) {
	case *types.Slice, *types.Array:
		return pure("index", "", c.fastExpr(x.X, nil), c.fastExpr(x.Index, nil))
	case *types.Basic: // a constant string has no variable behind it, and its index is checked by the compiler
		return pure("index", "", c.fastExpr(x.X, nil), c.fastExpr(x.Index, nil))
	case *types.Map:
		return pure("index", "", c.fastExpr(x.X, nil), c.fastExpr(x.Index, u.Key()))
	}
	return nil
}

func (c *checker) fastSlice(x *ast.SliceExpr) *proto.Expr {
	switch c.info.TypeOf(x.X).Underlying().(type) {
	case *types.Slice, *types.Basic:
	default:
		return nil
	}
	parts := []*proto.Expr{c.fastExpr(x.X, nil)}
	for _, i := range []ast.Expr{x.Low, x.High, x.Max} {
		if i == nil {
			parts = append(parts, &proto.Expr{Op: "nil"})
		} else {
			parts = append(parts, c.fastExpr(i, nil))
		}
	}
	return pure("slice", "", parts...)
}

func (c *checker) fastBinary(x *ast.BinaryExpr) *proto.Expr {
	lt, rt := c.info.TypeOf(x.X), c.info.TypeOf(x.Y)
	op := x.Op.String()
	switch x.Op {
	case token.SHL, token.SHR:
		if !has(lt, types.IsInteger) || !has(rt, types.IsInteger) {
			return nil
		}
		l, r := c.fastExpr(x.X, nil), c.fastExpr(x.Y, nil)
		if l.Calls() && r != nil && r.Op != "lit" || r.Calls() { // a negative count panics
			return nil
		}
		return node("bin", op, l, r)
	case token.EQL, token.NEQ:
		if c.info.Types[x.X].IsNil() {
			return pure("un", op+"nil", c.fastExpr(x.Y, nil))
		}
		if c.info.Types[x.Y].IsNil() {
			return pure("un", op+"nil", c.fastExpr(x.X, nil))
		}
	}
	if !types.Identical(lt, rt) {
		return nil
	}
	l, r := c.fastExpr(x.X, rt), c.fastExpr(x.Y, lt)
	if l == nil || r == nil || !settled(l, r) || !c.canDo(x, lt, r) {
		return nil
	}
	if (l.Calls() || r.Calls()) && (basic(lt) == nil || x.Op == token.LAND || x.Op == token.LOR) {
		return nil
	}
	return node("bin", op, l, r)
}

// canDo tells whether the worker computes an operation on operands of a type exactly as compiled code does.
func (c *checker) canDo(x *ast.BinaryExpr, t types.Type, right *proto.Expr) bool {
	switch x.Op {
	case token.EQL, token.NEQ:
		return true
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		return has(t, types.IsInteger|types.IsFloat|types.IsString)
	case token.LAND, token.LOR:
		return has(t, types.IsBoolean)
	case token.ADD:
		return has(t, types.IsInteger|types.IsString) || has(t, types.IsFloat) && !product(x.X) && !product(x.Y)
	case token.SUB:
		return has(t, types.IsInteger) || has(t, types.IsFloat) && !product(x.X) && !product(x.Y)
	case token.MUL:
		return isReal(t)
	case token.QUO, token.REM:
		if has(t, types.IsInteger) && hasEffect(c, x.X, x.Y) {
			return right.Op == "lit" // never zero: the compiler refuses that
		}
		return isReal(t)
	case token.AND, token.OR, token.XOR, token.AND_NOT:
		return has(t, types.IsInteger)
	}
	return false
}

func hasEffect(c *checker, xs ...ast.Expr) (yes bool) {
	for _, x := range xs {
		ast.Inspect(x, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && !c.info.Types[call.Fun].IsType() {
				yes = true
			}
			return !yes
		})
	}
	return yes
}

// product: on some machines the compiler makes one rounding of x*y + z.
func product(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.BinaryExpr:
		return x.Op == token.MUL
	case *ast.UnaryExpr:
		return product(x.X)
	}
	return false
}

func (c *checker) fastCall(call *ast.CallExpr) *proto.Expr {
	if call.Ellipsis.IsValid() {
		return nil
	}
	fun := ast.Unparen(call.Fun)
	if tv := c.info.Types[fun]; tv.IsType() {
		return c.fastConversion(tv.Type, call.Args[0])
	}
	if id, ok := fun.(*ast.Ident); ok {
		if b, ok := c.info.Uses[id].(*types.Builtin); ok {
			if b.Name() == "len" || b.Name() == "cap" {
				return node(b.Name(), "", c.fastExpr(call.Args[0], nil))
			}
			return nil
		}
	}
	sig, ok := c.info.TypeOf(fun).(*types.Signature)
	if !ok {
		return nil
	}
	args := c.fastArgs(sig, call.Args)
	if args == nil || !settled(args...) {
		return nil
	}
	switch f := fun.(type) {
	case *ast.Ident:
		o := c.info.Uses[f]
		k, ok := c.s.home[o]
		if !ok {
			return nil
		}
		fn, isFunc := o.(*types.Func)
		if isFunc && fn.Signature().TypeParams().Len() > 0 || !isFunc && slices.ContainsFunc(args, (*proto.Expr).Calls) {
			return nil
		}
		e := node("call", o.Name(), args...)
		e.Pkg, e.Cell = PkgPath(k), k
		return e
	case *ast.SelectorExpr:
		fn, ok := c.info.Uses[f.Sel].(*types.Func)
		if !ok || fn.Pkg() == nil {
			return nil
		}
		if s := c.info.Selections[f]; s != nil {
			if s.Kind() != types.MethodVal || len(s.Index()) != 1 || !fn.Exported() { // others are hidden from reflection
				return nil
			}
			return pure("method", fn.Name(), append([]*proto.Expr{c.fastExpr(f.X, nil)}, args...)...)
		}
		switch fn.Pkg().Path() {
		case "fmt", "strings", "strconv", "math": // eval has a list of those that are safe
			return node("std", fn.FullName(), args...)
		}
	}
	return nil
}

// fastArgs translates the arguments of a call; nil if one of them cannot be.
func (c *checker) fastArgs(sig *types.Signature, xs []ast.Expr) []*proto.Expr {
	args := []*proto.Expr{}
	for i, x := range xs {
		if _, several := c.info.TypeOf(x).(*types.Tuple); several {
			return nil
		}
		var t types.Type
		if last := sig.Params().Len() - 1; sig.Variadic() && i >= last {
			t = sig.Params().At(last).Type().(*types.Slice).Elem()
		} else {
			t = sig.Params().At(i).Type()
		}
		e := c.fastExpr(x, t)
		if c.info.Types[x].IsNil() {
			e = &proto.Expr{Op: "nil"}
		}
		if e == nil {
			return nil
		}
		args = append(args, e)
	}
	return args
}

// fastConversion translates T(x) for predeclared T, []byte and []rune.
func (c *checker) fastConversion(t types.Type, x ast.Expr) *proto.Expr {
	kind := ""
	switch u := types.Unalias(t).(type) {
	case *types.Basic:
		kind = u.Name()
	case *types.Slice:
		if b, ok := types.Unalias(u.Elem()).(*types.Basic); ok && (b.Kind() == types.Byte || b.Kind() == types.Rune) {
			kind = "[]" + b.Name()
		}
	}
	from := c.info.TypeOf(x)
	b := basic(from)
	ok := kind != "" && b != nil && b.Info()&(types.IsInteger|types.IsFloat|types.IsString|types.IsBoolean) != 0
	if s, isSlice := from.Underlying().(*types.Slice); isSlice && kind == "string" {
		ok = basic(s.Elem()) != nil
	}
	if !ok {
		return nil
	}
	e := c.fastExpr(x, from)
	if e == nil || e.Calls() && has(from, types.IsFloat) && !has(t, types.IsFloat) {
		return nil // what is out of range depends on the machine: the worker looks at the value first
	}
	e = node("conv", "", e)
	e.Kind = kind
	return e
}

// fastPlace translates what is assigned to.
func (c *checker) fastPlace(x ast.Expr) (*proto.Expr, types.Type) {
	x = ast.Unparen(x)
	switch x.(type) {
	case *ast.Ident, *ast.StarExpr, *ast.SelectorExpr, *ast.IndexExpr:
		if e := c.fastExpr(x, nil); !e.Calls() {
			return e, c.info.TypeOf(x)
		}
	}
	return nil, nil
}

func (c *checker) fastAssign(st *ast.AssignStmt) *proto.Expr {
	if st.Tok == token.DEFINE {
		return nil // a new variable needs a compiled cell that has it
	}
	dst, t := c.fastPlace(st.Lhs[0])
	if dst == nil {
		return nil
	}
	var src *proto.Expr
	if c.info.Types[st.Rhs[0]].IsNil() {
		src = &proto.Expr{Op: "nil"}
	} else {
		src = c.fastExpr(st.Rhs[0], t)
	}
	if src.Calls() && dst.Op != "var" {
		return nil
	}
	if st.Tok == token.ASSIGN {
		return node("set", "=", dst, src)
	}
	op := st.Tok.String()
	whole := &ast.BinaryExpr{X: st.Lhs[0], Op: opOf(st.Tok), Y: st.Rhs[0]}
	if src == nil || src.Calls() {
		return nil
	}
	if whole.Op != token.SHL && whole.Op != token.SHR && !(types.Identical(t, c.info.TypeOf(st.Rhs[0])) && c.canDo(whole, t, src)) {
		return nil
	}
	return node("set", op, dst, src)
}

// opOf is the operator of an assignment operator.
func opOf(t token.Token) token.Token { return t - token.ADD_ASSIGN + token.ADD }

// fastDeps lists the cells that an expression refers to.
func fastDeps(e *proto.Expr) (deps []int) {
	if e.Cell > 0 {
		deps = append(deps, e.Cell)
	}
	for i := range e.X {
		deps = append(deps, fastDeps(&e.X[i])...)
	}
	slices.Sort(deps)
	return slices.Compact(deps)
}
