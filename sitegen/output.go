package sitegen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markerFile says that a folder was made by Build and lists the files that belong to it.
const markerFile = ".rooflab-site"

const markerHead = "rooflab site 1"

// output is the folder of a site. Only files that an earlier build wrote are ever removed.
type output struct {
	dir string
	old []string // files of the build before
}

func openOutput(dir string) (*output, error) {
	if dir == "" {
		return nil, errors.New("write site: no output folder was given")
	}
	entries, err := os.ReadDir(dir)
	if st, statErr := os.Stat(dir); statErr == nil && !st.IsDir() {
		return nil, fmt.Errorf("write site: %s is a file; give a folder", dir)
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return &output{dir: dir}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write site: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, markerFile))
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if err != nil || lines[0] != markerHead {
		return nil, fmt.Errorf("write site: %s holds files that are no site of rooflab; give an empty or a new folder", dir)
	}
	return &output{dir: dir, old: lines[1:]}, nil
}

// write puts the files into the folder and removes those of the build before that are no longer part of the site.
// The marker is written first, with the files of both builds, so that an interrupted build can be repeated.
func (o *output) write(ctx context.Context, files map[string][]byte) error {
	names := sortedNames(files)
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("write site: %w", err)
	}
	if err := o.mark(append(append([]string{}, names...), o.old...)); err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("write site: %w; build again to finish it", err)
		}
		if err := replaceFile(filepath.Join(o.dir, filepath.FromSlash(name)), files[name]); err != nil {
			return fmt.Errorf("write site: %w", err)
		}
	}
	for _, name := range o.old {
		if _, keep := files[name]; keep || !filepath.IsLocal(filepath.FromSlash(name)) {
			continue
		}
		if err := os.Remove(filepath.Join(o.dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write site: remove a file of the build before: %w", err)
		}
	}
	return o.mark(names)
}

func (o *output) mark(names []string) error {
	text := markerHead + "\n" + strings.Join(names, "\n") + "\n"
	if err := replaceFile(filepath.Join(o.dir, markerFile), []byte(text)); err != nil {
		return fmt.Errorf("write site: %w", err)
	}
	return nil
}

// replaceFile writes beside the target and renames, so that a reader never sees half a page.
func replaceFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	tmp := name + ".new"
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// readSite reads the pages, styles and names of a built site.
func readSite(dir string) (map[string][]byte, error) {
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err != nil {
		return nil, fmt.Errorf("check site %s: no index.html in it; build it with rooflab site build", dir)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files[rel] = nil
		if strings.HasSuffix(rel, ".html") || strings.HasSuffix(rel, ".css") {
			files[rel], err = os.ReadFile(p)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check site: %w", err)
	}
	return files, nil
}
