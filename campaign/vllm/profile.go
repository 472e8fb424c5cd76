package vllm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Profiler says whether a server can be profiled over HTTP.
type Profiler struct {
	Configured string // "yes", "no" or "unknown"
	Why        string // what to do, or why it is not known
}

// Profiler asks without starting anything: the endpoint of a configured profiler refuses GET with 405, a missing one is 404.
func (c *Client) Profiler(ctx context.Context, version string) Profiler {
	_, _, err := c.do(ctx, http.MethodGet, "/start_profile", nil, 30*time.Second)
	var status *StatusError
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusMethodNotAllowed:
			return Profiler{Configured: "yes"}
		case http.StatusNotFound:
			return Profiler{"no", ProfilerHint(version)}
		}
	}
	if err == nil {
		return Profiler{"unknown", "GET /start_profile was answered with 200, which vLLM never does"}
	}
	return Profiler{"unknown", err.Error()}
}

// ErrAlreadyProfiling is wrapped when another profile is open; older versions ignore a second start instead.
var ErrAlreadyProfiling = errors.New("a profile is already open on this server")

// StartProfile opens a profile. A 200 does not prove that a trace will be written: look for the files.
func (c *Client) StartProfile(ctx context.Context) error {
	_, _, err := c.do(ctx, http.MethodPost, "/start_profile", nil, 2*time.Minute)
	return c.profileError(ctx, "start", err)
}

// StopProfile closes the profile and waits for the server to write the traces, which can take minutes:
// only the context ends the wait. Stopping without a start is not an error for vLLM.
func (c *Client) StopProfile(ctx context.Context) error {
	_, _, err := c.do(ctx, http.MethodPost, "/stop_profile", nil, 0)
	return c.profileError(ctx, "stop", err)
}

func (c *Client) profileError(ctx context.Context, what string, err error) error {
	var status *StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch status.Status {
	case http.StatusNotFound:
		version, verr := c.Version(ctx)
		if verr != nil {
			version = ""
		}
		return fmt.Errorf("the server has no profiler: %s: %w", ProfilerHint(version), err)
	case http.StatusMethodNotAllowed:
		return fmt.Errorf("something between rooflab and the server turned the POST into another request: %w", err)
	case http.StatusConflict:
		return fmt.Errorf("%w; end it with POST /stop_profile or wait for whoever started it: %w", ErrAlreadyProfiling, err)
	case http.StatusInternalServerError:
		if what == "stop" {
			return fmt.Errorf("the profiler did not stop cleanly, a trace may still be being written (versions before 0.8 need VLLM_RPC_TIMEOUT=1800000): %w", err)
		}
		return fmt.Errorf("the profiler did not start, see the server's log: %w", err)
	}
	return err
}
