// Package vllm speaks vLLM's HTTP API: what is served, metrics, the profiler, streamed completions.
// It explains the server's refusals in words and knows what differs between versions.
// It does not make load (campaign/load does), read traces or start servers.
package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rooflab/rooflab/campaign/metrics"
)

// Headers between rooflab and a replay; other servers neither send nor read them.
const (
	ReplayHeader  = "Rooflab-Replay"   // on every answer of a replay: "<campaign>/<run>"
	NearestHeader = "Rooflab-Nearest"  // the recorded number of streams that stands in for one that was not recorded
	StreamsHeader = "Rooflab-Streams"  // of a request: how many streams the load has
	HoldHeader    = "Rooflab-Hold"     // of a request: tokens after which the replay waits for a profile to start
	SentHeader    = "Rooflab-Sent-Ns"  // of an answer: when the request was sent, on the replay's clock
	ArrivalPrefix = "rooflab arrival " // SSE comment before a chunk: its arrival in ns, on the replay's clock
)

// maxBody bounds answers that are read whole; the largest real one, /metrics, is about 100 kB for one engine.
const maxBody = 32 << 20

// Client talks to one server. Make it with New.
type Client struct {
	base     string
	host     string // of base, with its port
	proxy    string // host and port of the proxy in between, or ""
	http     *http.Client
	answered atomic.Bool // the server has answered something
}

// Target returns the address that the client talks to.
func (c *Client) Target() string { return c.base }

// CloseIdle closes connections that no request uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Version asks for the server's version.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct{ Version string }
	if err := c.getJSON(ctx, "/version", &v); err != nil {
		return "", err
	}
	if v.Version == "" {
		return "", fmt.Errorf("GET /version: the answer names no version; is %s a vLLM server?", c.base)
	}
	return v.Version, nil
}

// Model is a model that the server answers to.
type Model struct {
	ID          string
	Root        string // path or hub name
	MaxModelLen int
	OwnedBy     string // the engine's own name: "vllm", "sglang"
}

// Models asks which models the server answers to.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var list struct {
		Data []struct {
			ID          string
			Root        string
			MaxModelLen int    `json:"max_model_len"`
			OwnedBy     string `json:"owned_by"`
		}
	}
	if err := c.getJSON(ctx, "/v1/models", &list); err != nil {
		return nil, err
	}
	var models []Model
	for _, m := range list.Data {
		models = append(models, Model{m.ID, m.Root, m.MaxModelLen, m.OwnedBy})
	}
	return models, nil
}

// CheckModel returns the served model with the given name, or an error that says what is served instead.
// With the name "" it returns the only model of a server that serves one.
func (c *Client) CheckModel(ctx context.Context, want string) (Model, error) {
	models, err := c.Models(ctx)
	if err != nil {
		return Model{}, err
	}
	var ids []string
	for _, m := range models {
		if m.ID == want {
			return m, nil
		}
		ids = append(ids, m.ID)
	}
	if want == "" && len(models) == 1 {
		return models[0], nil
	}
	if want == "" {
		return Model{}, fmt.Errorf("the server serves %s; say in manifest.json, model.served, which one the campaign is about", strings.Join(ids, ", "))
	}
	return Model{}, fmt.Errorf("the server serves %s, the campaign is about %s; give another target or change model.served in manifest.json", strings.Join(ids, ", "), want)
}

// Health returns nil when the server says that it is well.
func (c *Client) Health(ctx context.Context) error {
	_, _, err := c.do(ctx, http.MethodGet, "/health", nil, 30*time.Second)
	return err
}

// Load returns the number of requests that the server tracks; it stays 0 without --enable-server-load-tracking.
func (c *Client) Load(ctx context.Context) (int, error) {
	var v struct {
		ServerLoad int `json:"server_load"`
	}
	err := c.getJSON(ctx, "/load", &v)
	return v.ServerLoad, err
}

// Metrics scrapes /metrics. A page that holds anything else is an error.
func (c *Client) Metrics(ctx context.Context) (metrics.Scrape, error) {
	body, _, err := c.do(ctx, http.MethodGet, "/metrics", nil, 30*time.Second)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		err = fmt.Errorf("%w; SGLang has it with --enable-metrics, vLLM always: is there a gateway in between that does not pass it on?", err)
	}
	if err != nil {
		return metrics.Scrape{}, err
	}
	s, err := metrics.Parse(bytes.NewReader(body))
	if err != nil {
		err = fmt.Errorf("GET /metrics: %w; is %[2]s a vLLM or SGLang server, or something in between that changes its answers? Look at: curl %[2]s/metrics", err, c.base)
	}
	return s, err
}

// Replay is what a replay says about itself at GET /rooflab/replay.
type Replay struct {
	Campaign  string         `json:"campaign"`
	Run       string         `json:"run"`
	Runs      []string       `json:"runs"`
	WorldSize int            `json:"world_size"`
	Loads     []RecordedLoad `json:"loads"`
}

// RecordedLoad is one load of the recorded run. Times are in ns.
type RecordedLoad struct {
	Streams      int     `json:"streams"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Ranks        []int   `json:"ranks"` // whose traces were kept
	WallNs       int64   `json:"wall_ns"`
	OutputTokS   float64 `json:"output_tok_s"`
	SteadyITLNs  int64   `json:"steady_itl_ns"`
	ITLp50Ns     int64   `json:"itl_p50_ns"`
	ITLp90Ns     int64   `json:"itl_p90_ns"`
	ITLp99Ns     int64   `json:"itl_p99_ns"`
	TTFTp50Ns    int64   `json:"ttft_p50_ns"`
	TTFTp99Ns    int64   `json:"ttft_p99_ns"`
}

// Load returns the recorded load with this number of streams.
func (r Replay) Load(streams int) (RecordedLoad, bool) {
	for _, l := range r.Loads {
		if l.Streams == streams {
			return l, true
		}
	}
	return RecordedLoad{}, false
}

// Replay asks whether the server is a replay; nil means that it is not.
func (c *Client) Replay(ctx context.Context) (*Replay, error) {
	body, header, err := c.do(ctx, http.MethodGet, "/rooflab/replay", nil, 30*time.Second)
	var status *StatusError
	if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusUnauthorized || status.Status == http.StatusMethodNotAllowed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if header.Get(ReplayHeader) == "" {
		return nil, nil // something that answers 200 to every path
	}
	var r Replay
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("GET /rooflab/replay: %w", err)
	}
	return &r, nil
}

// Answer returns the body of a GET as the server sent it.
func (c *Client) Answer(ctx context.Context, path string) ([]byte, error) {
	body, _, err := c.do(ctx, http.MethodGet, path, nil, 30*time.Second)
	return body, err
}

// Post sends a POST with a JSON body, or with none, and returns the body of the answer. A patience of 0 waits as long as
// the context. It serves clients of servers that speak the same API with other endpoints beside it.
func (c *Client) Post(ctx context.Context, path string, body []byte, patience time.Duration) ([]byte, error) {
	b, _, err := c.do(ctx, http.MethodPost, path, body, patience)
	return b, err
}

func (c *Client) getJSON(ctx context.Context, path string, v any) error {
	body, _, err := c.do(ctx, http.MethodGet, path, nil, 30*time.Second)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("GET %s: the answer is no JSON (%v); is %s a vLLM server?", path, err, c.base)
	}
	return nil
}

// do sends a request and reads the whole answer. A timeout of 0 waits as long as the context.
func (c *Client) do(ctx context.Context, method, path string, body []byte, timeout time.Duration) ([]byte, http.Header, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	resp, err := c.send(ctx, method, path, body, nil)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, nil, c.explain(method, path, err)
	}
	if len(b) > maxBody {
		return nil, nil, fmt.Errorf("%s %s: the answer is longer than %d bytes; is %s a vLLM server?", method, path, maxBody, c.base)
	}
	if resp.StatusCode != http.StatusOK {
		e := statusError(method, path, resp.StatusCode, b)
		if to, err := resp.Location(); err == nil && resp.StatusCode < 400 {
			e.Message = "sent to " + to.Scheme + "://" + to.Host + to.Path
		}
		return nil, resp.Header, e
	}
	return b, resp.Header, nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(method, path, err)
	}
	c.answered.Store(true)
	return resp, nil
}
