package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"
)

// Profiler says whether a server can be profiled over HTTP.
type Profiler struct {
	Configured string // "yes", "no" or "unknown"
	Why        string // what to do, or why it is not known
}

// Profiler asks without starting anything: the endpoint of a configured profiler refuses OPTIONS with 405, a missing one is
// 404. GET would do for vLLM, but SGLang starts a profile on it.
func (c *Client) Profiler(ctx context.Context, version string) Profiler {
	_, _, err := c.do(ctx, http.MethodOptions, "/start_profile", nil, 30*time.Second)
	var status *StatusError
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusMethodNotAllowed:
			return Profiler{Configured: "yes"}
		case http.StatusNotFound:
			if status.fromVLLM() {
				return Profiler{"no", ProfilerHint(version)}
			}
		}
	}
	if err == nil {
		return Profiler{"unknown", "OPTIONS /start_profile was answered with 200, which vLLM never does; does something in between answer?"}
	}
	return Profiler{"unknown", err.Error()}
}

// ProfileOptions are wishes for one profile, sent with its start. See StartProfile for who grants them.
type ProfileOptions struct {
	// Prefix comes before the names of this profile's trace files: 1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or
	// digit; "" asks for none.
	Prefix string
	// MaxIterations is the number of engine steps after which the workers end their part by themselves; 0 is no limit.
	// StopProfile is needed all the same. The workers write the trace in the middle of a step then, and a step that
	// takes longer than VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS (300) ends the server: stay under 60 or so, without stacks.
	MaxIterations int
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Check says what is wrong with the options, in any version.
func (o ProfileOptions) Check() error {
	if o.Prefix != "" && !prefixForm.MatchString(o.Prefix) {
		return fmt.Errorf("the prefix %.140q of trace files: give 1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit", o.Prefix)
	}
	if o.MaxIterations < 0 {
		return fmt.Errorf("a profile of %d engine steps: give 1 or more, or 0 for no limit", o.MaxIterations)
	}
	return nil
}

// body returns nil when there is nothing to ask for.
func (o ProfileOptions) body() ([]byte, error) {
	if err := o.Check(); err != nil || o == (ProfileOptions{}) {
		return nil, err
	}
	return json.Marshal(struct {
		Prefix        string `json:"profile_prefix,omitempty"`
		MaxIterations int    `json:"max_iterations,omitempty"`
	}{o.Prefix, o.MaxIterations})
}

// StartProfile opens a profile. A 200 does not prove that a trace will be written: look for the files.
//
// honoured says that a server of this version reads the options: 0.32.0 does, 0.28.0 does not, and of the releases in
// between it is not known which is the first. It is a claim by version; the names of the trace files prove it. The
// options are sent to every server, which is safe: one that does not know them does not read the body of this request
// at all, not even to check that it is JSON. A server that refuses them is asked once more without.
//
// A start waits for an export that still runs, and it may join a profile that was open before, see StartTellsOpen.
func (c *Client) StartProfile(ctx context.Context, o ProfileOptions) (honoured bool, err error) {
	body, err := o.body()
	if err != nil {
		return false, err
	}
	if body != nil {
		version, err := c.Version(ctx)
		honoured = err == nil && StartReadsOptions(version)
	}
	_, _, err = c.do(ctx, http.MethodPost, "/start_profile", body, startPatience)
	if body != nil && refusedOptions(err) {
		honoured = false
		_, _, err = c.do(ctx, http.MethodPost, "/start_profile", nil, startPatience)
	}
	if err != nil {
		return false, c.profileError(ctx, "start", err)
	}
	return honoured, nil
}

// startPatience is long because a start waits for an export that still runs.
const startPatience = 2 * time.Minute

// refusedOptions says that the server read the body and did not want it; nothing has started then.
func refusedOptions(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusBadRequest || status.Status == http.StatusUnprocessableEntity)
}

// StopProfile closes the profile and waits for the server to write the traces, which can take many minutes: only the
// context ends the wait. A stop while another one writes waits for it too, and one without a start does nothing; so when
// a gateway in between gives up waiting and the server is well, the stop is sent again.
func (c *Client) StopProfile(ctx context.Context) error {
	for {
		_, _, err := c.do(ctx, http.MethodPost, "/stop_profile", nil, 0)
		if !gaveUp(err) || c.Health(ctx) != nil {
			return c.profileError(ctx, "stop", err)
		}
		select {
		case <-ctx.Done():
			return c.profileError(ctx, "stop", err)
		case <-time.After(time.Second):
		}
	}
}

// gaveUp says that not the server but a gateway in between answered, because it took too long for it.
func gaveUp(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Status == http.StatusGatewayTimeout || status.Status == 524)
}

// Errors of a profile, wrapped with what happened.
var (
	// ErrNoProfiler: the server itself says that it has no profiler. A gateway in between that knows no such path does not count.
	ErrNoProfiler = errors.New("the server has no profiler")
	// ErrAlreadyProfiling: another profile is open. Only some versions say so, see StartTellsOpen.
	ErrAlreadyProfiling = errors.New("a profile is already open on this server")
	// ErrStillWriting: the stop failed in a way that leaves the server writing; the traces may still come.
	ErrStillWriting = errors.New("the server may still be writing the traces")
)

func (c *Client) profileError(ctx context.Context, what string, err error) error {
	var status *StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch status.Status {
	case http.StatusNotFound:
		if !status.fromVLLM() {
			return fmt.Errorf("something between rooflab and the server does not pass %s on; give the server's own address: %w", status.Path, err)
		}
		return fmt.Errorf("%w: %s: %w", ErrNoProfiler, ProfilerHint(c.versionOr(ctx, "")), err)
	case http.StatusMethodNotAllowed:
		return fmt.Errorf("something between rooflab and the server turned the POST into another request; give the server's own address: %w", err)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fmt.Errorf("the server refuses the request to %s the profile; nothing has changed: %w", what, err)
	case http.StatusConflict:
		return fmt.Errorf("%w; end it with POST /stop_profile or wait for whoever started it: %w", ErrAlreadyProfiling, err)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if what == "stop" {
			return fmt.Errorf("%w, or it is gone; a gateway in between needs a timeout of many minutes for /stop_profile: %w", ErrStillWriting, err)
		}
		return fmt.Errorf("the profiler did not start, or a gateway in between gave up waiting for it: %w", err)
	case http.StatusInternalServerError:
		version := ParseVersion(c.versionOr(ctx, "dev"))
		switch {
		case what == "stop" && !version.AtLeast(ProfilerStopsCleanly):
			return fmt.Errorf("%w; %s needs the environment variable %s to wait for them: %w", ErrStillWriting, version.Text, rpcTimeout, err)
		case what == "stop":
			return fmt.Errorf("%w; see its log: %w", ErrStillWriting, err)
		case !version.AtLeast(ProfilerFrontendOff):
			return fmt.Errorf("the profiler did not start; %s answers so when a profile is open already, else see the server's log: %w", version.Text, err)
		}
		return fmt.Errorf("the profiler did not start; see the server's log: %w", err)
	}
	return err
}

func (c *Client) versionOr(ctx context.Context, otherwise string) string {
	if v, err := c.Version(ctx); err == nil {
		return v
	}
	return otherwise
}
