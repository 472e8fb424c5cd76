package nbclient

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// GoParameters names the variables that the parameters cell of a Go notebook declares, sorted; none without such a cell.
func GoParameters(nb *nbformat.Notebook) ([]string, error) {
	for i := range nb.Cells {
		if c := &nb.Cells[i]; c.Type == nbformat.Code && c.HasTag(tagParameters) {
			types, err := goVariables(c.Source)
			if err != nil {
				return nil, fmt.Errorf("read the parameters cell: %w", err)
			}
			return sortedKeys(types), nil
		}
	}
	return nil, nil
}

// CheckGoParams says which value does not fit the variable that the notebook's parameters cell declares for it.
func CheckGoParams(nb *nbformat.Notebook, params []Param) error {
	if len(params) == 0 {
		return nil
	}
	_, err := inject(&nbformat.Notebook{Cells: slices.Clone(nb.Cells)}, params, "go")
	return err
}

// goAssigner returns how to write values for the variables that a Go parameters cell declares. Without a parameters
// cell the injected cell declares the variables itself.
func goAssigner(declared string, hasCell bool) (func(Param) (string, error), error) {
	if !hasCell {
		return func(p Param) (string, error) {
			lit, err := goLiteral(p, "")
			return "var " + p.Name + " = " + lit, err
		}, nil
	}
	types, err := goVariables(declared)
	if err != nil {
		return nil, fmt.Errorf("read the parameters cell: %w", err)
	}
	return func(p Param) (string, error) {
		kind, ok := types[p.Name]
		if !ok {
			return "", fmt.Errorf("parameter %s: the parameters cell does not declare it; it declares %s", p.Name, strings.Join(sortedKeys(types), ", "))
		}
		lit, err := goLiteral(p, kind)
		return p.Name + " = " + lit, err
	}, nil
}

// goVariables finds the variables of a cell and their types, as far as they can be read off: "int", "float64",
// "string", "bool", a slice of one of these, or "" when unknown.
func goVariables(source string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "cell", "package p;"+source, parser.SkipObjectResolution)
	if err != nil { // := is allowed in a cell, in a file it is not
		var inFunc error
		if file, inFunc = parser.ParseFile(token.NewFileSet(), "cell", "package p; func _() {"+source+"\n}", parser.SkipObjectResolution); inFunc != nil {
			return nil, err
		}
	}
	types := map[string]string{}
	add := func(names []ast.Expr, typ ast.Expr, values []ast.Expr) {
		for i, n := range names {
			id, ok := n.(*ast.Ident)
			if !ok || id.Name == "_" {
				continue
			}
			types[id.Name] = ""
			if typ != nil {
				types[id.Name] = typeText(typ)
			} else if i < len(values) && len(values) == len(names) {
				types[id.Name] = typeOf(values[i])
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			var names []ast.Expr
			for _, id := range n.Names {
				names = append(names, id)
			}
			add(names, n.Type, n.Values)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs, nil, n.Rhs)
			}
		case *ast.FuncDecl:
			return n.Name.Name == "_" // only the one made above
		case *ast.FuncLit:
			return false
		}
		return true
	})
	return types, nil
}

func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.ArrayType:
		if e.Len == nil {
			if elem := typeText(e.Elt); elem != "" {
				return "[]" + elem
			}
		}
	}
	return ""
}

// typeOf gives the type of a literal, "" for any other expression.
func typeOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		switch e.Kind {
		case token.INT:
			return "int"
		case token.FLOAT:
			return "float64"
		case token.STRING:
			return "string"
		}
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return "bool"
		}
	case *ast.UnaryExpr:
		return typeOf(e.X)
	case *ast.ParenExpr:
		return typeOf(e.X)
	case *ast.CompositeLit:
		return typeText(e.Type)
	}
	return ""
}

// goLiteral writes a value for a variable of the given type; "" means that the value decides.
func goLiteral(p Param, typ string) (string, error) {
	if typ == "string" && p.text != "" {
		if _, isString := p.Value.(string); !isString {
			return strconv.Quote(p.text), nil
		}
	}
	elem, ok := strings.CutPrefix(typ, "[]")
	list, isList := p.Value.([]any)
	if !isList && ok && p.text != "" {
		list, isList = p.split(elem), true
	}
	if !isList {
		return goScalar(p.Name, p.Value, typ)
	}
	if typ == "" {
		elem = commonType(list)
	} else if !ok {
		return "", mismatch(p.Name, typ, p.Value)
	}
	parts := make([]string, len(list))
	for i, v := range list {
		lit, err := goScalar(p.Name, v, elem)
		if err != nil {
			return "", mismatch(p.Name, "[]"+elem, p.Value)
		}
		parts[i] = lit
	}
	return "[]" + elem + "{" + strings.Join(parts, ", ") + "}", nil
}

// List returns the value for a variable that is declared as a slice of numbers.
func (p Param) List() []any {
	if list, ok := p.Value.([]any); ok {
		return list
	}
	return p.split("")
}

// split reads a list as it is typed on a command line: 1,4,8.
func (p Param) split(elem string) []any {
	var list []any
	for _, word := range strings.Split(p.text, ",") {
		word = strings.TrimSpace(word)
		v, err := decodeParam([]byte(word))
		if err != nil || elem == "string" {
			v = word
		}
		list = append(list, v)
	}
	return list
}

func goScalar(name string, v any, typ string) (string, error) {
	switch v := v.(type) {
	case string:
		if typ == "string" || typ == "" {
			return strconv.Quote(v), nil
		}
	case bool:
		if typ == "bool" || typ == "" {
			return strconv.FormatBool(v), nil
		}
	case json.Number:
		whole := !strings.ContainsAny(v.String(), ".eE")
		isFloat := typ == "float64" || typ == "float32"
		isInt := strings.HasPrefix(typ, "int") || strings.HasPrefix(typ, "uint")
		if isFloat || isInt && whole || typ == "" {
			return v.String(), nil
		}
	}
	return "", mismatch(name, typ, v)
}

func mismatch(name, typ string, v any) error {
	raw, _ := json.Marshal(v) // came from JSON
	if typ == "" {
		return fmt.Errorf("parameter %s: a Go variable cannot be %s", name, raw)
	}
	return fmt.Errorf("parameter %s is %s in the parameters cell, got %s", name, typ, raw)
}

// commonType is the element type of a list whose variable has no known type.
func commonType(list []any) string {
	typ := ""
	for _, v := range list {
		t := "string"
		switch v := v.(type) {
		case bool:
			t = "bool"
		case json.Number:
			if t = "int"; strings.ContainsAny(v.String(), ".eE") {
				t = "float64"
			}
		}
		if typ == "int" && t == "float64" || typ == "float64" && t == "int" {
			t = "float64"
		}
		typ = t
	}
	if typ == "" {
		return "string"
	}
	return typ
}

// GoDefaults returns the values of the variables that the parameters cell of a Go notebook declares, as far as they are
// literals: int64, float64, string, bool, or []any of these.
func GoDefaults(nb *nbformat.Notebook) (map[string]any, error) {
	values := map[string]any{}
	for i := range nb.Cells {
		c := &nb.Cells[i]
		if c.Type != nbformat.Code || !c.HasTag(tagParameters) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "cell", "package p;"+c.Source, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read the parameters cell: %w", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				if v, ok := literal(spec.Values[i]); ok {
					values[name.Name] = v
				}
			}
			return false
		})
	}
	return values, nil
}

func literal(e ast.Expr) (any, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		switch e.Kind {
		case token.INT:
			v, err := strconv.ParseInt(e.Value, 0, 64)
			return v, err == nil
		case token.FLOAT:
			v, err := strconv.ParseFloat(e.Value, 64)
			return v, err == nil
		case token.STRING:
			v, err := strconv.Unquote(e.Value)
			return v, err == nil
		}
	case *ast.Ident:
		return e.Name == "true", e.Name == "true" || e.Name == "false"
	case *ast.CompositeLit:
		list := []any{}
		for _, x := range e.Elts {
			v, ok := literal(x)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	}
	return nil, false
}
