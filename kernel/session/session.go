// Package session turns cells into Go source files. Cell text and state go in, a file to compile and a new state come
// out; the new state is taken over only by Commit. The stages are: split (text to chunks), prepare (what each chunk
// declares), reuse (unchanged types of earlier cells stay), adopt (types that get a late method are taken over), check
// (go/types), fast (a simple expression needs no compiler), rewrite (edits by offset), emit (the file).
//
// Two worlds are kept apart. In the checked world (go/types) every cell is a package with the same path, so that
// unexported names, fields and methods of earlier cells are visible under the names that the user wrote; the objects of
// earlier cells sit in a scope around that of the new one. In the emitted world every cell is its own package, and unexported names
// carry a prefix that exports them.
//
// It starts no process, reads and writes no files, and does not know Jupyter. It does not compile, and does not look
// for packages: a callback opens their export data.
package session

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"sort"
	"strconv"
	"sync"

	"github.com/rooflab/rooflab/kernel/proto"
)

// Prefix makes an unexported name exported. It is an upper-case letter that sorts after all usual letters, so
// that the compiler's method order (exported first) is also right for the original names.
const Prefix = "𐲀"

// own starts the names that the session makes; no user's name is emitted with it.
const own = Prefix + Prefix

// RunName is the function that holds a cell's statements.
const RunName = own + "Run"

// TableName is the function that lists a cell's variables and functions.
const TableName = own + "Tab"

const (
	checkPath   = "nb" // the path of the package of all cells in the checked world
	rtPath      = "github.com/rooflab/rooflab/kernel/rt"
	displayPath = "github.com/rooflab/rooflab/kernel/display"
)

// PkgPath is the path of a cell's package in the emitted world.
func PkgPath(n int) string { return "nb/c" + strconv.Itoa(n) }

// entry is what a name stands for: an object of a cell (or of std, after a dot import), a package, or a member of a
// package that need not be imported.
type entry struct {
	obj        types.Object
	importPath string
	member     string
}

// prelude are the names that cells may use without import; a cell may declare them anew.
func prelude() map[string]entry {
	return map[string]entry{
		"display": {importPath: displayPath},
		"Display": {importPath: displayPath, member: "Display"},
	}
}

// Session is the state that cells see. Its methods are called by one goroutine, except View and Variables.
type Session struct {
	// Cgo gives the declarations that cgo makes for a file that imports "C" (_cgo_gotypes.go); nil if there is no C.
	Cgo func(n int, file []byte) ([]byte, error)

	fset  *token.FileSet
	imp   types.Importer
	env   map[string]entry
	home  map[types.Object]int    // package-level objects of cells -> cell
	ptr   map[types.Object]bool   // variables that are emitted as pointers to an earlier variable
	texts map[types.Object]string // the chunk that declared an object
	decls []*decl                 // in the order of their making; replaced ones are dropped

	mu     sync.RWMutex   // guards env, home and source: a View is taken while another goroutine commits
	source map[int]string // the text of committed cells
}

// decl is the source of a function, method, type or constant, kept to emit it again when what it depends on changes.
type decl struct {
	c     *chunk
	uses  map[types.Object]bool // cell objects that it refers to
	names map[string]entry      // all free names in it, but for those that it declares
	objs  []types.Object        // objects that it declares
}

// New makes an empty session. Archive opens the export data of an import path.
func New(archive func(path string) (io.ReadCloser, error)) *Session {
	fset := token.NewFileSet()
	return &Session{
		fset:   fset,
		imp:    &packages{imp: importer.ForCompiler(fset, "gc", archive)},
		env:    prelude(),
		home:   map[types.Object]int{},
		ptr:    map[types.Object]bool{},
		texts:  map[types.Object]string{},
		source: map[int]string{},
	}
}

// Unit is a cell made ready for the compiler.
type Unit struct {
	N      int
	Source []byte      // a file of package PkgPath(N)
	Empty  bool        // nothing to run: imports, comments or unchanged types only
	Deps   []int       // earlier cells that it refers to, ascending
	Notes  []string    // things to tell the user
	Fast   *proto.Expr // the cell is one simple expression or assignment: no need to compile it
	Cgo    bool        // Source imports "C": it needs go build
	Embeds []Embed     // files that Source embeds
	Moved  []Move      // unchanged declarations that stay with the cell that first had them

	commit func()
}

// Embed is a pattern of a //go:embed directive. Line and Col are its position in the cell.
type Embed struct {
	Pattern   string
	Line, Col int
}

// Move says that the code of some lines of a cell was compiled with an earlier cell, for stack traces.
type Move struct {
	Cell, Line, Lines  int // where it stands now
	FromCell, FromLine int // where the compiled code says that it stands
}

// Commit takes over what the cell declares. A unit that is not committed leaves no trace.
func (u *Unit) Commit() { u.commit() }

// Compile checks cell n and generates its source, or an expression that the worker can answer without. The number is
// that of the execution; each is used once. The error is an ErrorList if the cell's text is at fault.
func (s *Session) Compile(n int, src string) (*Unit, error) { return s.compile(n, src, true) }

// CompileSlow always generates a source.
func (s *Session) CompileSlow(n int, src string) (*Unit, error) { return s.compile(n, src, false) }

func (s *Session) compile(n int, src string, fast bool) (*Unit, error) {
	chunks, isMain, err := split(n, src)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(chunks); err != nil {
		return nil, err
	}
	imports, blank, err := s.imports(chunks)
	if err != nil {
		return nil, err
	}
	chunks, moved := s.reuse(chunks, imports)
	adopted, hidden := s.adopt(chunks)
	for try := 0; ; try++ {
		c := &checker{s: s, n: n, src: src, isMain: isMain, imports: imports, blank: blank, hidden: hidden, noFast: !fast}
		c.chunks = append(append([]*chunk{}, adopted...), chunks...)
		u, err := c.unit()
		if err == nil {
			u.Moved = moved
			return u, nil
		}
		// a declaration taken over from an earlier cell may not fit the new state: leave the old one alone
		if c.badAdopted == nil || try == 20 {
			return nil, err
		}
		adopted = without(adopted, c.badAdopted)
	}
}

func without(list []*chunk, k *chunk) (out []*chunk) {
	for _, x := range list {
		if x != k {
			out = append(out, x)
		}
	}
	return out
}

// Variables lists the top-level variables that a new cell can see, sorted.
func (s *Session) Variables() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for _, name := range sortedKeys(s.env) {
		if v, ok := s.env[name].obj.(*types.Var); ok && s.home[v] > 0 {
			out = append(out, name)
		}
	}
	return out
}

// writtenIn is the cell whose text declares an object; it may have been taken over by a later one.
func (s *Session) writtenIn(o types.Object) (cell int) {
	fmt.Sscanf(s.fset.Position(o.Pos()).Filename, "cell[%d]", &cell)
	return cell
}

// Forget makes packages be imported anew: their archives were replaced before any cell used them.
func (s *Session) Forget(paths []string) { s.imp.(*packages).forget(paths) }

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
