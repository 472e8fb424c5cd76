//go:build unix

package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// The client's cost is measured against a server in a process of its own, so that the CPU time of this process is the
// client's alone: connections, HTTP, events, samples, and the test around it. The server is this test binary again.
const echoVariable = "ROOFLAB_LOAD_TEST_ECHO"

func TestMain(m *testing.M) {
	if os.Getenv(echoVariable) != "" {
		echo()
		return
	}
	os.Exit(m.Run())
}

// echo serves completions of events as vLLM 0.32 writes them until its standard input ends. The variable says when the first
// comes, how much later for every next request of eight, and the gap between the others: "100ms 10ms 20ms".
func echo() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go http.Serve(l, http.HandlerFunc(echoCompletion))
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
}

func echoCompletion(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/completions" {
		http.NotFound(w, r)
		return
	}
	pause, gap := pace(echoed.Add(1))
	var ask struct {
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const head = `data: {"id":"cmpl-8450fac7034fc537","object":"text_completion","created":1796042856,"model":"tiny-moe","choices":[`
	token := []byte(head + `{"index":0,"text":"<w136>","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}` + "\n\n")
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	next := time.Now()
	for range ask.MaxTokens {
		next = next.Add(pause)
		pause = gap
		time.Sleep(time.Until(next))
		w.Write(token)
		out.Flush()
	}
	fmt.Fprintf(w, head+`],"usage":{"prompt_tokens":1,"total_tokens":%d,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", ask.MaxTokens+1, ask.MaxTokens)
}

// echoed counts the requests of the server's process.
var echoed atomic.Int64

func pace(request int64) (first, gap time.Duration) {
	var d [3]time.Duration
	for i, word := range strings.Fields(os.Getenv(echoVariable)) {
		d[i], _ = time.ParseDuration(word)
	}
	return d[0] + time.Duration(request%8)*d[1], d[2]
}

// echoServer starts the server at a pace.
func echoServer(t testing.TB, pace string) *vllm.Client {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), echoVariable+"="+pace)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c, err := vllm.New(vllm.Options{Target: strings.TrimSpace(address)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// cost is what one pass took of this process.
type cost struct {
	perToken time.Duration // of CPU time
	cores    float64       // CPU time over wall time
	result   Result
}

func measureCost(t testing.TB, c *vllm.Client, streams, tokens int) cost {
	t.Helper()
	before, began := cpuTime(), time.Now()
	r, err := Run(t.Context(), Options{Client: c, Model: "tiny-moe", Streams: streams, InputTokens: 256, OutputTokens: tokens})
	used, wall := cpuTime()-before, time.Since(began)
	if err != nil || r.Failed > 0 || r.OutputTokens != int64(streams*tokens) {
		t.Fatalf("%v %q %+v", err, r.Errors, r.LoadResult)
	}
	return cost{used / time.Duration(streams*tokens), float64(used) / float64(wall), r}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStreams is one pass with a token every 50 ms in every stream.
func BenchmarkStreams(b *testing.B) {
	c := echoServer(b, "50ms 0 50ms")
	for _, streams := range []int{64, 256, MaxStreams} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			var perToken time.Duration
			var cores float64
			var late int64
			for b.Loop() {
				x := measureCost(b, c, streams, 64)
				perToken, cores, late = perToken+x.perToken, cores+x.cores, max(late, x.result.ITL.P99Ns-50e6)
			}
			n := float64(b.N)
			b.ReportMetric(float64(perToken.Nanoseconds())/1e3/n, "CPU-us/token")
			b.ReportMetric(cores/n, "cores")
			b.ReportMetric(float64(late)/1e6, "ITL-p99-late-ms")
		})
	}
}

// TestAThousandStreamsCostLessThanACore holds the promise of BenchmarkStreams. CPU time is that of this process alone, but
// other processes push it out of caches: the best of three counts.
func TestAThousandStreamsCostLessThanACore(t *testing.T) {
	if raced() {
		t.Skip("the race detector costs more than the load")
	}
	c := echoServer(t, "50ms 0 50ms")
	for try := 1; ; try++ {
		x := measureCost(t, c, MaxStreams, 48)
		t.Logf("%v of CPU time a token, %.2f cores, %d streams at one time", x.perToken, x.cores, x.result.MaxInFlight)
		if x.result.MaxInFlight != MaxStreams {
			t.Fatalf("%d streams at one time", x.result.MaxInFlight)
		}
		if x.perToken < 50*time.Microsecond && x.cores < 1 {
			return
		}
		if try == 3 {
			t.Fatalf("%v of CPU time a token and %.2f cores; the limits are 50 us and 1 core", x.perToken, x.cores)
		}
	}
}

func raced() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}
