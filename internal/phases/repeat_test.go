package phases

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/campaign/replay"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// liveServer is a replay at the recorded speed that does not say that it is one.
func liveServer(t *testing.T) (address, traceDir string) {
	t.Helper()
	s, err := replay.Start(t.Context(), replay.Options{Dir: archive(), Speed: 1})
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		for name := range r.Header {
			if strings.HasPrefix(name, "Rooflab-") {
				r.Header.Del(name)
			}
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/rooflab/") {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return front.URL, s.TraceDir
}

func TestLiveCampaignCanBeRepeatedFromItsFolder(t *testing.T) {
	k := kernels(t)
	address, traceDir := liveServer(t)
	dir := t.TempDir()
	first := Options{Dir: filepath.Join(dir, "first"), Target: address, TraceDir: traceDir, From: archive(), Numbers: []int{0, 1},
		Params: params(t, "C=64", "outputTokens=24", "goodput=ttft:60000 tpot:0.001"), KernelDir: k}
	write(t, filepath.Join(first.Dir, "runs/main/cmdline.txt"), "vllm\x00serve\x00/srv/m\x00-tp\x002\x00--api-key\x00hunter2hunter2\x00--enforce-eager\x00")
	if err := Run(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	want := data.Environment{Engine: "vllm", Version: "0.24.0", Args: []string{"serve", "/srv/m", "-tp", "2", "--api-key", "***", "--enforce-eager"}, TP: 2, Graphs: "none"}
	shows(t, first, "C = 64", "TTFT 60000 ms, TPOT 0.001 ms", "0", "64", "0.00")
	others := params(t, "C=64", "outputTokens=24", "goodput=ttft:60000") // which need no new measurement
	again := Options{Dir: filepath.Join(dir, "again"), Target: "replay:" + first.Dir, Numbers: []int{0, 1}, Params: others, KernelDir: k}
	if err := Run(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	shows(t, again, "C = 64", "TTFT 60000 ms", "64", "64", "")
	var macro [2][]byte
	for i, o := range []Options{first, again} {
		if got := readRun(t, o).Environment; !reflect.DeepEqual(got, want) {
			t.Errorf("the environment is %+v, want %+v", got, want)
		}
		var err error
		if macro[i], err = os.ReadFile(filepath.Join(o.Dir, "results/macro.json")); err != nil {
			t.Fatal(err)
		}
	}
	macro[0] = regexp.MustCompile(`\n *"after_ns": \d+,`).ReplaceAll(macro[0], nil) // a replay has no pass after the profile
	if at := difference(macro[0], macro[1]); at >= 0 || !bytes.Contains(macro[0], []byte(`"allreduce"`)) {
		t.Errorf("the repeated campaign differs at byte %d:\n  %s\n  %s", at, around(macro[0], at), around(macro[1], at))
	}
}

// shows checks the goodput of the only load; an empty cell may hold anything.
func shows(t *testing.T, o Options, want ...string) {
	t.Helper()
	name := filepath.Join(o.Dir, "notebooks/10-macro.ipynb")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	nb, _, err := nbformat.Parse(name, b)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(nb.Cells, func(c nbformat.Cell) bool { return c.ID == "goodput" })
	if at < 0 || len(nb.Cells[at].Outputs) != 1 {
		t.Fatal("the notebook shows no goodput")
	}
	var table data.Table
	if err := json.Unmarshal(nb.Cells[at].Outputs[0].Data[data.MIMETable], &table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("%+v %v", table, err)
	}
	for i, got := range table.Rows[0].Cells {
		if want[i] != "" && got != want[i] {
			t.Errorf("goodput is shown as %q, want %q", table.Rows[0].Cells, want)
			break
		}
	}
}
