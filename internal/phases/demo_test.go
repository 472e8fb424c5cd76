package phases

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rooflab/rooflab/campaign"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/internal/sharedtest"
	"github.com/rooflab/rooflab/notebooks"
	"github.com/rooflab/rooflab/notebooks/nbformat"
	"github.com/rooflab/rooflab/sitegen"
	"github.com/rooflab/rooflab/trace/rules"
)

var update = flag.Bool("update", false, "write the executed notebooks and results into the recorded campaign")

// archive is the recorded campaign of this checkout.
func archive() string {
	return filepath.Join(sharedtest.Root(), "data", "campaigns", "h200x2-kimi-k2.5-int4")
}

// kernels is the folder of the Go kernel, built by make kernel. Without it the test is skipped; CI must have it.
func kernels(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ROOFLAB_KERNELS")
	if dir == "" && os.Getenv("CI") == "true" {
		t.Fatal("ROOFLAB_KERNELS names no folder with the Go kernel; CI must have it (make unit sets it)")
	}
	if dir == "" {
		t.Skip("needs the Go kernel in ROOFLAB_KERNELS (make unit sets it)")
	}
	return dir
}

// gophernotes is the folder with the other engine under the same name.
func gophernotes(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ROOFLAB_GOPHERNOTES")
	if dir == "" && os.Getenv("CI") == "true" {
		t.Fatal("ROOFLAB_GOPHERNOTES names no folder with the gophernotes engine; CI must have it (make unit sets it)")
	}
	if dir == "" {
		t.Skip("needs the gophernotes engine in ROOFLAB_GOPHERNOTES (make unit sets it)")
	}
	return dir
}

// demo runs all notebooks on the recorded campaign, as make demo does, and returns the folder of campaign and site.
func demo(t *testing.T, kernels string) string {
	t.Helper()
	dir := t.TempDir()
	err := Run(t.Context(), Options{Dir: filepath.Join(dir, "campaign"), Target: "replay:" + archive(), KernelDir: kernels,
		Warn: func(p notebooks.Phase, d diag.Diagnostic) { t.Errorf("%s: %s", p.Notebook, d) }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sitegen.Build(t.Context(), sitegen.Options{In: filepath.Join(dir, "campaign"), Out: filepath.Join(dir, "site")})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Warnings {
		t.Errorf("site: %s", w)
	}
	return dir
}

func TestDemo(t *testing.T) {
	k := kernels(t)
	first := demo(t, k)
	t.Setenv("TZ", "Asia/Kathmandu")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	second := demo(t, k)

	t.Run("gives the same bytes again", func(t *testing.T) { sameFiles(t, first, second) })
	t.Run("shares are the measured ones", func(t *testing.T) { checkShares(t, filepath.Join(first, "campaign/results/macro.json")) })
	t.Run("holds nothing of this machine", func(t *testing.T) { checkNeutral(t, first) })
	t.Run("site is clean", func(t *testing.T) {
		found, err := sitegen.Check(filepath.Join(first, "site"))
		if err != nil || len(found) > 0 {
			t.Errorf("%v %v", found, err)
		}
	})
	t.Run("manifest is complete", func(t *testing.T) {
		if err := campaign.Verify(filepath.Join(first, "campaign")); err != nil {
			t.Error(err)
		}
	})
	t.Run("is the same on the other engine", func(t *testing.T) { sameFiles(t, first, demo(t, gophernotes(t))) })
	t.Run("agrees with the archive", func(t *testing.T) {
		if *update {
			archiveDemo(t, filepath.Join(first, "campaign"))
		}
		compareArchive(t, filepath.Join(first, "campaign"))
	})
}

// files reads every file below dir, by slash-separated path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		all[filepath.ToSlash(rel)], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sorted(m map[string][]byte) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func sameFiles(t *testing.T, first, second string) {
	a, b := files(t, first), files(t, second)
	if x, y := sorted(a), sorted(b); !slices.Equal(x, y) {
		t.Errorf("files of the first run %q, of the second %q", x, y)
	}
	if len(a) < 50 {
		t.Errorf("only %d files were made", len(a))
	}
	for _, name := range sorted(a) {
		if at := difference(a[name], b[name]); at >= 0 {
			t.Errorf("%s differs at byte %d:\n  %s\n  %s", name, at, around(a[name], at), around(b[name], at))
		}
	}
}

// difference is the place of the first different byte, -1 when there is none.
func difference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	return at
}

func around(b []byte, at int) string {
	return fmt.Sprintf("%q", b[min(max(at-60, 0), len(b)):min(at+60, len(b))])
}

func checkShares(t *testing.T, macro string) {
	raw, err := os.ReadFile(macro)
	if err != nil {
		t.Fatal(err)
	}
	var windows []rules.Window
	if err := json.Unmarshal(raw, &windows); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, w := range windows {
		share := map[string]float64{}
		for _, c := range w.Components {
			share[c.Name] = 100 * float64(c.Ns) / float64(w.SummedNs)
		}
		got += fmt.Sprintf("C=%d allreduce %.1f moe.experts %.1f\n", w.Streams, share["allreduce"], share["moe.experts"])
	}
	want := "C=1 allreduce 19.3 moe.experts 15.5\nC=64 allreduce 35.0 moe.experts 45.5\nC=256 allreduce 56.3 moe.experts 27.5\n"
	if got != want {
		t.Errorf("shares of the summed GPU time:\n%swant\n%s", got, want)
	}
}

var (
	absolute = regexp.MustCompile(`(?:^|[\s"'(=>:,` + "`" + `]|\\[nt])(/[A-Za-z_][\w.+-]*(?:/[\w.+-]+)*)`)
	port     = regexp.MustCompile(`(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]):\d+`)
)

// ofServer are the absolute paths that may be published: the recorded server's, what a text says about any server, and URLs.
var ofServer = regexp.MustCompile(`^/(?:srv/|opt/gcc/|usr/local/cuda|proc/PID|start_profile|stop_profile|v1/|metrics|health|absolute/dir|dev/shm)`)

// checkNeutral looks for paths, ports and names of this machine in everything that is published.
func checkNeutral(t *testing.T, dir string) {
	here := []string{"/tmp", "/work", dir, sharedtest.Root(), os.TempDir()}
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		here = append(here, home+"/")
	}
	if host, err := os.Hostname(); err == nil && len(host) > 3 && host != "localhost" {
		here = append(here, host)
	}
	if u, err := user.Current(); err == nil {
		here = append(here, "/"+u.Username+"/", u.Username+"@")
	}
	paths := 0
	for name, b := range files(t, dir) {
		if strings.HasSuffix(name, ".gz") || strings.HasPrefix(name, "campaign/host/") || strings.Contains(name, "/assets/") {
			continue // recorded, or somebody else's code
		}
		for _, text := range here {
			if at := bytes.Index(b, []byte(text)); at >= 0 {
				t.Errorf("%s holds %q: %s", name, text, around(b, at))
			}
		}
		if at := port.FindIndex(b); at != nil {
			t.Errorf("%s holds a port: %s", name, around(b, at[0]))
		}
		for _, m := range absolute.FindAllSubmatchIndex(b, -1) {
			paths++
			if !ofServer.Match(b[m[2]:m[3]]) {
				t.Errorf("%s holds the absolute path %s", name, around(b, m[2]))
			}
		}
	}
	if paths == 0 {
		t.Error("not even the paths of the recorded server were found: the check looks wrongly")
	}
}

// archived are the folders of a finished run that the recorded campaign keeps.
var archived = []string{"notebooks", "results"}

// archiveDemo puts the executed notebooks and the results into the recorded campaign and renews its manifest.
func archiveDemo(t *testing.T, dir string) {
	for _, sub := range archived {
		if err := os.RemoveAll(filepath.Join(archive(), sub)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(archive(), sub), os.DirFS(filepath.Join(dir, sub))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := campaign.Archive(archive(), ""); err != nil {
		t.Fatal(err)
	}
}

// compareArchive compares a run with what the recorded campaign keeps: notebooks as nb diff does, results byte for byte.
func compareArchive(t *testing.T, dir string) {
	const how = "go test ./internal/phases -run TestDemo -update"
	if kept, _ := filepath.Glob(filepath.Join(archive(), "notebooks", "*.ipynb")); len(kept) == 0 {
		t.Fatal("the recorded campaign holds no executed notebooks; write them with: " + how)
	}
	for _, sub := range archived {
		want, got := files(t, filepath.Join(archive(), sub)), files(t, filepath.Join(dir, sub))
		if x, y := sorted(want), sorted(got); !slices.Equal(x, y) {
			t.Errorf("%s: archived are %q, the run made %q; if that is right: %s", sub, x, y, how)
			continue
		}
		for _, name := range sorted(want) {
			if strings.HasSuffix(name, ".ipynb") {
				diffNotebooks(t, name, want[name], got[name], how)
			} else if at := difference(want[name], got[name]); at >= 0 {
				t.Errorf("%s/%s differs from the archive at byte %d:\n  archived %s\n  now      %s\nif that is right: %s", sub, name, at, around(want[name], at), around(got[name], at), how)
			}
		}
	}
}

func diffNotebooks(t *testing.T, name string, want, got []byte, how string) {
	a, _, err := nbformat.Parse(name, want)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := nbformat.Parse(name, got)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range nbformat.Diff(a, b) {
		t.Errorf("%s, cell %s: %s differ from the archive:\n%.1500s\nif that is right: %s", name, d.ID, d.What, strings.Join(d.Lines, "\n"), how)
	}
}
