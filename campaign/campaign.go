// Package campaign runs the measuring part of a profiling campaign against a server, live or replayed: it makes a load,
// opens a short profile window while all streams decode, collects the traces, and keeps everything in the campaign's folder.
// It is called from notebook cells. It does not read traces, draw, start servers or restart them.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign/metrics"
	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
)

// Names inside a campaign folder.
const (
	baselineFile = "baseline.json"
	runFile      = "run.json"
	recorded     = "data/campaigns/h200x2-kimi-k2.5-int4" // of a checkout: what is replayed when no target is given
)

// Options say where a campaign is kept and what it measures. The zero value works inside a campaign folder.
type Options struct {
	// Dir is the campaign's folder; "" is $ROOFLAB_CAMPAIGN, else the nearest folder upward with a manifest.json.
	Dir string
	// Target is "http://host:port" for a live server or "replay:DIR" for an archived campaign;
	// "" is $ROOFLAB_TARGET, else the recorded campaign of the checkout that the working directory is in.
	Target string
	// TraceDir is the server's torch_profiler_dir as seen from here; "" is $ROOFLAB_TRACE_DIR. A replay does not need it.
	TraceDir string
	// Model is the served name; "" is the manifest's, else the only one that the server serves.
	Model string
	// Run names the run in the folder, and the one to replay; "" is the archive's main run in a replay, else the manifest's, else "main".
	Run string
	// Host is where the server runs, as campaign/target reads it: "ssh:user@node", "docker:vllm"; "" is $ROOFLAB_HOST, else this machine.
	Host string
	// Again measures rounds again that the folder has already.
	Again bool
	// Limits protect the server and this machine.
	Limits Limits
}

// Session is an open campaign. Close it when the replay that it may have started is no longer needed.
type Session struct {
	opts     Options
	dir      string
	run      string
	manifest data.Campaign
	archive  string // a campaign whose files are used where this one has none: the replayed one, else $ROOFLAB_ARCHIVE
	client   *vllm.Client
	server   *replay.Server // started here, or nil
	host     target.Host
	itself   []string    // what the server's machine calls itself, as far as it was seen
	traceDir string      // as given; on the host
	folder   traceFolder // nil until it is needed
	ownDir   string      // the folder that the server's own process names; "" when it was not asked or names none
	output   string      // the folder that an SGLang server is told to write traces into; "" leaves it to the server
	limits   Limits

	about      *vllm.Replay // what the server says about itself when it is a replay
	asked      bool         // about is known
	engineName string       // engineVLLM, engineSGLang, or "" when it is not known yet
	streams    int          // of the round that is measured
	started    int64        // when the process of the live server that is measured started, in s since the epoch
	teller     teller
	flush      time.Duration // for a server to write its traces, and for another process to wait for that
	patience   time.Duration // for traces, while nothing changes in their folder
	calm       time.Duration // for other people's requests to end
	poll       time.Duration // between looks into the folder, at most
	afterOpen  func()        // a test looks in while the profile is open
}

// Open opens a campaign folder and finds its target. A live server is not contacted yet.
func Open(o Options) (*Session, error) {
	dir, err := findDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Session{opts: o, dir: dir, teller: teller{dir: dir}, flush: flush, patience: time.Minute, calm: time.Minute, poll: 500 * time.Millisecond, traceDir: o.TraceDir}
	if s.limits, err = o.Limits.fill(); err != nil {
		return nil, err
	}
	if s.host, err = target.FromEnv(o.Host); err != nil {
		return nil, err
	}
	if s.manifest, err = ReadManifest(dir); err != nil {
		return nil, err
	}
	if s.traceDir == "" {
		s.traceDir = os.Getenv("ROOFLAB_TRACE_DIR")
	}
	address, err := findTarget(o.Target)
	if err != nil {
		return nil, err
	}
	s.archive = os.Getenv("ROOFLAB_ARCHIVE")
	if archive, ok := strings.CutPrefix(address, "replay:"); ok {
		if s.server, err = replay.Start(context.Background(), replay.Options{Dir: archive, Run: o.Run}); err != nil {
			return nil, err
		}
		s.archive, s.traceDir, address, s.host = archive, s.server.TraceDir, s.server.URL, target.Host{}
	}
	if s.client, err = connect(address); err != nil {
		return nil, err
	}
	s.run = s.runName()
	return s, nil
}

// connect returns a client that is let in as the environment says. The server is not contacted.
func connect(address string) (*vllm.Client, error) {
	o, err := vllm.FromEnv(address)
	if err != nil {
		return nil, err
	}
	return vllm.New(o)
}

// Reachable returns nil when a server answers at the address and lets us in.
func Reachable(ctx context.Context, address string) error {
	c, err := connect(address)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	_, err = c.Version(ctx)
	return err
}

// mainRun is the name of a run that nobody gave another.
const mainRun = "main"

func (s *Session) runName() string {
	switch {
	case s.opts.Run != "":
		return s.opts.Run
	case s.server != nil:
		return s.server.About.Run
	case s.manifest.Main != "":
		return s.manifest.Main
	}
	if s.archive != "" {
		if from, err := ReadManifest(s.archive); err == nil && from.Main != "" {
			return from.Main // the runner replays it
		}
	}
	return mainRun
}

// Close ends the replay that Open may have started, and removes its files.
func (s *Session) Close() error {
	s.client.CloseIdle()
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// Manifest returns the campaign's manifest.
func (s *Session) Manifest() data.Campaign { return s.manifest }

// RunName returns the name of the run that rounds are kept under.
func (s *Session) RunName() string { return s.run }

func findDir(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv("ROOFLAB_CAMPAIGN")
	}
	if dir != "" {
		return dir, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if found := FolderAbove(wd); found != "" {
		return found, nil
	}
	return "", errors.New("no campaign folder here or above; make one with `rooflab init DIR`, then work inside it or set ROOFLAB_CAMPAIGN=DIR")
}

// FolderAbove returns the nearest campaign folder from dir upward, or "".
func FolderAbove(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	found := upward(abs, data.ManifestFile)
	if found == "" {
		return ""
	}
	return filepath.Dir(found)
}

func findTarget(target string) (string, error) {
	if target == "" {
		target = os.Getenv("ROOFLAB_TARGET")
	}
	if target != "" && target != "replay:" {
		return target, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if found := upward(wd, filepath.Join(filepath.FromSlash(recorded), data.ManifestFile)); found != "" {
		return "replay:" + filepath.Dir(found), nil
	}
	return "", errors.New("no target: set ROOFLAB_TARGET to a server (http://127.0.0.1:8000) or to an archived campaign (replay:DIR)")
}

// upward returns the first existing dir/rel, parent/rel, ..., or "".
func upward(dir, rel string) string {
	for {
		name := filepath.Join(dir, rel)
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			return name
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// ServerInfo is what a server says about itself.
type ServerInfo struct {
	Version     string
	Models      []string // served names
	MaxModelLen int      // tokens of prompt and output of the campaign's model
	Healthy     bool
	Load        int    // 0 also when the server does not track it
	Running     int    // requests that run now: other traffic
	Waiting     int    // requests that wait now
	Profiler    string // reachable over HTTP: "yes", "no" or "unknown"
	ProfilerWhy string // what to do, or why it is not known
	Replay      bool
	Recorded    string   // of a replay: the campaign and run
	Runs        []string // of a replay: the runs of its campaign
	WorldSize   int      // of a replay: ranks of the server
	RanksKept   []string // of a replay: "C = 64: ranks 0, 1 of 2", ...
}

// Server asks the server what it is. A wrong model is an error.
func (s *Session) Server() (ServerInfo, error) {
	ctx, stop := Interruptible(context.Background())
	defer stop()
	var info ServerInfo
	if err := s.askReplay(ctx); err != nil {
		return info, err
	}
	var err error
	if info.Version, err = s.engine().Version(ctx); err != nil {
		return info, err
	}
	m, err := s.served(ctx)
	if err != nil {
		return info, err
	}
	info.MaxModelLen = m.MaxModelLen
	models, err := s.client.Models(ctx)
	if err != nil {
		return info, err
	}
	for _, m := range models {
		info.Models = append(info.Models, m.ID)
	}
	info.Healthy = s.client.Health(ctx) == nil
	info.Load, _ = s.client.Load(ctx) // not every version has it
	scrape, err := s.client.Metrics(ctx)
	if err != nil {
		return info, err
	}
	info.Running, info.Waiting, _ = metrics.Traffic(scrape)
	p := s.engine().Profiler(ctx, info.Version)
	info.Profiler, info.ProfilerWhy = p.Configured, p.Why
	if s.about != nil {
		info.Replay, info.Recorded, info.Runs, info.WorldSize = true, s.about.Campaign+"/"+s.about.Run, s.about.Runs, s.about.WorldSize
		for _, l := range s.about.Loads {
			info.RanksKept = append(info.RanksKept, fmt.Sprintf("C = %d: %s", l.Streams, ranksKept(l.Ranks, s.about.WorldSize)))
		}
	}
	return info, nil
}

// served returns the campaign's model as the server serves it; without a name in options and manifest, its only one.
func (s *Session) served(ctx context.Context) (vllm.Model, error) {
	want := s.opts.Model
	if want == "" {
		want = s.manifest.Model.Served
	}
	return s.client.CheckModel(ctx, want)
}

// askReplay asks once what the server is: a replay, or which engine.
func (s *Session) askReplay(ctx context.Context) error {
	if !s.asked {
		about, err := s.client.Replay(ctx)
		if err != nil {
			return err
		}
		s.about, s.asked = about, true
	}
	return s.recognise(ctx)
}

// ranksKept says which ranks' traces exist: "rank 0 of 2", "ranks 0, 1 of 2", "no trace".
func ranksKept(ranks []int, world int) string {
	var words []string
	for _, r := range ranks {
		words = append(words, fmt.Sprint(r))
	}
	switch len(ranks) {
	case 0:
		return "no trace"
	case 1:
		return fmt.Sprintf("rank %s of %d", words[0], world)
	}
	return fmt.Sprintf("ranks %s of %d", strings.Join(words, ", "), world)
}

// CheckAddress returns nil when a target is "replay:DIR" or may be a server's address. Nobody is contacted.
func CheckAddress(address string) error {
	if strings.HasPrefix(address, "replay:") {
		return nil
	}
	_, err := connect(address)
	return err
}
