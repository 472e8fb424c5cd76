//go:build linux

package load

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/internal/livevllm"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

// The load that both clients make.
const (
	bothStreams  = 8
	bothRequests = 64
	bothInput    = 32
	bothOutput   = 64
)

const benchVersion = "0.32.0"

// installedBench returns the folder of the installed vLLM. Without it the test is skipped, in CI it fails.
func installedBench(t *testing.T) string {
	t.Helper()
	venv := filepath.Join(sharedtest.Root(), "_build", "vllm-"+benchVersion)
	if _, err := os.Stat(filepath.Join(venv, "bin", "vllm")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v; CI must have it: make vllm", err)
		}
		t.Skipf("%v; install it with: make vllm", err)
	}
	return venv
}

// benchServe runs `vllm bench serve` once.
func benchServe(t *testing.T, url string, seed int) benchResult {
	t.Helper()
	venv, dir := installedBench(t), t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(venv, "bin", "vllm"), "bench", "serve", "--backend", "vllm", "--base-url", url,
		"--model", livevllm.Model, "--tokenizer", filepath.Join(sharedtest.Dir(t), "vllm", "tiny-model"),
		"--dataset-name", "random", "--random-input-len", fmt.Sprint(bothInput), "--random-output-len", fmt.Sprint(bothOutput),
		"--num-prompts", fmt.Sprint(bothRequests), "--max-concurrency", fmt.Sprint(bothStreams), "--num-warmups", fmt.Sprint(bothStreams),
		"--ignore-eos", "--seed", fmt.Sprint(seed), "--temperature", "0", "--disable-tqdm", "--percentile-metrics", "ttft,tpot,itl,e2el",
		"--metric-percentiles", "50,90,95,99", "--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "result.json")
	cmd.Env = append(os.Environ(), "VLLM_TARGET_DEVICE=cpu", "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1",
		"VLLM_CACHE_ROOT="+filepath.Join(venv, "cache", "vllm"), "HF_HOME="+filepath.Join(venv, "cache", "hf"), "OMP_NUM_THREADS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("vllm bench serve: %v\n%s", err, out)
	}
	return readBench(t, filepath.Join(dir, "result.json"))
}

// compared are our figures under the names of `vllm bench serve`: those in which both are to agree.
func compared(r Result) map[string]float64 {
	f := map[string]float64{"output_throughput": r.OutputTokS}
	for name, l := range map[string]Latency{"ttft": r.TTFT, "tpot": r.TPOT, "itl": r.ITL, "e2el": r.E2EL} {
		f["median_"+name+"_ms"] = float64(l.MedianNs) / 1e6
	}
	return f
}

// rounds are the figures of both clients on one server, which make their load in turn.
type rounds struct {
	ours, theirs map[string][]float64
}

func (x *rounds) add(t *testing.T, c *vllm.Client) {
	t.Helper()
	n := len(x.ours["output_throughput"])
	b := benchServe(t, c.Target(), n)
	r, err := Run(t.Context(), Options{Client: c, Model: livevllm.Model, Streams: bothStreams, Requests: bothRequests, Warmup: bothStreams, InputTokens: bothInput, OutputTokens: bothOutput})
	if err != nil || r.Failed > 0 || b.Failed > 0 || b.Completed != r.Requests || b.TotalOutputTokens != r.OutputTokens {
		t.Fatalf("ours %+v %v %q, theirs %+v", r.LoadResult, err, r.Errors, b)
	}
	if r.Foreign != "" {
		t.Fatal(r.Foreign)
	}
	x.put(compared(r), b.figures)
	t.Logf("round %d: ours %.0f tokens/s, TPOT %.2f ms; theirs %.0f, %.2f ms", n+1, r.OutputTokS, float64(r.TPOT.MedianNs)/1e6, b.OutputThroughput, b.figures["median_tpot_ms"])
}

func (x *rounds) put(ours, theirs map[string]float64) {
	if x.ours == nil {
		x.ours, x.theirs = map[string][]float64{}, map[string][]float64{}
	}
	for name, v := range ours {
		x.ours[name], x.theirs[name] = append(x.ours[name], v), append(x.theirs[name], theirs[name])
	}
}

// apart returns the figures whose medians over the rounds differ by more than 5 %, in words. TTFT may also be apart by slack ms,
// and TPOT then by as much as it is, spread over the other tokens.
func (x *rounds) apart(t *testing.T, slack float64) []string {
	t.Helper()
	var names, apart []string
	for name := range x.ours {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		a, b := middle(x.ours[name]), middle(x.theirs[name])
		words := fmt.Sprintf("%s %.3f, vllm bench serve says %.3f: %+.1f %%", name, a, b, 100*(a/b-1))
		t.Log(words)
		may := 0.05 * b
		switch shift := math.Abs(middle(x.ours["median_ttft_ms"]) - middle(x.theirs["median_ttft_ms"])); {
		case name == "median_ttft_ms":
			may = max(may, slack)
		case name == "median_tpot_ms" && slack > 0:
			may += min(shift, slack) / (bothOutput - 1)
		}
		if math.Abs(a-b) > may {
			apart = append(apart, words)
		}
	}
	return apart
}

func middle(values []float64) float64 {
	v := append([]float64(nil), values...)
	sort.Float64s(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// agree makes rounds until the medians agree; many rounds even out what else the machine does.
func agree(t *testing.T, c *vllm.Client, most int) {
	t.Helper()
	var x rounds
	for n := 1; ; n++ {
		x.add(t, c)
		apart := x.apart(t, 0)
		if len(apart) == 0 {
			return
		}
		if n == most {
			t.Fatalf("after %d rounds: %s", n, strings.Join(apart, "; "))
		}
	}
}

// TestLoadAgreesWithVLLMBenchServeOnASteadyServer compares the clients alone: the server's pace is that of a clock, and its
// streams do not end together. When eight end at once, vllm bench serve sends the next eight one after the other from one
// Python thread, having taken the time of sending for all of them before: its TTFT then holds its own delay, 13 ms of 114 on
// two busy cores.
func TestLoadAgreesWithVLLMBenchServeOnASteadyServer(t *testing.T) {
	livevllm.Long(t)
	installedBench(t)
	agree(t, echoServer(t, "100ms 10ms 20ms"), 4)
}

// agreeTogether lets both clients make the same load on a real server at the same time, so that whatever else the machine
// does happens to both, and compares the requests that ours sent and finished while those of vllm bench serve ran: their
// medians over the tries so far.
//
// Where an answer's first token comes differs: the requests of vllm bench serve are texts, which the server tokenises, and are
// sent one after the other, so that a server that admits requests between two steps admits some of them some steps later. On
// two cores with a load of 6 and steps of 87 ms, their TTFT was 0 to 3 steps longer and their TPOT as much shorter; E2EL, ITL
// and throughput were within 1 to 4 %. TTFT may differ by four steps here, and TPOT by what that difference makes.
func agreeTogether(t *testing.T, c *vllm.Client, tries int) {
	t.Helper()
	var x rounds
	for try := 1; ; try++ {
		p, err := Start(t.Context(), Options{Client: c, Model: livevllm.Model, Streams: bothStreams, Requests: 100_000, InputTokens: bothInput, OutputTokens: bothOutput})
		if err != nil {
			t.Fatal(err)
		}
		zero := monotonic(t) - p.now()
		b := benchServe(t, c.Target(), try)
		p.Stop()
		r, err := p.Wait()
		if err != nil || r.Failed > 0 || b.Failed > 0 || b.TotalOutputTokens != bothRequests*bothOutput {
			t.Fatalf("%v %q %+v", err, r.Errors, b.figures)
		}
		if r.Foreign == "" {
			t.Error("the requests of vllm bench serve were not seen")
		}
		samples, theirs := r.Samples, b.samples()
		from, to := theirs[0].Sent-zero, int64(0)
		for _, q := range theirs {
			to = max(to, q.last()-zero)
		}
		samples = slices.DeleteFunc(samples, func(q Sample) bool { return q.Cut || q.Sent < from || q.last() > to })
		if len(samples) < bothRequests/2 {
			t.Fatalf("only %d of our requests ran beside the %d of vllm bench serve", len(samples), bothRequests)
		}
		x.put(compared(measure(samples, 0, 0, nil, SLO{})), b.figures)
		apart := x.apart(t, 4*middle(x.theirs["median_itl_ms"])+benchSends)
		if len(apart) == 0 {
			return
		}
		if try == tries {
			t.Fatalf("after %d tries: %s", try, strings.Join(apart, "; "))
		}
	}
}

// monotonic is the clock of Python's perf_counter, in ns.
func monotonic(t *testing.T) int64 {
	t.Helper()
	const clockMonotonic = 1
	var now syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); err != 0 {
		t.Fatal(err)
	}
	return now.Nano()
}

// benchSends is what the TTFT of vllm bench serve may hold of its own when streams of one length end together, in ms: see the
// test on a steady server.
const benchSends = 15

// TestLoadOnVLLM makes loads on real servers, and on the newer one the same as vllm bench serve.
func TestLoadOnVLLM(t *testing.T) {
	for _, version := range []string{benchVersion, "0.20.2"} {
		t.Run(version, func(t *testing.T) {
			s := livevllm.Start(t, livevllm.Options{NoProfiler: true, Version: version})
			c, err := vllm.New(vllm.Options{Target: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.CloseIdle)
			o := Options{Client: c, Model: livevllm.Model, Streams: 8, InputTokens: 32, OutputTokens: 32, Warmup: 8}
			t.Run("closed loop", func(t *testing.T) { quietLoop(t, o) })
			t.Run("open loop", func(t *testing.T) { quietRate(t, o) })
			t.Run("foreign traffic", func(t *testing.T) { foreignRequests(t, o) })
			t.Run("stopped", func(t *testing.T) { stoppedLoop(t, o) })
			if version == benchVersion {
				t.Run("vllm bench serve", func(t *testing.T) {
					livevllm.Long(t)
					agreeTogether(t, c, 4)
				})
			}
		})
	}
}

func quietLoop(t *testing.T, o Options) {
	o.Requests, o.OutputTokens = 24, 64
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := p.AllDecode(t.Context()); err != nil || !d.Reported || d.Running < 8 || d.Waiting != 0 {
		t.Errorf("%+v %v", d, err)
	}
	r, err := p.Wait()
	if err != nil || r.Failed > 0 || r.Foreign != "" || len(r.Notes) > 0 || r.MaxInFlight != 8 {
		t.Fatalf("%v %q %q %q %+v", err, r.Errors, r.Foreign, r.Notes, r)
	}
	if r.InputTokens != 24*32 || r.OutputTokens != 24*64 || r.SteadySamples == 0 || tokensPerChunk(r.Samples) < 1 { // a busy server puts tokens together
		t.Errorf("%+v", r.LoadResult)
	}
}

func quietRate(t *testing.T, o Options) {
	o.Streams, o.Requests, o.Rate = 0, 20, 10
	r, err := Run(t.Context(), o)
	if err != nil || r.Failed > 0 || r.Foreign != "" || len(r.Notes) > 0 || r.Open == nil || r.Open.Waited > 0 {
		t.Errorf("%v %q %q %q %+v", err, r.Errors, r.Foreign, r.Notes, r.Open)
	}
}

// foreignRequests lets somebody else use the server, for long and between two looks at the gauges.
func foreignRequests(t *testing.T, o Options) {
	for _, tokens := range []int{60, 1} { // ours take 128 steps
		o.Requests = 32
		p, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.AllDecode(t.Context()); err != nil {
			t.Error(err)
		}
		other := vllm.Completion{Model: o.Model, Prompt: []int{5, 6, 7}, MaxTokens: tokens}
		if _, err := o.Client.Stream(t.Context(), other, p.base, func(vllm.Chunk) {}); err != nil {
			t.Error(err)
		}
		r, err := p.Wait()
		if want := fmt.Sprintf("the server generated %d tokens, at most %d of them for us", 32*32+tokens, 32*32); err != nil || !strings.Contains(r.Foreign, want) {
			t.Errorf("%v %q, want %q", err, r.Foreign, want)
		}
		if tokens > 1 && !strings.Contains(r.Foreign, "in the server when ours were at most 8") {
			t.Errorf("not seen in the gauges: %q", r.Foreign)
		}
	}
}

// stoppedLoop cuts a load, as one is after its profile, and begins the next at once: what is left of it is not foreign.
func stoppedLoop(t *testing.T, o Options) {
	long := o
	long.OutputTokens = 400
	p, err := Start(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AllDecode(t.Context()); err != nil {
		t.Error(err)
	}
	p.OpenWindow()
	if err := p.Steps(t.Context(), 16); err != nil {
		t.Error(err)
	}
	p.CloseWindow()
	p.Stop()
	r, err := p.Wait()
	if err != nil || r.Foreign != "" || r.SteadySamples < 8 {
		t.Errorf("%v %q %+v", err, r.Foreign, r.LoadResult)
	}
	if r, err := Run(t.Context(), o); err != nil || r.Foreign != "" || r.Failed > 0 {
		t.Errorf("after it: %v %q %q", err, r.Foreign, r.Errors)
	}
}
