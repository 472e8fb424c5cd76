package session

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"sort"
	"strings"
)

// emitter is what is collected while a cell is emitted.
type emitter struct {
	edits   edits
	aliases map[string]string             // path -> generated import name
	cells   map[int]bool                  // earlier cells referred to
	vars    []global                      // top-level variables of this cell, in order
	ptrs    map[types.Object]types.Object // of these, the ones that are an earlier variable with a new type
	inits   []string                      // new names of the cell's init functions
	basics  map[string]bool               // predeclared types that need an exported alias
	zeros   map[string]string             // helpers that give a variable its type; name -> source
	embeds  []Embed
	faults  ErrorList

	recursive map[*ast.FuncDecl]bool // functions that may call themselves, perhaps by others

	labels map[ast.Stmt]*ast.LabeledStmt
	levels map[ast.Stmt]int      // see level
	shared map[types.Object]bool // see isShared
	twins  int                   // loops that have become two

	skip    map[ast.Node]bool        // do not rewrite this as usual
	two     map[ast.Expr]bool        // receives with two results
	extra   map[*ast.CallExpr]string // first arguments that a go statement adds
	direct  map[*ast.CallExpr]bool   // calls of defer statements
	streams map[ast.Expr]string      // os.Stdout and os.Stderr, and what stands for them
}

// global is a top-level variable. Its type is that of result index of from.
type global struct {
	v     *types.Var
	from  ast.Expr
	index int
}

// emit generates the cell's file.
func (c *checker) emit() ([]byte, error) {
	c.emitter = emitter{
		aliases: map[string]string{}, cells: map[int]bool{}, ptrs: map[types.Object]types.Object{},
		basics: map[string]bool{}, zeros: map[string]string{}, labels: map[ast.Stmt]*ast.LabeledStmt{}, levels: map[ast.Stmt]int{},
		skip: map[ast.Node]bool{}, two: map[ast.Expr]bool{}, extra: map[*ast.CallExpr]string{}, direct: map[*ast.CallExpr]bool{}, streams: map[ast.Expr]string{},
	}
	for _, k := range c.chunks {
		if k.migrate != nil {
			c.ptrs[c.top.Lookup(k.defines[0])] = k.migrate
		}
	}
	c.rewrite()
	decls, body := c.declsAndBody()
	vars := c.varDecls()
	if len(c.faults) > 0 {
		return nil, c.faults.sorted()
	}
	for _, name := range sortedKeys(c.basics) {
		vars += fmt.Sprintf("type %s = %s\n", mangle(name), name)
	}
	for _, name := range sortedKeys(c.zeros) {
		vars += c.zeros[name]
	}
	// The package is not called main: then it has no plug-in table, which would clash with that of the cells that it
	// imports. The worker strips the prefix from type strings, so users see main.T.
	var b strings.Builder
	b.WriteString("package " + own + "main\n")
	b.WriteString(c.importDecls(vars + decls + body))
	b.WriteString(vars)
	b.WriteString(decls)
	b.WriteString(c.table())
	fmt.Fprintf(&b, "//go:noinline\nfunc %s(%sc *%sCell) {\n%s}\nfunc main() { %s(nil); %s() }\n", RunName, own, rt, body, RunName, TableName)
	return []byte(b.String()), nil
}

// importDecls imports what the text needs; a name may have been used only in a part that was left out.
func (c *checker) importDecls(text string) string {
	var b strings.Builder
	for _, k := range c.chunks {
		if k.kind == kImport && isC(k) { // what stands directly before it is C
			fmt.Fprintf(&b, "//#line %d \"cell[%d]\"\n%simport \"C\"\n", max(k.docLine, 1), k.cell, k.doc)
		}
	}
	imp := func(name, path string) { fmt.Fprintf(&b, "import %s %q\n", name, path) }
	imp(own+"rt", rtPath)
	for _, p := range sortedKeys(c.aliases) {
		if strings.Contains(text, c.aliases[p]+".") {
			imp(c.aliases[p], p)
		}
	}
	for _, p := range c.blank {
		imp("_", p)
	}
	if len(c.embeds) > 0 {
		imp("_", "embed")
	}
	cells := make([]int, 0, len(c.cells))
	for k := range c.cells {
		cells = append(cells, k)
	}
	sort.Ints(cells)
	for _, k := range cells {
		if a := fmt.Sprintf("%sc%d", own, k); strings.Contains(text, a+".") {
			imp(a, PkgPath(k))
		}
	}
	return b.String()
}

// mark gives the text after it the position of a chunk or of a node in its cell.
func (c *checker) mark(b *strings.Builder, pos token.Pos) {
	off := c.tfile.Offset(pos)
	if k := c.chunkAt(off); k != nil {
		line, col := k.at(off - k.off)
		fmt.Fprintf(b, "/*line cell[%d]:%d:%d*/", k.cell, line, col)
	}
}

// initSpec is an assignment that initialises package-level variables.
type initSpec struct {
	text  string
	pos   token.Pos
	order int // in go/types' order of initialisation
}

// declsAndBody writes the cell's functions and types, and its statements. Variables become assignments among the
// statements, in the order of the source; neighbours are ordered by what they need.
func (c *checker) declsAndBody() (string, string) {
	var decls, body strings.Builder
	declAt := map[*chunk]ast.Decl{}
	for _, d := range c.file.Decls {
		if k := c.chunkOf(d.Pos()); k != nil && d != c.run {
			declAt[k] = d
		}
	}
	stmtAt := map[*chunk][]ast.Stmt{}
	for _, st := range c.run.Body.List {
		if k := c.chunkOf(st.Pos()); k != nil {
			stmtAt[k] = append(stmtAt[k], st)
		}
	}
	assign := func(l []initSpec) {
		for _, p := range l {
			c.mark(&body, p.pos)
			body.WriteString(p.text + "\n")
		}
	}
	var pending []initSpec
	flush := func() {
		sort.SliceStable(pending, func(i, j int) bool { return pending[i].order < pending[j].order })
		assign(pending)
		pending = nil
	}
	inits := c.inits
	for _, k := range c.chunks {
		switch k.kind {
		case kImport:
		case kVar:
			pending = append(pending, c.initSpecs(declAt[k].(*ast.GenDecl))...)
		case kStmt:
			flush()
			for _, st := range stmtAt[k] {
				if g := varDecl(st); g != nil {
					assign(c.initSpecs(g))
					continue
				}
				c.mark(&body, st.Pos())
				body.WriteString(c.textIn(st.Pos(), st.End()) + "\n")
			}
			if len(stmtAt[k]) > 0 {
				body.WriteString(own + "c.Step()\n")
			}
		default:
			if k.kind == kFunc && k.name == "init" {
				flush()
				body.WriteString(inits[0] + "()\n")
				inits = inits[1:]
			}
			if k.pragma != "" {
				fmt.Fprintf(&decls, "//line cell[%d]:%d:1\n%s", k.cell, k.pragmaAt, k.pragma)
			}
			fmt.Fprintf(&decls, "/*line cell[%d]:%d:%d*/%s\n", k.cell, k.line, k.col, c.edited(k.off, k.end))
		}
	}
	flush()
	if c.isMain {
		if f, ok := c.lookup("main").(*types.Func); ok {
			body.WriteString(c.ref(f) + "()\n")
		}
	}
	return decls.String(), body.String()
}

// lookup finds what a name means at the cell's top level.
func (c *checker) lookup(name string) types.Object {
	if o := c.top.Lookup(name); o != nil {
		return o
	}
	return c.s.env[name].obj
}

func varDecl(st ast.Stmt) *ast.GenDecl {
	if ds, ok := st.(*ast.DeclStmt); ok {
		if g, ok := ds.Decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
			return g
		}
	}
	return nil
}

// initSpecs turns a var declaration into assignments, and notes its variables.
func (c *checker) initSpecs(g *ast.GenDecl) (out []initSpec) {
	for _, sp := range g.Specs {
		v := sp.(*ast.ValueSpec)
		var names []string
		for i, id := range v.Names {
			names = append(names, mangle(id.Name))
			if o, ok := c.info.Defs[id].(*types.Var); ok && id.Name != "_" {
				c.variable(o, v.Values, i)
			}
		}
		if len(v.Values) == 0 {
			continue
		}
		text := c.textIn(v.Values[0].Pos(), v.Values[len(v.Values)-1].End())
		if v.Type != nil && len(v.Names) == 1 && v.Names[0].Name == "_" {
			text = "(" + c.textIn(v.Type.Pos(), v.Type.End()) + ")(" + text + ")"
		}
		out = append(out, initSpec{strings.Join(names, ", ") + " = " + text, v.Values[0].Pos(), c.initOrder(v.Names[0])})
	}
	return out
}

func (c *checker) initOrder(id *ast.Ident) int {
	o := c.info.Defs[id]
	for i, in := range c.info.InitOrder {
		for _, v := range in.Lhs {
			if v == o {
				return i
			}
		}
	}
	return len(c.info.InitOrder)
}

// varDecls declares the cell's top-level variables, without values.
func (c *checker) varDecls() string {
	var b strings.Builder
	for _, g := range c.globals() {
		name := mangle(g.v.Name())
		if k := c.chunkOf(g.v.Pos()); k != nil && k.embeds[g.v.Name()] != "" {
			b.WriteString(k.embeds[g.v.Name()])
			c.embeds = patterns(c.src)
		}
		if old := c.ptrs[g.v]; old != nil {
			fmt.Fprintf(&b, "var %s = (*%s)(%s.Pointer(&%s))\n", name, c.typeText(g.v.Type()), c.alias("unsafe"), c.ref(old))
			continue
		}
		if t, why := c.typeOrFault(g.v.Type()); why == "" {
			fmt.Fprintf(&b, "var %s %s\n", name, t)
		} else if x := c.zeroOf(g); x != "" {
			fmt.Fprintf(&b, "var %s = %s\n", name, x)
		} else {
			c.faults = append(c.faults, c.fault(g.v.Pos(), fmt.Sprintf("%s cannot be a variable of the notebook: its type %s %s; keep it inside a block { }, or give it an interface type",
				g.v.Name(), types.TypeString(g.v.Type(), (*types.Package).Name), why)))
		}
	}
	return b.String()
}

// globals are the variables, each name once: the first declaration of a name makes it.
func (c *checker) globals() (out []global) {
	first := map[string]*types.Var{}
	for _, g := range c.vars {
		old := first[g.v.Name()]
		if old == nil {
			first[g.v.Name()] = g.v
			out = append(out, g)
		} else if !types.Identical(old.Type(), g.v.Type()) {
			c.faults = append(c.faults, c.fault(g.v.Pos(), g.v.Name()+" is declared twice in this cell, with two types"))
		}
	}
	return out
}

// table is a function that lists the cell's variables and functions, for the worker's reflection.
func (c *checker) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "//go:noinline\nfunc %s() []any { return []any{\n", TableName)
	seen := map[string]bool{}
	for _, g := range c.globals() {
		name := g.v.Name()
		seen[name] = true
		if c.ptrs[g.v] == nil {
			fmt.Fprintf(&b, "%q, &%s,\n", name, mangle(name))
		} else {
			fmt.Fprintf(&b, "%q, %s,\n", name, mangle(name))
		}
	}
	for _, k := range c.chunks {
		if k.kind == kFunc && k.name != "init" && k.name != "_" && !seen[k.name] {
			if f, ok := c.top.Lookup(k.name).(*types.Func); ok && f.Signature().TypeParams().Len() == 0 {
				fmt.Fprintf(&b, "%q, %s,\n", k.name, mangle(k.name))
			}
		}
	}
	b.WriteString("} }\n")
	return b.String()
}
