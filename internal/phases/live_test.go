package phases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/faultproxy"
	"github.com/rooflab/rooflab/internal/livevllm"
	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/sitegen"
	"github.com/rooflab/rooflab/trace/rules"
)

// On a real server of two ranks: the whole path, then the same while things are killed.
func TestLiveServer(t *testing.T) {
	k := kernels(t)
	p := newProgram(t, k)
	server := livevllm.Start(t, livevllm.Options{TP: 2})
	t.Run("from nothing to a site", func(t *testing.T) { wholePath(t, p, server, 2) })
	t.Run("killed at ten random moments", func(t *testing.T) {
		killed(t, p, server, 2)
	})
}

func TestLiveServerOfAnOldVersion(t *testing.T) {
	k := kernels(t)
	wholePath(t, newProgram(t, k), livevllm.Start(t, livevllm.Options{Version: "0.20.2"}), 1)
}

// program is the product as users have it, in a process of its own.
type program struct {
	t       *testing.T
	path    string
	kernels string
}

func newProgram(t *testing.T, kernels string) program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rooflab")
	build := exec.Command("go", "build", "-trimpath", "-o", path, ".")
	build.Dir = sharedtest.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program{t, path, kernels}
}

// command is rooflab with these words, in a process group of its own and without settings of this process.
func (p program) command(words ...string) *exec.Cmd {
	cmd := exec.Command(p.path, words...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROOFLAB_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (p program) run(dir, target, traces string, more ...string) *exec.Cmd {
	return p.command(append([]string{"run", "--campaign", dir, "--phase", "1", "--target", target, "--trace-dir", traces, "--kernel-dir", p.kernels}, more...)...)
}

// wholePath is what a user does: one command that measures, one that builds the site.
func wholePath(t *testing.T, p program, server *livevllm.Server, ranks int) {
	dir, site := filepath.Join(t.TempDir(), "campaign"), filepath.Join(t.TempDir(), "site")
	if out, err := p.run(dir, server.URL, server.TraceDir, "-p", "C=1,4,8").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if ranks > 1 { // only the new version tells
		server.CheckNoProfile(t)
	}
	run := readRun(t, Options{Dir: dir})
	var streams []int
	for _, r := range run.Rounds {
		streams = append(streams, r.Streams)
		checkComplete(t, dir, r, ranks)
	}
	if !slices.Equal(streams, []int{1, 4, 8}) {
		t.Errorf("rounds of %v streams", streams)
	}
	checkWindows(t, dir, []int{1, 4, 8}, server, ranks)
	if out, err := p.command("site", "build", dir, "--output", site).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found, err := sitegen.Check(site)
	if err != nil || len(found) > 0 {
		t.Errorf("%v %v", found, err)
	}
	checkStart(t, site)
	for name, b := range files(t, filepath.Dir(dir)) {
		if strings.HasSuffix(name, ".gz") {
			continue
		}
		for _, secret := range []string{strings.TrimPrefix(server.URL, "http://"), server.TraceDir, filepath.Dir(dir)} {
			if at := bytes.Index(b, []byte(secret)); at >= 0 {
				t.Errorf("%s holds %q: %s", name, secret, around(b, at))
			}
		}
	}
}

// checkComplete checks that nothing of a round is missing.
func checkComplete(t *testing.T, dir string, r data.Round, ranks int) {
	t.Helper()
	if r.Unprofiled == nil || r.Profiled == nil || r.After == nil {
		t.Errorf("C = %d has not all its passes: %s", r.Streams, encode(t, r))
		return
	}
	for _, l := range []*data.LoadResult{r.Unprofiled, r.After} {
		if l.Failed != 0 || l.OutputTokens != int64(r.Streams*r.OutTokens) {
			t.Errorf("C = %d: %s", r.Streams, encode(t, l))
		}
	}
	if len(r.Traces) != ranks || r.WorldSize != ranks {
		t.Errorf("C = %d: %d traces of %d ranks", r.Streams, len(r.Traces), r.WorldSize)
	}
	for _, f := range r.Traces {
		if st, err := os.Stat(filepath.Join(dir, f.Path)); err != nil || st.Size() != f.Bytes {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
}

// checkWindows checks what the traces of a server without GPU work say: steps, operators and collectives.
func checkWindows(t *testing.T, dir string, streams []int, server *livevllm.Server, ranks int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "results", "macro.json"))
	if err != nil {
		t.Fatal(err)
	}
	var windows []rules.Window
	if err := json.Unmarshal(raw, &windows); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, w := range windows {
		got = append(got, w.Streams)
		calls := map[string]int{}
		for _, c := range w.Components {
			calls[c.Name] = c.N
		}
		reduced := 0
		if ranks > 1 {
			reduced = 9 // a step: two for each of the four layers, and one for the embedding
		}
		if !w.CPU || w.Steps < 1 || w.WorldSize != ranks || calls["attention.core"] == 0 || (calls["moe.experts"] == 0) != server.Dense || calls["allreduce"] != reduced*w.Steps {
			t.Errorf("C = %d: %d steps, calls %v, of %d ranks", w.Streams, w.Steps, calls, w.WorldSize)
		}
	}
	if !slices.Equal(got, streams) {
		t.Errorf("windows of %v streams", got)
	}
}

// checkStart checks that the start page shows the table of the loads and says that there was no GPU.
func checkStart(t *testing.T, site string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(site, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("The traces have no GPU activity")) {
		t.Error("the start page does not say that the traces hold no GPU work")
	}
	_, table, found := strings.Cut(string(page), `<table class="tbl bott">`)
	table, _, _ = strings.Cut(table, "</table>")
	table = strings.ReplaceAll(table, "\u00a0", " ")
	for _, part := range []string{"C = 1<", "C = 4<", "C = 8<", "Attention", "CPU time of the steps"} {
		if !found || !strings.Contains(table, part) {
			t.Errorf("the table of the start page has no %q:\n%.3000s", part, table)
		}
	}
	if !bytes.Contains(page, []byte("Operator calls a step")) {
		t.Error("the start page does not show the calls a step")
	}
}

// killed runs one campaign to its end while ten times something is killed: the server, the network, or rooflab itself.
// After each no profile is open and no round that was finished is lost or measured again.
func killed(t *testing.T, p program, server *livevllm.Server, ranks int) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROOFLAB_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again with ROOFLAB_TEST_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	victims := []string{"server", "server", "network", "network", "network", "network", "rooflab", "rooflab", "all of rooflab", "all of rooflab"}
	rng.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })

	proxy := faultproxy.Start(t, server.URL)
	dir := filepath.Join(t.TempDir(), "campaign")
	finished := map[int]string{}
	for i, victim := range victims {
		moment := 1 + rng.IntN(1200) // a round has about 600, of which the scrapes of /metrics are the half
		t.Logf("%d: kill the %s at event %d, with %d rounds finished", i, victim, moment, len(finished))
		cmd := p.run(dir, proxy.URL, server.TraceDir, append(loads(len(finished)+3), "--resume")...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		hit := make(chan struct{})
		proxy.After(moment, func() {
			defer close(hit)
			switch victim {
			case "server":
				server.Kill()
			case "network":
				proxy.Down()
			case "rooflab":
				cmd.Process.Kill()
			case "all of rooflab":
				for _, pid := range family(t, cmd.Process.Pid) {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		})
		err := cmd.Run()
		proxy.After(0, nil)
		select {
		case <-hit:
		case <-time.After(time.Minute): // Kill takes a moment
			t.Fatalf("rooflab ended before the moment came: %v\n%s", err, out.String())
		}
		t.Logf("it said: %s", lastLines(out.String()))
		if err == nil {
			t.Errorf("the %s was killed and rooflab ended well:\n%s", victim, out.String())
		}
		if text := out.String(); strings.Contains(text, "goroutine ") || victim == "server" && !strings.Contains(text, "--resume") {
			t.Errorf("not the words for a user:\n%s", text)
		}
		if victim == "server" {
			server.Restart()
		}
		proxy.Up()
		if err := closeLost(dir); err != nil {
			t.Errorf("after the %s was killed: %v\n%s", victim, err, out.String())
		}
		server.CheckNoProfile(t)
		finished = checkFinished(t, dir, finished, ranks)
		if t.Failed() {
			t.Fatalf("the last run said:\n%s", out.String())
		}
	}
	words := loads(len(finished) + 1)
	if out, err := p.run(dir, proxy.URL, server.TraceDir, append(words, "--resume")...).CombinedOutput(); err != nil {
		t.Fatalf("undisturbed: %v\n%s", err, out)
	}
	server.CheckNoProfile(t)
	if now := checkFinished(t, dir, finished, ranks); len(now) != len(finished)+1 {
		t.Errorf("%d rounds are finished, not %d", len(now), len(finished)+1)
	}
	for _, r := range readRun(t, Options{Dir: dir}).Rounds {
		checkComplete(t, dir, r, ranks)
	}
	if err := campaign.Verify(dir); err != nil {
		t.Error(err)
	}
}

// lastLines are the end of what a command said.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-3, 0):], "; ")
}

// loads are the parameters of short rounds with 1 to n streams.
func loads(n int) []string {
	var c []string
	for i := range n {
		c = append(c, strconv.Itoa(i+1))
	}
	return []string{"-p", "inputTokens=32", "-p", "outputTokens=16", "-p", "C=" + strings.Join(c, ",")}
}

// family is a process with all that it has started, and those have.
func family(t *testing.T, pid int) []int {
	all := []int{pid}
	for _, child := range children(t, pid) {
		all = append(all, family(t, child)...)
	}
	return all
}

// closeLost does what rooflab doctor does, and gives up after five minutes.
func closeLost(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	_, err := campaign.CloseLostProfile(ctx, dir)
	return err
}

// checkFinished checks that the rounds that were finished are still as they were, and returns all that are finished now.
func checkFinished(t *testing.T, dir string, before map[int]string, ranks int) map[int]string {
	t.Helper()
	now := map[int]string{}
	if _, err := os.Stat(filepath.Join(dir, "runs/main/run.json")); !errors.Is(err, os.ErrNotExist) {
		for _, r := range readRun(t, Options{Dir: dir}).Rounds {
			if r.After != nil && len(r.Traces) > 0 {
				checkComplete(t, dir, r, ranks)
				now[r.Streams] = string(encode(t, r))
			}
		}
	}
	for c, was := range before {
		if now[c] != was {
			t.Errorf("the finished round C = %d has changed:\n%s\n%s", c, was, fmt.Sprint(now[c]))
		}
	}
	return now
}
