package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rooflab/rooflab/campaign/sglang/fake"
	"github.com/rooflab/rooflab/campaign/vllm"
)

func TestRoundAgainstSGLang(t *testing.T) {
	prof := filepath.Join(t.TempDir(), "prof")
	server, err := fake.Start(fake.Options{TP: 2, Key: "the-key", Dir: prof})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("ROOFLAB_API_KEY", "the-key")
	dir := t.TempDir()
	if err := Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir, Target: server.URL, TraceDir: prof})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Server()
	if err != nil || info.Version != "0.5.4" || info.Profiler != "yes" || info.Running != 0 || len(info.Models) != 1 {
		t.Errorf("%+v %v", info, err)
	}
	if server.ProfileOpen() {
		t.Fatal("asking about the server started a profile")
	}
	round, err := s.Round(RoundOptions{Streams: 4, InputTokens: 8, OutputTokens: 40, WindowSteps: 8})
	if err != nil {
		t.Fatal(err)
	}
	if server.ProfileOpen() || exists(s.journalPath()) {
		t.Error("a profile is left open")
	}
	if len(round.Traces) != 2 || round.WorldSize != 2 || round.Unprofiled == nil || round.Unprofiled.OutputTokens != 160 {
		t.Errorf("%+v", round)
	}
	for _, n := range round.Notes {
		if strings.Contains(n, "no decode step") {
			t.Errorf("note: %s", n)
		}
	}
	if started := server.Started(); len(started) != 1 || !strings.Contains(started[0], `"with_stack":false`) || !strings.Contains(started[0], prof) {
		t.Errorf("starts %q", started)
	}
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if strings.Contains(string(b), "the-key") {
			t.Errorf("%s holds the API key", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// sglangProcess starts a process that looks like an SGLang server on a port, with a variable in its environment.
func sglangProcess(t *testing.T, port, variable string) {
	t.Helper()
	serverProcess(t, "sglang.launch_server", variable, "python3", "-m", "sglang.launch_server", "--model-path", "/models/tiny", "--port", port)
}

// serverProcess starts a process with a command line and a variable of its own. script is the word of the line that the shell,
// which it really is, takes for a script.
func serverProcess(t *testing.T, script, variable string, line ...string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, script), []byte("read -r end\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := exec.Command("/bin/sh")
	p.Args = line
	p.Dir, p.Env = dir, []string{variable}
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); p.Wait() })
}

// A folder has one name for us and may have another for the server, which is told a folder with each start.
func TestFolderThatSGLangIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		itself    string // SGLANG_TORCH_PROFILER_DIR of the server's process; "" hides the process
		said      bool   // --trace-dir
		mapped    bool   // a folder that the server is told is another than ours of that name
		elsewhere bool   // its own folder is not the one that was said
		words     []string
	}{
		"its process names one":                      {itself: "/prof-of-the-container", said: true, mapped: true},
		"its process names one, and nobody else":     {itself: "FOLDER"},
		"its process names one, which is not ours":   {itself: "/prof-of-the-container", said: true, elsewhere: true, words: []string{"0 new files", "SGLang writes into /prof-of-the-container, its SGLANG_TORCH_PROFILER_DIR", "give --trace-dir"}},
		"only --trace-dir":                           {said: true},
		"only --trace-dir, which the server has not": {said: true, mapped: true, words: []string{"0 new files", "SGLang was told to write into FOLDER on its own disk", "say with --host"}},
		"nothing": {words: []string{"give --trace-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			prof := filepath.Join(t.TempDir(), "prof")
			o := fake.Options{Dir: prof}
			if c.elsewhere {
				o.Dir = t.TempDir()
			}
			if c.mapped {
				o.Root = t.TempDir()
			}
			server, err := fake.Start(o)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if c.itself != "" {
				at, err := url.Parse(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				sglangProcess(t, at.Port(), "SGLANG_TORCH_PROFILER_DIR="+strings.Replace(c.itself, "FOLDER", prof, 1))
			}
			opts := Options{Target: server.URL, Model: "tiny"}
			if c.said {
				opts.TraceDir = prof
			}
			s := open(t, t.TempDir(), opts)
			s.patience = 300 * time.Millisecond
			round, err := s.Round(RoundOptions{Streams: 2, InputTokens: 8, OutputTokens: 20, WindowSteps: 4})
			if server.ProfileOpen() {
				t.Error("a profile is left open")
			}
			if len(c.words) == 0 && (err != nil || len(round.Traces) != 1) {
				t.Errorf("%d traces, %v", len(round.Traces), err)
			}
			for _, w := range c.words {
				if w = strings.Replace(w, "FOLDER", prof, 1); err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("the error has no %q: %v", w, err)
				}
			}
			for _, body := range server.Started() {
				if told := strings.Contains(body, fmt.Sprintf(`"output_dir":%q`, prof)); told != (c.itself == "") || strings.Contains(body, "output_dir") != told {
					t.Errorf("a start with %s", body)
				}
			}
		})
	}
}

func TestProfileThatAKilledProcessLeftOnSGLangIsClosed(t *testing.T) {
	server, err := fake.Start(fake.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	c, err := connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	for _, again := range []bool{false, true} { // the second time it has ended before
		if _, err := speak(engineSGLang, c, "").StartProfile(context.Background(), vllm.ProfileOptions{MaxIterations: 1}); err != nil {
			t.Fatal(err)
		}
		if again {
			if err := speak(engineSGLang, c, "").StopProfile(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeJSON(journalPath(dir), journal{Target: server.URL, Engine: engineSGLang}); err != nil {
			t.Fatal(err)
		}
		if found, err := CloseLostProfile(context.Background(), dir); !found || err != nil || exists(journalPath(dir)) || server.ProfileOpen() {
			t.Errorf("%v %v", found, err)
		}
	}
}

func TestWrongKeyIsSaidBeforeAnythingIsMeasured(t *testing.T) {
	server, err := fake.Start(fake.Options{Key: "the-key"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("ROOFLAB_API_KEY", "another-key")
	dir := t.TempDir()
	if err := Init(dir, ""); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir, Target: server.URL, TraceDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Round(RoundOptions{Streams: 1})
	if err == nil || !strings.Contains(err.Error(), "ROOFLAB_API_KEY") || strings.Contains(err.Error(), "another-key") || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
