package sglang

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/sglang/fake"
	"github.com/rooflab/rooflab/campaign/vllm"
)

func start(t *testing.T, o fake.Options) (*fake.Server, *Client) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "default")
	}
	s, err := fake.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, connect(t, s.URL, o.Key)
}

func connect(t *testing.T, url, key string) *Client {
	t.Helper()
	c, err := vllm.New(vllm.Options{Target: url, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return New(c, "")
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range found {
		found[i] = filepath.Base(f)
	}
	sort.Strings(found)
	return found
}

func TestServerIsRecognised(t *testing.T) {
	ctx := context.Background()
	for name, o := range map[string]fake.Options{"by its models": {}, "by its paths": {Hidden: true}, "with a key": {Key: "secret"}} {
		s, c := start(t, o)
		if is, err := Detect(ctx, c.Client); err != nil || !is {
			t.Errorf("%s: %v %v", name, is, err)
		}
		if s.ProfileOpen() || len(s.Started()) > 0 {
			t.Errorf("%s: the question started a profile", name)
		}
		info, err := c.Info(ctx)
		if err != nil || info != (Info{"0.5.4", "/models/tiny", "tiny", 1, 1, 1, 1}) {
			t.Errorf("%s: %+v %v", name, info, err)
		}
		if v, err := c.Version(ctx); err != nil || v != "0.5.4" {
			t.Errorf("%s: version %q %v", name, v, err)
		}
	}
	s, _ := start(t, fake.Options{Key: "secret"})
	_, err := Detect(ctx, connect(t, s.URL, "").Client)
	if err == nil || !strings.Contains(err.Error(), "API key in ROOFLAB_API_KEY") {
		t.Errorf("without the key: %v", err)
	}
	for name, models := range map[string]string{"vLLM": `{"data":[{"id":"x","owned_by":"vllm"}]}`, "another": `{"data":[{"id":"x","owned_by":"me"}]}`} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, models)
		}))
		defer other.Close()
		if is, err := Detect(ctx, connect(t, other.URL, "").Client); is || err != nil {
			t.Errorf("%s: %v %v", name, is, err)
		}
	}
}

func TestAskingForTheProfilerStartsNone(t *testing.T) {
	s, c := start(t, fake.Options{})
	if p := c.Profiler(context.Background(), "0.5.4"); p.Configured != "yes" {
		t.Errorf("%+v", p)
	}
	c.Client.Profiler(context.Background(), "0.5.4") // as one would ask before the engine is known
	if s.ProfileOpen() {
		t.Error("a profile is open")
	}
}

// stream runs streams until the test ends.
func stream(t *testing.T, c *Client, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for range n {
		go c.Stream(ctx, vllm.Completion{Model: "tiny", Prompt: []int{1, 2}, MaxTokens: 100000}, time.Now(), func(vllm.Chunk) {})
	}
	until(t, func() bool {
		s, err := c.Metrics(ctx)
		running, _, ok := metrics.Traffic(s)
		return err == nil && ok && running == n
	})
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it did not happen")
}

func TestProfileLeavesATraceOfEveryRank(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "prof")
	s, c := start(t, fake.Options{TP: 2, Key: "secret"})
	c.OutputDir = dir
	stream(t, c, 3)
	honoured, err := c.StartProfile(ctx, vllm.ProfileOptions{Prefix: "c3", MaxIterations: 1000000})
	if err != nil || honoured {
		t.Fatalf("honoured %v, %v", honoured, err)
	}
	if want := fmt.Sprintf(`{"output_dir":%q,"num_steps":1000000,"activities":["CPU","GPU"],"with_stack":false,"record_shapes":false,"profile_prefix":"c3"}`, dir); s.Started()[0] != want {
		t.Errorf("body %s, want %s", s.Started()[0], want)
	}
	_, err = c.StartProfile(ctx, vllm.ProfileOptions{})
	if !errors.Is(err, vllm.ErrAlreadyProfiling) {
		t.Errorf("a second start: %v", err)
	}
	if err := c.StopProfile(ctx); err != nil || s.ProfileOpen() {
		t.Fatal(err)
	}
	got := files(t, dir)
	if len(got) != 2 {
		t.Fatalf("files %v", got)
	}
	for rank, name := range got {
		if !strings.HasPrefix(name, "c3-") || !strings.Contains(name, fmt.Sprintf("-TP-%d-", rank)) {
			t.Errorf("trace %d is %s", rank, name)
		}
	}
}

func TestProfileOfNStepsEndsByItselfAndTheStopDoesNothing(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, c := start(t, fake.Options{Dir: dir, Old: true})
	stream(t, c, 1)
	honoured, err := c.StartProfile(ctx, vllm.ProfileOptions{MaxIterations: 5})
	if err != nil || !honoured {
		t.Fatalf("honoured %v, %v", honoured, err)
	}
	until(t, func() bool { return !s.ProfileOpen() })
	if err := c.StopProfile(ctx); err != nil {
		t.Errorf("a stop after the last step: %v", err)
	}
	if got := files(t, dir); len(got) != 1 || got[0] != "1700000001.25-TP-0.trace.json.gz" {
		t.Errorf("files %v", got)
	}
}

func TestAnswersThatSayNo(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		status       int
		body, health string
		start, stop  error
	}{
		{200, `{"success":false,"message":"Profiling is already in progress. Call /stop_profile first."}`, "", vllm.ErrAlreadyProfiling, nil},
		{500, "Internal Server Error", "dead", vllm.ErrAlreadyProfiling, vllm.ErrStillWriting},
		{504, "<html>", "", nil, vllm.ErrStillWriting},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" && c.health == "" {
				return
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		defer s.Close()
		cl := connect(t, s.URL, "")
		_, err := cl.StartProfile(ctx, vllm.ProfileOptions{})
		if err == nil || c.start != nil && !errors.Is(err, c.start) {
			t.Errorf("%d: start %v", c.status, err)
		}
		if err := cl.StopProfile(ctx); !errors.Is(err, c.stop) {
			t.Errorf("%d: stop %v", c.status, err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"api_key":"secret",`) }))
	defer s.Close()
	if _, err := connect(t, s.URL, "").Info(ctx); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a broken answer: %v", err)
	}
	if _, err := connect(t, s.URL, "").StartProfile(ctx, vllm.ProfileOptions{Prefix: "a/b"}); err == nil {
		t.Error("a bad prefix was sent")
	}
}

func TestVersionThatRefusesThePrefixIsAskedWithout(t *testing.T) {
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1000)
		n, _ := r.Body.Read(b)
		bodies = append(bodies, string(b[:n]))
		if strings.Contains(string(b), "profile_prefix") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}))
	defer s.Close()
	honoured, err := connect(t, s.URL, "").StartProfile(context.Background(), vllm.ProfileOptions{Prefix: "x", MaxIterations: 3})
	if err != nil || honoured || len(bodies) != 2 || !strings.Contains(bodies[1], `"num_steps":3`) {
		t.Errorf("honoured %v, %v, %q", honoured, err, bodies)
	}
}
