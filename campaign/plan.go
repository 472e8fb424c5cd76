package campaign

import (
	"cmp"
	"fmt"

	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/internal/units"
)

// Step is one thing that a run would do to a server or its machine.
type Step struct {
	Phase int    `json:"phase"`
	C     int    `json:"c,omitempty"` // the load it belongs to
	Do    string `json:"do"`          // "GET /version", "POST /start_profile", "run"
	Times string `json:"times"`       // "1", "64 at a time", "until quiet"
	With  string `json:"with,omitempty"`
	Why   string `json:"why"`
}

// PlanOptions say what a run is planned with. Loads is the notebook's parameter C.
type PlanOptions struct {
	Host                      target.Host
	TraceDir                  string // "" is found from the server's command line
	Run                       string
	Loads                     []int
	InputTokens, OutputTokens int
}

// asking are the requests that tell what a server is. They change nothing.
func asking(phase int) []Step {
	var steps []Step
	for _, path := range []string{"/rooflab/replay", "/version", "/v1/models", "/health", "/load", "/metrics", "/start_profile"} {
		method, why := "GET ", "what the server says about itself"
		switch path {
		case "/rooflab/replay":
			why = "is it a replay?"
		case "/start_profile":
			method, why = "OPTIONS ", "is there a profiler? This starts nothing"
		}
		steps = append(steps, Step{Phase: phase, Do: method + path, Times: "1", Why: why})
	}
	return steps
}

// Plan lists every request and command that a phase would make against a live server, in order. Nothing in it restarts or
// reconfigures the server. Phases 2 and 4 read files only; phase 3 asks what the server is.
func Plan(phase int, o PlanOptions) []Step {
	switch phase {
	case 0:
		return PreflightPlan(o.Host, PreflightOptions{C: o.Loads})
	case 1:
		steps := asking(1)
		process := Step{Phase: 1, Do: "run", Times: "1", With: words(o.Host.ServersWords(), "read /proc of this machine"), Why: "where the server writes its traces"}
		if o.TraceDir != "" {
			process.Times, process.Why = "1, of SGLang only", "does its process name the folder of its traces itself?"
		}
		steps = append(steps, process)
		for _, c := range o.Loads {
			steps = append(steps, o.round(c)...)
		}
		return steps
	case 3:
		return asking(3)
	}
	return nil
}

// round are the steps of one load, as Session.Round takes them on a live server.
func (o PlanOptions) round(c int) []Step {
	in, out := cmp.Or(o.InputTokens, defaultInput), cmp.Or(o.OutputTokens, defaultOutput)
	dir := o.TraceDir
	if dir == "" {
		dir = "TRACE_DIR"
	}
	completion := func(tokens int, why string) Step {
		return Step{Do: "POST /v1/completions", Times: fmt.Sprintf("%d at a time", c), Why: why,
			With: fmt.Sprintf(`{"prompt": [%d token ids], "max_tokens": %d, "min_tokens": %d, "ignore_eos": true, "temperature": 0, "stream": true}`, in, tokens, tokens)}
	}
	metrics := func(why string) Step { return Step{Do: "GET /metrics", Times: "1", Why: why} }
	quiet := Step{Do: "GET /metrics", Times: "until nothing runs, at most a minute", Why: "other people's requests must have ended"}
	during := Step{Do: "GET /metrics", Times: "a few a second", Why: "do other people's requests run at the same time?"}
	pass := func(why string) []Step {
		return []Step{quiet, metrics("counters before"), completion(out, why), during, metrics("counters after")}
	}
	steps := []Step{{Do: "GET /v1/models", Times: "1", Why: "is it the campaign's model?"}, metrics("which process is it, is it well?"),
		quiet, completion(min(warmTokens, out), "warm up")}
	steps = append(steps, pass("the load without the profiler")...)
	steps = append(steps,
		Step{Do: "run", Times: "1", With: words(o.Host.ListWords(dir), "list "+dir), Why: "traces that are there before"},
		Step{Do: "run", Times: "1", With: words(o.Host.FreeWords(dir), "ask for free space at "+dir), Why: "is there room for more?"},
		quiet, metrics("counters before"),
		completion(out+defaultWindow+slackTokens, "the load again, cut after the window; as long as the model allows"), during,
		Step{Do: "POST /start_profile", Times: "1", With: fmt.Sprintf(`{"profile_prefix": "rooflab-%s-c%d-TIME", "max_iterations": %d}`, cmp.Or(o.Run, mainRun), c, backstop(defaultWindow)),
			Why: "when all streams decode; the server stands still while it starts"},
		Step{Do: "POST /stop_profile", Times: "1", Why: fmt.Sprintf("after %d steps or %d s; the server stands still while it writes the traces", defaultWindow, defaultSecond)},
		metrics("counters after"),
		Step{Do: "run", Times: "until all ranks are complete", With: words(o.Host.ListWords(dir), "list "+dir), Why: "wait for the traces"},
		Step{Do: "run", Times: "1 a rank", With: words(o.Host.ReadWords(dir+"/TRACE"), "read "+dir+"/TRACE"), Why: "take the trace; the server's file stays"})
	if !o.Host.Local() {
		steps = append(steps, Step{Do: "run", Times: "1 a rank", With: words(o.Host.SHA256Words(dir+"/TRACE"), ""), Why: "is the copy the same?"})
	}
	steps = append(steps, pass("the load without the profiler, once more: did the profiler leave anything behind?")...)
	for i := range steps {
		steps[i].Phase, steps[i].C = 1, c
	}
	return steps
}

func words(argv []string, here string) string {
	if argv == nil {
		return here
	}
	return target.Quote(argv...)
}

// Totals says in one line what a plan sends in all.
func Totals(o PlanOptions) string {
	requests, tokens := int64(0), int64(0)
	in, out := int64(cmp.Or(o.InputTokens, defaultInput)), int64(cmp.Or(o.OutputTokens, defaultOutput))
	for _, c := range o.Loads {
		requests += 4 * int64(c)
		tokens += int64(c) * (4*in + min(warmTokens, out) + 3*out + defaultWindow)
	}
	return fmt.Sprintf("%s requests, about %s tokens in and out, %d profile windows", units.Count(requests), units.Count(tokens), len(o.Loads))
}
