package session

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// typeWriter writes a type with emitted names.
type typeWriter struct {
	c   *checker
	b   strings.Builder
	why string // the type cannot be written: the reason, as the end of a sentence about it
}

func (c *checker) typeText(t types.Type) string {
	text, _ := c.typeOrFault(t)
	return text
}

// typeOrFault writes a type, or says why that is not possible.
func (c *checker) typeOrFault(t types.Type) (text, why string) {
	w := &typeWriter{c: c}
	w.write(t)
	return w.b.String(), w.why
}

func (w *typeWriter) bad(why string) {
	if w.why == "" {
		w.why = why
	}
}

func (w *typeWriter) named(o *types.TypeName, args *types.TypeList) {
	if w.c.s.fromC(o) {
		name := w.c.nameInC(o)
		if o.Parent() != w.c.top || name == "" {
			w.bad("is a type of C, which has no name here")
		}
		w.b.WriteString("C." + name)
		return
	}
	switch {
	case o.Pkg() == nil || w.c.known(o):
	case IsCell(o.Pkg()):
		if o.Parent() != nil && o.Parent() != w.c.top {
			w.bad("is declared inside a function")
		}
	case !o.Exported():
		w.bad("is not exported by its package")
	}
	w.b.WriteString(w.c.ref(o))
	if args != nil && args.Len() > 0 {
		w.b.WriteString("[")
		for i := 0; i < args.Len(); i++ {
			if i > 0 {
				w.b.WriteString(", ")
			}
			w.write(args.At(i))
		}
		w.b.WriteString("]")
	}
}

func (w *typeWriter) write(t types.Type) {
	switch t := t.(type) {
	case *types.Basic:
		switch t.Kind() {
		case types.UnsafePointer:
			w.b.WriteString(w.c.alias("unsafe") + ".Pointer")
		case types.UntypedNil, types.Invalid:
			w.bad("is not known")
		default:
			w.b.WriteString(types.Default(t).String())
		}
	case *types.Alias:
		o := t.Obj()
		foreign := o.Pkg() != nil && !IsCell(o.Pkg())
		local := IsCell(o.Pkg()) && !w.c.known(o) && o.Parent() != w.c.top
		if foreign && !o.Exported() || local {
			w.write(types.Unalias(t))
			return
		}
		w.named(o, t.TypeArgs())
	case *types.Named:
		w.named(t.Obj(), t.TypeArgs())
	case *types.TypeParam:
		w.b.WriteString(t.Obj().Name())
	case *types.Pointer:
		w.b.WriteString("*")
		w.write(t.Elem())
	case *types.Slice:
		w.b.WriteString("[]")
		w.write(t.Elem())
	case *types.Array:
		fmt.Fprintf(&w.b, "[%d]", t.Len())
		w.write(t.Elem())
	case *types.Map:
		w.b.WriteString("map[")
		w.write(t.Key())
		w.b.WriteString("]")
		w.write(t.Elem())
	case *types.Chan:
		switch t.Dir() {
		case types.SendOnly:
			w.b.WriteString("chan<- ")
		case types.RecvOnly:
			w.b.WriteString("<-chan ")
		default:
			w.b.WriteString("chan ")
		}
		w.b.WriteString("(")
		w.write(t.Elem())
		w.b.WriteString(")")
	case *types.Signature:
		w.b.WriteString("func")
		w.signature(t)
	case *types.Struct:
		w.b.WriteString("struct{")
		for i := 0; i < t.NumFields(); i++ {
			if i > 0 {
				w.b.WriteString("; ")
			}
			w.field(t.Field(i))
			if tag := t.Tag(i); tag != "" {
				fmt.Fprintf(&w.b, " %q", tag)
			}
		}
		w.b.WriteString("}")
	case *types.Interface:
		if t.IsImplicit() && t.NumEmbeddeds() == 1 {
			w.write(t.EmbeddedType(0))
			return
		}
		w.b.WriteString("interface{")
		for i := 0; i < t.NumExplicitMethods(); i++ {
			m := t.ExplicitMethod(i)
			w.b.WriteString(w.member(m))
			w.signature(m.Type().(*types.Signature))
			w.b.WriteString("; ")
		}
		for i := 0; i < t.NumEmbeddeds(); i++ {
			w.write(t.EmbeddedType(i))
			w.b.WriteString("; ")
		}
		w.b.WriteString("}")
	case *types.Union:
		for i := 0; i < t.Len(); i++ {
			if i > 0 {
				w.b.WriteString(" | ")
			}
			if t.Term(i).Tilde() {
				w.b.WriteString("~")
			}
			w.write(t.Term(i).Type())
		}
	default:
		w.bad("cannot be written")
	}
}

func (w *typeWriter) signature(s *types.Signature) {
	tuple := func(t *types.Tuple, variadic bool) {
		w.b.WriteString("(")
		for i := 0; i < t.Len(); i++ {
			if i > 0 {
				w.b.WriteString(", ")
			}
			if variadic && i == t.Len()-1 {
				w.b.WriteString("...")
				w.write(t.At(i).Type().(*types.Slice).Elem())
				continue
			}
			w.write(t.At(i).Type())
		}
		w.b.WriteString(")")
	}
	tuple(s.Params(), s.Variadic())
	if s.Results().Len() > 0 {
		w.b.WriteString(" ")
		tuple(s.Results(), false)
	}
}

func (w *typeWriter) field(f *types.Var) {
	if !f.Embedded() {
		w.b.WriteString(w.member(f) + " ")
		w.write(f.Type())
		return
	}
	t := f.Type()
	if p, ok := t.(*types.Pointer); ok {
		w.b.WriteString("*")
		t = p.Elem()
	}
	if IsCell(f.Pkg()) && types.Universe.Lookup(f.Name()) != nil && predeclaredType(t) {
		w.b.WriteString(w.c.predeclared(f.Name()))
		return
	}
	w.write(t)
}

// member is the emitted name of a field or method.
func (w *typeWriter) member(o types.Object) string {
	if IsCell(o.Pkg()) {
		return mangle(o.Name())
	}
	if !o.Exported() {
		w.bad("has unexported members of another package")
	}
	return o.Name()
}

func predeclaredType(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return true
	case *types.Named:
		return t.Obj().Pkg() == nil
	case *types.Alias:
		return t.Obj().Pkg() == nil
	}
	return false
}

// zeroOf is an expression for the zero value of a variable whose type cannot be written. The compiler infers the type
// from the function that the first value comes from, or from the variable; nothing is called or computed.
func (c *checker) zeroOf(g global) string {
	switch x := ast.Unparen(g.from).(type) {
	case *ast.CallExpr:
		sig, ok := c.info.TypeOf(x.Fun).(*types.Signature)
		if fun, recv := c.calledFunc(x); ok && fun != "" {
			return c.zeroResult(sig, recv, g.index) + "(" + fun + ")"
		}
	case *ast.UnaryExpr:
		if x.Op == token.AND && c.isVar(x.X) {
			return c.zeroValue() + "(&" + c.textIn(x.X.Pos(), x.X.End()) + ")"
		}
	case *ast.Ident, *ast.SelectorExpr:
		if c.isVar(x) {
			return c.zeroValue() + "(" + c.textIn(x.Pos(), x.End()) + ")"
		}
	}
	return ""
}

// isVar tells whether x names a variable, of a package perhaps.
func (c *checker) isVar(x ast.Expr) bool {
	id, _ := ast.Unparen(x).(*ast.Ident)
	if sel, ok := ast.Unparen(x).(*ast.SelectorExpr); ok && c.info.Selections[sel] == nil {
		id = sel.Sel
	}
	_, ok := c.info.Uses[id].(*types.Var)
	return ok && id != nil
}

// calledFunc names the function of a call without evaluating anything: a function, a variable, or a method by its
// type, which then has the receiver as one more parameter.
func (c *checker) calledFunc(call *ast.CallExpr) (text string, recv int) {
	fun := ast.Unparen(call.Fun)
	text = c.textIn(fun.Pos(), fun.End())
	switch f := fun.(type) {
	case *ast.Ident:
		switch c.info.Uses[f].(type) {
		case *types.Var:
			return text, 0
		case *types.Func:
			return text + c.instance(f), 0
		}
	case *ast.SelectorExpr:
		fn, ok := c.info.Uses[f.Sel].(*types.Func)
		if !ok {
			return "", 0
		}
		s := c.info.Selections[f]
		if s == nil {
			return text + c.instance(f.Sel), 0
		}
		t, why := c.typeOrFault(s.Recv())
		if s.Kind() != types.MethodVal || why != "" {
			return "", 0
		}
		_, ptrMethod := fn.Signature().Recv().Type().(*types.Pointer)
		if _, isPtr := s.Recv().Underlying().(*types.Pointer); ptrMethod && !isPtr {
			t = "*" + t
		}
		name := fn.Name()
		if IsCell(fn.Pkg()) {
			name = mangle(name)
		}
		return "(" + t + ")." + name, 1
	}
	return "", 0
}

// instance writes the type arguments of a generic function.
func (c *checker) instance(id *ast.Ident) string {
	l := c.info.Instances[id].TypeArgs
	if l.Len() == 0 {
		return ""
	}
	var args []string
	for i := range l.Len() {
		args = append(args, c.typeText(l.At(i)))
	}
	return "[" + strings.Join(args, ", ") + "]"
}

func (c *checker) zeroValue() string {
	name := own + "zero"
	c.zeros[name] = "func " + name + "[T any](T) (z T) { return }\n"
	return name
}

// zeroResult names a helper that gives the zero value of result number index of a function with recv more parameters.
func (c *checker) zeroResult(sig *types.Signature, recv, index int) string {
	params, results := sig.Params().Len()+recv, sig.Results().Len()
	name := fmt.Sprintf("%szero_%d_%d_%d", own, params, results, index)
	var vars, in, out []string
	for i := range params {
		v := fmt.Sprintf("A%d", i)
		vars = append(vars, v)
		if sig.Variadic() && i == params-1 {
			v, name = "..."+v, name+"v"
		}
		in = append(in, v)
	}
	for i := range results {
		v := fmt.Sprintf("R%d", i)
		vars, out = append(vars, v), append(out, v)
	}
	c.zeros[name] = fmt.Sprintf("func %s[%s any](func(%s) (%s)) (z R%d) { return }\n",
		name, strings.Join(vars, ", "), strings.Join(in, ", "), strings.Join(out, ", "), index)
	return name
}
