package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

// Secrets of the server that this test runs; no output may hold one.
var serverSecrets = []string{"sk-client-0123456789", "hf_abcdefghij", "sk-in-the-args-77", "pa55w0rd", "unit-only-secret"}

// liveServer stands for a vLLM server on a machine that is reached through ssh: HTTP answers, a process, its systemd unit,
// its model's folder, and the programs of that machine. Other people's requests run.
type liveServer struct {
	url, dir string
	busy     bool
}

func startLiveServer(t *testing.T) *liveServer {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this machine has no /proc to find a process in")
	}
	s := &liveServer{dir: t.TempDir()}
	web := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(web.Close)
	s.url = web.URL
	u, _ := url.Parse(web.URL)

	config, err := os.ReadFile(filepath.Join(sharedtest.Root(), "data/campaigns/h200x2-kimi-k2.5-int4/model/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.file(t, "model/config.json", string(config), 0o644)
	s.file(t, "opt/vllm", "read wait\n", 0o644)
	s.file(t, "etc/vllm.env", "NCCL_PROTO=Simple\nHF_TOKEN=unit-only-secret\n", 0o600)
	s.file(t, "bin/ssh", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$*\"\n", 0o755)
	s.file(t, "bin/systemctl", fmt.Sprintf("#!/bin/sh\n[ \"$4\" = vllm-kimi.service ] || { echo \"No files found for $4.\" >&2; exit 1; }\ncat <<'EOF'\n# %[1]s/systemd/system/vllm-kimi.service\n[Service]\nEnvironment=NCCL_PROTO=LL\n"+
		"ExecStart=/opt/vllm serve %[1]s/model --tensor-parallel-size 2 --enable-expert-parallel\n\n# %[1]s/systemd/system/vllm-kimi.service.d/10.conf\n[Service]\nPrivateTmp=yes\nEnvironmentFile=%[1]s/etc/vllm.env\nEOF\n", s.dir), 0o755)
	s.file(t, "bin/nvidia-smi", "#!/bin/sh\ncase $1 in\n--query-gpu*) echo '0, NVIDIA RTX PRO 6000 Blackwell, 580.95.05, 2430, 3090, 13365, 600.00, 91000, 97887, 37'; echo '1, NVIDIA RTX PRO 6000 Blackwell, 580.95.05, [N/A], 3090, 13365, 600.00, 91000, 97887, 0' ;;\n*) echo 4711; echo 4712 ;;\nesac\n", 0o755)
	s.file(t, "bin/nsys", "#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0'\n", 0o755)
	t.Setenv("PATH", filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"))

	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sh)
	cmd.Args = []string{"python3", filepath.Join(s.dir, "opt/vllm"), "serve", filepath.Join(s.dir, "model"), "--served-model-name", "kimi", "--tensor-parallel-size", "2", "--max-num-seqs", "64",
		"--port", u.Port(), "--enforce-eager", "--api-key", "sk-in-the-args-77", "--otlp-traces-endpoint", "http://me:pa55w0rd@otel:4317",
		"--profiler-config", `{"profiler":"torch","torch_profiler_dir":"` + s.dir + `/prof"}`}
	cmd.Env = []string{"NCCL_PROTO=LL", "HF_TOKEN=hf_abcdefghij", "VLLM_API_KEY=sk-in-the-args-77", "TMPDIR=" + s.dir, "HOME=/root"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	s.file(t, "systemd/system/vllm-kimi.service", "", 0o644)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, "systemd/system/vllm-kimi.service"), later, later); err != nil { // than the process
		t.Fatal(err)
	}
	return s
}

func (s *liveServer) file(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	name = filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (s *liveServer) answer(w http.ResponseWriter, r *http.Request) {
	running := 0
	if s.busy {
		running = 3
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Authorization") != "Bearer sk-client-0123456789":
		http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"version":"0.24.0"}`)
	case r.URL.Path == "/v1/models":
		fmt.Fprintf(w, `{"object":"list","data":[{"id":"kimi","object":"model","root":"%s/model","max_model_len":4096}]}`, s.dir)
	case r.URL.Path == "/health":
	case r.URL.Path == "/load":
		fmt.Fprint(w, `{"server_load":0}`)
	case r.URL.Path == "/metrics":
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} %d\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\"} 1\n"+
			"# TYPE vllm:request_success counter\nvllm:request_success_total{finished_reason=\"length\"} 41\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.78e+09\n", running)
	case r.URL.Path == "/start_profile" && r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		fmt.Fprint(w, `{"detail":"Method Not Allowed"}`)
	case r.URL.Path == "/start_profile" || r.URL.Path == "/stop_profile":
		panic("a preflight must not start or stop a profiler")
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
	}
}

// preflight runs the command and checks its exit code, and that no secret is in what it prints.
func (s *liveServer) preflight(t *testing.T, exit int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err := Run(strings.NewReader(""), &stdout, &stderr, append([]string{"preflight", "--target", s.url, "--host", "ssh:gpu7", "--watch", "0.01"}, args...))
	if code := ExitCode(err); code != exit {
		t.Fatalf("exit code %d, want %d: %s", code, exit, stderr.String())
	}
	out := stdout.String() + stderr.String()
	for _, secret := range serverSecrets {
		if strings.Contains(out, secret) {
			t.Errorf("the secret %s is printed:\n%s", secret, out)
		}
	}
	return out
}

func TestPreflightReadsAServerThroughItsHost(t *testing.T) {
	s := startLiveServer(t)
	t.Chdir(t.TempDir())
	t.Setenv("ROOFLAB_API_KEY", "sk-client-0123456789")
	s.busy = true
	out := s.preflight(t, exitThreshold, "--unit", "vllm-kimi.service", "-C", "1,64,256")
	if private := strings.Contains(out, "the unit has PrivateTmp"); private != strings.HasPrefix(s.dir, "/tmp/") {
		t.Errorf("traces in a private /tmp: %v", private)
	}
	for _, want := range []string{
		"kimi_k2: 61 layers", "from the server's model folder",
		"on ssh:gpu7, since ", "option tensor-parallel-size 2", "environment VLLM_API_KEY ***",
		"--enable-expert-parallel", "NCCL_PROTO", "every kernel is launched from the host",
		"stack recording slows every step", "file newer than process",
		"Compared with systemctl cat vllm-kimi.service on ssh:gpu7", "2025.3.2.474-253236389321v0",
		"driver 580.95.05, 2 GPUs, 2", "NVIDIA RTX PRO 6000 Blackwell", "not said",
		"requests that are not ours run: 3 running, 1 waiting", "41 requests ended since the server started at 2026-05-28 20:26:40 UTC",
		"C = 256 is above the server's max_num_seqs of 64",
	} {
		if flat := strings.Join(strings.Fields(out), " "); !strings.Contains(flat, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	for _, line := range strings.Split(out, "\n") {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestPreflightForPrograms(t *testing.T) {
	s := startLiveServer(t)
	t.Chdir(t.TempDir())
	key := filepath.Join(s.dir, "key")
	s.file(t, "key", "sk-client-0123456789\n", 0o600)
	t.Setenv("ROOFLAB_API_KEY", "") // set again when the test ends; the flags below write into the environment
	t.Setenv("ROOFLAB_API_KEY_FILE", "")
	t.Setenv("ROOFLAB_HOST", "")
	out := s.preflight(t, exitThreshold, "--json", "--unit", "vllm-kimi.service", "--api-key-file", key) // a request waits
	var r struct {
		Process struct {
			Argv []string
			Env  map[string]*string
			From string
		}
		Unit  struct{ Env map[string]*string }
		Drift []struct{ Item, Unit, Process string }
		Disks []struct {
			Dir  string
			Free int64 `json:"free_bytes"`
			Need int64 `json:"need_bytes"`
		}
		Findings []struct{ ID, Blocks string }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Process.Env["NCCL_PROTO"] == nil || *r.Process.Env["NCCL_PROTO"] != "LL" || *r.Unit.Env["NCCL_PROTO"] != "Simple" || *r.Process.Env["HF_TOKEN"] != "***" {
		t.Errorf("process %v, unit %v", r.Process.Env, r.Unit.Env)
	}
	items := map[string]string{}
	for _, d := range r.Drift {
		items[d.Item] = d.Unit + " > " + d.Process
	}
	if items["NCCL_PROTO"] != "Simple > LL" || items["--enable-expert-parallel"] != "true > " {
		t.Errorf("drift %v", items)
	}
	if len(r.Disks) != 2 || r.Disks[0].Dir != s.dir+"/prof" || r.Disks[1].Dir != s.dir || r.Disks[0].Free <= 0 || r.Disks[0].Need <= 0 {
		t.Errorf("disks %+v", r.Disks)
	}
	if len(r.Findings) == 0 || r.Findings[0].ID != "foreign_traffic" || r.Findings[0].Blocks != "phase 1" {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestPreflightWithoutAKeySaysHowToGiveOne(t *testing.T) {
	s := startLiveServer(t)
	t.Chdir(t.TempDir())
	t.Setenv("ROOFLAB_API_KEY", "")
	if out := s.preflight(t, exitFailed); !strings.Contains(out, "ROOFLAB_API_KEY") {
		t.Errorf("got %s", out)
	}
}

func TestTablesAreNarrowedToTheTerminal(t *testing.T) {
	table := data.Table{Title: "A title that is longer than the terminal is wide", Columns: []data.Column{{Head: "A"}, {Head: "N", Unit: "ms", Numeric: true}, {Head: "B"}},
		Rows: []data.Row{{Cells: []string{"some words in a cell", "12", "/a/path/without/any/blank/in/it"}}, {Cells: []string{"x", "3", ""}}}, Note: "n"}
	want := `A title that is longer than
the terminal is wide

A            N  B
            ms
──────────────────────────
some words  12  /a/path/
in a cell       without/
                any/blank/
                in/it
x            3

n`
	if got := fit(table, 28); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for text, want := range map[string]string{
		"up to 49\u202f152 tokens": "up to|49\u202f152|tokens", "for C = 256 it is": "for|C = 256|it is", "0123456789abc": "01234567|89abc", "torch_profiler": "torch_|profiler", "": "",
	} {
		if got := strings.Join(fold(text, 8), "|"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
