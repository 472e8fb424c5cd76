package campaign

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/atomicfile"
)

// ReadManifest reads DIR/manifest.json.
func ReadManifest(dir string) (data.Campaign, error) {
	var c data.Campaign
	name := filepath.Join(dir, data.ManifestFile)
	if err := readJSON(name, &c); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return c, fmt.Errorf("%s has no %s, so it is no campaign folder; give another, or make one with: rooflab init DIR", dir, data.ManifestFile)
		}
		return c, err
	}
	if c.Schema > data.SchemaVersion {
		return c, fmt.Errorf("read %s: schema %d is newer than this rooflab knows (%d); use a newer rooflab", name, c.Schema, data.SchemaVersion)
	}
	if c.Schema < 1 || c.ID == "" {
		return c, fmt.Errorf("read %s: schema and id are missing, so this is no manifest of a campaign", name)
	}
	if p := outside(c); p != "" {
		return c, fmt.Errorf("read %s: %q leads out of the campaign's folder; correct or remove it", name, p)
	}
	return c, nil
}

// outside returns a name of the manifest that leads out of the campaign's folder, or "". Archives come from other people.
func outside(c data.Campaign) string {
	paths, runs := []string{c.Model.Config}, []string{c.Main}
	for _, f := range c.Files {
		paths = append(paths, f.Path)
	}
	for _, r := range c.Runs {
		runs = append(runs, r.Name)
	}
	for _, p := range paths {
		if p != "" && !filepath.IsLocal(filepath.FromSlash(p)) {
			return p
		}
	}
	for _, r := range runs {
		if r != "" && (r == "." || r != filepath.Base(r) || !filepath.IsLocal(r)) {
			return r
		}
	}
	return ""
}

// CheckFolder refuses a folder of something else: a run would put its files between, and hash all of them into a manifest.
// A folder that is not there, or holds nothing but what a campaign may hold, is as good as a campaign's own.
func CheckFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || exists(filepath.Join(dir, data.ManifestFile)) {
		return nil // who makes the folder or reads the manifest says what is wrong
	}
	for _, e := range entries {
		switch name := e.Name(); name {
		case "host", "micro", "model", "notebooks", "results", "runs", baselineFile, "go.mod", "go.sum":
		default:
			if !strings.HasPrefix(name, ".") {
				return fmt.Errorf("%s has no %s and holds other things, such as %s, so it is no campaign folder", dir, data.ManifestFile, name)
			}
		}
	}
	return nil
}

// Init makes a campaign folder: the manifest of the campaign in from with its model, hardware and notes (to be edited when
// another server is measured), the model's config.json, the host files and the baseline, but no runs and no results.
// With from "" the manifest is one to fill in. A folder that has a manifest already is left as it is.
func Init(dir, from string) error {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return fmt.Errorf("make campaign: %s is a file; give a folder", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, data.ManifestFile)); err == nil {
		_, err := ReadManifest(dir)
		return err
	}
	if from == "" {
		return initBlank(dir)
	}
	c, err := ReadManifest(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range c.Files {
		if !strings.HasPrefix(f.Path, "model/") && !strings.HasPrefix(f.Path, "host/") && f.Path != baselineFile {
			continue
		}
		if err := copyFile(filepath.Join(from, filepath.FromSlash(f.Path)), filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil {
			return err
		}
	}
	c.Main, c.Measured, c.Runs, c.Files = "", "", nil, nil // the first round fills them in
	if c.Files, err = hashFiles(dir); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, data.ManifestFile), c)
}

// initBlank writes a manifest that says only what the folder is called and where the model's config belongs.
func initBlank(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "model"), 0o755); err != nil {
		return err
	}
	name := filepath.Base(abs)
	return writeJSON(filepath.Join(dir, data.ManifestFile), data.Campaign{
		Schema: data.SchemaVersion, ID: name, Title: name, Model: data.Model{Config: "model/config.json"}, Runs: []data.RunRef{}, Files: []data.File{}})
}

// hashFiles lists every file of a campaign folder but the manifest and rooflab's own state, sorted by path.
func hashFiles(dir string) ([]data.File, error) {
	var files []data.File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if rel != "." && strings.HasPrefix(d.Name(), ".") { // .journal, .git, checkpoints
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || rel == data.ManifestFile {
			return nil
		}
		f, err := hashFile(name)
		if err != nil {
			return err
		}
		f.Path = filepath.ToSlash(rel)
		files = append(files, f)
		return nil
	})
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files, err
}

func hashFile(name string) (data.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return data.File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return data.File{}, fmt.Errorf("hash %s: %w", name, err)
	}
	return data.File{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n}, nil
}

func readJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w; correct or remove it", name, err)
	}
	return nil
}

// writeJSON writes v in the canonical form: keys in the order of the fields, maps sorted, one space of indent,
// no HTML escapes, a newline at the end. Equal values give equal bytes.
func writeJSON(name string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return writeFile(name, &b)
}

// writeFile replaces a file in one step, so that a reader never sees half of it.
func writeFile(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return atomicfile.Copy(name, r, 0o644)
}

func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeFile(to, f)
}
