package session

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"sort"
	"strings"
)

// checker checks and emits one cell.
type checker struct {
	s       *Session
	n       int
	src     string
	isMain  bool
	noFast  bool
	chunks  []*chunk
	imports map[string]entry
	blank   []string
	hidden  map[string]entry

	text  string // the checked text
	file  *ast.File
	cfile *ast.File // what cgo declares for the cell
	tfile *token.File
	pkg   *types.Package
	top   *types.Scope // of the cell's declarations
	info  *types.Info
	run   *ast.FuncDecl
	scope *types.Scope      // of the body of run
	show  ast.Expr          // last expression, if it may be displayed
	idle  map[ast.Expr]bool // expression statements whose value is not used

	predecl map[string]types.Type // := names that declarations of the same cell use
	pretext map[string]string     // their types, as text

	badAdopted *chunk
	emitter
}

// unit checks the chunks and turns them into what the compiler or the worker needs.
func (c *checker) unit() (*Unit, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	u := &Unit{N: c.n, Notes: c.notes(), commit: c.commit}
	if u.Fast = c.fast(); u.Fast != nil {
		u.Deps = fastDeps(u.Fast)
		return u, nil
	}
	var err error
	if u.Source, err = c.emit(); err != nil {
		return nil, err
	}
	for k := range c.cells {
		u.Deps = append(u.Deps, k)
	}
	sort.Ints(u.Deps)
	u.Cgo = c.imports["C"].importPath == "C"
	u.Embeds = c.embeds
	u.Empty = len(c.blank) == 0
	for _, k := range c.chunks {
		u.Empty = u.Empty && k.kind == kImport
	}
	return u, nil
}

// layout writes the text that go/parser and go/types see: declarations, then one function with the statements.
func (c *checker) layout() {
	var b strings.Builder
	b.WriteString("package main\n")
	for _, k := range c.chunks {
		if k.kind == kImport && isC(k) {
			fmt.Fprintf(&b, "//#line %d \"cell[%d]\"\n%simport \"C\"\n", max(k.docLine, 1), k.cell, k.doc)
		}
	}
	put := func(k *chunk) {
		fmt.Fprintf(&b, "/*line cell[%d]:%d:%d*/", k.cell, k.line, k.col)
		k.off = b.Len()
		b.WriteString(k.text)
		k.end = b.Len()
		b.WriteString("\n")
	}
	for _, k := range c.chunks {
		if k.kind != kImport && k.kind != kStmt {
			put(k)
		}
	}
	for _, name := range sortedKeys(c.pretext) {
		fmt.Fprintf(&b, "var %s %s\n", name, c.pretext[name])
	}
	fmt.Fprintf(&b, "func %s() {\n", RunName)
	for _, k := range c.chunks {
		if k.kind == kStmt {
			put(k)
		}
	}
	b.WriteString("}\n")
	c.text = b.String()
}

// chunkAt finds the chunk of a byte of the checked text; nil between chunks.
func (c *checker) chunkAt(off int) *chunk {
	for _, k := range c.chunks {
		if k.off <= off && off <= k.end && k.end > 0 {
			return k
		}
	}
	return nil
}

// chunkOf finds the chunk of a position.
func (c *checker) chunkOf(pos token.Pos) *chunk {
	if !c.inCell(pos) {
		return nil
	}
	return c.chunkAt(c.tfile.Offset(pos))
}

// fault is a fault at a place in the checked text.
func (c *checker) fault(pos token.Pos, msg string) *CellError {
	off := 0
	if c.inCell(pos) {
		off = c.tfile.Offset(pos)
	}
	if k := c.chunkAt(off); k != nil {
		return k.fault(off-k.off, msg)
	}
	var last *chunk // the one before, or the first one
	for _, k := range c.chunks {
		if k.end > 0 && (last == nil || k.end <= off && k.end >= last.end) {
			last = k
		}
	}
	if last == nil {
		return &CellError{c.n, 1, 1, msg}
	}
	return last.fault(off-last.off, msg)
}

// inCell tells whether a position is in the checked text, not in that of an earlier cell or of cgo.
func (c *checker) inCell(pos token.Pos) bool {
	return pos.IsValid() && token.Pos(c.tfile.Base()) <= pos && pos <= token.Pos(c.tfile.Base()+c.tfile.Size())
}

// check runs go/types over the cell.
func (c *checker) check() error {
	c.layout()
	if c.imports["C"].importPath == "C" && c.cfile == nil {
		if err := c.findC(); err != nil {
			return err
		}
	}
	var err error
	c.file, err = parser.ParseFile(c.s.fset, "", c.text, parser.SkipObjectResolution)
	if err != nil {
		return c.syntaxFaults(err)
	}
	c.tfile = c.s.fset.File(c.file.Pos())
	c.findRun()
	if err := c.scopes(); err != nil {
		return err
	}
	errs := c.typeCheck()
	faults, again := c.judge(errs)
	if again {
		c.s.fset.RemoveFile(c.tfile)
		return c.check()
	}
	if len(faults) > 0 {
		return faults.sorted()
	}
	c.findShow()
	return nil
}

// syntaxFaults are rare: each chunk has been parsed by itself before.
func (c *checker) syntaxFaults(err error) error {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return err
	}
	var faults ErrorList
	tf := token.NewFileSet().AddFile("", -1, len(c.text))
	c.tfile = tf
	for _, e := range list {
		faults = append(faults, c.fault(tf.Pos(e.Pos.Offset), e.Msg))
	}
	return faults.sorted()
}

func (c *checker) findRun() {
	for _, d := range c.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == RunName {
			c.run = f
		}
	}
}

// scopes makes the scope of the cell. The names of earlier cells and imports go into a scope between it and the
// universe. They cannot go into the same one: go/types takes what it finds there for declarations of the cell. Only
// names that occur in the text are put in.
func (c *checker) scopes() error {
	s := c.s
	c.pkg = types.NewPackage(checkPath, "main")
	outer := types.NewScope(types.Universe, token.NoPos, token.NoPos, "earlier cells")
	c.top = types.NewScope(outer, token.NoPos, token.NoPos, "cell")
	setScope(c.pkg, c.top)
	used := map[string]bool{}
	idents(c.file, used, true)
	for _, group := range []map[string]entry{c.imports, c.hidden, s.env} { // the first one wins
		for name, e := range group {
			if !used[name] || outer.Lookup(name) != nil {
				continue
			}
			o, err := s.object(name, e, c.pkg)
			if err != nil {
				return err
			}
			if o != nil {
				outer.Insert(o)
			}
		}
	}
	own := map[string]bool{}
	for _, k := range c.chunks {
		for _, name := range k.defines {
			own[name] = own[name] || k.kind != kStmt
		}
	}
	for name, t := range c.predecl {
		if !own[name] && c.pretext[name] == "" {
			c.top.Insert(types.NewVar(token.NoPos, c.pkg, name, t))
		}
	}
	return nil
}

// object is what an entry stands for. There is none if it is of the prelude and the package is not to be had.
func (s *Session) object(name string, e entry, pkg *types.Package) (types.Object, error) {
	if e.obj != nil {
		return e.obj, nil
	}
	if e.importPath == "C" {
		return nil, nil
	}
	p, err := s.imp.Import(e.importPath)
	switch {
	case err != nil && e.importPath == displayPath:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("import %s: %w", e.importPath, err)
	case e.member != "":
		return p.Scope().Lookup(e.member), nil
	}
	return types.NewPkgName(token.NoPos, pkg, name, p), nil
}

// setScope gives a package another scope. go/types has no function for it.
func setScope(p *types.Package, scope *types.Scope) {
	f := reflect.ValueOf(p).Elem().FieldByName("scope")
	*(**types.Scope)(f.Addr().UnsafePointer()) = scope
}

func (c *checker) typeCheck() (errs []types.Error) {
	c.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Scopes: map[ast.Node]*types.Scope{},
		Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{},
	}
	conf := types.Config{
		GoVersion: "go1.26", Importer: c.s.imp, Sizes: types.SizesFor("gc", "amd64"),
		Error: func(e error) {
			var te types.Error
			if errors.As(e, &te) {
				errs = append(errs, te)
			}
		},
	}
	files := []*ast.File{c.file}
	if c.cfile != nil {
		files = append(files, c.cfile)
		usesCgo(&conf)
	}
	types.NewChecker(&conf, c.s.fset, c.pkg, c.info).Files(files)
	c.scope = c.info.Scopes[c.run.Type]
	c.idle = map[ast.Expr]bool{}
	c.show = nil
	return errs
}

// judge sorts what go/types complains of. Again says that the check must be repeated: a declaration uses a := variable
// of the same cell, whose type is known now.
func (c *checker) judge(errs []types.Error) (faults ErrorList, again bool) {
	retry := map[string]types.Type{}
	tolerated := false
	for i := range errs {
		e := &errs[i]
		if strings.HasPrefix(e.Msg, "\t") { // goes on about the one before
			if n := len(faults); n > 0 && !tolerated {
				f := c.fault(e.Pos, e.Msg)
				faults[n-1].Msg += fmt.Sprintf("\n\tcell[%d]:%d:%d: %s", f.Cell, f.Line, f.Col, strings.TrimSpace(e.Msg))
			}
			continue
		}
		if tolerated = c.tolerated(e); tolerated {
			continue
		}
		if name, ok := strings.CutPrefix(e.Msg, "undefined: "); ok && c.predecl[name] == nil && e.Pos < c.run.Pos() {
			if v, ok := c.scope.Lookup(name).(*types.Var); ok && v.Type() != types.Typ[types.Invalid] {
				retry[name] = v.Type()
				continue
			}
		}
		if k := c.chunkOf(e.Pos); k != nil && k.adopted && c.badAdopted == nil {
			c.badAdopted = k
		}
		faults = append(faults, c.fault(e.Pos, c.reword(e)))
	}
	if len(retry) > 0 {
		c.predeclare(retry)
		c.badAdopted = nil
		return nil, true
	}
	return faults, false
}

// predeclare makes := variables known to the declarations of the cell in the next check: by a declaration, because the
// types of this cell will be other ones then, or as objects if their types cannot be written.
func (c *checker) predeclare(vars map[string]types.Type) {
	if c.predecl == nil {
		c.predecl, c.pretext = map[string]types.Type{}, map[string]string{}
	}
	if c.hidden == nil {
		c.hidden = map[string]entry{}
	}
	maps.Copy(c.predecl, vars)
	for name, t := range vars {
		ok := true
		eachName(t, func(o *types.TypeName) {
			switch {
			case o.Pkg() == nil:
			case !IsCell(o.Pkg()):
				ok = ok && o.Exported()
			default:
				ok = ok && c.lookup(o.Name()) == o
			}
		})
		if ok {
			c.pretext[name] = textInCell(t, c.hidden)
		}
	}
}

// reword makes some of go/types' messages say what to do in a cell.
func (c *checker) reword(e *types.Error) string {
	if name, ok := strings.CutPrefix(e.Msg, "undefined: "); ok && c.qualifies(e.Pos) {
		if hint := missing(name); hint != "" {
			return hint
		}
	}
	if strings.HasPrefix(e.Msg, "use of untyped nil in") {
		return e.Msg + ": nil has no type of its own; write var x T = nil with the type you mean"
	}
	return e.Msg
}

// qualifies tells whether the identifier at pos is followed by a dot.
func (c *checker) qualifies(pos token.Pos) (yes bool) {
	ast.Inspect(c.file, func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok && x.X.Pos() == pos {
			_, id := x.X.(*ast.Ident)
			yes = yes || id
		}
		return !yes
	})
	return yes
}

// tolerated are errors that are none in a cell: unused top-level variables and values.
func (c *checker) tolerated(e *types.Error) bool {
	if strings.HasPrefix(e.Msg, "declared and not used") {
		for id, o := range c.info.Defs {
			if id.Pos() == e.Pos && o != nil && o.Parent() == c.scope {
				return true
			}
		}
	}
	if strings.HasSuffix(e.Msg, "is not used") {
		for _, st := range c.run.Body.List {
			if x, ok := st.(*ast.ExprStmt); ok && x.Pos() <= e.Pos && e.Pos < x.End() {
				if t := c.info.Types[x.X]; t.IsValue() {
					c.idle[x.X] = true
					return true
				}
			}
		}
	}
	// go/types asks for the same *types.Package here, not for the same path; the compiler sees exported names. One package
	// for all cells is no way out: go/types expects its types in its present scope.
	if strings.HasPrefix(e.Msg, "implicit assignment to unexported field") {
		_, t, _ := strings.Cut(e.Msg, " of type ")
		return !strings.Contains(t, ".") || strings.HasPrefix(t, "main.")
	}
	return false
}

// findShow decides whether the last statement is an expression to display.
func (c *checker) findShow() {
	if len(c.chunks) == 0 || len(c.run.Body.List) == 0 {
		return
	}
	last := c.chunks[len(c.chunks)-1]
	x, ok := c.run.Body.List[len(c.run.Body.List)-1].(*ast.ExprStmt)
	if !ok || last.kind != kStmt || last.quiet {
		return
	}
	t := c.info.Types[x.X]
	if !t.IsValue() && t.Type == nil {
		return
	}
	if tup, ok := t.Type.(*types.Tuple); t.IsVoid() || ok && tup.Len() == 0 {
		return
	}
	if call, ok := ast.Unparen(x.X).(*ast.CallExpr); ok {
		if f := c.callee(call); f != nil && f.Pkg() != nil && f.Pkg().Path() == "fmt" &&
			(strings.HasPrefix(f.Name(), "Print") || strings.HasPrefix(f.Name(), "Fprint")) {
			return
		}
	}
	c.show = x.X
}

// callee is the declared function or method that a call calls, if it names one.
func (c *checker) callee(call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		fn, _ := c.info.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := c.info.Uses[f.Sel].(*types.Func)
		return fn
	}
	return nil
}
