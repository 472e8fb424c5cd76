package sitegen

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServeRebuildsAndTellsThePage(t *testing.T) {
	in := writeCampaign(t)
	ctx, cancel := context.WithCancel(t.Context())
	var log strings.Builder
	s, err := Listen(ctx, Options{In: in, Out: filepath.Join(t.TempDir(), "site")}, 0, &log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Errorf("served at %s", s.URL())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if page := html.UnescapeString(get(t, s.URL())); !strings.Contains(page, "live.js") || !strings.Contains(page, "connect-src 'self'") {
		t.Error("the served page does not listen for rebuilds")
	}
	resp, err := http.Get(s.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := os.Remove(filepath.Join(in, "notebooks", "40-findings.ipynb")); err != nil {
		t.Fatal(err)
	}
	macro := strings.ReplaceAll(read(t, in, "notebooks/10-macro.ipynb"), "40-findings.ipynb#cell-findings", "20-micro.ipynb")
	if err := os.WriteFile(filepath.Join(in, "notebooks", "10-macro.ipynb"), []byte(macro), 0o644); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || line != "data: built\n" {
		t.Fatalf("event %q, %v", line, err)
	}
	if !strings.Contains(get(t, s.URL()), "No verdict was published yet") {
		t.Error("the served page is the old one")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t testing.TB, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServeKeepsToTheSite(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{dir + "/index.html": "start", dir + "/assets/a.css": "css", dir + "/notebooks/index.html": "list", outside + "/secret": "secret"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": outside, "secret": outside + "/secret", "up": "../"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	handler := http.FileServerFS(pages(dir))
	for path, served := range map[string]bool{"/": true, "/assets/a.css": true, "/notebooks/": true, "/assets/": false, "/none": false, "/link/secret": false, "/secret": false, "/link/": false, "/up/": false} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if (w.Code == http.StatusOK) != served {
			t.Errorf("%s: %d %.100q", path, w.Code, w.Body)
		}
	}
}
