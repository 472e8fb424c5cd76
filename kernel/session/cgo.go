package session

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"reflect"
	"strings"
)

// gotypes is the file name of what cgo declares.
const gotypes = "_cgo_gotypes.go"

// isC tells whether an import chunk imports "C".
func isC(k *chunk) bool {
	_, path, _ := strings.Cut(k.text, "import")
	return strings.Trim(path, " \t()") == `"C"`
}

// findC asks cgo for the declarations behind the C. names of the checked text.
func (c *checker) findC() error {
	at := func(msg string) error {
		for _, k := range c.chunks {
			if k.kind == kImport && strings.Contains(k.text, `"C"`) {
				return ErrorList{k.fault(0, msg)}
			}
		}
		return errors.New(msg)
	}
	ok := false
	for _, k := range c.chunks {
		ok = ok || k.kind == kImport && isC(k)
	}
	if !ok {
		return at(`"C" must be imported by a declaration of its own: import "C"`)
	}
	if c.s.Cgo == nil {
		return at(`this kernel cannot run cells that import "C"`)
	}
	text, err := c.s.Cgo(c.n, []byte(c.text))
	if err != nil {
		return at(err.Error())
	}
	c.cfile, err = parser.ParseFile(c.s.fset, gotypes, text, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("read what cgo declares: %w", err)
	}
	return nil
}

// usesCgo makes go/types look for C.x where cgo declares it. There is no exported option.
func usesCgo(conf *types.Config) {
	f := reflect.ValueOf(conf).Elem().FieldByName("go115UsesCgo")
	*(*bool)(f.Addr().UnsafePointer()) = true
}

// ofC tells whether a selector is C.x.
func (c *checker) ofC(n *ast.SelectorExpr) bool {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return false
	}
	p, ok := c.info.Uses[id].(*types.PkgName)
	return ok && p.Imported().Path() == "C"
}

// fromC tells whether cgo has declared an object.
func (s *Session) fromC(o types.Object) bool {
	return o.Pos().IsValid() && s.fset.PositionFor(o.Pos(), false).Filename == gotypes
}

// nameInC is what C calls a type that cgo has declared. A struct without a tag has the name of its typedef.
func (c *checker) nameInC(o *types.TypeName) string {
	const prefix = "_Ctype_"
	if !strings.HasPrefix(o.Name(), prefix+"struct___") && !strings.HasPrefix(o.Name(), prefix+"union___") {
		return strings.TrimPrefix(o.Name(), prefix)
	}
	for _, name := range c.top.Names() {
		if t, ok := c.top.Lookup(name).(*types.TypeName); ok && t.IsAlias() && types.Identical(t.Type(), o.Type()) && strings.HasPrefix(name, prefix) {
			return strings.TrimPrefix(name, prefix)
		}
	}
	return ""
}
