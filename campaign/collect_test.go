package campaign

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIncompleteTracesAreNoticed(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(filepath.Join(archived(), "runs", "hostmem-graph-uniform", "c64_rank1.pt.trace.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  []byte
		words string // "" is a good trace
	}{
		"whole": {whole, ""}, "empty": {nil, "EOF"}, "cut": {whole[:len(whole)/2], "EOF"}, "without trailer": {whole[:len(whole)-4], "EOF"},
		"damaged":   {append(append([]byte{}, whole[:len(whole)-8]...), make([]byte, 8)...), "checksum"},
		"open JSON": {pack(t, `{"traceEvents":[{"ph":"X"},`), "JSON is not complete"}, "no JSON": {pack(t, "hello}"), "JSON is not complete"},
	} {
		path := filepath.Join(dir, "dp0_pp0_tp5_dcp0_ep5_rank5.1.pt.trace.json.gz")
		if err := os.WriteFile(path, c.body, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := inspectTrace(path, 64)
		if c.words == "" {
			if err != nil || got.rank != 1 || got.world != 2 || got.steps == 0 || got.hostName {
				t.Errorf("%s: %+v %v", name, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
	}
}

// Traces of servers with one process say no rank inside.
func TestRankIsReadFromTheNameOfATrace(t *testing.T) {
	for name, rank := range map[string]int{
		"dp0_pp0_tp5_dcp0_ep5_rank5.17.pt.trace.json":            5,
		"17-rank-3.2.pt.trace.json":                              3,
		"1733000000.12-TP-13-DECODE.trace.json":                  13,
		"my-c64-1733000000.12-TP-3-DP-1-PP-2-EP-7.trace.json":    3,
		"1733000000.123456-TP-2.trace.json":                      2,
		"host_4711.1733000000123.pt.trace.json":                  0,
		"rooflab-TP-run-c64-1733-TP-4-DP-0-PP-0-EP-0.trace.json": 4,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(`{"traceEvents": []}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := inspectTrace(path, 1); err != nil || got.rank != rank {
			t.Errorf("%s: rank %d %v", name, got.rank, err)
		}
	}
}

func TestHostNamesAreTakenOutOfCopiedTraces(t *testing.T) {
	dir := t.TempDir()
	filler := strings.Repeat("x", 1<<20-20) // the name lies across a block
	text := `{"traceEvents":["` + filler + `"],"host_name": "secret-node-17","distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "traceName":"a"}`
	for _, name := range []string{"x_rank3.1.pt.trace.json.gz", "x_rank3.1.pt.trace.json"} {
		body := []byte(text)
		if strings.HasSuffix(name, ".gz") {
			body = pack(t, text)
		}
		from, to := filepath.Join(dir, name), filepath.Join(dir, "out.pt.trace.json.gz")
		if err := os.WriteFile(from, body, 0o644); err != nil {
			t.Fatal(err)
		}
		info, err := inspectTrace(from, 64)
		if err != nil || !info.hostName || info.rank != 3 || info.world != 8 {
			t.Fatalf("%+v %v", info, err)
		}
		if err := copyTrace(info, to); err != nil {
			t.Fatal(err)
		}
		r, err := openTrace(to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Replace(text, "secret-node-17", "", 1); !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s: %d bytes of %d", name, len(got), len(want))
		}
	}
}

func TestFrontEndTracesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"host_12.async_llm.1.pt.trace.json.gz", "rank0.profiler_out.txt", "dp0_rank0.1.pt.trace.json.gz", "17-rank-1.2.pt.trace.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := sharedFolder{dir}.list(t.Context())
	if err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	if got, err := (sharedFolder{filepath.Join(dir, "none")}).list(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("a folder that is not there yet: %v %v", got, err)
	}
}

// TestTracesThatWereNotCollectedAreFetchedLater stops a round between the end of its profile and the last copy of a trace.
func TestTracesThatWereNotCollectedAreFetchedLater(t *testing.T) {
	for name, c := range map[string]struct {
		next    RoundOptions
		then    func(trace string) error // to the trace there
		again   bool
		answers int64
	}{
		"the same round goes on":          {short, nil, false, 1},
		"the traces are gone":             {short, os.Remove, false, 2},
		"somebody has profiled meanwhile": {short, func(trace string) error { return copyFile(trace, trace+".1.trace.json.gz") }, false, 2},
		"the load is begun again":         {short, nil, true, 4},
		"with other lengths":              {longer, nil, false, 4},
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := startServer(t), t.TempDir()
			s := server.open(t, dir, Options{})
			trace := s.local("runs/" + s.run + "/c1_rank0.pt.trace.json.gz")
			if err := os.MkdirAll(filepath.Join(trace, "in the way"), 0o755); err != nil {
				t.Fatal(err)
			}
			if r, err := s.Round(short); err == nil {
				t.Fatalf("a trace that cannot be written was no error: %+v", r)
			}
			if err := os.RemoveAll(trace); err != nil {
				t.Fatal(err)
			}
			there, err := filepath.Glob(filepath.Join(server.TraceDir, "*.trace.json.gz"))
			if err != nil || len(there) != 1 {
				t.Fatalf("%q %v", there, err)
			}
			if c.then != nil && c.then(there[0]) != nil {
				t.Fatal("the trace there cannot be changed")
			}
			server.answers.Store(0)
			s = server.open(t, dir, Options{Again: c.again})
			if _, err := s.Round(c.next); err != nil || server.answers.Load() != c.answers {
				t.Errorf("%v, %d requests, want %d", err, server.answers.Load(), c.answers)
			}
			if r := whole(t, s); r.Profiled == nil || r.StartNs == 0 || r.OutTokens != c.next.OutputTokens {
				t.Errorf("%+v", r)
			}
			if exists(s.leftPath(1)) {
				t.Error("what is collected still counts as left")
			}
		})
	}
}
