package sitegen

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/charts/svg"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/sitegen/internal/theme"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	keep   = flag.String("keep", "", "folder that gets the campaign and the site of the fixture, to look at")
)

func build(t testing.TB, in string) (string, Result) {
	t.Helper()
	out := t.TempDir()
	r, err := Build(t.Context(), Options{In: in, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	return out, r
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestKeep(t *testing.T) {
	if *keep == "" {
		t.Skip("only with -keep DIR")
	}
	in := writeHostile(t)
	if err := os.CopyFS(filepath.Join(*keep, "campaign"), os.DirFS(in)); err != nil {
		t.Fatal(err)
	}
	r, err := Build(t.Context(), Options{In: in, Out: filepath.Join(*keep, "site")})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Warnings {
		t.Log(w)
	}
}

var (
	drawings = regexp.MustCompile(`(?s)<svg xmlns.*?</svg>`)
	options  = regexp.MustCompile(`(?s)(<script type="application/json"[^>]*>).*?</script>`)
	hashes   = regexp.MustCompile(`\.[0-9a-f]{12}([./])`)
)

// The pages without the drawings, which charts/svg tests.
func TestPagesAreAsApproved(t *testing.T) {
	out, r := build(t, writeCampaign(t))
	if diff := cmp.Diff([]string{"index.html", "10-macro.html", "20-micro.html", "40-findings.html", "campaign.html"}, r.Pages); diff != "" {
		t.Error(diff)
	}
	for _, page := range []string{"index.html", "10-macro.html", "campaign.html"} {
		got := drawings.ReplaceAllString(read(t, out, page), "<svg…>")
		got = options.ReplaceAllString(got, "$1…</script>")
		got = hashes.ReplaceAllString(got, ".HASH$1")
		golden := filepath.Join("testdata", page+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(strings.Split(read(t, ".", golden), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s (-golden +now; go test ./sitegen -update after looking at it):\n%s", page, diff)
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	in := writeHostile(t)
	a, _ := build(t, in)
	b, _ := build(t, in)
	fa, fb := tree(t, a), tree(t, b)
	if diff := cmp.Diff(fa, fb); diff != "" {
		t.Error(diff)
	}
	for name, content := range fa {
		if strings.HasSuffix(name, ".html") && strings.Contains(content, in) {
			t.Errorf("%s holds the path of the campaign on this machine", name)
		}
	}
}

func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			files[rel] = read(t, dir, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestStartPageIsTheVerdictAndItsEvidence(t *testing.T) {
	out, _ := build(t, writeCampaign(t))
	page := read(t, out, "index.html")
	last := 0
	for _, want := range []string{ // in this order
		"<h1>At 256\u00a0streams", "How sure", `id="fig-reversal"`, `id="bottlenecks"`, ">60.22<", ">56.3<", "GPU time, summed", "−0.58", "&#43;1.46", "107.75", "104.22",
		"Distance to the floor", `id="fig-step"`, "Why: message size", `class="pair"`, `id="fig-allreduce"`, `id="fig-roofline"`, "Read together", `id="fig-layer"`,
		`id="hypotheses"`, "10-macro.html#cell-breakdown", `id="todo"`, "1.53", "≤ 2.27", "open", `id="notebooks"`, `id="method"`, "Integer nanoseconds",
	} {
		at := strings.Index(page[last:], want)
		if at < 0 {
			t.Fatalf("%q does not follow", want)
		}
		last += at
	}
	if strings.Contains(page, "A note that stays in the notebook") {
		t.Error("a cell without the tag is on the start page")
	}
	if n := strings.Count(page, "<h1"); n != 1 {
		t.Errorf("%d h1", n)
	}
}

func TestFiguresArePublishedOnce(t *testing.T) {
	out, _ := build(t, writeCampaign(t))
	csv := read(t, out, "files/40-findings.bottlenecks.o1.csv")
	if !strings.HasPrefix(csv, "Component,C = 1 (ms a step),") || !strings.Contains(csv, "\nAll-reduce,1.74,19.3,15.38,35.0,60.22,56.3\n") {
		t.Errorf("csv of the bottleneck table:\n%s", csv)
	}
	if got := read(t, out, "files/results/allreduce.json"); got != `{"kind":"allreduce"}` {
		t.Errorf("a linked result is not published: %q", got)
	}
}

func TestErrorCellMarksItsLine(t *testing.T) {
	out, _ := build(t, writeCampaign(t))
	page := read(t, out, "10-macro.html")
	for _, want := range []string{
		`<span class="l err">	fmt.<span class="fu">Println</span>(pairs.<span class="fu">Waits</span>())</span>`,
		"in cell 7, line 3, column 20: <code>pairs.Waits undefined (type breakdown.Pairs has no field or method Waits)</code>",
		"Parameters given to this run", "49 more lines", `<div class="callout">`, `href="40-findings.html#cell-findings"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}

func TestCampaignWithoutVerdictOrEndSaysSo(t *testing.T) {
	in := writeCampaign(t)
	if err := os.Remove(filepath.Join(in, "notebooks", "40-findings.ipynb")); err != nil {
		t.Fatal(err)
	}
	b := &nb{}
	b.code("a", "x := 1", []any{map[string]any{"output_type": "error", "ename": "panic", "evalue": "boom", "traceback": []string{}}})
	b.code("b", "y := 2", nil)
	raw := strings.Replace(string(b.json(t)), `"execution_count": 2`, `"execution_count": null`, 1)
	if err := os.WriteFile(filepath.Join(in, "notebooks", "30-nsys.ipynb"), []byte(raw), 0o644); err != nil {
		t.Fatal(err)
	}
	macro := strings.ReplaceAll(read(t, in, "notebooks/10-macro.ipynb"), "40-findings.ipynb#cell-findings", "20-micro.ipynb")
	if err := os.WriteFile(filepath.Join(in, "notebooks", "10-macro.ipynb"), []byte(macro), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := build(t, in)
	page := read(t, out, "index.html")
	for _, want := range []string{"No verdict was published yet", `<a href="30-nsys.html#cell-a">30-nsys</a>: the notebook did not finish: it stopped with an error in cell 1; 1 cell of 2 did not run.`, `href="10-macro.html"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the start page does not say %q", want)
		}
	}
}

func TestReferencesThatLeadNowhereStopTheBuild(t *testing.T) {
	in := writeCampaign(t)
	b := &nb{}
	v := verdict()
	v.Facts[0].Ref = data.Ref{Notebook: "10-macro", Cell: "gone"}
	v.Facts[1].Ref = data.Ref{Notebook: "99-none"}
	b.code("verdict", "v", []any{show(v)}, "site")
	b.md("links", "[a](10-macro.ipynb#nowhere) [b](../results/none.csv) [c](88-none.ipynb)", "site")
	if err := os.WriteFile(filepath.Join(in, "notebooks", "90-bad.ipynb"), b.json(t), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "site")
	_, err := Build(t.Context(), Options{In: in, Out: out})
	if err == nil {
		t.Fatal("the build passed")
	}
	for _, want := range []string{`cell "gone" of notebook 10-macro`, `notebook "99-none"`, `10-macro.html has no id "nowhere"`, "results/none.csv", `"88-none.ipynb": the campaign has no such notebook`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was written")
	}
}

func TestInputsThatCannotBePublishedGetOneMessage(t *testing.T) {
	empty, newer, file := t.TempDir(), writeCampaign(t), filepath.Join(t.TempDir(), "f")
	for name, content := range map[string]string{filepath.Join(newer, "manifest.json"): `{"schema": 99}`, file: ""} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ in, want string }{
		{filepath.Join(empty, "none"), "no such folder"}, {file, "not a folder"}, {empty, "no notebooks/*.ipynb in it"}, {newer, "schema 99 is newer than this program knows (1)"},
	} {
		if _, err := Build(t.Context(), Options{In: c.in, Out: filepath.Join(t.TempDir(), "o")}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.in, err, c.want)
		}
	}
}

func TestOutputFolderOfOthersIsLeftAlone(t *testing.T) {
	in, out := writeCampaign(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "thesis.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), Options{In: in, Out: out}); err == nil || !strings.Contains(err.Error(), "no site of rooflab") {
		t.Fatalf("error: %v", err)
	}
	if n := len(tree(t, out)); n != 1 {
		t.Errorf("%d files, want the one that was there", n)
	}
}

func TestRebuildRemovesItsOwnOldFilesOnly(t *testing.T) {
	in := writeHostile(t)
	out, _ := build(t, in)
	if err := os.WriteFile(filepath.Join(out, "CNAME"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(in, "notebooks", "50-hostile.ipynb")); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), Options{In: in, Out: out}); err != nil {
		t.Fatal(err)
	}
	files := tree(t, out)
	if _, ok := files["50-hostile.html"]; ok {
		t.Error("a page of a notebook that is gone is still there")
	}
	if files["CNAME"] != "mine" {
		t.Error("a file of the user was removed")
	}
}

func TestBudget(t *testing.T) {
	out, _ := build(t, writeCampaign(t))
	for page, limit := range map[string]int{"index.html": 400 << 10, "10-macro.html": 100 << 10, "campaign.html": 100 << 10} {
		if n := len(read(t, out, page)); n > limit {
			t.Errorf("%s has %d bytes, at most %d", page, n, limit)
		}
	}
}

func TestStyleSheetHasThePaletteOfTheDrawings(t *testing.T) {
	for _, c := range svg.Palette() {
		want := fmt.Sprintf("--%s: light-dark(%s, %s)", c.Name, c.Light, c.Dark)
		if !strings.Contains(string(theme.CSS), want) {
			t.Errorf("site.css lacks %q", want)
		}
	}
}

// Real and hand-made notebooks of many kernels: each page shows what it must and nothing that it must not.
func TestNotebooksAsReadersMeetThem(t *testing.T) {
	dir := filepath.Join(sharedDir(t), "samples", "notebooks")
	for _, kind := range []string{"real", "handmade"} {
		files, err := filepath.Glob(filepath.Join(dir, kind, "*.ipynb"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no samples in %s: %v", dir, err)
		}
		for _, f := range files {
			name := strings.TrimSuffix(filepath.Base(f), ".ipynb")
			t.Run(name, func(t *testing.T) { sample(t, dir, f, name) })
		}
	}
}

func sample(t *testing.T, dir, file, name string) {
	var want struct {
		MustShow []string `json:"must_show"`
		MustNot  []string `json:"must_not"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "expected", name+".json"))
	if err != nil {
		t.Skip(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	in := t.TempDir()
	if err := os.MkdirAll(filepath.Join(in, "notebooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	raw, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "notebooks", name+".ipynb"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	r, err := Build(t.Context(), Options{In: in, Out: out})
	if err != nil && len(r.Pages) == 0 {
		t.Fatal(err)
	}
	if found, err := Check(out); err != nil || len(found) > 0 {
		t.Errorf("check: %v %v", found, err)
	}
	if err != nil {
		t.Logf("no page: %v", err)
		return
	}
	text := visible(read(t, out, name+".html"))
	for _, s := range want.MustShow {
		if !strings.Contains(text, squeeze(s)) {
			t.Errorf("must show %q", s)
		}
	}
	for _, s := range want.MustNot {
		if strings.Contains(text, squeeze(s)) {
			t.Errorf("must not show %q", s)
		}
	}
}
