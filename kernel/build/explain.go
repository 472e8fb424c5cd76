package build

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

type listError struct {
	Pos, Err string
}

// ImportError says in a few lines why packages cannot be imported.
type ImportError struct {
	Path string // the import that was asked for
	Text string
}

func (e *ImportError) Error() string { return e.Text }

var (
	needsModule = regexp.MustCompile(`no required module provides package (\S+?)[;:]|cannot find module providing package (\S+?)[:;]`)
	needsSum    = regexp.MustCompile(`missing go\.sum entry|go\.sum.*(missing|mismatch)|updates to go\.(mod|sum) needed`)
	needsGo     = regexp.MustCompile(`requires go >= (\S+)`)
	notInStd    = regexp.MustCompile(`package \S+ is not in std`)
	notFetched  = regexp.MustCompile(`(\S+?@v\S+?): module lookup disabled by GOPROXY=off`)
)

// explain turns what the go command says about the asked packages into an error, or nil.
func (b *Builder) explain(asked []string, pkgs []listed, stderr string) error {
	if stderr != "" {
		return &ImportError{asked[0], b.plain(asked[0], "", stderr)}
	}
	byPath := map[string]*listed{}
	for i := range pkgs {
		byPath[pkgs[i].ImportPath] = &pkgs[i]
	}
	for _, path := range asked {
		p := byPath[path]
		if p == nil {
			return &ImportError{path, "package " + path + " was not found"}
		}
		errs := p.DepsErrors
		if p.Error != nil {
			errs = append([]*listError{p.Error}, errs...)
		}
		if len(errs) > 0 {
			return &ImportError{path, b.plain(path, errs[0].Pos, errs[0].Err)}
		}
		if p.Name == "main" {
			return &ImportError{path, path + " is a program, not a package that can be imported"}
		}
		if why := b.forbidden(p, byPath); why != "" {
			return &ImportError{path, why}
		}
	}
	return nil
}

// forbidden keeps to the rule for internal packages, and keeps the support packages from being there twice.
func (b *Builder) forbidden(p *listed, byPath map[string]*listed) string {
	if p.hidden() {
		return "use of internal package " + p.ImportPath + " not allowed"
	}
	for _, path := range append([]string{p.ImportPath}, p.Deps...) {
		d := byPath[path]
		if d == nil || b.support[path] {
			continue
		}
		for _, imp := range d.Imports {
			if b.support[imp] {
				return fmt.Sprintf("%s imports %s: only cells can import that package", path, imp)
			}
		}
	}
	return ""
}

// plain says what is wrong in plain words, where the go command's own words need knowledge of how it is called here.
func (b *Builder) plain(path, pos, text string) string {
	text = strings.TrimSpace(text)
	at := ""
	if pos != "" {
		at = " (imported at " + b.short(pos) + ")"
	}
	if m := needsGo.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s needs Go %s, and this kernel runs %s: install that Go, then restart the kernel", b.needer(text), strings.TrimSuffix(m[1], ";"), b.Toolchain.Version)
	}
	if m := notFetched.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("module %s is not on this machine: run %%get %s", m[1], m[1])
	}
	if m := needsModule.FindStringSubmatch(text); m != nil {
		missing := m[1] + m[2]
		want := missing
		if missing == Module || strings.HasPrefix(missing, Module+"/") {
			want = Module
		}
		return fmt.Sprintf("no module here has package %s%s: run %%get %s", missing, at, want)
	}
	if needsSum.MatchString(text) {
		return fmt.Sprintf("go.mod or go.sum is not complete for %s%s: run %%get %s", path, at, path)
	}
	if m := notInStd.FindString(text); m != "" {
		return m
	}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.TrimPrefix(line, "go: "), "\n")
		if strings.HasPrefix(line, "# ") || line == "" {
			continue
		}
		lines = append(lines, b.short(line))
	}
	if len(lines) > 8 {
		lines = append(lines[:8], "...")
	}
	if pos != "" && len(lines) > 0 {
		lines[0] = b.short(pos) + ": " + lines[0]
	}
	if strings.HasPrefix(text, "# ") {
		first, _, _ := strings.Cut(text[2:], "\n")
		name, _, _ := strings.Cut(first, " ")
		return "package " + name + " does not compile:\n" + strings.Join(lines, "\n")
	}
	return strings.Join(lines, "\n")
}

var whoNeeds = regexp.MustCompile(`(?:go: |^)(\S+?):? requires go >=|module (\S+) requires go`)

func (b *Builder) needer(text string) string {
	if m := whoNeeds.FindStringSubmatch(text); m != nil {
		return strings.TrimSuffix(m[1]+m[2], ":")
	}
	return "go.mod"
}

// short writes paths inside the notebook's folder relative to it.
func (b *Builder) short(text string) string {
	return strings.ReplaceAll(text, b.o.Dir+string(filepath.Separator), "")
}
