package campaign

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rooflab/rooflab/campaign/target"
	"github.com/rooflab/rooflab/internal/units"
)

// fileState tells an old trace from one that was written again under the same name.
type fileState struct {
	Size  int64 `json:"size"`
	ModNs int64 `json:"mod_ns"`
}

// traceFolder is the server's torch_profiler_dir, shared with this machine or on the server's own disk.
type traceFolder interface {
	// String says where the folder is.
	String() string
	// list returns the workers' traces. A folder that is not there yet is empty: the server makes it with the first trace.
	list(ctx context.Context) (map[string]fileState, error)
	// take brings what a trace holds now to this machine and returns its path here. Whether that is all from one version of
	// the trace, same says.
	take(ctx context.Context, name string, st fileState) (string, error)
	// same says whether the copy here has the bytes of the trace there.
	same(ctx context.Context, name, here string) (bool, error)
	// free returns the bytes that are left on the disk of the folder.
	free(ctx context.Context) (int64, error)
	// drop removes the copy here, if there is one.
	drop(name string)
}

// isTrace tells a worker's trace by its name: the front end's hold no GPU work, and tables are no traces.
func isTrace(name string) bool {
	return !strings.Contains(name, ".async_llm.") &&
		(strings.HasSuffix(name, ".trace.json") || strings.HasSuffix(name, ".trace.json.gz"))
}

func tracesOf(files []target.File) map[string]fileState {
	found := map[string]fileState{}
	for _, f := range files {
		if isTrace(f.Name) {
			found[f.Name] = fileState{f.Size, f.ModNs}
		}
	}
	return found
}

// sharedFolder is a folder that this machine sees.
type sharedFolder struct{ dir string }

func (f sharedFolder) String() string { return f.dir }

func (f sharedFolder) list(ctx context.Context) (map[string]fileState, error) {
	files, err := target.Host{}.List(ctx, f.dir)
	if err != nil {
		return nil, fmt.Errorf("look for traces: %w", err)
	}
	return tracesOf(files), nil
}

func (f sharedFolder) take(_ context.Context, name string, _ fileState) (string, error) {
	return filepath.Join(f.dir, name), nil
}

func (f sharedFolder) same(context.Context, string, string) (bool, error) { return true, nil }

func (f sharedFolder) free(ctx context.Context) (int64, error) {
	return target.Host{}.FreeBytes(ctx, f.dir)
}

func (f sharedFolder) drop(string) {}

// hostFolder is a folder on the server's disk. Traces are fetched into a folder here; a fetch that broke goes on where it was.
// When the trace was written anew in between, the copy is a mix of two: same finds that out, and drop begins it anew.
type hostFolder struct {
	host  target.Host
	dir   string // there
	local string // here
	tell  func(detail string)
}

func (f hostFolder) String() string { return f.host.String() + " " + f.dir }

func (f hostFolder) list(ctx context.Context) (map[string]fileState, error) {
	files, err := f.host.List(ctx, f.dir)
	if err != nil {
		return nil, fmt.Errorf("look for traces on %s: %w", f.host, err)
	}
	return tracesOf(files), nil
}

// fetchTries bounds how often a fetch that breaks is taken up again without a byte in between.
const fetchTries = 5

func (f hostFolder) take(ctx context.Context, name string, st fileState) (string, error) {
	here := filepath.Join(f.local, path.Base(name))
	if err := os.MkdirAll(f.local, 0o755); err != nil {
		return "", err
	}
	out, err := os.OpenFile(here, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	if have > st.Size { // it was written again
		if have, err = 0, out.Truncate(0); err != nil {
			return "", err
		}
	}
	for tries := 0; have < st.Size; tries++ {
		w := &progressWriter{w: out, done: have, total: st.Size, name: name, began: time.Now(), from: have, tell: f.tell}
		if _, err := out.Seek(have, io.SeekStart); err != nil {
			return "", err
		}
		err := f.host.Read(ctx, path.Join(f.dir, name), have, w)
		if w.done > have {
			tries = 0
		}
		have = w.done
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case w.failed != nil:
			return "", fmt.Errorf("write %s: %w", here, w.failed)
		case err != nil && tries+1 >= fetchTries:
			return "", fmt.Errorf("fetch %s from %s: %w; what has come is kept, the same command goes on there", name, f.host, err)
		case err == nil && have < st.Size: // it is written anew, and shorter by now
			return here, out.Close()
		}
		if err != nil {
			if err := sleep(ctx, time.Duration(tries+1)*time.Second); err != nil {
				return "", err
			}
		}
	}
	return here, out.Close()
}

func (f hostFolder) same(ctx context.Context, name, here string) (bool, error) {
	there, err := f.host.SHA256(ctx, path.Join(f.dir, name))
	if err != nil {
		return false, fmt.Errorf("compare %s with the file on %s: %w", name, f.host, err)
	}
	in, err := os.Open(here)
	if err != nil {
		return false, err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return false, err
	}
	return there == hex.EncodeToString(sum.Sum(nil)), nil
}

func (f hostFolder) free(ctx context.Context) (int64, error) { return f.host.FreeBytes(ctx, f.dir) }

func (f hostFolder) drop(name string) { _ = os.Remove(filepath.Join(f.local, path.Base(name))) }

// progressWriter counts what arrives and says how fast. It remembers an error of the disk here, which no retry cures.
type progressWriter struct {
	w           io.Writer
	done, total int64
	from        int64
	name        string
	began       time.Time
	failed      error
	tell        func(string)
}

func (p *progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.done += int64(n)
	if err != nil {
		p.failed = err
		return n, err
	}
	if took := time.Since(p.began).Seconds(); took > 0.5 {
		p.tell(fmt.Sprintf("%s: %s of %s, %s/s", p.name, units.Bytes(p.done), units.Bytes(p.total), units.Bytes(int64(float64(p.done-p.from)/took))))
	}
	return n, nil
}

// sleep waits, or returns the context's error when it ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

var errNoFolder = errors.New("where the server writes its traces is not known: give --trace-dir, its torch_profiler_dir as seen from here, or --host with the machine it runs on")
