package target

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServersAreFoundFromEverywhere(t *testing.T) {
	fakes(t)
	for _, spec := range []string{"local", "ssh:node", "docker:box", "ssh:node+kubectl:prod/box"} {
		t.Run(spec, func(t *testing.T) { checkServers(t, parse(t, spec)) })
	}
}

// checkServers starts a process that looks like a server, with others around it that only name one.
func checkServers(t *testing.T, h Host) {
	dir := t.TempDir()
	looks := filepath.Join(dir, "python3")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) int {
		cmd := exec.Command(self)
		cmd.Args, cmd.Dir = argv, dir
		cmd.Env = []string{"TARGET_TEST_PAUSE=1", "HF_TOKEN=hf_secret", "NCCL_PROTO=LL", "TEXT=two\nlines "}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stdin.Close(); cmd.Wait() })
		return cmd.Process.Pid
	}
	server := run(looks, "/opt/venv/bin/vllm", "serve", "/models/it's a model", "--port", "8123")
	sgl := run(looks, "-m", "sglang.launch_server", "--model-path", "/m", "--port", "30000")
	run("VLLM::EngineCore")
	run("bash", "-lc", "vllm serve /models/x")
	run("docker", "run", "vllm/vllm-openai:v0.11.0", "--model", "x")
	run(looks, "/opt/venv/bin/vllm", "bench", "serve")
	run("/opt/vllm/bin/python3", "-c", "from multiprocessing.spawn import spawn_main")

	now := time.Now().Unix()
	list, err := h.Servers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]Process{}
	for _, p := range list { // real servers may run on this machine
		if p.PID == server || p.PID == sgl || bytes.Contains(p.Environ, []byte("TARGET_TEST_PAUSE")) {
			found[p.PID] = p
		}
	}
	if len(found) != 2 || found[server].PID == 0 || found[sgl].PID == 0 {
		t.Fatalf("found %d servers, want %d and %d: %+v", len(found), server, sgl, found)
	}
	p := found[server]
	if want := looks + "\x00/opt/venv/bin/vllm\x00serve\x00/models/it's a model\x00--port\x008123\x00"; string(p.Cmdline) != want {
		t.Errorf("command line %q, want %q", p.Cmdline, want)
	}
	if !strings.Contains(string(p.Environ), "NCCL_PROTO=LL\x00TEXT=two\nlines \x00") {
		t.Errorf("environment %q", p.Environ)
	}
	if p.Parent != os.Getpid() || p.Dir != dir || p.User == "" || p.StartedUnix < now-60 || p.StartedUnix > now+60 {
		t.Errorf("parent %d, folder %s, user %q, started %d (now %d)", p.Parent, p.Dir, p.User, p.StartedUnix, now)
	}
}

// TestMain lets this test binary stand for a server: it waits until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv("TARGET_TEST_PAUSE") != "" {
		os.Stdin.Read(make([]byte, 1))
		return
	}
	os.Exit(m.Run())
}

func TestUnitOfAProcess(t *testing.T) {
	for cgroup, want := range map[string]string{
		"0::/system.slice/vllm-kimi.service\n":                                            "vllm-kimi.service",
		"0::/system.slice/system-vllm.slice/vllm@glm47.service\n":                         "vllm@glm47.service",
		`0::/system.slice/vllm\x2dkimi.service`:                                           "vllm-kimi.service",
		"12:cpu:/system.slice/vllm.service\n0::/system.slice/vllm.service\n":              "vllm.service",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm-local.service\n": "vllm-local.service",
		"0::/user.slice/user-1000.slice/session-3.scope\n":                                "",
		"0::/system.slice/docker-0a1b2c.scope\n":                                          "",
		"0::/system.slice/containerd.service\n":                                           "",
		"0::/\n":                                                                          "",
		"":                                                                                "",
	} {
		if got := (Process{Cgroup: cgroup}).Unit(); got != want {
			t.Errorf("%q: unit %q, want %q", cgroup, got, want)
		}
	}
}

func TestAForkedWorkerIsNotAServerOfItsOwn(t *testing.T) {
	cmdline := []byte("python3\x00/usr/bin/vllm\x00serve\x00m\x00")
	got := servers([]Process{{PID: 30, Parent: 20, Cmdline: cmdline}, {PID: 20, Parent: 1, Cmdline: cmdline}, {PID: 31, Parent: 30, Cmdline: cmdline}})
	if len(got) != 1 || got[0].PID != 20 {
		t.Errorf("got %+v", got)
	}
}

func FuzzWhatTheFarSidePrintsIsReadWithoutPanic(f *testing.F) {
	f.Add("btime 1780000000 100\n12 cHk= MTIgKHB5KSBTIDEgMQ==  YQ== Yg== Yw==\n", "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x y 10 5 5 50% /a b\n")
	f.Add("81a4|12|1780000000|2026-05-28 20:26:40.123456789 +0000|./a|b\n", "none 0 0 0 - /proc\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		parseProcesses(a)
		for _, file := range parseList(a) {
			if strings.Contains(file.Name, "\n") {
				t.Errorf("a name with a line break: %q", file.Name)
			}
		}
		if n, ok := parseDF([]byte(b)); ok && n < 0 {
			t.Errorf("%d bytes free", n)
		}
		parseStat([]byte(a), 1, 100)
	})
}
