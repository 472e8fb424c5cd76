package target

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// File is a regular file of a folder on a host.
type File struct {
	Name  string // without the folder
	Size  int64  // bytes
	ModNs int64  // last change, nanoseconds of Unix time; whole seconds where the far side's stat knows no more
}

// script runs a script of ours over there: its arguments are $1, $2, ...; messages are in English.
func (h Host) script(ctx context.Context, w io.Writer, what, text string, args ...string) error {
	return h.run(ctx, w, what, scriptWords(text, args...))
}

// there returns the command that runs a script of ours over there; nil on this machine, where Go does the work.
func (h Host) there(text string, args ...string) []string {
	if h.Local() {
		return nil
	}
	return h.Words(scriptWords(text, args...)...)
}

// ListWords, ReadWords, SHA256Words and FreeWords return the commands that List, Read from the start, SHA256 and FreeBytes
// run; nil on this machine.
func (h Host) ListWords(dir string) []string { return h.there(listScript, dir) }

func (h Host) ReadWords(path string) []string { return h.there(readScript, path, "1") }

func (h Host) SHA256Words(path string) []string { return h.there(hashScript, path) }

func (h Host) FreeWords(dir string) []string { return h.there(freeScript, dir) }

const (
	readScript = `exec tail -c +"$2" -- "$1"`
	hashScript = `exec sha256sum <"$1"`
)

func scriptWords(text string, args ...string) []string {
	return append([]string{"sh", "-c", "LC_ALL=C; export LC_ALL; " + text, "sh"}, args...)
}

// A pattern without a match stays as it is and stat does not know it: its status 1 says no more. A stat that has
// no -c is told by the first line.
const listScript = `[ -e "$1" ] || exit 0; stat -c %f / >/dev/null || exit 3; cd -- "$1" || exit 4; ` +
	`stat -c "%f|%s|%Y|%y|%n" -- ./* ./.[!.]* ./..?* 2>/dev/null; exit 0`

// List returns the regular files of a folder, by name. A folder that is not there is empty. Links and files whose name
// has a line break are left out.
func (h Host) List(ctx context.Context, dir string) ([]File, error) {
	if h.Local() {
		return listLocal(dir)
	}
	out := &bounded{max: maxOutput}
	if err := h.script(ctx, out, "list "+dir, listScript, dir); err != nil {
		return nil, err
	}
	if out.lost > 0 {
		return nil, fmt.Errorf("list %s on %s: it has too many files", dir, h)
	}
	return parseList(out.b.String()), nil
}

func listLocal(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("list %s: %w", dir, cause(err))
	}
	var files []File
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || strings.Contains(e.Name(), "\n") { // gone meanwhile
			continue
		}
		files = append(files, File{Name: e.Name(), Size: info.Size(), ModNs: info.ModTime().UnixNano()})
	}
	return files, nil
}

// parseList reads lines MODE|SIZE|SECONDS|DATE|./NAME. Half a name after a line break has no such fields.
func parseList(text string) []File {
	var files []File
	for _, line := range strings.Split(text, "\n") {
		f := strings.SplitN(line, "|", 5)
		if len(f) < 5 || !strings.HasPrefix(f[4], "./") {
			continue
		}
		mode, err1 := strconv.ParseUint(f[0], 16, 32)
		size, err2 := strconv.ParseInt(f[1], 10, 64)
		sec, err3 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil || mode&0xf000 != 0x8000 {
			continue
		}
		files = append(files, File{Name: f[4][2:], Size: size, ModNs: sec*1e9 + fraction(f[3])})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files
}

// fraction returns the nanoseconds of a date such as "2026-11-30 21:18:20.123456789 +0000", 0 if it has none.
func fraction(date string) int64 {
	_, rest, ok := strings.Cut(date, ".")
	if !ok || len(rest) < 9 {
		return 0
	}
	ns, err := strconv.ParseInt(rest[:9], 10, 64)
	if err != nil || ns < 0 {
		return 0
	}
	return ns
}

// Read copies a file from an offset to its end, so that a broken copy can be taken up where it stopped. A file that is
// shorter gives nothing.
func (h Host) Read(ctx context.Context, path string, offset int64, w io.Writer) error {
	if h.Local() {
		return readLocal(ctx, path, offset, w)
	}
	return h.script(ctx, w, "read "+path, readScript, path, strconv.FormatInt(offset+1, 10))
}

func readLocal(ctx context.Context, path string, offset int64, w io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, cause(err))
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("read %s from byte %d: %w", path, offset, cause(err))
	}
	if _, err := io.Copy(w, &cancelled{ctx, f}); err != nil {
		return fmt.Errorf("read %s: %w", path, cause(err))
	}
	return nil
}

// cancelled ends a long copy when its context ends.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// SHA256 returns the checksum of a file in hexadecimal; the file is read over there.
func (h Host) SHA256(ctx context.Context, path string) (string, error) {
	if h.Local() {
		sum := sha256.New()
		if err := readLocal(ctx, path, 0, sum); err != nil {
			return "", err
		}
		return hex.EncodeToString(sum.Sum(nil)), nil
	}
	out := &bounded{max: 4096}
	if err := h.script(ctx, out, "hash "+path, hashScript, path); err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(out.b.String(), " ")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("hash %s on %s: sha256sum printed %q", path, h, lastLine(out.b.String()))
	}
	return sum, nil
}

// A folder that is not there yet will be made on the file system of the nearest one that is.
const freeScript = `d=$1; while [ ! -e "$d" ]; do p=$(dirname -- "$d"); [ "$p" = "$d" ] && break; d=$p; done; exec df -Pk -- "$d"`

// FreeBytes returns the bytes that an ordinary user may still write where a folder is or would be.
func (h Host) FreeBytes(ctx context.Context, dir string) (int64, error) {
	if h.Local() {
		return freeLocal(dir)
	}
	out := &bounded{max: 64 << 10}
	if err := h.script(ctx, out, "measure free space of "+dir, freeScript, dir); err != nil {
		return 0, err
	}
	n, ok := parseDF(out.b.Bytes())
	if !ok {
		return 0, fmt.Errorf("measure free space of %s on %s: df printed %q", dir, h, lastLine(out.b.String()))
	}
	return n, nil
}

// parseDF reads the last line of df -Pk: the field before the one with a percent sign counts free KiB.
func parseDF(raw []byte) (int64, bool) {
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	fields := strings.Fields(string(lines[len(lines)-1]))
	for i := len(fields) - 1; i > 0; i-- {
		if !strings.HasSuffix(fields[i], "%") && !(fields[i] == "-" && i < len(fields)-1) {
			continue
		}
		n, err := strconv.ParseInt(fields[i-1], 10, 64)
		if err == nil && n >= 0 && n < 1<<53 {
			return n << 10, true
		}
	}
	return 0, false
}

func freeLocal(dir string) (int64, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return 0, fmt.Errorf("measure free space of %s: %w", dir, err)
	}
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(abs, &st)
		if err == nil {
			return int64(st.Bavail) * int64(st.Bsize), nil
		}
		parent := filepath.Dir(abs)
		if !errors.Is(err, fs.ErrNotExist) || parent == abs {
			return 0, fmt.Errorf("measure free space of %s: %w", dir, err)
		}
		abs = parent
	}
}

// cause takes the operation and the path, which a message has already, off an error of package os.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
