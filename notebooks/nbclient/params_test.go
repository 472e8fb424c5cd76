package nbclient

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/notebooks/nbformat"
)

const goCell = `// what to measure
var url = "http://x"
var n = 3
var ratio, on = 0.5, true
var sizes = []int{1, 64}
var names []string
limit := -2.5
var wait = 5 * time.Second`

func TestParametersAreWrittenInTheNotebooksLanguage(t *testing.T) {
	tests := []struct{ language, declared, params, want string }{
		{"go", goCell, `url=http://h:80/v1?a=b`, "// Parameters\nurl = \"http://h:80/v1?a=b\""},
		{"go", goCell, `url=123`, "// Parameters\nurl = \"123\""},
		{"go", goCell, `n=5 n=6 on=false`, "// Parameters\nn = 6\non = false"},
		{"go", goCell, `ratio=2 limit=1e-3`, "// Parameters\nratio = 2\nlimit = 1e-3"},
		{"go", goCell, `sizes=[1,256] names=["a","b"]`, "// Parameters\nsizes = []int{1, 256}\nnames = []string{\"a\", \"b\"}"},
		{"go", goCell, `names=[]`, "// Parameters\nnames = []string{}"},
		{"go", goCell, `wait=7`, "// Parameters\nwait = 7"},
		{"go", goCell, `n=2.5`, "error: parameter n is int in the parameters cell, got 2.5"},
		{"go", goCell, `n=many`, `error: parameter n is int in the parameters cell, got "many"`},
		{"go", goCell, `sizes=[1.5]`, `error: parameter sizes is []int in the parameters cell, got [1.5]`},
		{"go", goCell, `sizes=4`, "// Parameters\nsizes = []int{4}"},
		{"go", goCell, `sizes=1,4,8 names=a,2`, "// Parameters\nsizes = []int{1, 4, 8}\nnames = []string{\"a\", \"2\"}"},
		{"go", goCell, `sizes=1,4,`, `error: parameter sizes is []int in the parameters cell, got "1,4,"`},
		{"go", goCell, `sizes=true`, `error: parameter sizes is []int in the parameters cell, got true`},
		{"go", goCell, `urll=x`, "error: parameter urll: the parameters cell does not declare it; it declares limit, n, names, on, ratio, sizes, url, wait"},
		{"go", goCell, `url=null`, "// Parameters\nurl = \"null\""},
		{"go", goCell, `n=null`, "error: parameter n is int in the parameters cell, got null"},
		{"go", "import \"os\"\nvar n = 1", `n=2`, "// Parameters\nn = 2"},
		{"go", "var n =", `n=2`, "error: read the parameters cell"},
		{"python", "n = 1", `n=true s=a"b l=[1,"x",null]`, "# Parameters\nn = True\ns = \"a\\\"b\"\nl = [1, \"x\", None]"},
		{"r", "n = 1", `n=1`, `error: parameters for a notebook in "r"`},
	}
	for _, tt := range tests {
		var params []Param
		for _, s := range strings.Fields(tt.params) {
			p, err := ParseParam(s)
			if err != nil {
				t.Fatal(err)
			}
			params = append(params, p)
		}
		got, _, err := parameterCode(params, tt.language, tt.declared, true)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tt.want && !(strings.HasPrefix(tt.want, "error") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s %s: got\n%s\nwant\n%s", tt.language, tt.params, got, tt.want)
		}
	}
}

func TestParametersFromGoValues(t *testing.T) {
	params := []Param{{Name: "url", Value: "5"}, {Name: "sizes", Value: []int{1, 2}}, {Name: "ratio", Value: 0.25}}
	got, _, err := parameterCode(params, "go", goCell, true)
	if want := "// Parameters\nurl = \"5\"\nsizes = []int{1, 2}\nratio = 0.25"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []any{map[string]int{"a": 1}, [][]int{{1}}, make(chan int)} {
		if _, _, err := parameterCode([]Param{{Name: "url", Value: bad}}, "go", goCell, true); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func TestInjectedCellFollowsTheParametersAndIsReplaced(t *testing.T) {
	tagged := nbformat.Cell{ID: "p", Type: nbformat.Code, Source: "var n = 1", Metadata: nbformat.Metadata{"tags": json.RawMessage(`["parameters"]`)}}
	nb := &nbformat.Notebook{Cells: []nbformat.Cell{{ID: "m", Type: nbformat.Markdown}, tagged, {ID: "x", Type: nbformat.Code}}}
	for _, value := range []int{5, 6} {
		if _, err := inject(nb, []Param{{Name: "n", Value: value}}, "go"); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range nb.Cells {
			ids = append(ids, c.ID)
		}
		if d := cmp.Diff([]string{"m", "p", "injected-parameters", "x"}, ids); d != "" {
			t.Errorf("cells -want +got:\n%s", d)
		}
	}
	if got := nb.Cells[2].Source; got != "// Parameters\nn = 6" || !nb.Cells[2].HasTag("injected-parameters") {
		t.Errorf("source %q", got)
	}
}

func TestWithoutAParametersCellTheValuesGoToTheTop(t *testing.T) {
	nb := &nbformat.Notebook{Cells: []nbformat.Cell{{ID: "x", Type: nbformat.Code}}}
	warnings, err := inject(nb, []Param{{Name: "n", Value: 1}}, "go")
	if err != nil || len(warnings) != 1 || nb.Cells[0].Source != "// Parameters\nvar n = 1" {
		t.Errorf("%v, %v, %q", err, warnings, nb.Cells[0].Source)
	}
}

func TestParameterNamesCannotSmuggleCode(t *testing.T) {
	for _, s := range []string{"a;os.Exit(1)=1", "=1", "a", "a b=1", "for=1"} {
		if _, err := ParseParam(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestRawStringKeepsHalfCharacters(t *testing.T) {
	for in, want := range map[string]string{
		`"plain é"`:                     "plain é",
		`42`:                            "",
		"\"\xc3\"":                      "\xc3",
		"\"\\n\\t\\\"\\\\\\/\\b\xa9\"":  "\n\t\"\\/\b\xa9",
		"\"\xf0\\u00e9\\ud83d\\ude00\"": "\xf0é😀",
		"\"\xf0\\ud83d!\"":              "\xf0\ufffd!",
	} {
		if got := string(rawString(json.RawMessage(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzRawString(f *testing.F) {
	f.Add([]byte("\"\xc3\\u00e9\\n\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) {
			rawString(data)
		}
	})
}

func TestLineIsFoundInTracebacksOfKnownKernels(t *testing.T) {
	for text, want := range map[string]int{
		"\x1b[0;31mValueError\x1b[0m   Traceback\nCell \x1b[0;32mIn[3], line 2\x1b[0m\n": 2,
		"  Cell In[1], line 7\n    x =\nSyntaxError":                                     7,
		"repl.go:4:7: undefined identifier: x":                                           4,
		"panic: boom\n\ncell[12]:9:2":                                                    9,
		"<ipython-input-5-abc> in <module>\n      1 a\n----> 2 b\nValueError: x":         2,
		"panic: boom": 0,
	} {
		if got := lineIn(text); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}
