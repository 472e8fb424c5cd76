package assist

import (
	"fmt"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/rooflab/rooflab/kernel/session"
)

// document is a cell with the session around it, as text for gopls: two files of one package.
type document struct {
	cell   string
	cursor int
	state  string
}

// goplsText writes the files. The mark is taken out of the cell.
func goplsText(c *checked) document {
	var head strings.Builder
	head.WriteString("package main\n")
	mine := map[string]bool{}
	for _, sp := range c.file.Imports {
		p := strings.Trim(sp.Path.Value, "\"`")
		mine[path.Base(p)] = true
		if sp.Name != nil {
			mine[sp.Name.Name] = true
		}
	}
	for _, n := range c.state.Names() {
		if n.Object == nil && !mine[n.Name] {
			fmt.Fprintf(&head, "import %s %q\n", n.Name, n.Path)
		}
	}
	body := strings.TrimPrefix(c.text, "package main\n")
	at := max(strings.Index(body, mark), 0)
	return document{
		cell:   head.String() + strings.Replace(body, mark, "", 1),
		cursor: head.Len() + at,
		state:  stateText(c),
	}
}

// stateText declares what the cell does not: variables with their types, functions, types and constants as they were
// written. Bodies stay; gopls needs no more of them than that they parse.
func stateText(c *checked) string {
	imports := map[string]string{} // path -> name
	qualify := func(p *types.Package) string {
		if session.IsCell(p) {
			return ""
		}
		if imports[p.Path()] == "" {
			imports[p.Path()] = fmt.Sprintf("%s_%d", p.Name(), len(imports))
		}
		return imports[p.Path()]
	}
	var decls strings.Builder
	for _, n := range c.state.Names() {
		if n.Object == nil || c.pkg.Scope().Lookup(n.Name) != nil || !session.IsCell(n.Object.Pkg()) {
			continue
		}
		switch o := n.Object.(type) {
		case *types.Var:
			fmt.Fprintf(&decls, "var %s %s\n", n.Name, types.TypeString(o.Type(), qualify))
		case *types.Const:
			fmt.Fprintf(&decls, "const %s = %s\n", n.Name, o.Val().ExactString())
		case *types.Func:
			fmt.Fprintf(&decls, "func %s%s { panic(0) }\n", n.Name, strings.TrimPrefix(types.TypeString(o.Type(), qualify), "func"))
		case *types.TypeName:
			typeText(&decls, o, qualify)
		}
	}
	var b strings.Builder
	b.WriteString("package main\n")
	paths := make([]string, 0, len(imports))
	for p := range imports {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		fmt.Fprintf(&b, "import %s %q\n", imports[p], p)
	}
	return b.String() + decls.String()
}

// typeText declares a type with its methods. Constraints are written as the type parameters have them.
func typeText(b *strings.Builder, o *types.TypeName, qualify types.Qualifier) {
	if o.IsAlias() {
		fmt.Fprintf(b, "type %s = %s\n", o.Name(), types.TypeString(types.Unalias(o.Type()), qualify))
		return
	}
	fmt.Fprintf(b, "%s\n", types.ObjectString(o, qualify))
	n, ok := o.Type().(*types.Named)
	if !ok || types.IsInterface(n) {
		return
	}
	for m := range n.Methods() {
		sig := m.Signature()
		fmt.Fprintf(b, "func (%s) %s%s { panic(0) }\n", types.TypeString(sig.Recv().Type(), qualify), m.Name(),
			strings.TrimPrefix(types.TypeString(sig, qualify), "func"))
	}
}
