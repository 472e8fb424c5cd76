package sitegen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/notebooks/nbformat"
)

// campaign is the input of a build.
type campaign struct {
	dir       string
	manifest  data.Campaign
	runs      []data.Run // in the order of the manifest; those whose run.json is there
	notebooks []*notebook
	warnings  []diag.Diagnostic
}

type notebook struct {
	name, file     string // "10-macro", "notebooks/10-macro.ipynb"
	page, download string // "10-macro.html", "files/10-macro.ipynb"
	raw            []byte
	nb             *nbformat.Notebook
	lost           []diag.Diagnostic // what of the file could not be used
	cells          []*cell
	err            error // the file cannot be read at all
}

type cell struct {
	*nbformat.Cell
	id, anchor string
	n          int // from 1
}

// label names the cell as a reader knows it: its number in brackets, or the mark of a text.
func (c *cell) label() string {
	if c.Type == nbformat.Code && c.ExecutionCount != nil {
		return "[" + strconv.Itoa(*c.ExecutionCount) + "]"
	}
	return "¶ " + c.id
}

// load reads a campaign folder. It fails when there is nothing to publish; a notebook that cannot be read is kept with its error.
func load(dir string) (*campaign, error) {
	if st, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read campaign %s: no such folder; give the folder that holds %s and notebooks/", dir, data.ManifestFile)
	} else if err != nil {
		return nil, fmt.Errorf("read campaign: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("read campaign %s: not a folder; give the folder that holds %s and notebooks/", dir, data.ManifestFile)
	}
	c := &campaign{dir: dir}
	if err := c.readManifest(); err != nil {
		return nil, err
	}
	if err := c.readNotebooks(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *campaign) readManifest() error {
	raw, err := os.ReadFile(filepath.Join(c.dir, data.ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		c.manifest.ID = "without manifest"
		c.warnings = append(c.warnings, diag.Diagnostic{ID: "no_manifest", Severity: diag.Warning, N: 1, Pos: diag.Pos{File: data.ManifestFile},
			Text: "the campaign has no manifest, so the site says nothing about runs, environment and files", Hint: "archive the campaign with rooflab archive"})
		return nil
	}
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	if err := json.Unmarshal(raw, &c.manifest); err != nil {
		return fmt.Errorf("read %s: %w", data.ManifestFile, err)
	}
	if v := c.manifest.Schema; v > data.SchemaVersion {
		return fmt.Errorf("read %s: schema %d is newer than this program knows (%d); use a newer rooflab", data.ManifestFile, v, data.SchemaVersion)
	}
	for _, ref := range c.manifest.Runs {
		name := filepath.Join("runs", ref.Name, "run.json")
		if !filepath.IsLocal(name) {
			return fmt.Errorf("read %s: run name %q leaves the campaign's folder", data.ManifestFile, ref.Name)
		}
		raw, err := os.ReadFile(filepath.Join(c.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read run %s: %w", ref.Name, err)
		}
		r := data.Run{}
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read %s: %w", filepath.ToSlash(name), err)
		}
		if r.Schema > data.SchemaVersion {
			return fmt.Errorf("read %s: schema %d is newer than this program knows (%d); use a newer rooflab", filepath.ToSlash(name), r.Schema, data.SchemaVersion)
		}
		r.Name, r.What = ref.Name, ref.What
		c.runs = append(c.runs, r)
	}
	return nil
}

var pageName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func (c *campaign) readNotebooks() error {
	dir := filepath.Join(c.dir, "notebooks")
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read notebooks: %w", err)
	}
	taken := map[string]bool{"index": true, "campaign": true}
	for _, e := range entries {
		name, isNotebook := strings.CutSuffix(e.Name(), ".ipynb")
		if !isNotebook || strings.HasPrefix(name, ".") || !e.Type().IsRegular() {
			continue
		}
		base := strings.Trim(pageName.ReplaceAllString(name, "-"), ".-")
		if base == "" {
			base = "notebook"
		}
		for stem, i := base, 2; taken[strings.ToLower(base)]; i++ {
			base = stem + "-" + strconv.Itoa(i)
		}
		taken[strings.ToLower(base)] = true
		n := &notebook{name: name, file: "notebooks/" + e.Name(), page: base + ".html", download: "files/" + base + ".ipynb"}
		if n.raw, err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("read notebook: %w", err)
		}
		c.parse(n)
		c.notebooks = append(c.notebooks, n)
	}
	if len(c.notebooks) == 0 {
		return fmt.Errorf("read campaign %s: no notebooks/*.ipynb in it; run the campaign first, or give its folder", c.dir)
	}
	return nil
}

func (c *campaign) parse(n *notebook) {
	nb, found, err := nbformat.Parse(n.file, n.raw)
	c.warnings = append(c.warnings, found...)
	if err != nil {
		n.err = err
		c.warnings = append(c.warnings, diag.Diagnostic{ID: "notebook_unreadable", Severity: diag.DataLoss, N: 1, Pos: diag.Pos{File: n.file},
			Text: "the notebook cannot be read and has no page: " + strings.TrimPrefix(err.Error(), n.file+":")})
		return
	}
	n.lost = slices.DeleteFunc(slices.Clone(found), func(d diag.Diagnostic) bool { return d.Severity != diag.DataLoss })
	n.nb = nb
	for i := range nb.Cells {
		id := nb.Cells[i].ID
		n.cells = append(n.cells, &cell{Cell: &nb.Cells[i], id: id, anchor: "cell-" + id, n: i + 1})
	}
}

// failed returns the first cell that ended in an error nobody expected.
func (n *notebook) failed() *cell {
	for _, c := range n.cells {
		if c.hasError() && !c.HasTag("raises-exception") {
			return c
		}
	}
	return nil
}

func (c *cell) hasError() bool {
	for _, o := range c.Outputs {
		if o.Type == nbformat.Error {
			return true
		}
	}
	return false
}

// unrun counts the code cells with a source that were never executed.
func (n *notebook) unrun() (unrun, all int) {
	for _, c := range n.cells {
		if c.Type == nbformat.Code && strings.TrimSpace(c.Source) != "" {
			all++
			if c.ExecutionCount == nil {
				unrun++
			}
		}
	}
	return unrun, all
}
