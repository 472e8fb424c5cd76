package campaign

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/rooflab/rooflab/campaign/sglang"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// engine is what differs between the servers that a campaign can measure. All else, completions, models, health and
// metrics, is asked in the same way; package metrics knows what each calls its series, and fetch what each calls its traces.
type engine interface {
	// Version is the engine's own.
	Version(ctx context.Context) (string, error)
	// Profiler says whether the server can be profiled over HTTP, without starting anything.
	Profiler(ctx context.Context, version string) vllm.Profiler
	// StartProfile opens a profile. honoured is a claim by version: the names of the traces prove it.
	StartProfile(ctx context.Context, o vllm.ProfileOptions) (honoured bool, err error)
	// StopProfile closes it and waits until the traces are written. It does no harm when none is open.
	StopProfile(ctx context.Context) error
}

// Names of engines, as a journal and package launch have them.
const (
	engineVLLM   = "vllm"
	engineSGLang = "sglang"
)

// engineTitle names the engine of a run, as in "vLLM 0.32.0"; "" when it is not known.
func engineTitle(e data.Environment) string {
	name := map[string]string{engineVLLM: "vLLM", engineSGLang: "SGLang"}[e.Engine]
	if name == "" || e.Version == "" {
		return ""
	}
	return name + " " + e.Version
}

// speak returns the engine with a name for a server. output is where SGLang is told to write traces, see findFolder; vLLM
// was told when it was started.
func speak(name string, c *vllm.Client, output string) engine {
	if name == engineSGLang {
		return sglang.New(c, output)
	}
	return c
}

// recognise asks a server which engine it is. A replay is vLLM.
func (s *Session) recognise(ctx context.Context) error {
	if s.engineName != "" {
		return nil
	}
	is := false
	if s.about == nil {
		var err error
		if is, err = sglang.Detect(ctx, s.client); err != nil {
			return err
		}
	}
	s.engineName = engineVLLM
	if is {
		s.engineName = engineSGLang
	}
	return nil
}

// noteUnseen ends what is said about servers on which somebody else's profile cannot be seen.
const noteUnseen = "is not known to refuse a start while somebody else's profile is open, so such a one cannot be seen"

// howUnseen says what to do about it.
const howUnseen = "ask whoever else uses the server; a trace that holds far more than the window shows it"

// unseen says that somebody else's profile cannot be seen on this server; "" when it can.
func (s *Session) unseen(version string) string {
	if s.about != nil || s.engineName != engineVLLM || vllm.StartTellsOpen(version) {
		return ""
	}
	return "vLLM " + cmp.Or(version, "of an unknown version") + " " + noteUnseen
}

// versionAnswer returns what GET /version says, or would say: a replay needs it.
func (s *Session) versionAnswer(ctx context.Context) ([]byte, error) {
	if s.engineName != engineSGLang {
		return s.client.Answer(ctx, "/version")
	}
	version, err := s.engine().Version(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"version": version})
}

// engine returns the server's engine; vLLM as long as nobody asked.
func (s *Session) engine() engine { return speak(s.engineName, s.client, s.output) }
