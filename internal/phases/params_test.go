package phases

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbclient"
)

// params parses values as they are written on a command line.
func params(t *testing.T, texts ...string) []nbclient.Param {
	t.Helper()
	var out []nbclient.Param
	for _, s := range texts {
		p, err := nbclient.ParseParam(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func names(params []nbclient.Param) string {
	var out []string
	for _, p := range params {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

const edited = `{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[
{"cell_type":"code","id":"first","metadata":{},"source":"var notAParameter = 1","execution_count":null,"outputs":[]},
{"cell_type":"code","id":"parameters","metadata":{"tags":["parameters"]},"source":"// loads = 1 is a comment\nvar (\n\tmine, yours = 1, \"a\"\n\ttext string\n)\nvar streams []int = nil\nquick := true","execution_count":null,"outputs":[]}]}`

func TestNotebookGetsOnlyParametersThatItDeclares(t *testing.T) {
	given := params(t, "C=[1]", "routing=real", "eagerRun=", "C=1,64", "mine=2")
	for number, want := range []string{"C C", "C C", "C routing C", "eagerRun", ""} {
		got, err := declared(t.TempDir(), notebooks.Phases()[number], given)
		if err != nil || names(got) != want {
			t.Errorf("phase %d: %q (%v), want %q", number, names(got), err, want)
		}
	}
}

func TestParametersOfAnEditedNotebookCount(t *testing.T) {
	dir := t.TempDir()
	macro := notebooks.Phases()[1]
	write(t, notebookPath(dir, macro), edited)
	_, all, err := parameterNames(dir, macro)
	if want := "mine quick streams text yours"; err != nil || strings.Join(all, " ") != want {
		t.Errorf("parameters %q (%v), want %q", all, err, want)
	}
	got, err := declared(dir, macro, params(t, "C=[1]", "mine=2", "quick=false"))
	if want := "mine quick"; err != nil || names(got) != want {
		t.Errorf("picked %q (%v), want %q", names(got), err, want)
	}
}

func TestParametersThatNobodyDeclaresAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, notebookPath(dir, notebooks.Phases()[1]), edited)
	for _, c := range []struct {
		phases  []int
		params  string
		unknown string
	}{
		{nil, "routing=real", ""},
		{nil, "mine=1", ""},
		{nil, "outputTokens=5", ""}, // of 00-preflight; the edited 10-macro lost it
		{[]int{1}, "outputTokens=5", "outputTokens"},
		{[]int{2, 4}, "routing=real", ""},
		{[]int{0}, "routing=real", "routing"},
		{nil, "notAParameter=1", "notAParameter"},
		{nil, "Loads=[1]", "Loads"},
	} {
		err := Options{Dir: dir, Numbers: c.phases, Params: params(t, c.params)}.CheckParams()
		var unknown *ParamError
		switch {
		case c.unknown == "" && err != nil:
			t.Errorf("%v %s: %v", c.phases, c.params, err)
		case c.unknown != "" && (!errors.As(err, &unknown) || strings.Join(unknown.Unknown, " ") != c.unknown):
			t.Errorf("%v %s: %v, want %s to be unknown", c.phases, c.params, err, c.unknown)
		case c.unknown != "" && !strings.Contains(err.Error(), "; there are "):
			t.Errorf("%v does not say what there is", err)
		}
	}
}

func TestValuesThatDoNotFitAreRefused(t *testing.T) {
	for param, words := range map[string]string{
		"C=a":              "parameter C is ",
		"C=1,,4":           "parameter C is ",
		"inputTokens=many": "parameter inputTokens is ",
		"inputTokens=1.5":  "parameter inputTokens is ",
		"C=8":              "",
		"C=1,8":            "",
		"goodput=tpot:50":  "",
		"inputTokens=64":   "",
	} {
		err := Options{Dir: t.TempDir(), Params: params(t, param)}.CheckParams()
		if words == "" && err != nil || words != "" && (!errors.As(err, new(*ParamError)) || !strings.Contains(err.Error(), words)) {
			t.Errorf("%s: %v, want %q", param, err, words)
		}
	}
}

func TestDamagedNotebookIsNotCalledAWrongParameter(t *testing.T) {
	for text, words := range map[string]string{
		"{": "not JSON",
		strings.Replace(edited, "quick := true", "var quick = ", 1): "read the parameters cell",
	} {
		dir := t.TempDir()
		macro := notebookPath(dir, notebooks.Phases()[1])
		write(t, macro, text)
		err := Options{Dir: dir, Params: params(t, "C=[1]")}.CheckParams()
		if err == nil || errors.As(err, new(*ParamError)) || !strings.Contains(err.Error(), filepath.Base(macro)) || !strings.Contains(err.Error(), words) {
			t.Errorf("the error is %v, want the file and %q", err, words)
		}
	}
}

func TestRunRefusesWhatItCannotRun(t *testing.T) {
	for words, o := range map[string]Options{
		"phase 7: phases are 0 to 4": {Target: "replay:" + archive(), Numbers: []int{0, 7}},
		"no target: give --target":   {},
		"no server answers at":       {Target: "http://127.0.0.1:1"},
		"is no archived campaign":    {Target: "replay:" + t.TempDir()},
	} {
		o.Dir = filepath.Join(t.TempDir(), "campaign")
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the error is %v, want %q", err, words)
		}
	}
}
