package campaign

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/data"
)

func TestArchiveMakesTheSameManifestAgain(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "copy")
	if _, err := Archive(archived(), dest); err != nil {
		t.Fatal(err)
	}
	if err := Verify(dest); err != nil {
		t.Error(err)
	}
	want, err := os.ReadFile(filepath.Join(archived(), data.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dest, data.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the manifest is not what `rooflab archive` writes (-in the tree +written):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(dest, "README.md"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Verify(dest); err == nil || !strings.Contains(err.Error(), "README.md has changed") {
		t.Errorf("a changed file: %v", err)
	}
}

func TestArchiveRefusesSecrets(t *testing.T) {
	host, _ := os.Hostname()
	for what, text := range map[string]string{
		"a Hugging Face token": "line\nHF_TOKEN=hf_" + strings.Repeat("a", 34), "a private key": "x\n-----BEGIN RSA PRIVATE KEY-----", "the host name of a trace": "\n" + `"host_name": "node7"`,
		"an authorization header": "\nAuthorization: Bearer abcdefghijk", "AN AUTHORIZATION HEADER": "\nAUTHORIZATION: BEARER abcdefghijk", "An authorization header": `"` + "\n" + `authorization": "BeaRer abcdefghijk"`, "the name of this host": "\non " + host + " today",
	} {
		if what == "the name of this host" && len(host) < 4 {
			continue
		}
		for _, name := range []string{"host/notes.txt", "runs/a.json.gz"} {
			dir := t.TempDir()
			if err := Init(dir, archived()); err != nil {
				t.Fatal(err)
			}
			body := []byte(strings.Repeat("filler\n", 200_000) + text)
			if strings.HasSuffix(name, ".gz") {
				body = pack(t, string(body))
			}
			if err := writeFile(filepath.Join(dir, name), bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			if _, err := Archive(dir, ""); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(name+":200002 holds "+what)) {
				t.Errorf("%s in %s: %v", what, name, err)
			}
		}
	}
}

func TestArchiveRefusesASecretInTheManifest(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, archived()); err != nil {
		t.Fatal(err)
	}
	c, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Notes = []string{"weights fetched with hf_" + strings.Repeat("a", 34)}
	if err := writeJSON(filepath.Join(dir, data.ManifestFile), c); err != nil {
		t.Fatal(err)
	}
	if _, err := Archive(dir, ""); err == nil || !strings.Contains(err.Error(), "manifest.json:") || !strings.Contains(err.Error(), "holds a Hugging Face token") {
		t.Error(err)
	}
}

func pack(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestInitFromACampaignOfTracesOnly(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "new")
	if err := writeJSON(filepath.Join(from, data.ManifestFile), data.Campaign{Schema: 1, ID: "a", Runs: []data.RunRef{}, Files: []data.File{}}); err != nil {
		t.Fatal(err)
	}
	if err := Init(dir, from); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(dir); err != nil {
		t.Error(err)
	}
}

func TestInitCopiesTheModelAndNoResults(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, archived()); err != nil {
		t.Fatal(err)
	}
	c, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Model.Served != "kimi-k2.5-slice" || c.Hardware.Count != 2 || c.Runs != nil || c.Main != "" || c.Measured != "" {
		t.Errorf("%+v", c)
	}
	for rel, want := range map[string]bool{"model/config.json": true, "baseline.json": true, "host/nvidia-smi-topo.txt": true, "runs": false, "micro": false} {
		if exists(filepath.Join(dir, rel)) != want {
			t.Errorf("%s: there %v, want %v", rel, !want, want)
		}
	}
	if err := Verify(dir); err != nil {
		t.Error(err)
	}
	blank := filepath.Join(t.TempDir(), "mine")
	if err := Init(blank, ""); err != nil {
		t.Fatal(err)
	}
	if c, err := ReadManifest(blank); err != nil || c.ID != "mine" || c.Model.Config != "model/config.json" {
		t.Errorf("%+v %v", c, err)
	}
	if err := Init(dir, t.TempDir()); err != nil {
		t.Errorf("a folder that is a campaign already: %v", err)
	}
	if err := Init(t.TempDir(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "no campaign folder") {
		t.Errorf("from a folder that is none: %v", err)
	}
}

func TestManifestThatLeadsOutOfItsFolderIsRefused(t *testing.T) {
	for _, change := range []func(*data.Campaign){
		func(c *data.Campaign) { c.Files = append(c.Files, data.File{Path: "model/../../outside"}) },
		func(c *data.Campaign) { c.Files = append(c.Files, data.File{Path: "/etc/hostname"}) },
		func(c *data.Campaign) { c.Main = "../outside" },
		func(c *data.Campaign) { c.Runs = append(c.Runs, data.RunRef{Name: ".."}) },
		func(c *data.Campaign) { c.Model.Config = "../../config.json" },
	} {
		from := t.TempDir()
		c := data.Campaign{Schema: data.SchemaVersion, ID: "hostile"}
		change(&c)
		if err := writeJSON(filepath.Join(from, data.ManifestFile), c); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "new")
		if err := Init(to, from); err == nil || !strings.Contains(err.Error(), "leads out of the campaign's folder") {
			t.Errorf("%+v: %v", c, err)
		}
		if exists(to) {
			t.Error("a folder was made")
		}
	}
}

func TestResultsAreSavedCanonicallyAndReadBack(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	type result struct {
		Name string         `json:"name"`
		M    map[string]int `json:"m"`
	}
	want := result{"a<b", map[string]int{"z": 1, "a": 2}}
	if err := s.Save("macro", want); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.dir, "results", "macro.json"))
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != "{\n \"name\": \"a<b\",\n \"m\": {\n  \"a\": 2,\n  \"z\": 1\n }\n}\n" {
		t.Errorf("%q", b)
	}
	var got result
	if err := s.Load("macro", &got); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%+v %v", got, err)
	}
	if err := s.Load("none", &got); err == nil || !strings.Contains(err.Error(), `no result "none" yet`) {
		t.Error(err)
	}
	for _, bad := range []string{"", "../x", "A", "a/b"} {
		if err := s.Save(bad, 1); err == nil {
			t.Errorf("%q was accepted as a name", bad)
		}
	}
}

func TestFilesComeFromTheFolderThenFromTheReplayedArchive(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	name, err := s.File("micro/marlin_moe.jsonl")
	if err != nil || !strings.HasPrefix(name, archived()) {
		t.Errorf("%s %v", name, err)
	}
	if name, err = s.File("model/config.json"); err != nil || !strings.HasPrefix(name, s.dir) {
		t.Errorf("%s %v", name, err)
	}
	for _, bad := range []string{"../x", "/etc/passwd", "none"} {
		if _, err := s.File(bad); err == nil {
			t.Errorf("%s was found", bad)
		}
	}
	b, err := s.Baseline()
	if err != nil || len(b.Shares) != 2 || b.Shares[0].Kernel != "unrolled_elementwise_kernel" {
		t.Errorf("%+v %v", b, err)
	}
	run, paths, err := s.Run("hostmem-eager")
	if err != nil || len(paths) != 2 || run.Environment.Graphs != "none" {
		t.Errorf("%v %v", paths, err)
	}
	if _, _, err := s.Run("nope"); err == nil || !strings.Contains(err.Error(), "it has hostmem-eager, hostmem-graph, hostmem-graph-uniform, nvlink-graph") {
		t.Error(err)
	}

	alive := open(t, t.TempDir(), Options{Target: "http://127.0.0.1:1", TraceDir: t.TempDir()})
	if _, err := alive.File("micro/marlin_moe.jsonl"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a live campaign got a file of another machine: %v", err)
	}
	if _, err := alive.Server(); err == nil || !strings.Contains(err.Error(), "no server answers at 127.0.0.1:1: connection refused") {
		t.Error(err)
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	for _, v := range []string{"ROOFLAB_TARGET", "ROOFLAB_CAMPAIGN", "ROOFLAB_TRACE_DIR"} {
		t.Setenv(v, "")
	}
	t.Chdir(t.TempDir())
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), "rooflab init DIR") {
		t.Error(err)
	}
	if _, err := Open(Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "has no manifest.json") {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := Init(dir, archived()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "set ROOFLAB_TARGET") {
		t.Error(err)
	}
	newer := data.Campaign{Schema: data.SchemaVersion + 1, ID: "x"}
	if err := writeJSON(filepath.Join(dir, data.ManifestFile), newer); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "use a newer rooflab") {
		t.Error(err)
	}
}

func TestOpenFindsTheFolderAboveAndTheTargetInTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, archived()); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(dir, "notebooks")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOFLAB_CAMPAIGN", "")
	t.Setenv("ROOFLAB_TARGET", "replay:"+archived())
	t.Chdir(below)
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Server()
	if err != nil {
		t.Fatal(err)
	}
	want := ServerInfo{Version: "0.24.0", Models: []string{"kimi-k2.5-slice"}, MaxModelLen: 4096, Healthy: true, Profiler: "yes", Replay: true, Recorded: "h200x2-kimi-k2.5-int4/hostmem-graph-uniform",
		Runs: []string{"hostmem-graph-uniform", "hostmem-graph", "nvlink-graph", "hostmem-eager"}, WorldSize: 2, RanksKept: []string{"C = 1: rank 0 of 2", "C = 64: ranks 0, 1 of 2", "C = 256: rank 0 of 2"}}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Error(diff)
	}
}
