package session

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"sort"
	"sync"
)

// View is what a new cell can see, as of the last Commit. It may be used while cells are compiled and run: the objects
// of committed cells and of imported packages do not change any more.
type View struct {
	s      *Session
	names  map[string]entry
	source map[int]string
}

// Name is one name of a view: an object, or a package that was imported under that name.
type Name struct {
	Name   string
	Object types.Object // nil for a package
	Path   string       // of the package
}

// View takes a picture of the session.
func (s *Session) View() *View {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &View{s: s, names: maps.Clone(s.env), source: maps.Clone(s.source)}
}

// Names lists what can be seen, sorted by name.
func (v *View) Names() []Name {
	var out []Name
	for name, e := range v.names {
		if e.member == "" {
			out = append(out, Name{Name: name, Object: e.obj, Path: e.importPath})
		} else if p, ok := v.Imported(e.importPath); ok {
			out = append(out, Name{Name: name, Object: p.Scope().Lookup(e.member)})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Place tells where in the text of which cell an object was declared.
func (v *View) Place(o types.Object) (cell, line, col int, ok bool) {
	if !IsCell(o.Pkg()) || !o.Pos().IsValid() {
		return 0, 0, 0, false
	}
	p := v.s.fset.Position(o.Pos())
	if _, err := fmt.Sscanf(p.Filename, "cell[%d]", &cell); err != nil {
		return 0, 0, 0, false
	}
	return cell, p.Line, p.Column, v.source[cell] != ""
}

// Source is the text of a committed cell.
func (v *View) Source(cell int) string { return v.source[cell] }

// IsCell tells whether a package is that of a cell.
func IsCell(p *types.Package) bool { return p != nil && p.Path() == checkPath }

// Import reads the export data of a package. It waits for the archive to be made.
func (v *View) Import(path string) (*types.Package, error) { return v.s.imp.Import(path) }

// Imported returns a package that was read before.
func (v *View) Imported(path string) (*types.Package, bool) {
	p, ok := v.s.imp.(*packages)
	if !ok {
		return nil, false
	}
	pkg := p.known(path)
	return pkg, pkg != nil
}

// Check type-checks a file as the next cell would be: names that it does not declare are the given variables, then those
// of the session. What could be found out is in info; errors go to report.
func (v *View) Check(fset *token.FileSet, file *ast.File, imp types.Importer, vars []*types.Var, info *types.Info, report func(types.Error)) *types.Package {
	pkg := types.NewPackage(checkPath, "main")
	outer := types.NewScope(types.Universe, token.NoPos, token.NoPos, "earlier cells")
	setScope(pkg, types.NewScope(outer, token.NoPos, token.NoPos, "cell"))
	for _, o := range vars {
		outer.Insert(types.NewVar(token.NoPos, pkg, o.Name(), o.Type()))
	}
	for name, e := range v.names {
		if e.obj != nil {
			outer.Insert(e.obj)
		} else if p, ok := v.Imported(e.importPath); !ok {
			continue
		} else if e.member == "" {
			outer.Insert(types.NewPkgName(token.NoPos, pkg, name, p))
		} else if o := p.Scope().Lookup(e.member); o != nil {
			outer.Insert(o)
		}
	}
	conf := types.Config{
		Importer: imp,
		Sizes:    types.SizesFor("gc", "amd64"),
		Error: func(err error) {
			if e, ok := err.(types.Error); ok {
				report(e)
			}
		},
	}
	types.NewChecker(&conf, fset, pkg, info).Files([]*ast.File{file})
	return pkg
}

// packages makes an importer safe for several goroutines. What was read before is given out while another package is
// still waited for.
type packages struct {
	imp     types.Importer
	reading sync.Mutex

	mu   sync.Mutex
	done map[string]*types.Package
}

func (p *packages) known(path string) *types.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[path]
}

func (p *packages) Import(path string) (*types.Package, error) {
	if pkg := p.known(path); pkg != nil {
		return pkg, nil
	}
	p.reading.Lock()
	defer p.reading.Unlock()
	pkg, err := p.imp.Import(path)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = map[string]*types.Package{}
	}
	p.done[path] = pkg
	return pkg, nil
}

// forget makes packages be read anew. The importer keeps what it has read, and has no way to drop it.
func (p *packages) forget(paths []string) {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := reflect.ValueOf(p.imp).Elem().FieldByName("packages")
	kept := *(*map[string]*types.Package)(f.Addr().UnsafePointer())
	for _, path := range paths {
		delete(kept, path)
		delete(p.done, path)
	}
}
