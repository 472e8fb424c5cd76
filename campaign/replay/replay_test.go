package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/sharedtest"
)

func archived() string {
	return filepath.Join(sharedtest.Root(), "data", "campaigns", "h200x2-kimi-k2.5-int4")
}

func start(t *testing.T, o Options) (*Server, *vllm.Client) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = archived()
	}
	s, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := vllm.New(vllm.Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.CloseIdle()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// send sends one request and returns status, headers and body.
func send(t *testing.T, method, url, contentType, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// TestAnswersAsARealServer sends the recorded requests of a real 0.20.2 to the replay and compares status, content type,
// and the error's type, parameter and first line. Lengths are scaled from the recorded model's 1024 to the replayed 4096.
func TestAnswersAsARealServer(t *testing.T) {
	s, _ := start(t, Options{TraceDir: t.TempDir()})
	files, err := filepath.Glob(filepath.Join(sharedtest.Dir(t), "vllm", "recorded", "v0.20.2", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	compared := 0
	for _, f := range files {
		var e struct {
			Name    string
			Request struct {
				Method, Path, Body string
				Headers            [][2]string
			}
			Response struct {
				Status  int
				Headers [][2]string
				Body    string
			}
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(e.Request.Path, "tokenize"), strings.HasPrefix(e.Request.Path, "/v1/chat"): // a replay has no tokeniser
			continue
		case e.Name == "completion-two-prompts": // refused: one prompt a request
			continue
		case strings.Contains(e.Response.Body, "1024"): // lengths are compared below
			continue
		}
		compared++
		contentType := header(e.Request.Headers, "content-type")
		body := strings.ReplaceAll(e.Request.Body, `"tiny-moe"`, `"kimi-k2.5-slice"`)
		status, h, got := send(t, e.Request.Method, s.URL+e.Request.Path, contentType, body)
		if status != e.Response.Status || h.Get("Content-Type") != header(e.Response.Headers, "content-type") {
			t.Errorf("%s: %d %q, a real server says %d %q\n%.300s", e.Name, status, h.Get("Content-Type"), e.Response.Status, header(e.Response.Headers, "content-type"), got)
		}
		if h.Get(vllm.ReplayHeader) != "h200x2-kimi-k2.5-int4/hostmem-graph-uniform" {
			t.Errorf("%s: the replay does not announce itself", e.Name)
		}
		if status >= 400 {
			compareErrors(t, e.Name, e.Response.Body, got)
		} else if strings.Contains(e.Request.Path, "completions") {
			compareKeys(t, e.Name, e.Response.Body, got)
		}
	}
	if compared < 45 {
		t.Errorf("only %d exchanges were compared", compared)
	}
}

func header(hs [][2]string, name string) string {
	for _, h := range hs {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

func compareErrors(t *testing.T, name, want, got string) {
	t.Helper()
	var w, g map[string]any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		t.Errorf("%s: no JSON: %.200s", name, got)
		return
	}
	we, ok := w["error"].(map[string]any)
	if !ok {
		if want != got {
			t.Errorf("%s: %s, a real server says %s", name, got, want)
		}
		return
	}
	ge, _ := g["error"].(map[string]any)
	for _, k := range []string{"type", "param", "code"} {
		if fmt.Sprint(we[k]) != fmt.Sprint(ge[k]) {
			t.Errorf("%s: %s %v, a real server says %v", name, k, ge[k], we[k])
		}
	}
	line := func(v any) string {
		first, _, _ := strings.Cut(fmt.Sprint(v), "\n")
		return first
	}
	if line(we["message"]) != line(ge["message"]) && !strings.HasPrefix(line(ge["message"]), "The model") {
		t.Errorf("%s: %q, a real server says %q", name, line(ge["message"]), line(we["message"]))
	}
}

var key = regexp.MustCompile(`"[a-z_]+":`)

// compareKeys compares the keys of answers, and of every frame of streamed ones, in their order.
func compareKeys(t *testing.T, name, want, got string) {
	t.Helper()
	kinds := func(body string) map[string]bool {
		k := map[string]bool{}
		for _, frame := range strings.Split(body, "\n\n") {
			if !strings.HasPrefix(frame, ":") {
				k[strings.Join(key.FindAllString(frame, -1), " ")] = true
			}
		}
		return k
	}
	w, g := kinds(want), kinds(got)
	for k := range g {
		if !w[k] && !strings.Contains(name, "continuous") {
			t.Errorf("%s: a frame with the keys %s, which a real server does not send: %v", name, k, w)
		}
	}
}

// TestStartsAreAnsweredAsByARealServerOfTheRecordedVersion sends the recorded starts of a real 0.32.0 to a replay of a
// campaign that was recorded with it.
func TestStartsAreAnsweredAsByARealServerOfTheRecordedVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(archived())); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "runs", "hostmem-graph-uniform", "run.json")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	newer := regexp.MustCompile(`"version": "0\.24[^"]*"`).ReplaceAll(b, []byte(`"version": "0.32.0"`))
	if bytes.Equal(b, newer) {
		t.Fatal("the archive's version is not where it was")
	}
	if err := os.WriteFile(name, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	s, c := start(t, Options{Dir: dir})
	files, err := filepath.Glob(filepath.Join(sharedtest.Dir(t), "vllm", "recorded", "v0.32.0", "*profile-start*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		var e struct {
			Name              string
			Request, Response struct {
				Body    string
				Status  int
				Headers [][2]string
			}
		}
		if err := readJSON(f, &e); err != nil {
			t.Fatal(err)
		}
		if err := c.StopProfile(context.Background()); err != nil {
			t.Fatal(err)
		}
		if e.Response.Status == http.StatusConflict {
			if honoured, err := c.StartProfile(context.Background(), vllm.ProfileOptions{Prefix: "first"}); err != nil || !honoured {
				t.Fatalf("honoured %v, %v", honoured, err)
			}
		}
		status, h, got := send(t, "POST", s.URL+"/start_profile", header(e.Request.Headers, "content-type"), e.Request.Body)
		if status != e.Response.Status || h.Get("Content-Type") != header(e.Response.Headers, "content-type") {
			t.Errorf("%s: %d %q, a real server says %d", e.Name, status, h.Get("Content-Type"), e.Response.Status)
		}
		if status >= 400 {
			compareErrors(t, e.Name, e.Response.Body, got)
		}
	}
	c.StopProfile(context.Background())
	if _, err := c.StartProfile(context.Background(), vllm.ProfileOptions{Prefix: "round-c1", MaxIterations: 5}); err != nil {
		t.Fatal(err)
	}
	c.StopProfile(context.Background())
	names, err := filepath.Glob(filepath.Join(s.TraceDir, "round-c1_dp0_*.pt.trace.json.gz"))
	if err != nil || len(names) != s.About.WorldSize {
		t.Errorf("%d traces have the prefix, %v", len(names), err)
	}
	for body, param := range map[string]string{`[1]`: "body", `{"profile_prefix":5}`: "body.profile_prefix"} {
		if status, _, got := send(t, "POST", s.URL+"/start_profile", "application/json", body); status != 400 || !strings.Contains(got, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
}

func TestLengthsAreCheckedAgainstTheModel(t *testing.T) {
	s, _ := start(t, Options{NoProfiler: true})
	ids := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("7,", n), ",") + "]" }
	for name, c := range map[string]struct {
		body, words string
	}{
		"too many":     {`"prompt":` + ids(8) + `,"max_tokens":5000`, "max_tokens=5000 cannot be greater than max_model_len=max_total_tokens=4096"},
		"sum too big":  {`"prompt":` + ids(4000) + `,"max_tokens":100`, "for a total of 4100 tokens"},
		"vocabulary":   {`"prompt":[40960],"max_tokens":1`, "Token id 40960 is out of vocabulary"},
		"two prompts":  {`"prompt":[[1],[2]],"max_tokens":1`, "one prompt a request"},
		"no max_token": {`"prompt":[1],"max_tokens":0`, "max_tokens must be at least 1, got 0."},
	} {
		status, _, body := send(t, "POST", s.URL+"/v1/completions", "application/json", `{"model":"kimi-k2.5-slice",`+c.body+`}`)
		if status != 400 || !strings.Contains(body, c.words) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// streams sends n streams at once and returns all arrivals.
func streams(t *testing.T, c *vllm.Client, n, tokens, hold int) ([]vllm.Stream, [][]int64) {
	t.Helper()
	got, arrivals := make([]vllm.Stream, n), make([][]int64, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var err error
			got[i], err = c.Stream(context.Background(), vllm.Completion{Model: "kimi-k2.5-slice", Prompt: []int{5, 6, 7}, MaxTokens: tokens, Streams: n, Hold: hold}, time.Now(),
				func(k vllm.Chunk) { arrivals[i] = append(arrivals[i], k.At) })
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	return got, arrivals
}

func TestStreamsDecodeTogetherWithTheRecordedGap(t *testing.T) {
	s, c := start(t, Options{})
	for _, load := range s.About.Loads {
		got, arrivals := streams(t, c, load.Streams, 20, 0)
		last := int64(0)
		for _, a := range arrivals {
			last = max(last, a[0])
		}
		for i, a := range arrivals {
			if len(a) != 20 || got[i].Usage.CompletionTokens != 20 || got[i].Usage.PromptTokens != 3 || got[i].Nearest != 0 || !got[i].Replay {
				t.Fatalf("C = %d: %d arrivals, %+v", load.Streams, len(a), got[i])
			}
			for k := 1; k < len(a); k++ {
				if want := last + int64(k)*load.SteadyITLNs; a[k] != want {
					t.Fatalf("C = %d: token %d at %d, want %d", load.Streams, k, a[k], want)
				}
			}
		}
	}
	got, _ := streams(t, c, 100, 2, 0)
	if got[0].Nearest != 64 {
		t.Errorf("100 streams: nearest %d, want 64", got[0].Nearest)
	}
}

func TestCountersGoOnFromTheRecordedScrape(t *testing.T) {
	_, c := start(t, Options{})
	ctx := context.Background()
	before, err := c.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	streams(t, c, 64, 20, 0)
	after, err := c.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"vllm:prompt_tokens_total": 64 * 3, "vllm:generation_tokens_total": 64 * 20, "vllm:request_success_total": 64,
		"vllm:time_to_first_token_seconds_count": 64, "vllm:inter_token_latency_seconds_count": 64 * 19, "vllm:iteration_tokens_total_count": 20,
		"vllm:e2e_request_latency_seconds_count": 64, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
	} {
		b, _ := before.Sum(name)
		a, ok := after.Sum(name)
		if !ok || a-b != want {
			t.Errorf("%s rose by %v, want %v", name, a-b, want)
		}
	}
}

func TestProfileLeavesTheRecordedTraceOfTheLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prof")
	s, c := start(t, Options{TraceDir: dir})
	ctx := context.Background()
	done := make(chan struct{})
	go func() { defer close(done); streams(t, c, 64, 30, 4) }()
	for {
		m, err := c.Metrics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := m.Sum("vllm:num_requests_running"); n == 64 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("the trace folder is there before anything was profiled")
	}
	if _, err := c.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	<-done
	if !s.ProfileOpen() {
		t.Error("the profile is not open")
	}
	if err := c.StopProfile(ctx); err != nil {
		t.Fatal(err)
	}
	if s.ProfileOpen() {
		t.Error("the profile is still open")
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 2 {
		t.Fatalf("%v %v", names, err)
	}
	form := regexp.MustCompile(`^dp0_pp0_tp(\d)_dcp0_ep\d_rank(\d)\.\d{19}\.pt\.trace\.json\.gz$`)
	for i, n := range names {
		m := form.FindStringSubmatch(filepath.Base(n))
		if m == nil || m[1] != m[2] || m[2] != fmt.Sprint(i) {
			t.Errorf("%s is no name that vLLM gives", filepath.Base(n))
		}
		want, err := os.ReadFile(filepath.Join(archived(), "runs", "hostmem-graph-uniform", fmt.Sprintf("c64_rank%d.pt.trace.json.gz", i)))
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			got, err := os.ReadFile(n)
			return err == nil && bytes.Equal(got, want)
		})
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it did not happen")
}

func TestProfilerDialects(t *testing.T) {
	ctx := context.Background()
	_, ignore := start(t, Options{})
	for range 2 {
		if _, err := ignore.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
			t.Errorf("a second start is ignored: %v", err)
		}
	}
	_, conflict := start(t, Options{SecondStart: "409"})
	if _, err := conflict.StartProfile(ctx, vllm.ProfileOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := conflict.StartProfile(ctx, vllm.ProfileOptions{}); err == nil || !strings.Contains(err.Error(), "already active") {
		t.Errorf("a second start: %v", err)
	}
	_, none := start(t, Options{NoProfiler: true})
	if _, err := none.StartProfile(ctx, vllm.ProfileOptions{}); err == nil || !strings.Contains(err.Error(), "--profiler-config") {
		t.Errorf("no profiler: %v", err)
	}
	if p := none.Profiler(ctx, "0.24.0"); p.Configured != "no" {
		t.Errorf("no profiler: %+v", p)
	}
	if p := ignore.Profiler(ctx, "0.24.0"); p.Configured != "yes" {
		t.Errorf("profiler: %+v", p)
	}
}

func TestRunsThatCannotBeReplayedSayWhy(t *testing.T) {
	for run, words := range map[string]string{"hostmem-eager": "no load of it has a recorded", "nope": "it has hostmem-graph-uniform, hostmem-graph, nvlink-graph, hostmem-eager"} {
		if _, err := Start(context.Background(), Options{Dir: archived(), Run: run}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", run, err)
		}
	}
	if _, err := Start(context.Background(), Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no archived campaign") {
		t.Error(err)
	}
	s, _ := start(t, Options{Run: "nvlink-graph"})
	if s.About.Run != "nvlink-graph" || len(s.About.Loads) != 3 || len(s.About.Loads[0].Ranks) != 0 {
		t.Errorf("%+v", s.About)
	}
}

// TestArchiveIsAsTheManifestSays checks every file's hash, and run.json against the load.json it was made from.
func TestArchiveIsAsTheManifestSays(t *testing.T) {
	var c data.Campaign
	if err := readJSON(filepath.Join(archived(), data.ManifestFile), &c); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, f := range c.Files {
		b, err := os.ReadFile(filepath.Join(archived(), filepath.FromSlash(f.Path)))
		if err != nil {
			t.Error(err)
			continue
		}
		sum := sha256.Sum256(b)
		if hex.EncodeToString(sum[:]) != f.SHA256 || int64(len(b)) != f.Bytes {
			t.Errorf("%s differs from the manifest", f.Path)
		}
		total += f.Bytes
	}
	if total > 12e6 { // traces 10, notebooks and results 1.1
		t.Errorf("the archive has %d bytes, more than a checkout should carry", total)
	}
	compareLoads(t, "hostmem-graph-uniform", "load.json", 1, 64, 256)
	compareLoads(t, "hostmem-graph", "load_steady_window.json", 64, 256)
	compareLoads(t, "hostmem-graph", "load.json", 1, 8)
	compareLoads(t, "nvlink-graph", "load.json", 1, 64, 256)
}

func compareLoads(t *testing.T, run, file string, loads ...int) {
	t.Helper()
	var raw map[string]struct {
		C, Isl, Osl int
		Wall        float64            `json:"wall_s"`
		Tok         float64            `json:"output_tok_s"`
		Steady      float64            `json:"steady_itl_ms_p50"`
		ITL         map[string]float64 `json:"itl_ms"`
		TTFT        map[string]float64 `json:"ttft_ms"`
	}
	var rec data.Run
	folder := filepath.Join(archived(), "runs", run)
	if err := readJSON(filepath.Join(folder, file), &raw); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(filepath.Join(folder, "run.json"), &rec); err != nil {
		t.Fatal(err)
	}
	for _, c := range loads {
		want := raw[fmt.Sprint(c)]
		for _, r := range rec.Rounds {
			if r.Streams != c {
				continue
			}
			u := r.Unprofiled
			ms := func(ns int64) float64 { return float64(ns) / 1e6 }
			for name, pair := range map[string][2]float64{
				"wall": {want.Wall * 1e3, ms(u.WallNs)}, "steady": {want.Steady, ms(u.SteadyITLNs)}, "itl p50": {want.ITL["p50"], ms(u.ITLp50Ns)},
				"itl p90": {want.ITL["p90"], ms(u.ITLp90Ns)}, "itl p99": {want.ITL["p99"], ms(u.ITLp99Ns)}, "ttft p50": {want.TTFT["p50"], ms(u.TTFTp50Ns)}, "ttft p99": {want.TTFT["p99"], ms(u.TTFTp99Ns)},
			} {
				if d := pair[0] - pair[1]; d > 1e-6 || d < -1e-6 { // 1 ns
					t.Errorf("%s C = %d, %s: %v ms in run.json, %v in %s", run, c, name, pair[1], pair[0], file)
				}
			}
			if u.OutputTokS != want.Tok || r.OutTokens != want.Osl || u.Requests != c {
				t.Errorf("%s C = %d: %+v, want %+v", run, c, u, want)
			}
		}
	}
}
