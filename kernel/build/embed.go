package build

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// embedding is what the compiler wants to know about //go:embed directives.
type embedding struct {
	Patterns map[string][]string // pattern -> names, slashes, relative to the notebook's folder
	Files    map[string]string   // name -> file
}

func (e *embedding) config() []byte {
	text, _ := json.Marshal(e) // maps of strings: cannot fail
	return text
}

func (e *embedding) patterns() []byte {
	text, _ := json.Marshal(e.Patterns)
	return text
}

func (e *embedding) names() []string { return slices.Sorted(maps.Keys(e.Files)) }

// findEmbeds resolves the directives of a file. Patterns mean files below dir.
func findEmbeds(fset *token.FileSet, f *ast.File, dir string) (*embedding, error) {
	e := &embedding{Patterns: map[string][]string{}, Files: map[string]string{}}
	for _, group := range f.Comments {
		for _, c := range group.List {
			args, ok := strings.CutPrefix(c.Text, "//go:embed")
			if !ok || args != "" && args[0] != ' ' && args[0] != '\t' {
				continue
			}
			pos := fset.Position(c.Pos())
			patterns, err := splitPatterns(args)
			if err != nil {
				return nil, fmt.Errorf("%s:%d:%d: %w", pos.Filename, pos.Line, pos.Column, err)
			}
			for _, p := range patterns {
				names, err := match(dir, p)
				if err != nil {
					return nil, fmt.Errorf("%s:%d:%d: pattern %s: %w", pos.Filename, pos.Line, pos.Column, p, err)
				}
				e.Patterns[p] = names
				for _, n := range names {
					e.Files[n] = filepath.Join(dir, filepath.FromSlash(n))
				}
			}
		}
	}
	if len(e.Patterns) == 0 {
		return nil, nil
	}
	return e, nil
}

// splitPatterns cuts the arguments of a directive: words, or strings in Go's quotes.
func splitPatterns(s string) (patterns []string, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] != '"' && s[0] != '`' {
			word, rest, _ := strings.Cut(s, " ")
			patterns, s = append(patterns, word), rest
			continue
		}
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return nil, fmt.Errorf("invalid quoted string in //go:embed: %s", s)
		}
		word, err := strconv.Unquote(q)
		if err != nil {
			return nil, fmt.Errorf("invalid quoted string in //go:embed: %s", s)
		}
		patterns, s = append(patterns, word), s[len(q):]
	}
	return patterns, nil
}

// match finds the files of one pattern, by the rules of the go command: folders are taken with all they hold,
// except names that begin with a dot or an underscore unless the pattern begins with "all:"; no links, nothing of
// another module, nothing outside dir.
func match(dir, pattern string) ([]string, error) {
	glob, all := strings.CutPrefix(pattern, "all:")
	if _, err := path.Match(glob, ""); err != nil || !fs.ValidPath(glob) {
		return nil, fmt.Errorf("invalid pattern syntax")
	}
	fsys := os.DirFS(dir)
	found, err := fs.Glob(fsys, glob)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, root := range found {
		for at := path.Dir(root); at != "."; at = path.Dir(at) {
			if _, err := fs.Stat(fsys, path.Join(at, "go.mod")); err == nil {
				return nil, fmt.Errorf("cannot embed %s: in different module", root)
			}
		}
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(root)))
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			names[root] = true
			continue
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("cannot embed irregular file %s", root)
		}
		count := len(names)
		err = fs.WalkDir(fsys, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == root {
				return err
			}
			if hidden := d.Name()[0] == '.' || d.Name()[0] == '_'; hidden && !all || slices.Contains([]string{".git", ".hg", ".svn", ".bzr"}, d.Name()) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if d.IsDir() {
				if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
					return fs.SkipDir
				}
				return nil
			}
			if d.Type().IsRegular() {
				names[name] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(names) == count {
			return nil, fmt.Errorf("cannot embed directory %s: contains no embeddable files", root)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no matching files found in %s", filepath.Base(dir))
	}
	return slices.Sorted(maps.Keys(names)), nil
}
