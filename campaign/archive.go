package campaign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/rooflab/rooflab/campaign/vllm"
	"github.com/rooflab/rooflab/data"
	"github.com/rooflab/rooflab/internal/secrets"
)

// Archive copies the campaign in dir to dest and writes dest's manifest: every file with its hash, and the runs that are there.
// With dest "" or equal to dir it writes the manifest in place. It refuses a folder that holds a secret, such as the API key
// that the environment has, or the name of this host.
func Archive(dir, dest string) (data.Campaign, error) {
	c, err := ReadManifest(dir)
	if err != nil {
		return c, err
	}
	if c.Files, err = hashFiles(dir); err != nil {
		return c, err
	}
	if err := checkSecrets(dir, c.Files); err != nil {
		return c, err
	}
	if c.Runs, err = listRuns(dir, c); err != nil {
		return c, err
	}
	if dest == "" {
		dest = dir
	}
	if !samePath(dir, dest) {
		for _, f := range c.Files {
			name := filepath.FromSlash(f.Path)
			if err := copyFile(filepath.Join(dir, name), filepath.Join(dest, name)); err != nil {
				return c, err
			}
		}
	}
	return c, writeJSON(filepath.Join(dest, data.ManifestFile), c)
}

// Verify compares every file of a campaign with its hash in the manifest.
func Verify(dir string) error {
	c, err := ReadManifest(dir)
	if err != nil {
		return err
	}
	var wrong []string
	for _, want := range c.Files {
		got, err := hashFile(filepath.Join(dir, filepath.FromSlash(want.Path)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong = append(wrong, want.Path+" is missing")
		case err != nil:
			wrong = append(wrong, err.Error())
		case got.SHA256 != want.SHA256:
			wrong = append(wrong, fmt.Sprintf("%s has changed (sha256 %.12s, manifest %.12s)", want.Path, got.SHA256, want.SHA256))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("verify %s: %d of %d files are not as the manifest says:\n  %s\nget them back, or write the manifest anew with: rooflab archive %s",
			dir, len(wrong), len(c.Files), strings.Join(wrong, "\n  "), dir)
	}
	return nil
}

// listRuns keeps the manifest's runs that are in the folder, in its order, and adds the others by name.
func listRuns(dir string, c data.Campaign) ([]data.RunRef, error) {
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*", runFile))
	if err != nil {
		return nil, err
	}
	found := map[string]data.RunRef{}
	var names []string
	for _, f := range files {
		var r data.Run
		if err := readJSON(f, &r); err != nil {
			return nil, err
		}
		found[r.Name] = data.RunRef{Name: r.Name, What: r.What}
		names = append(names, r.Name)
	}
	var runs []data.RunRef
	for _, ref := range c.Runs {
		if _, ok := found[ref.Name]; ok {
			runs = append(runs, ref)
			delete(found, ref.Name)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		if ref, ok := found[n]; ok {
			runs = append(runs, ref)
		}
	}
	return runs, nil
}

var hostName = regexp.MustCompile(`"host_name": *"[^"]+"`) // in a trace

// checkSecrets looks into the manifest and every file, also into compressed ones.
func checkSecrets(dir string, files []data.File) error {
	var own []ownText
	if host, _ := os.Hostname(); len(host) > 3 && host != "localhost" {
		own = append(own, ownText{"the name of this host", []byte(host)})
	}
	if o, err := vllm.FromEnv(""); err == nil && len(o.APIKey) >= 8 { // a shorter one would be found in innocent words
		own = append(own, ownText{"the API key of the server", []byte(o.APIKey)})
	}
	var wrong []error
	for _, f := range append([]data.File{{Path: data.ManifestFile}}, files...) {
		if err := checkFile(filepath.Join(dir, filepath.FromSlash(f.Path)), f.Path, own); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// ownText is what only this machine knows to be a secret.
type ownText struct {
	what string
	text []byte
}

func checkFile(name, rel string, own []ownText) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("read %s: %w; it is damaged, remove it or measure again", rel, err)
		}
		r = z
	}
	const overlap = 4 << 10 // longer than any form must be to match, and than a key
	buf := make([]byte, 0, 1<<20)
	for line := 1; ; {
		n, err := readFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if what, at := findSecret(buf, own); what != "" {
			return fmt.Errorf("%s:%d holds %s; remove it before archiving", rel, line+bytes.Count(buf[:at], []byte("\n")), what)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w; it is damaged, remove it or measure again", rel, err)
		}
		keep := len(buf) - overlap
		line += bytes.Count(buf[:keep], []byte("\n"))
		buf = append(buf[:0], buf[keep:]...)
	}
}

// readFull fills b. Unlike io.ReadFull it keeps io.EOF (the end) and io.ErrUnexpectedEOF (a cut gzip file) apart.
func readFull(r io.Reader, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m, err := r.Read(b[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// findSecret returns what was found and where, or "".
func findSecret(b []byte, own []ownText) (string, int) {
	if what, at := secrets.Find(b); what != "" {
		return what, at
	}
	if at := hostName.FindIndex(b); at != nil {
		return "the host name of a trace", at[0]
	}
	for _, o := range own {
		if at := bytes.Index(b, o.text); at >= 0 {
			return o.what, at
		}
	}
	return "", 0
}

func samePath(a, b string) bool {
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	return errX == nil && errY == nil && x == y
}
