package campaign

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rooflab/rooflab/campaign/launch"
	"github.com/rooflab/rooflab/campaign/model"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

func TestTheServerOfAPortIsPicked(t *testing.T) {
	at := func(pid int, words ...string) target.Process {
		return target.Process{PID: pid, Cmdline: []byte(strings.Join(words, "\x00") + "\x00")}
	}
	a, b := at(1, "python3", "/usr/bin/vllm", "serve", "a"), at(2, "vllm", "serve", "b", "--port=8001")
	sgl := at(3, "python3", "-m", "sglang.launch_server", "--model-path", "c")
	for _, c := range []struct {
		found []target.Process
		port  string
		local bool
		pid   int
		why   string
	}{
		{[]target.Process{a, b, sgl}, "8000", true, 1, ""},
		{[]target.Process{a, b, sgl}, "8001", true, 2, ""},
		{[]target.Process{a, b, sgl}, "30000", true, 3, ""},
		{[]target.Process{b}, "9000", false, 2, ""}, // a tunnel, or a container's port
		{[]target.Process{b}, "9000", true, 0, "the target's port is 9000, the servers there listen on 8001"},
		{[]target.Process{a, b}, "9000", false, 0, "listen on 8000, 8001"},
		{[]target.Process{a, a}, "8000", true, 0, "2 servers say that they listen on port 8000"},
		{nil, "8000", true, 0, "no process of vLLM or SGLang runs there"},
	} {
		got, err := pick(c.found, c.port, c.local)
		if got.PID != c.pid || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("port %s: process %d, %v; want %d, %q", c.port, got.PID, err, c.pid, c.why)
		}
	}
}

func TestAnInstanceOfATemplateIsReadFromSystemctl(t *testing.T) {
	files := &unitFiles{ctx: context.Background()}
	files.unit("vllm@glm.service", `# /etc/systemd/system/vllm@.service
[Service]
# /usr/bin/old serve
Environment=MODEL=/srv/%i NCCL_PROTO=LL
ExecStart=/usr/bin/vllm serve ${MODEL} -tp 4

# /etc/systemd/system/vllm@.service.d/20-b.conf
[Service]
Environment=NCCL_PROTO=Simple

# /run/systemd/system/vllm@glm.service.d/10-a.conf
[Service]
PrivateTmp=true
Environment=NCCL_PROTO=LL128 A=1
`)
	s, err := launch.Unit(files, "vllm@glm.service")
	if err != nil {
		t.Fatal(err)
	}
	if s.Model != "/srv/glm" || s.TensorParallel() != 4 || s.Getenv("NCCL_PROTO") != "Simple" || s.Getenv("A") != "1" || !files.privateTmp {
		t.Errorf("model %s, NCCL_PROTO %s, private /tmp %v", s.Model, s.Getenv("NCCL_PROTO"), files.privateTmp)
	}
}

func TestEnvironmentFilesOfAPatternAreThoseOfTheHost(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"20.env": "A=2\n", "10.env": "A=1\nB=1\n", "x.conf": "A=3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := &unitFiles{ctx: context.Background()}
	files.unit("vllm.service", "# /etc/systemd/system/vllm.service\n[Service]\nEnvironmentFile="+dir+"/*.env\nExecStart=/usr/bin/vllm serve m\n")
	s, err := launch.Unit(files, "vllm.service")
	if err != nil {
		t.Fatal(err)
	}
	if s.Getenv("A") != "2" || s.Getenv("B") != "1" {
		t.Errorf("A is %q, B is %q", s.Getenv("A"), s.Getenv("B"))
	}
}

func TestWhatAMachineSaysIsRead(t *testing.T) {
	var m Machine
	m.read("nsys\tNVIDIA Nsight Systems version 2025.3.2.474-253236389321v0\nncu\tVersion 2025.2.1.0 (build 35987062) (public-release)\ncounters\t1\ncaps\t00000000a80425fb\n" +
		"gpu\t0, NVIDIA H200, 580.159.04, 345, 1980, 3201, 700.00, 12, 143771, [N/A]\napp\t77\napp\t[Insufficient Permissions]\n")
	want := GPU{Index: "0", Name: "NVIDIA H200", SMClock: 345, MaxSM: 1980, MemClock: 3201, PowerLimit: 700, MemUsed: 12, MemTotal: 143771, Busy: -1}
	if m.Nsys != "2025.3.2.474-253236389321v0" || m.Ncu != "2025.2.1.0" || m.Driver != "580.159.04" || m.Apps != 1 || len(m.GPUs) != 1 || m.GPUs[0] != want {
		t.Errorf("got %+v", m)
	}
	if text := m.counters(); !strings.Contains(text, "administrators only (RmProfilingAdminOnly is 1)") {
		t.Errorf("counters: %s", text)
	}
	m.read("caps\t000001ffffffffff\n")
	if text := m.counters(); !strings.Contains(text, "as this user is") {
		t.Errorf("counters of root: %s", text)
	}
	m = Machine{}
	m.read("gpu\tNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
	if len(m.GPUs) != 0 || !strings.Contains(m.SMI, "couldn't communicate") {
		t.Errorf("a broken driver: %+v", m)
	}
}

func TestRecordedGPUsAreRead(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(sharedtest.Root(), "data/campaigns/h200x2-kimi-k2.5-int4/host/nvidia-smi-q.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var m Machine
	m.recorded(string(raw))
	want := GPU{Index: "1", Name: "NVIDIA H200", SMClock: 1980, MaxSM: 1980, MemClock: 3201, PowerLimit: 700, MemUsed: 130633, MemTotal: 143771, Busy: 0}
	if m.Driver != "580.159.04" || len(m.GPUs) != 2 || m.GPUs[1] != want {
		t.Errorf("got %+v", m)
	}
}

// The estimate holds against traces that were really written: at most twice as large or half as small.
func TestTraceSizesAreEstimated(t *testing.T) {
	dir := filepath.Join(sharedtest.Dir(t), "campaign")
	config, err := os.ReadFile(filepath.Join(dir, "model/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Parse(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile(`"cat": "user_annotation", "name": "execute_`)
	for _, name := range []string{"hostmem-graph-uniform/c1_rank0", "hostmem-graph/c64_rank0", "nvlink-graph/c64_rank0", "hostmem-eager/c64_rank0"} {
		f, err := os.Open(filepath.Join(dir, name+".pt.trace.json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		info, _ := f.Stat()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		steps := len(step.FindAll(text, -1))
		words := "vllm\x00serve\x00m\x00--profiler-config\x00{\"profiler\":\"torch\",\"torch_profiler_with_stack\":false}\x00"
		if strings.Contains(name, "eager") {
			words += "--enforce-eager\x00"
		}
		process, err := launch.Process([]byte(words), nil)
		if err != nil {
			t.Fatal(err)
		}
		p := Preflight{Model: &m, Process: process, options: PreflightOptions{C: []int{1}, WindowSteps: steps - startSteps}}
		for what, c := range map[string][2]int64{"compressed": {p.traces().perRound, info.Size()}, "unpacked": {p.traces().unpacked, int64(len(text))}} {
			if c[0] > 2*c[1] || 2*c[0] < c[1] {
				t.Errorf("%s, %d steps, %s: estimated %d bytes, has %d", name, steps, what, c[0], c[1])
			}
		}
	}
}

func TestTheModelIsFoundInTheCacheOfTheServer(t *testing.T) {
	cache := t.TempDir()
	config, err := os.ReadFile(filepath.Join(sharedtest.Root(), "data/campaigns/h200x2-kimi-k2.5-int4/model/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(cache, "hub/models--moonshotai--Kimi-K2.5")
	for name, text := range map[string][]byte{"refs/main": []byte("0011"), "snapshots/0011/config.json": config} {
		if err := writeFile(filepath.Join(repo, name), strings.NewReader(string(text))); err != nil {
			t.Fatal(err)
		}
	}
	p := Preflight{Process: launch.Server{Engine: "vllm", Model: "moonshotai/Kimi-K2.5"}}
	p.Machine.hub = hub(target.Process{Environ: []byte("HF_HOME=" + cache + "\x00")})
	m, from, err := (&Session{}).modelThere(context.Background(), &p)
	if err != nil || m.Layers != 61 || from != "moonshotai/Kimi-K2.5 in the server's cache" {
		t.Errorf("%d layers, %s, %v", m.Layers, from, err)
	}
}

func TestAPublishedReportNamesNoMachine(t *testing.T) {
	host, err := target.Parse("ssh:ops@gpu7+docker:vllm-kimi")
	if err != nil {
		t.Fatal(err)
	}
	client, err := connect("http://gpu7.lab.example:8000")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{host: host, client: client, itself: []string{"node-7"}}
	words := []string{"vllm", "serve", "/home/svc/kimi", "--served-model-name", "kimi", "--host", "node-7.lab", "--otlp-traces-endpoint", "http://collector.lab:4317", "--node-ip", "10.1.2.3"}
	process, err := launch.Process([]byte(strings.Join(words, "\x00")), []byte("VLLM_HOST_IP=10.1.2.3\x00"))
	if err != nil {
		t.Fatal(err)
	}
	p := Preflight{PID: 12, User: "svc", Where: "look for servers on ssh:ops@gpu7+docker:vllm-kimi: ops@gpu7 does not answer ssh", UnitFrom: "systemctl cat v.service on ssh:ops@gpu7+docker:vllm-kimi",
		Process: process, privateTmp: true, traceDir: "/tmp/kimi-traces",
		Disks: []Disk{{For: "traces", Dir: "/home/svc/prof", Why: "no folder /home/svc/prof in the container vllm-kimi"}, {For: "unpacked traces", Dir: "/scratch", Free: 1, Need: 2}}}
	p.Machine.Why = "gpu7.lab.example is away"
	p.away = true
	s.publish(&p)
	s.judge(&p)
	text := ""
	for _, table := range []string{p.ProcessTable().Text(), p.DriftTable().Text(), p.ToolsTable().Text(), p.FindingTable().Text()} {
		text += table
	}
	kept, err := json.Marshal(s.neutral(p.Process.Environment()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gpu7", "ops", "vllm-kimi", "svc", "kimi-traces", "/scratch", "node-7", "collector", "10.1.2.3"} {
		if strings.Contains(text+string(kept), name) {
			t.Errorf("%s is named:\n%s\n%s", name, text, kept)
		}
	}
	for _, want := range []string{"/home/user/kimi", `["kimi"]`, "needed  ", "the unit has PrivateTmp"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
}

func TestAServersAddressesThatNameNobodyStay(t *testing.T) {
	client, err := connect("http://127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{client: client}
	for text, want := range map[string]string{
		"0.0.0.0": "0.0.0.0", "127.0.0.1:8000": "127.0.0.1:8000", "http://localhost:4317": "http://localhost:4317", "tcp://[::1]:5555": "tcp://[::1]:5555",
		"tcp://10.0.0.2:5555": "tcp://host:5555", "redis://***@cache/0": "redis://***@host/0", "[fd00::7]:80": "host:80",
		"0.24.0": "0.24.0", "/srv/models/kimi": "/srv/models/kimi", "[1,2,4]": "[1,2,4]", "s3://bucket/model": "s3://bucket/model",
		`{"dir":"/home/bob/prof"}`: `{"dir":"/home/user/prof"}`, "/home/bob": "/home/user",
	} {
		if got := s.withoutPlaces(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestTheServerOfTheProcessIsTakenFromAFileOfSeveral(t *testing.T) {
	files := fstest.MapFS{"compose.yaml": {Data: []byte("services:\n  a: {image: vllm/vllm-openai:v0.24.0, command: --model m -tp 4}\n  b: {image: vllm/vllm-openai:v0.24.0, command: --model m -tp 8}\n")}}
	for tp, want := range map[string]string{"4": "its a, the one that fits the process best of 2 servers (there: b)", "8": "its b, the one that fits the process best of 2 servers (there: a)", "": "its a, the first of 2 servers (there: b)"} {
		var p Preflight
		if tp != "" {
			var err error
			if p.Process, err = launch.Process([]byte("vllm\x00serve\x00m\x00-tp\x00"+tp+"\x00"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if p.readUnit(files, "compose.yaml", "compose.yaml"); p.UnitFrom != "compose.yaml: "+want {
			t.Errorf("%q, want %q", p.UnitFrom, want)
		}
	}
}
