package session

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// This file rewrites what can block, so that an interrupt ends it, and guards goroutines against panics.

// isChan tells whether x is a channel that the helpers of package rt can work on. They cannot infer the element type
// of a type parameter.
func (c *checker) isChan(x ast.Expr) bool {
	t := c.info.TypeOf(x)
	if t == nil {
		return false
	}
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return false
	}
	_, ok := t.Underlying().(*types.Chan)
	return ok
}

// receive: <-c becomes rt.Recv(c), or rt.Recv2(c) where commaOK has seen that two values are wanted.
func (c *checker) receive(n *ast.UnaryExpr) func() {
	if n.Op != token.ARROW || c.skip[n] || !c.isChan(n.X) {
		return nil
	}
	name := "Recv("
	if c.two[n] {
		name = "Recv2("
	}
	c.replace(n.OpPos, n.OpPos+2, rt+name)
	return func() { c.insert(n.X.End(), ")") }
}

// commaOK notes that x, if it is a receive, has a second result of type t. The result is an untyped bool, so that it
// can go into a variable of another boolean type; such a receive stays as it is.
func (c *checker) commaOK(x ast.Expr, t types.Type, blank bool) {
	n, ok := ast.Unparen(x).(*ast.UnaryExpr)
	if !ok || n.Op != token.ARROW {
		return
	}
	if blank || t != nil && (types.Identical(t, types.Typ[types.Bool]) || types.Identical(t, types.Typ[types.UntypedBool]) || types.IsInterface(t)) {
		c.two[n] = true
	} else {
		c.skip[n] = true
	}
}

// send: c <- v becomes rt.To(c).Send(v).
func (c *checker) send(n *ast.SendStmt) func() {
	if c.skip[n] || !c.isChan(n.Chan) {
		return nil
	}
	c.insert(n.Chan.Pos(), rt+"To(")
	c.replace(n.Arrow, n.Arrow+2, ").Send(")
	return func() { c.insert(n.Value.End(), ")") }
}

// selectStmt gives a select without default one more case. The operations of its cases stay as they are.
func (c *checker) selectStmt(n *ast.SelectStmt) {
	blocks := true
	for _, st := range n.Body.List {
		cc := st.(*ast.CommClause)
		switch comm := cc.Comm.(type) {
		case nil:
			blocks = false
		case *ast.SendStmt:
			c.skip[comm] = true
		case *ast.ExprStmt:
			c.skip[ast.Unparen(comm.X)] = true
		case *ast.AssignStmt:
			c.skip[ast.Unparen(comm.Rhs[0])] = true
		}
	}
	if blocks {
		c.insert(n.Body.Lbrace+1, fmt.Sprintf("case <-%sStopped(): panic(%sHalt());", rt, rt))
	}
}

// rangeChan: a loop over a channel becomes a loop around rt.Recv2.
func (c *checker) rangeChan(n *ast.RangeStmt) func() {
	return func() {
		ch, ok := own+"ch", own+"ok"
		assign, value := "", "_"
		switch {
		case n.Key == nil:
		case n.Tok == token.DEFINE:
			value = c.textIn(n.Key.Pos(), n.Key.End())
		default:
			value = own + "v"
			assign = c.textIn(n.Key.Pos(), n.Key.End()) + " = " + value + "; "
		}
		c.cover(n.For+3, n.Range+5, " "+ch+" := ")
		c.replace(n.Body.Lbrace, n.Body.Lbrace+1, fmt.Sprintf("; ; { %sPoll(); %s, %s := %sRecv2(%s); if !%s { break }; %s{", rt, value, ok, rt, ch, ok, assign))
		c.insert(n.Body.Rbrace+1, "}")
	}
}

// goStmt guards a new goroutine against panics. A function literal gets the guard inside. For everything else the
// function and its arguments are evaluated here, as the go statement would do, and called behind a guard.
func (c *checker) goStmt(g *ast.GoStmt) func() {
	call := g.Call
	if f, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		c.insert(f.Body.Lbrace+1, "defer "+rt+"Guard();")
		return nil
	}
	return func() {
		var names, values, args []string
		head := "{ "
		bind := func(name, value string) {
			names, values = append(names, name), append(values, value)
		}
		declare := func() {
			if len(names) > 0 {
				head += strings.Join(names, ", ") + " := " + strings.Join(values, ", ") + "; "
			}
			names, values = nil, nil
		}
		fun := c.textIn(call.Fun.Pos(), call.Fun.End())
		tv := c.info.Types[call.Fun]
		if fn := c.callee(call); !tv.IsBuiltin() && (fn == nil || fn.Signature().Recv() != nil) {
			bind(own+"f", fun)
			fun = own + "f"
		}
		for i, a := range call.Args {
			at := c.info.Types[a]
			text := c.textIn(a.Pos(), a.End())
			if tup, ok := at.Type.(*types.Tuple); ok { // f(g()) with several results
				var all []string
				for j := range tup.Len() {
					all = append(all, fmt.Sprintf("%sa%d", own, j))
				}
				declare()
				names, values, args = all, []string{text}, all
				break
			}
			if at.Value != nil || at.IsNil() || at.IsType() {
				args = append(args, text)
				continue
			}
			name := fmt.Sprintf("%sa%d", own, i)
			bind(name, c.typed(a, text))
			args = append(args, name)
		}
		list := strings.Join(args, ", ")
		if call.Ellipsis.IsValid() {
			list += "..."
		}
		declare()
		text := fmt.Sprintf("%sgo func() { defer %sGuard(); %s(%s%s) }() }", head, rt, fun, c.extra[call], list)
		lost := strings.Count(c.text[c.tfile.Offset(g.Pos()):c.tfile.Offset(g.End())], "\n") - strings.Count(text, "\n")
		c.cover(g.Pos(), g.End(), text+strings.Repeat("\n", max(lost, 0)))
	}
}

// typed gives an argument the type that it has as an argument. Comparisons and shifts may have another one when they
// stand alone.
func (c *checker) typed(x ast.Expr, text string) string {
	t := c.info.TypeOf(x)
	switch ast.Unparen(x).(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr:
	default:
		return text
	}
	b, ok := t.Underlying().(*types.Basic)
	if !ok || types.Identical(t, types.Typ[types.Bool]) || types.Identical(t, types.Typ[types.Int]) || b.Info()&types.IsUntyped != 0 {
		return text
	}
	if n, ok := types.Unalias(t).(*types.Named); ok && !c.known(n.Obj()) && !c.topLevel(n.Obj()) && IsCell(n.Obj().Pkg()) {
		return text // a local type: it has the name that the user gave it, and the operands have it too
	}
	return "(" + c.typeText(t) + ")(" + text + ")"
}
