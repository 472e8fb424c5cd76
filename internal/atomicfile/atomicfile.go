// Package atomicfile replaces files in one step: another process, or the next one after a crash, sees the old content or the
// new one, never half of it.
package atomicfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts a content under a name, whose folder must be there. It is written beside it and then renamed; when that fails,
// the file stays as it was and nothing is left behind.
func Write(name string, content []byte, mode fs.FileMode) error {
	return Copy(name, bytes.NewReader(content), mode)
}

// Copy is Write for what a reader gives.
func Copy(name string, r io.Reader, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	if _, err = io.Copy(f, r); err == nil {
		err = f.Chmod(mode)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
