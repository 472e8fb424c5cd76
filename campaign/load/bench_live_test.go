//go:build linux

package load

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	bothRate     = 1 // requests a second of the open loop

	// bothBurstiness spreads them evenly: bursts that only one of the two happens to make would be that one's figures.
	bothBurstiness = 100
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

// bothLoads are the loads that both clients make.
var bothLoads = []struct {
	name  string
	args  []string // of vllm bench serve
	ours  Options
	slack func(itl float64) float64 // see agreeTogether
}{
	{"closed loop", []string{"--max-concurrency", fmt.Sprint(bothStreams)}, Options{Streams: bothStreams}, sentInTurn},
	{"open loop", []string{"--request-rate", fmt.Sprint(bothRate), "--burstiness", fmt.Sprint(bothBurstiness)}, Options{Rate: bothRate, Burstiness: bothBurstiness}, halfStep},
}

// benchServe runs `vllm bench serve` once.
func benchServe(t *testing.T, url string, seed int, load ...string) benchResult {
	t.Helper()
	venv, dir := installedBench(t), t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(venv, "bin", "vllm"), append([]string{"bench", "serve", "--backend", "vllm", "--base-url", url,
		"--model", livevllm.Model, "--tokenizer", filepath.Join(sharedtest.Dir(t), "vllm", "tiny-model"),
		"--dataset-name", "random", "--random-input-len", fmt.Sprint(bothInput), "--random-output-len", fmt.Sprint(bothOutput),
		"--num-prompts", fmt.Sprint(bothRequests), "--num-warmups", fmt.Sprint(bothStreams),
		"--ignore-eos", "--seed", fmt.Sprint(seed), "--temperature", "0", "--disable-tqdm", "--percentile-metrics", "ttft,tpot,itl,e2el",
		"--metric-percentiles", "50,90,95,99", "--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "result.json"}, load...)...)
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

// figures are those of both clients, a value a try.
type figures struct{ ours, theirs map[string][]float64 }

func (x *figures) put(ours, theirs map[string]float64) {
	if x.ours == nil {
		x.ours, x.theirs = map[string][]float64{}, map[string][]float64{}
	}
	for name, v := range ours {
		x.ours[name], x.theirs[name] = append(x.ours[name], v), append(x.theirs[name], theirs[name])
	}
}

// apart returns the figures whose medians over the tries differ by more than 5 %, in words. TTFT may also be apart by slack ms,
// and TPOT then by as much as it is, spread over the other tokens.
func (x *figures) apart(t *testing.T, slack float64) []string {
	t.Helper()
	var apart []string
	shift := math.Abs(middle(x.ours["median_ttft_ms"]) - middle(x.theirs["median_ttft_ms"]))
	for _, name := range slices.Sorted(maps.Keys(x.ours)) {
		a, b := middle(x.ours[name]), middle(x.theirs[name])
		words := fmt.Sprintf("%s %.3f, vllm bench serve says %.3f: %+.1f %%", name, a, b, 100*(a/b-1))
		t.Log(words)
		may := 0.05 * b
		switch name {
		case "median_ttft_ms":
			may = max(may, slack)
		case "median_tpot_ms":
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
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// TestLoadAgreesWithVLLMBenchServeOnASteadyServer compares the clients alone, in turn: the server's pace is that of a clock,
// and its streams do not end together.
func TestLoadAgreesWithVLLMBenchServeOnASteadyServer(t *testing.T) {
	installedBench(t)
	c := echoServer(t, "100ms 10ms 20ms")
	var x figures
	for try := 1; ; try++ {
		b := benchServe(t, c.Target(), try, bothLoads[0].args...)
		r, err := Run(t.Context(), Options{Client: c, Model: livevllm.Model, Streams: bothStreams, Requests: bothRequests, Warmup: bothStreams, InputTokens: bothInput, OutputTokens: bothOutput})
		if err != nil || r.Failed > 0 || b.Failed > 0 || b.Completed != r.Requests || b.TotalOutputTokens != r.OutputTokens {
			t.Fatalf("ours %+v %v %q, theirs %+v", r.LoadResult, err, r.Errors, b)
		}
		x.put(compared(r), b.figures)
		apart := x.apart(t, 0)
		if len(apart) == 0 {
			return
		}
		if try == 6 {
			t.Fatalf("after %d tries: %s", try, strings.Join(apart, "; "))
		}
	}
}

// agreeTogether lets both clients make the same load on a real server at the same time, so that whatever else the machine
// does happens to both: in turn, a server on two shared cores differs from itself by 10 %. It compares the requests that ours
// sent and finished while those of vllm bench serve ran, by their medians over the tries so far. When they do not agree to
// 5 % after two, slack is how much TTFT may differ, in ms, when a step takes itl ms.
func agreeTogether(t *testing.T, c *vllm.Client, ours Options, theirs []string, slack func(itl float64) float64) {
	t.Helper()
	ours.Client, ours.Model, ours.Requests = c, livevllm.Model, 100_000
	ours.InputTokens, ours.OutputTokens = bothInput, bothOutput
	var x figures
	for try := 1; ; try++ {
		p, err := Start(t.Context(), ours)
		if err != nil {
			t.Fatal(err)
		}
		zero := monotonic(t) - p.now()
		b := benchServe(t, c.Target(), try, theirs...)
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
		figures := compared(measure(samples, 0, 0, nil))
		if ours.Rate > 0 { // their number a second is what was asked for
			delete(figures, "output_throughput")
		}
		x.put(figures, b.figures)
		may := 0.0
		if try > 2 {
			may = slack(middle(x.theirs["median_itl_ms"]))
		}
		apart := x.apart(t, may)
		if len(apart) == 0 {
			return
		}
		if try == 6 {
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

// sentInTurn is the slack of a closed loop: streams of one length end together, and vllm bench serve sends the next ones one
// after the other from one Python thread, having taken the time of sending before. On a busy machine some of them come too late
// for a step, or for several.
func sentInTurn(itl float64) float64 { return 4*itl + 15 }

// halfStep is the slack of an open loop: a request waits for the step that runs when it comes.
func halfStep(itl float64) float64 { return itl / 2 }

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
					for _, l := range bothLoads {
						t.Run(l.name, func(t *testing.T) { agreeTogether(t, c, l.ours, l.args, l.slack) })
					}
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
