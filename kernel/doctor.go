package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// check is one question about the kernel's health.
type check struct {
	name string
	run  func(ctx context.Context) Result
}

// Result is the answer to one question about the kernel's health.
type Result struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // the kernel does not work while this is not OK
	Text   string `json:"text"`   // what was found
	Hint   string `json:"hint,omitempty"`
}

// Broken tells whether the result stops the kernel from working.
func (r Result) Broken() bool { return r.Needed && !r.OK }

// Doctor looks for what may keep a kernel from working: the one that the options name, or what would be installed with
// them. It starts the kernel and has it run a cell, for which it takes a minute at most.
func Doctor(ctx context.Context, o Options) []Result {
	var results []Result
	for _, c := range checks(o) {
		r := c.run(ctx)
		r.Check = c.name
		results = append(results, r)
	}
	return results
}

// checks lists what Doctor looks at, in order. Without an installed kernel they are about the engine of the options, or
// the compiled one.
func checks(o Options) []check {
	if o.Name == "" {
		o.Name = DefaultName
	}
	spec, found := lookUp(o)
	engine := spec.Engine // empty for a kernel of others
	if !found {
		engine = cmp.Or(o.Engine, Compiled)
	}
	needed := !found || engine == Compiled
	list := []check{
		{"Go tool", func(ctx context.Context) Result { return checkGo(ctx, spec, needed) }},
		{"sources", func(ctx context.Context) Result { return checkSource(o.Source, !found && engine == Gophernotes) }},
	}
	if engine == Compiled {
		var w workshop
		list = append(list,
			check{"C linker", func(ctx context.Context) Result { return w.checkLinker(ctx, spec) }},
			check{"cells", func(ctx context.Context) Result { return w.checkCells(ctx, spec) }},
			check{"gopls", checkGopls},
		)
	}
	return append(list,
		check{"kernelspec", func(ctx context.Context) Result { return checkSpec(o, spec, found) }},
		check{"place", func(ctx context.Context) Result { return checkPlace(spec, found) }},
		check{"age", func(ctx context.Context) Result { return checkAge(ctx, o, spec, found) }},
		check{"answer", func(ctx context.Context) Result { return checkAnswer(ctx, spec, found) }},
	)
}

// lookUp finds the kernelspec below the prefix, or the one that Jupyter would take.
func lookUp(o Options) (Spec, bool) {
	dirs := searchPath()
	if o.Prefix != "" {
		data, err := dataFolder(o.Prefix)
		if err != nil {
			return Spec{}, false
		}
		dirs = []string{filepath.Join(data, "kernels")}
	}
	for _, dir := range dirs {
		if spec, err := readSpec(filepath.Join(dir, o.Name)); err == nil {
			return spec, true
		}
	}
	return Spec{}, false
}

func checkGo(ctx context.Context, spec Spec, needed bool) Result {
	r := Result{Needed: needed, Hint: "kernel install needs it, and so does the compiled engine whenever it runs"}
	tool := cmp.Or(spec.tool(), "go")
	path, err := exec.LookPath(tool)
	if err != nil {
		r.Text = errNoGo.Error()
		if spec.tool() != "" {
			r.Text = fmt.Sprintf("the Go tool %s of the kernelspec is gone", tool)
			r.Hint = "run rooflab kernel install"
		}
		return r
	}
	cmd := exec.CommandContext(ctx, path, "env", "GOVERSION")
	cmd.Dir = os.TempDir() // a go.mod may ask for another version
	out, err := cmd.Output()
	if err != nil {
		r.Text = fmt.Sprintf("%s does not run: %v", path, err)
		return r
	}
	r.OK, r.Text = true, strings.TrimSpace(string(out))+" ("+path+")"
	return r
}

func checkSource(source string, needed bool) Result {
	dir, err := findSource(source)
	if err != nil {
		return Result{Needed: needed, Text: err.Error(), Hint: "without them cells cannot import rooflab's packages, and gophernotes cannot be built"}
	}
	return Result{OK: true, Needed: needed, Text: dir}
}

func checkSpec(o Options, spec Spec, found bool) Result {
	r := Result{Needed: true}
	if !found {
		r.Text = fmt.Sprintf("no kernel called %s", o.Name)
		r.Hint = "run rooflab kernel install"
		return r
	}
	if len(spec.Argv) == 0 {
		r.Text = spec.Dir + ": kernel.json names no program"
		r.Hint = "run rooflab kernel install"
		return r
	}
	program, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		r.Text = fmt.Sprintf("%s: the program %s cannot be started", spec.Dir, spec.Argv[0])
		r.Hint = "the folder was moved or its file deleted; run rooflab kernel install again"
		return r
	}
	r.OK, r.Text = true, program
	return r
}

func checkPlace(spec Spec, found bool) Result {
	r := Result{Text: "Jupyter looks in " + strings.Join(searchPath(), string(os.PathListSeparator))}
	if !found {
		return r
	}
	if slices.Contains(searchPath(), filepath.Dir(spec.Dir)) {
		r.OK = true
		return r
	}
	r.Hint = fmt.Sprintf("%s is none of them: activate that environment, or set JUPYTER_PATH=%s", spec.Dir, filepath.Dir(filepath.Dir(spec.Dir)))
	return r
}

// checkAge compares the installed kernel with what would be installed now.
func checkAge(ctx context.Context, o Options, spec Spec, found bool) Result {
	unknown := Result{OK: true, Text: "nothing to compare with"}
	if !found || spec.Stamp == "" {
		return unknown
	}
	var stamp string
	var err error
	if spec.Engine == Compiled {
		if o.Program == "" {
			return unknown
		}
		stamp, err = fileStamp(o.Program)
	} else {
		dir, missing := findSource(o.Source)
		if missing != nil {
			return unknown
		}
		stamp, err = sourceStamp(ctx, dir)
	}
	switch {
	case errors.Is(err, errNoGo):
		return Result{OK: true, Text: "cannot be told without the Go tool"}
	case err != nil:
		return Result{Text: err.Error()}
	case stamp != spec.Stamp && spec.Engine == Compiled:
		return Result{Text: "the kernel is of another version of rooflab than this", Hint: "run rooflab kernel install"}
	case stamp != spec.Stamp:
		return Result{Text: "the sources have changed since the kernel was built", Hint: "run rooflab kernel install"}
	}
	return Result{OK: true, Text: "up to date"}
}

func checkAnswer(ctx context.Context, spec Spec, found bool) Result {
	r := Result{Needed: true}
	if !found {
		r.Text = "no kernel to ask"
		return r
	}
	a, err := ask(ctx, spec.Argv)
	if err != nil {
		r.Text = err.Error()
		r.Hint = "start it by hand to see more: " + strings.Join(spec.Argv, " ")
		return r
	}
	r.OK = true
	r.Text = fmt.Sprintf("%s answers and runs a cell: protocol %s, %s %s", a.Implementation, a.Protocol, a.Language.Name, a.Language.Version)
	if a.Language.Name == "go" && "go"+a.Language.Version != runtime.Version() {
		r.Text += fmt.Sprintf(" (rooflab itself was built with %s)", runtime.Version())
	}
	return r
}
