package launch

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDriftBetweenUnitAndProcessHasConsequences(t *testing.T) {
	unit, err := Unit(os.DirFS("testdata/drift"), "vllm-kimi.service")
	if err != nil {
		t.Fatal(err)
	}
	process, err := Process(read(t, "testdata", "drift", "proc", "cmdline"), read(t, "testdata", "drift", "proc", "environ"))
	if err != nil {
		t.Fatal(err)
	}
	unit.ModifiedUnix = 1796050000
	drifts := Compare(unit, process, HTTP{Version: "0.24.0", Model: "/srv/models/kimi-k2.5-slice", MaxModelLen: 4096, StartedUnix: 1796044000})
	got := drifts.Table().Text() + "\n"
	const golden = "testdata/drift/drift.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(read(t, golden)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if strings.Contains(got+process.Table().Text(), "hf_0000") || strings.Contains(process.Table().Text(), "HOSTNAME") {
		t.Error("a secret or the host's name is shown")
	}
}

func TestTheCampaignsProcessIsRead(t *testing.T) {
	run := filepath.Join(sharedtest.Dir(t), "campaign", "hostmem-graph-uniform")
	s, err := Process(read(t, run, "cmdline.txt"), read(t, run, "environ.txt"))
	if err != nil {
		t.Fatal(err)
	}
	http, err := Answers(read(t, run, "get_version.json"), read(t, run, "get_v1_models.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.Version = http.Version
	p := s.Profiler()
	if s.TensorParallel() != 2 || s.MaxNumSeqs() != 256 || s.CUDAGraphs() != "default" || s.Model != http.Model || s.Getenv("NCCL_PROTO") != "LL" ||
		p.Kind != "torch" || !p.Effective || p.WithStack != "false" || s.Arg("cudagraph-capture-sizes") != "[1,2,4,8,16,32,64,128,256]" {
		t.Errorf("%+v\nprofiler %+v", s, p)
	}
	same := Compare(s, s, http)
	items := ""
	for _, d := range same {
		if d.Unit != d.Process {
			t.Errorf("a process differs from itself in %s:\n%s", d.Item, same.Table().Text())
		}
		items += d.Item + " "
	}
	if items != "NCCL_PROTO NCCL_P2P_DISABLE " {
		t.Errorf("settings with consequences: %s", items)
	}
}

func TestProcessesThatAreNoServersAreRefused(t *testing.T) {
	for cmdline, want := range map[string]string{
		"":                     "empty",
		"VLLM::EngineCore\x00": "worker",
		"/usr/bin/sleep\x0010": `"sleep" is not an inference server`,
	} {
		if _, err := Process([]byte(cmdline), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", cmdline, err, want)
		}
	}
	s, err := Process([]byte("/opt/venv/bin/python3\x00/opt/venv/bin/vllm\x00serve\x00m\x00-tp\x008\x00"), nil)
	if err != nil || s.TensorParallel() != 8 || len(s.Diagnostics) != 1 {
		t.Errorf("console script: %+v, %v; want a note that the environment is missing", s, err)
	}
}

func TestProfilerSettingsAreJudgedByVersion(t *testing.T) {
	for _, c := range []struct {
		line, version string
		effective     bool
	}{
		{"VLLM_TORCH_PROFILER_DIR=/p vllm serve m", "0.15.1", true},
		{"VLLM_TORCH_PROFILER_DIR=/p vllm serve m", "0.16.0", false},
		{"vllm serve m --profiler-config.profiler=torch", "0.13.0", true},
		{"vllm serve m --profiler-config.profiler=torch", "0.11.0", false},
	} {
		s, err := Line(c.line)
		if err != nil {
			t.Fatal(err)
		}
		s.Version = c.version
		if got := s.Profiler(); got.Effective != c.effective || got.Effective == strings.Contains(got.Describe(), "NOT effective") {
			t.Errorf("%s with %s: %+v", c.line, c.version, got)
		}
	}
}

func TestScriptsThatNeverEndAreStopped(t *testing.T) {
	for script, want := range map[string]string{
		"f() { f; }; f":                                    "statements",
		"f() { (f); (f); }; f":                             "statements",
		"x=aaaaaaaa; g() { x=$x$x; g; }; g":                "grows beyond",
		`x='eval "$x"'; eval "$x"`:                         "",
		"for i in {1..9999999999}; do vllm bench; done":    "no inference server",
		"bash -c \"bash -c 'bash -c \\\"vllm serve\\\"'\"": "",
	} {
		if _, err := Line(script); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want an error with %q", script, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"[Service]\nEnvironment=\"A=1\"\nExecStart=/x/vllm serve m ${A} $A \\\n # c\n -tp 8\n",
		"services: {a: {image: 'vllm/vllm-openai:v0.20.0', command: --model ${M:-x}, environment: {A: 1}}}\n",
		"kind: Pod\nspec: {containers: [{command: [vllm, serve], args: [m, --port=$(P)], env: [{name: P, value: '1'}]}]}\n",
		"export A=1; ARGS=(--x \"$A\"); [[ $A == 1 ]] && exec env B=2 vllm serve m \"${ARGS[@]}\"\n",
		"docker run -it -e A=1 --entrypoint bash img -lc 'vllm serve m --x.y+ 1,2 -O3'\n",
		"A ?= $(B)$(B)\nB := ${A}\nexport A\nrun:\n\t@vllm serve $(A) $$X \\\n\t $@\n",
		"[supervisord]\nenvironment=A=\"x,y\"\n[program:v]\ncommand=vllm serve %(ENV_A)s\n  -tp 2 ; c\n",
		"[Service]\nEnvironmentFile=a.service\nA = \"x\\\n\"'y'z \nExecStart=apptainer exec --env A=1 i.sif vllm serve m\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		for _, name := range []string{"a.service", "a.container", "a.yaml", "a.sh", "a.conf", "a.mk"} {
			fsys := fstest.MapFS{name: {Data: []byte(text)}}
			if s, err := Read(fsys, name, Context{}); err == nil {
				Compare(s, s, HTTP{}).Table()
				s.Table()
			}
		}
		if s, err := Process([]byte(text), []byte(text)); err == nil {
			s.Table()
		}
	})
}

func TestAConfigFileOfTheUnitIsThatOfTheProcess(t *testing.T) {
	unit, err := Read(fstest.MapFS{
		"v.service":  {Data: []byte("[Service]\nExecStart=/usr/bin/vllm serve --config /etc/c.yaml -tp 4\n")},
		"etc/c.yaml": {Data: []byte("model: m\nmax-num-seqs: 8\napi-key: sekret-of-file\n")},
	}, "v.service", Context{})
	if err != nil {
		t.Fatal(err)
	}
	process, err := Process([]byte("/usr/bin/python3\x00/usr/bin/vllm\x00serve\x00--config\x00/etc/c.yaml\x00-tp\x002\x00"), []byte("A=1\x00"))
	if err != nil {
		t.Fatal(err)
	}
	got := Compare(unit, process, HTTP{})
	if len(got) != 2 || got[0].Item != "--tensor-parallel-size" || got[1].Item != "profiler" {
		t.Errorf("drifts %v", got)
	}
	if text := got.Table().Text(); strings.Contains(text, "sekret") {
		t.Errorf("a secret is shown: %s", text)
	}
}
