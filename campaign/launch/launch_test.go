package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/secrets"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

// want is expected.json of samples/launch; its README has the rules.
type want struct {
	Program  string             `json:"program"`
	Version  string             `json:"version"`
	Model    string             `json:"model"`
	Argv     []string           `json:"argv"`
	Args     map[string]any     `json:"args"`
	Env      map[string]*string `json:"env"`
	TP       int64              `json:"tensor_parallel"`
	EP       bool               `json:"expert_parallel"`
	Seqs     *int64             `json:"max_num_seqs"`
	Graphs   string             `json:"cuda_graphs"`
	Starts   *bool              `json:"starts"`
	Profiler *struct {
		Kind      string `json:"kind"`
		Dir       string `json:"dir"`
		Via       string `json:"via"`
		Effective bool   `json:"effective"`
		WithStack *bool  `json:"with_stack"`
	} `json:"profiler"`
}

func TestEveryWayToStartAServerIsRead(t *testing.T) {
	for _, c := range []struct {
		folder, file, expected string
		context                Context
	}{
		{"01-unit-dropins", "vllm-kimi.service", "expected.json", Context{Version: "0.17.1"}},
		{"02-template-unit", "vllm@.service", "expected.json", Context{Instance: "glm47", Version: "0.20.2"}},
		{"02-template-unit", "vllm@qwen3.service", "expected.qwen3.json", Context{Version: "0.20.2"}},
		{"03-unit-bash-lc", "kimi-thinking.service", "expected.json", Context{Version: "0.28.0"}},
		{"04-unit-docker-run", "vllm-qwen.service", "expected.json", Context{}},
		{"05-wrapper-script", "start.sh", "expected.json", Context{Version: "0.22.0"}},
		{"06-docker-bash-lc", "run.sh", "expected.json", Context{}},
		{"07-compose", "compose.yaml", "expected.json", Context{}},
		{"08-quadlet", "vllm.container", "expected.json", Context{}},
		{"09-kubernetes", "deployment.yaml", "expected.json", Context{}},
		{"10-slurm-pyxis", "job.sh", "expected.json", Context{Env: map[string]string{"SLURM_NODEID": "0"}}},
		{"10-slurm-pyxis", "job.sh", "expected.node1.json", Context{Env: map[string]string{"SLURM_NODEID": "1"}}},
		{"11-config-yaml", "serve.sh", "expected.json", Context{Version: "0.27.1"}},
		{"11-config-yaml", "serve-eq.sh", "expected.serve-eq.json", Context{Version: "0.27.1"}},
		{"12-python-m-0.6", "run.sh", "expected.json", Context{Version: "0.6.6.post1"}},
		{"13-sglang-docker", "run.sh", "expected.json", Context{}},
	} {
		t.Run(c.folder+"/"+c.expected, func(t *testing.T) {
			dir := filepath.Join(sharedtest.Dir(t), "samples", "launch", c.folder)
			raw, err := os.ReadFile(filepath.Join(dir, c.expected))
			if err != nil {
				t.Fatal(err)
			}
			var w want
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			s, err := Read(os.DirFS(dir), c.file, c.context)
			if err != nil {
				t.Fatal(err)
			}
			check(t, s, w)
		})
	}
}

func check(t *testing.T, s Server, w want) {
	t.Helper()
	env := map[string]*string{}
	for _, v := range s.Env {
		env[v.Name] = nil
		if !v.Unknown {
			env[v.Name] = &v.Value
		}
	}
	diff := func(what string, got, want any) {
		if d := cmp.Diff(viaJSON(t, want), viaJSON(t, got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	diff("program", s.Program, w.Program)
	diff("version", s.Version, w.Version)
	diff("model", s.Model, w.Model)
	diff("argv", s.Argv, w.Argv)
	diff("env", env, w.Env)
	if w.Starts != nil && !*w.Starts {
		if s.Refused == "" {
			t.Error("the program takes these words; it should refuse them")
		}
		return
	}
	if s.Refused != "" {
		t.Errorf("refused: %s", s.Refused)
	}
	diff("args", s.Args, w.Args)
	seqs := int64(0)
	if w.Seqs != nil {
		seqs = *w.Seqs
	}
	diff("sizes", []any{s.TensorParallel(), s.ExpertParallel(), s.MaxNumSeqs(), s.CUDAGraphs()}, []any{w.TP, w.EP, seqs, w.Graphs})
	p := s.Profiler()
	if w.Profiler == nil {
		diff("profiler", p.Kind, "")
		return
	}
	stack := ""
	if w.Profiler.WithStack != nil {
		stack = fmt.Sprint(*w.Profiler.WithStack)
	}
	diff("profiler", []any{p.Kind, p.Dir, p.Via, p.Effective, p.WithStack}, []any{w.Profiler.Kind, w.Profiler.Dir, w.Profiler.Via, w.Profiler.Effective, stack})
}

func viaJSON(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConfigWithAnEqualsSignIsWarnedAbout(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "samples", "launch", "11-config-yaml")
	s, err := Read(os.DirFS(dir), "serve-eq.sh", Context{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Diagnostics) != 1 || s.Diagnostics[0].ID != "config_file_ignored" {
		t.Errorf("diagnostics %v", s.Diagnostics)
	}
}

func TestSecretsInsideValuesAreMasked(t *testing.T) {
	s, err := Process([]byte("vllm\x00serve\x00m\x00--otlp-traces-endpoint\x00http://bob:sekret@h:1\x00--kv-transfer-config\x00{\"url\":\"redis://u:sekret@h/0\"}\x00"),
		[]byte("VLLM_AUTH=sekret\x00VLLM_S3_CREDENTIALS=sekret\x00VLLM_CONFIG={\"api_key\":\"sekret\"}\x00NCCL_URL=http://h/?apikey=sekret\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if text := s.Table().Text(); strings.Contains(text, "sekret") || !strings.Contains(text, "redis://***@h/0") {
		t.Errorf("a secret is shown, or the address is not:\n%s", text)
	}
}

func TestSecretsNeverLeaveThePackage(t *testing.T) {
	s, err := Line(`HF_TOKEN=hf_sekret_value EXTRA="--x hf_sekret_value" TIKTOKEN_ENCODINGS_BASE=/etc/enc vllm serve m --api-key sk-one-secret sk-two-secret --hf-token=hf_sekret_value --max-num-batched-tokens 8192 --additional-config '{"auth_token":"t0psecret"}' --kv-transfer-config '{"kv_connector_extra_config":{"url":"bob:sekret@db"}}' --middleware 'x --hf-token "hf_sekret_value"' --served-model-name sk-sekret0123456789abcdef`)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw) + s.Table().Text() + s.Table().HTML()
	for _, secret := range []string{"sekret", "sk-one", "sk-two", "t0psecret"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is shown:\n%s", secret, text)
		}
	}
	if s.Getenv("TIKTOKEN_ENCODINGS_BASE") != "/etc/enc" || s.Arg("max-num-batched-tokens") != "8192" {
		t.Error("a value that is no secret is masked")
	}
}

func TestArgumentsAreReadAsTheServerReadsThem(t *testing.T) {
	for _, c := range []struct{ line, option, want string }{
		{"vllm serve m --tensor-par 8", "tensor-parallel-size", "8"},
		{"vllm serve m -tp=8", "tensor-parallel-size", "8"},
		{"vllm serve m --max-num-seqs 64 --max_num_seqs=32", "max-num-seqs", "32"},
		{"vllm serve m --max-model-len 25.6k", "max-model-len", "25600"},
		{"vllm serve m --max-model-len 16K", "max-model-len", "16384"},
		{"vllm serve m --no-enable-prefix-caching", "enable-prefix-caching", "false"},
		{"vllm serve m --gpu-memory-utilization 0.90", "gpu-memory-utilization", "0.9"},
		{"vllm serve m --compilation-config.mode 3 --compilation-config '{\"level\":0}'", "compilation-config", `{"mode":3}`},
		{"vllm serve m -cc.pass_config.fuse_norm_quant=true", "compilation-config", `{"pass_config":{"fuse_norm_quant":true}}`},
		{"vllm serve m --cudagraph-capture-sizes 1 2 4 --port 1", "cudagraph-capture-sizes", "[1,2,4]"},
		{"vllm serve m --seed -1", "seed", "-1"},
		{"vllm serve m -O 3", "optimization-level", "3"},
		{"vllm serve m --brand-new-switch --port 8", "brand-new-switch", "true"},
		{"vllm serve m --brand-new-value x --port 8", "brand-new-value", "x"},
		{"for tp in 4; do vllm serve m -tp $tp; done", "tensor-parallel-size", "4"},
		{"serve() { vllm serve m \"$@\"; }; serve -tp 2", "tensor-parallel-size", "2"},
		{"case a in b) TP=1;; a*) TP=4;; esac; exec numactl --cpunodebind 0 vllm serve m -tp $TP", "tensor-parallel-size", "4"},
		{"set -a; TP=2; nsys profile -t cuda -o x python -m vllm.entrypoints.openai.api_server --model m -tp ${TP}", "tensor-parallel-size", "2"},
	} {
		s, err := Line(c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if got := s.Arg(c.option); got != c.want || s.Refused != "" || s.Model != "m" {
			t.Errorf("%s: --%s is %s (model %s, refused %q), want %s", c.line, c.option, got, s.Model, s.Refused, c.want)
		}
	}
	for _, line := range []string{"vllm serve m extra", "vllm serve m --enable 1", "vllm serve m --port", "docker run vllm/vllm-openai:v0.26.0 vllm serve m"} {
		if s, err := Line(line); err != nil || s.Refused == "" {
			t.Errorf("%s: taken (%v), should be refused", line, err)
		}
	}
}

func TestFilesWithoutServersSayWhatWasLookedFor(t *testing.T) {
	for _, line := range []string{"echo hello", "vllm bench serve --model m", "docker run nginx", "python train.py"} {
		if _, err := Line(line); err == nil || !strings.Contains(err.Error(), "no inference server") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := Line(`vllm serve "unclosed`); err == nil || !strings.Contains(err.Error(), "parse shell") {
		t.Errorf("unclosed quote: %v", err)
	}
	if _, err := Unit(os.DirFS(t.TempDir()), "no.service"); err == nil || !strings.Contains(err.Error(), "no.service") {
		t.Errorf("absent unit: %v", err)
	}
}

func TestEnvironmentKeepsWhatChangesTheServerAndNoSecret(t *testing.T) {
	s, err := Process([]byte("vllm\x00serve\x00/srv/m\x00-tp\x004\x00--api-key\x00hunter2hunter2\x00--enforce-eager\x00"),
		[]byte("HOME=/home/me\x00NCCL_PROTO=LL\x00VLLM_API_KEY=hunter2hunter2\x00HF_TOKEN=hf_abcdefgh\x00"))
	if err != nil {
		t.Fatal(err)
	}
	s.Version = "0.24.0"
	want := data.Environment{Engine: "vllm", Version: "0.24.0", Args: []string{"serve", "/srv/m", "-tp", "4", "--api-key", secrets.Mask, "--enforce-eager"},
		Env: map[string]string{"NCCL_PROTO": "LL", "VLLM_API_KEY": secrets.Mask}, TP: 4, Graphs: "none"}
	if diff := cmp.Diff(want, s.Environment()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for words, graphs := range map[string]string{"": "the version's default", "-cc.cudagraph_mode=FULL_AND_PIECEWISE": "full and piecewise"} {
		s, err := Line("vllm serve /srv/m " + words)
		if e := s.Environment(); err != nil || e.Graphs != graphs || e.TP != 1 || e.Env != nil {
			t.Errorf("%q: %+v %v", words, e, err)
		}
	}
}

func TestProfilerIsJudgedByTheVersion(t *testing.T) {
	for version, want := range map[string]string{
		"0.7.3":  "via env, traces in /t; 0.7.3 reads the variable; stopping needs a raised VLLM_RPC_TIMEOUT",
		"0.15.1": "via env, traces in /t; 0.15.1 reads the variable", "0.16.0": "via env, traces in /t, NOT effective: environment variable removed in 0.16; use --profiler-config",
		"0.28.1rc1.dev500+g51da0ca66": "via env, traces in /t, NOT effective: environment variable removed in 0.16; use --profiler-config",
		"1.0":                         "via env, traces in /t, NOT effective: environment variable removed in 0.16; use --profiler-config",
		"":                            "via env, traces in /t; the version is not known: 0.16 and later ignore the variable",
	} {
		s := Server{Engine: "vllm", Version: version, Env: []Var{{Name: "VLLM_TORCH_PROFILER_DIR", Value: "/t"}}}
		if got := s.Profiler().Describe(); got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}

func TestErrorsShowNoSecrets(t *testing.T) {
	for name, text := range map[string]string{
		"v.service":    "[Service]\nEnvironment=\"HF_TOKEN=sekret A=1\nExecStart=/usr/bin/vllm serve m\n",
		"compose.yaml": "services:\n  v:\n    image: vllm/vllm-openai:v0.24.0\n    command: --api-key sekret --served-model-name 'x\n",
	} {
		_, err := Read(fstest.MapFS{name: {Data: []byte(text)}}, name, Context{})
		if err == nil || strings.Contains(err.Error(), "sekret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
