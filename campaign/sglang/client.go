// Package sglang speaks what SGLang's HTTP API has beside the part that it shares with vLLM: the profiler and what the
// server says about itself. Completions, models, health and metrics are asked through the vllm.Client inside.
// It follows SGLang's source (http_server.py, tokenizer_manager, scheduler_profiler_mixin.py, io_struct.py) and was tested
// against a server that imitates it, not against a running SGLang.
// It does not make load, read traces or start servers.
package sglang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rooflab/rooflab/campaign/vllm"
)

// Client talks to one SGLang server.
type Client struct {
	*vllm.Client
	// OutputDir is where the server writes traces, on its own disk; "" leaves it to the server, which takes
	// $SGLANG_TORCH_PROFILER_DIR, else /tmp.
	OutputDir string
}

// New returns a client that talks through c.
func New(c *vllm.Client, outputDir string) *Client { return &Client{c, outputDir} }

// Detect says whether a server is SGLang: by the name that it gives its models, else by GET /get_model_info, which only
// SGLang has. It changes nothing on the server.
func Detect(ctx context.Context, c *vllm.Client) (bool, error) {
	models, err := c.Models(ctx)
	if err != nil {
		return false, err
	}
	for _, m := range models {
		switch m.OwnedBy {
		case "sglang":
			return true, nil
		case "vllm":
			return false, nil
		}
	}
	for _, path := range []string{"/get_model_info", "/model_info"} { // the older name first: both engines' servers know few paths
		b, err := c.Answer(ctx, path)
		var info struct {
			ModelPath string `json:"model_path"`
		}
		if err == nil && json.Unmarshal(b, &info) == nil && info.ModelPath != "" {
			return true, nil
		}
		var status *vllm.StatusError
		if err != nil && !errors.As(err, &status) {
			return false, err
		}
	}
	return false, nil
}

// Info is what a server says about itself. Its answer also holds the API key and every argument; only this is read.
type Info struct {
	Version   string
	ModelPath string
	Served    string // the served name
	TP, DP    int    // ranks
	EP, PP    int
}

// Info asks the server about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	b, err := c.Answer(ctx, "/get_server_info")
	var status *vllm.StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		b, err = c.Answer(ctx, "/server_info") // the newer name
	}
	if err != nil {
		return Info{}, err
	}
	var v struct {
		Version   string
		ModelPath string `json:"model_path"`
		Served    string `json:"served_model_name"`
		TP        int    `json:"tp_size"`
		DP        int    `json:"dp_size"`
		EP        int    `json:"ep_size"`
		PP        int    `json:"pp_size"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return Info{}, errors.New("GET /get_server_info: the answer is not what SGLang says") // without its text: it may hold the key
	}
	return Info{v.Version, v.ModelPath, v.Served, max(v.TP, 1), max(v.DP, 1), max(v.EP, 1), max(v.PP, 1)}, nil
}

// Version asks for the server's version.
func (c *Client) Version(ctx context.Context) (string, error) {
	info, err := c.Info(ctx)
	if err == nil && info.Version == "" {
		err = fmt.Errorf("GET /get_server_info: the answer names no version; is %s an SGLang server?", c.Target())
	}
	return info.Version, err
}

// Profiler says that SGLang can always be profiled over HTTP. Nothing is asked: GET /start_profile would start a profile.
func (c *Client) Profiler(context.Context, string) vllm.Profiler {
	return vllm.Profiler{Configured: "yes"}
}

// startBody is the body of /start_profile as far as rooflab uses it. Stacks and shapes are off because they make stopping
// slow and traces large; SGLang has stacks on if not told.
type startBody struct {
	OutputDir    string   `json:"output_dir,omitempty"`
	NumSteps     int      `json:"num_steps,omitempty"`
	Activities   []string `json:"activities"`
	WithStack    bool     `json:"with_stack"`
	RecordShapes bool     `json:"record_shapes"`
	Prefix       string   `json:"profile_prefix,omitempty"`
}

// startPatience is long because some versions answer a start with a number of steps only when the steps are done.
const startPatience = 10 * time.Minute

// StartProfile opens a profile. A 200 does not prove that a trace will be written: look for the files.
//
// MaxIterations is read by every version that is meant here (num_steps): the profile then ends by itself. Whether the
// prefix is read depends on the version, of which the first is not known; so honoured is false when one is wished for.
// A version that does not know the prefix ignores it, and one that refuses it is asked once more without.
func (c *Client) StartProfile(ctx context.Context, o vllm.ProfileOptions) (honoured bool, err error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	b := startBody{OutputDir: c.OutputDir, NumSteps: o.MaxIterations, Activities: []string{"CPU", "GPU"}, Prefix: o.Prefix}
	err = c.start(ctx, b)
	var status *vllm.StatusError
	if b.Prefix != "" && errors.As(err, &status) && (status.Status == http.StatusBadRequest || status.Status == http.StatusUnprocessableEntity) {
		b.Prefix = ""
		err = c.start(ctx, b)
	}
	return err == nil && o.Prefix == "" && o.MaxIterations > 0, err
}

func (c *Client) start(ctx context.Context, b startBody) error {
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	answer, err := c.Post(ctx, "/start_profile", body, startPatience)
	var status *vllm.StatusError
	switch {
	case errors.As(err, &status) && status.Status == http.StatusInternalServerError:
		// the scheduler says success=false, which the HTTP server turns into a 500 without the words
		return fmt.Errorf("the profiler did not start; most often because %w, else see the server's log: %w", vllm.ErrAlreadyProfiling, err)
	case errors.As(err, &status) && status.Status == http.StatusForbidden:
		return fmt.Errorf("profiling needs the server's admin key: set ROOFLAB_API_KEY to it: %w", err)
	case err != nil:
		return err
	}
	if text, no := refused(answer); no {
		return fmt.Errorf("%w: POST /start_profile: %s", vllm.ErrAlreadyProfiling, text)
	}
	return nil
}

// StopProfile closes the profile and waits for the server to write the traces: only the context ends the wait.
// Without an open profile, such as after the last of the asked steps, it does nothing. SGLang answers that with the same
// 500 as a stop that goes wrong; a server that is well afterwards is taken to have had none open.
func (c *Client) StopProfile(ctx context.Context) error {
	_, err := c.Post(ctx, "/stop_profile", nil, 0)
	var status *vllm.StatusError
	if !errors.As(err, &status) || status.Status < 500 {
		return err
	}
	if status.Status == http.StatusInternalServerError && c.Health(ctx) == nil {
		return nil
	}
	return fmt.Errorf("%w; see its log: %w", vllm.ErrStillWriting, err)
}

// refused reads an answer of the form {"success": false, "message": "..."}. The usual answer is a line of text.
func refused(answer []byte) (string, bool) {
	var v struct {
		Success *bool
		Message string
	}
	if json.Unmarshal(answer, &v) != nil || v.Success == nil || *v.Success {
		return "", false
	}
	return v.Message, true
}
