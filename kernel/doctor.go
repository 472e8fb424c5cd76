package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Check is one question about the kernel's health.
type Check struct {
	Name string
	Run  func(ctx context.Context) Result
}

// Result answers a Check.
type Result struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // the kernel does not work while this is not OK
	Text   string `json:"text"`   // what was found
	Hint   string `json:"hint,omitempty"`
}

// Broken tells whether the result stops the kernel from working.
func (r Result) Broken() bool { return r.Needed && !r.OK }

// Doctor runs all checks of the kernel called name (empty: DefaultName). prefix and source are as in Options.
func Doctor(ctx context.Context, o Options) []Result {
	var results []Result
	for _, c := range Checks(o) {
		r := c.Run(ctx)
		r.Check = c.Name
		results = append(results, r)
	}
	return results
}

// Checks lists what Doctor looks at, in order.
func Checks(o Options) []Check {
	if o.Name == "" {
		o.Name = DefaultName
	}
	spec, found := lookUp(o)
	return []Check{
		{"Go tool", func(ctx context.Context) Result { return checkGo(ctx, !found) }},
		{"sources", func(ctx context.Context) Result { return checkSource(o.Source, !found) }},
		{"kernelspec", func(ctx context.Context) Result { return checkSpec(o, spec, found) }},
		{"place", func(ctx context.Context) Result { return checkPlace(spec, found) }},
		{"age", func(ctx context.Context) Result { return checkAge(ctx, o.Source, spec, found) }},
		{"answer", func(ctx context.Context) Result { return checkAnswer(ctx, spec, found) }},
	}
}

// lookUp finds the kernelspec below the prefix, or the one that Jupyter would take.
func lookUp(o Options) (Spec, bool) {
	dirs := SearchPath()
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

func checkGo(ctx context.Context, needed bool) Result {
	r := Result{Needed: needed}
	out, err := goOutput(ctx, "", "env", "GOVERSION")
	if err != nil {
		r.Text = "no Go tool: " + err.Error()
		r.Hint = "kernel install needs it; an installed kernel does not"
		return r
	}
	version := strings.TrimSpace(string(out))
	r.OK, r.Text = true, version
	return r
}

func checkSource(source string, needed bool) Result {
	dir, err := findSource(source)
	if err != nil {
		return Result{Needed: needed, Text: err.Error(), Hint: "kernel install needs the sources; an installed kernel does not"}
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
	r := Result{Text: "Jupyter looks in " + strings.Join(SearchPath(), string(os.PathListSeparator))}
	if !found {
		return r
	}
	for _, dir := range SearchPath() {
		if dir == filepath.Dir(spec.Dir) {
			r.OK = true
			return r
		}
	}
	r.Hint = fmt.Sprintf("%s is none of them: activate that environment, or set JUPYTER_PATH=%s", spec.Dir, filepath.Dir(filepath.Dir(spec.Dir)))
	return r
}

// checkAge compares the installed kernel with the checkout around it, when there is one.
func checkAge(ctx context.Context, source string, spec Spec, found bool) Result {
	dir, err := findSource(source)
	if !found || err != nil || spec.Stamp == "" {
		return Result{OK: true, Text: "nothing to compare with"}
	}
	stamp, err := sourceStamp(ctx, dir)
	switch {
	case errors.Is(err, errNoGo):
		return Result{OK: true, Text: "cannot be told without the Go tool"}
	case err != nil:
		return Result{Text: err.Error()}
	case stamp != spec.Stamp:
		return Result{Text: "the sources have changed since the kernel was built", Hint: "run rooflab kernel install"}
	}
	return Result{OK: true, Text: "built from these sources"}
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
	r.Text = fmt.Sprintf("%s answers: protocol %s, %s %s", a.Implementation, a.Protocol, a.Language.Name, a.Language.Version)
	if a.Language.Name == "go" && "go"+a.Language.Version != runtime.Version() {
		r.Text += fmt.Sprintf(" (rooflab itself was built with %s)", runtime.Version())
	}
	return r
}
