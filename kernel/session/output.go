package session

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// This file rewrites what cells use of std that must know the cell: output, time, contexts, the end of the process.

// stdMember replaces members of std packages wherever they stand.
func (c *checker) stdMember(n *ast.SelectorExpr) {
	if text := c.streams[n]; text != "" {
		c.cover(n.Pos(), n.End(), text)
		return
	}
	f, ok := c.info.Uses[n.Sel].(*types.Func)
	if !ok || f.Pkg() == nil {
		return
	}
	switch f.FullName() {
	case "os.Exit":
		c.cover(n.Pos(), n.End(), rt+"Exit")
	case "log.Fatal", "log.Fatalf", "log.Fatalln":
		params, args := "a ...interface{}", "a..."
		if f.Name() == "Fatalf" {
			params, args = "f string, a ...interface{}", "f, a..."
		}
		c.cover(n.Pos(), n.End(), fmt.Sprintf("(func(%s) { %s.%s(%s); %sExit(1) })", params, c.alias("log"), strings.Replace(f.Name(), "Fatal", "Print", 1), args, rt))
	case "time.Sleep":
		c.cover(n.Pos(), n.End(), rt+"Sleep["+c.alias("time")+".Duration]")
	}
}

// call rewrites calls of certain functions.
func (c *checker) call(n *ast.CallExpr) func() {
	if id, ok := ast.Unparen(n.Fun).(*ast.Ident); ok {
		if b, ok := c.info.Uses[id].(*types.Builtin); ok {
			switch {
			case slices.ContainsFunc(n.Args, c.isInterface): // printed as two words, which rt cannot know
			case b.Name() == "recover" && !c.direct[n] && !c.skip[n]:
				c.insert(n.Pos(), rt+"Filter(")
				return func() { c.insert(n.End(), ")") }
			case b.Name() == "print":
				c.replace(n.Fun.Pos(), n.Fun.End(), rt+"Print")
			case b.Name() == "println":
				c.replace(n.Fun.Pos(), n.Fun.End(), rt+"Println")
			}
			return nil
		}
	}
	f := c.callee(n)
	if f == nil || f.Pkg() == nil || IsCell(f.Pkg()) {
		return nil
	}
	c.writers(n, f)
	switch name := f.FullName(); name {
	case "fmt.Print", "fmt.Printf", "fmt.Println":
		return c.print(n, f.Name())
	case "context.Background", "context.TODO":
		if c.skip[n] {
			return nil
		}
		return func() { c.cover(n.Pos(), n.End(), rt+"Context().("+c.alias("context")+".Context)") }
	case "(*sync.WaitGroup).Go", "time.AfterFunc", "context.AfterFunc":
		return c.guardArg(n.Args[len(n.Args)-1])
	case "(*os.File).Write", "(*os.File).WriteString":
		return c.fileWrite(n, f.Name())
	}
	return nil
}

func (c *checker) isInterface(x ast.Expr) bool {
	t := c.info.TypeOf(x)
	return t != nil && types.IsInterface(t)
}

// print: fmt.Print*(...) becomes fmt.Fprint*(rt.Stdout(), ...).
func (c *checker) print(n *ast.CallExpr, name string) func() {
	fun := c.alias("fmt") + ".F" + "p" + name[1:]
	if len(n.Args) == 1 {
		if _, ok := c.info.TypeOf(n.Args[0]).(*types.Tuple); ok { // fmt.Print(f()) with several results
			params, args := "a ...any", "a..."
			if name == "Printf" {
				params, args = "f string, a ...any", "f, a..."
			}
			fun = fmt.Sprintf("func(%s) (int, error) { return %s(%sStdout(), %s) }", params, fun, rt, args)
			return func() { c.cover(n.Fun.Pos(), n.Fun.End(), fun) }
		}
	}
	out := rt + "Stdout()"
	if len(n.Args) > 0 {
		out += ", "
	}
	if c.skip[n] { // of a go statement, which writes the call anew
		c.extra[n] = out
	} else {
		c.insert(n.Lparen+1, out)
	}
	return func() { c.cover(n.Fun.Pos(), n.Fun.End(), fun) }
}

// stream tells whether x is os.Stdout or os.Stderr, and what stands for it.
func (c *checker) stream(x ast.Expr) string {
	sel, ok := ast.Unparen(x).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	v, ok := c.info.Uses[sel.Sel].(*types.Var)
	if !ok || v.Pkg() == nil || v.Pkg().Path() != "os" || v.IsField() {
		return ""
	}
	switch v.Name() {
	case "Stdout", "Stderr":
		return rt + v.Name() + "()"
	}
	return ""
}

// writers replaces the standard streams where a function of another package wants an io.Writer. Functions of cells get
// the file itself: they may look for its type.
func (c *checker) writers(n *ast.CallExpr, f *types.Func) {
	sig, ok := c.info.TypeOf(n.Fun).(*types.Signature)
	if !ok || n.Ellipsis.IsValid() {
		return
	}
	for i, a := range n.Args {
		text := c.stream(a)
		if text == "" {
			continue
		}
		var t types.Type
		if last := sig.Params().Len() - 1; sig.Variadic() && i >= last {
			t = sig.Params().At(last).Type().(*types.Slice).Elem()
		} else if i <= last {
			t = sig.Params().At(i).Type()
		}
		if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Name() == "Writer" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "io" {
			c.streams[ast.Unparen(a)] = text
		}
	}
}

// fileWrite: os.Stdout.WriteString(s) becomes rt.Stdout().Write([]byte(s)).
func (c *checker) fileWrite(n *ast.CallExpr, name string) func() {
	sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
	if !ok || len(n.Args) != 1 || c.skip[n] {
		return nil
	}
	text := c.stream(sel.X)
	if _, several := c.info.TypeOf(n.Args[0]).(*types.Tuple); text == "" || several {
		return nil
	}
	if name == "WriteString" {
		c.insert(n.Args[0].Pos(), "[]byte(")
	}
	return func() {
		c.cover(n.Fun.Pos(), n.Fun.End(), text+".Write")
		if name == "WriteString" {
			c.insert(n.Args[0].End(), ")")
		}
	}
}

// guardArg guards a function that another package runs in a goroutine of its own.
func (c *checker) guardArg(x ast.Expr) func() {
	if f, ok := ast.Unparen(x).(*ast.FuncLit); ok {
		c.insert(f.Body.Lbrace+1, "defer "+rt+"Guard();")
		return nil
	}
	c.insert(x.Pos(), "func(f func()) func() { return func() { defer "+rt+"Guard(); f() } }(")
	return func() { c.insert(x.End(), ")") }
}
