package assist

import (
	"context"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// library knows which packages can be imported and reads their sources: names of packages that no cell has imported
// yet, and doc comments.
type library struct {
	ctx            context.Context // ends the go commands that run
	goTool, module string
	env            []string

	begin   sync.Once
	mu      sync.Mutex
	root    string             // GOROOT
	folders map[string]string  // import path -> folder
	names   map[string]string  // import path -> package name, where it is not the last element
	sources map[string]*source // read packages; nil for those that cannot be read
}

// source is a package as its source says it.
type source struct {
	doc  *doc.Package
	fset *token.FileSet
}

// start looks for packages in the background: the standard library first, then what the module can import.
func (l *library) start() {
	l.begin.Do(func() {
		l.standard()
		go l.modules()
	})
}

// standard lists the packages below GOROOT/src. Their folders are their import paths.
func (l *library) standard() {
	root := l.goroot()
	src := filepath.Join(root, "src")
	found := map[string]string{}
	_ = filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == src {
			return nil
		}
		rel := filepath.ToSlash(p[len(src)+1:])
		if !d.IsDir() {
			if dir := path.Dir(rel); found[dir] == "" && dir != "." && strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go") && !experiment(p) {
				found[dir] = filepath.Dir(p)
			}
			return nil
		}
		switch d.Name() {
		case "cmd", "internal", "testdata", "vendor", "builtin":
			return filepath.SkipDir
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.root, l.folders, l.names = root, found, map[string]string{}
}

// experiment tells whether a file counts only in experiments with the language.
func experiment(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	return strings.Contains(string(head[:n]), "\n//go:build goexperiment.")
}

func (l *library) goroot() string {
	if out, err := l.ask("env", "GOROOT"); err == nil {
		return strings.TrimSpace(out)
	}
	return build.Default.GOROOT
}

// ask runs the go command in the module.
func (l *library) ask(args ...string) (string, error) {
	c := exec.CommandContext(l.ctx, l.goTool, args...)
	c.Dir, c.Env = l.module, l.env
	out, err := c.Output()
	return string(out), err
}

// modules lists what the module of the notebook can import.
func (l *library) modules() {
	if l.module == "" {
		return
	}
	out, err := l.ask("list", "-e", "-f", "{{if not .Standard}}{{.ImportPath}}\t{{.Name}}\t{{.Dir}}\t{{with .Module}}{{.Main}}{{end}}{{end}}", "all")
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.folders == nil {
		return // nothing has been asked yet: the first question lists all
	}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 4 || f[1] == "main" || f[2] == "" || f[3] != "true" && slices.Contains(strings.Split(f[0], "/"), "internal") {
			continue
		}
		l.folders[f[0]] = f[2]
		if f[1] != path.Base(f[0]) {
			l.names[f[0]] = f[1]
		}
	}
}

// paths lists the import paths that are known by now, sorted.
func (l *library) paths() []string {
	l.start()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, 0, len(l.folders))
	for p := range l.folders {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// name is the package name behind an import path.
func (l *library) name(importPath string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.names[importPath]; n != "" {
		return n
	}
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(importPath)) // math/rand/v2
	}
	return base
}

// called lists the import paths of packages of a name. Those with the shortest paths come first, and among rand and
// rand the older one.
func (l *library) called(name string) []string {
	var out []string
	for _, p := range l.paths() {
		if l.name(p) == name {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	if i := slices.Index(out, "math/rand"); i > 0 { // before crypto/rand
		out[0], out[i] = out[i], out[0]
	}
	return out
}

// folder finds where a package's source is.
func (l *library) folder(importPath string) string {
	l.start()
	l.mu.Lock()
	dir, root := l.folders[importPath], l.root
	l.mu.Unlock()
	if dir != "" {
		return dir
	}
	if importPath == "builtin" || strings.HasPrefix(importPath, "vendor/") || !strings.Contains(importPath, ".") {
		return filepath.Join(root, "src", filepath.FromSlash(importPath))
	}
	if l.module == "" {
		return ""
	}
	out, err := l.ask("list", "-find", "-f", "{{.Dir}}", importPath)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// source reads the declarations of a package with their comments, once.
func (l *library) source(importPath string) *source {
	l.mu.Lock()
	s, ok := l.sources[importPath]
	l.mu.Unlock()
	if ok {
		return s
	}
	if dir := l.folder(importPath); dir != "" {
		s = readSource(importPath, dir)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[string]*source{}
	}
	l.sources[importPath] = s
	return s
}

func readSource(importPath, dir string) *source {
	ctx := build.Default
	var names []string
	if importPath == "builtin" {
		names = []string{"builtin.go"}
	} else if p, err := ctx.ImportDir(dir, 0); p != nil {
		if names = append(p.GoFiles, p.CgoFiles...); len(names) == 0 && err != nil {
			return nil
		}
	}
	s := &source{fset: token.NewFileSet()}
	var files []*ast.File
	for _, n := range names {
		if f, _ := parser.ParseFile(s.fset, filepath.Join(dir, n), nil, parser.ParseComments|parser.SkipObjectResolution); f != nil {
			files = append(files, f)
		}
	}
	mode := doc.Mode(0)
	if importPath == "builtin" {
		mode = doc.AllDecls
	}
	d, err := doc.NewFromFiles(s.fset, files, importPath, mode)
	if err != nil {
		return nil
	}
	s.doc = d
	return s
}
