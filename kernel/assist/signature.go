package assist

import (
	"go/types"
	"strings"

	"github.com/rooflab/rooflab/kernel/session"
)

// kindOf names the kind of an object for front ends.
func kindOf(o types.Object) string {
	switch o := o.(type) {
	case *types.PkgName:
		return "package"
	case *types.Const, *types.Nil:
		return "const"
	case *types.TypeName:
		return "type"
	case *types.Var:
		if o.IsField() {
			return "field"
		}
		return "variable"
	case *types.Func:
		if o.Signature().Recv() != nil {
			return "method"
		}
		return "function"
	case *types.Builtin:
		return "function"
	case *types.Label:
		return "label"
	}
	return ""
}

// byName writes packages by their names, and types of cells without.
func byName(p *types.Package) string {
	if session.IsCell(p) {
		return ""
	}
	return p.Name()
}

// signature is what is shown beside a match: the type of a variable, the parameters of a function.
func (q *query) signature(o types.Object) string {
	switch o := o.(type) {
	case *types.PkgName:
		return `"` + o.Imported().Path() + `"`
	case *types.Func:
		return strings.TrimPrefix(types.TypeString(o.Type(), byName), "func")
	case *types.TypeName:
		return kindOfType(o)
	case *types.Const:
		return types.TypeString(o.Type(), byName) + " = " + o.Val().String()
	case *types.Var:
		if !known(o.Type()) {
			return ""
		}
		return types.TypeString(o.Type(), byName)
	}
	return ""
}

// kindOfType says in a word what a type is.
func kindOfType(o *types.TypeName) string {
	if !known(o.Type()) {
		return ""
	}
	switch u := o.Type().Underlying().(type) {
	case *types.Struct:
		return "struct"
	case *types.Interface:
		return "interface"
	case *types.Basic:
		if u.Name() == o.Name() {
			return ""
		}
		return u.Name()
	default:
		return types.TypeString(u, byName)
	}
}
