package campaign

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// traceInfo is what a complete trace file says about itself.
type traceInfo struct {
	path     string
	name     string // in the profile folder
	mod      int64  // ns
	rank     int
	world    int
	steps    int  // annotations of decode steps of the round's streams
	hostName bool // it names the host
	others   int  // complete traces of the same rank beside it
}

var (
	rankInName  = regexp.MustCompile(`(?:rank[-_]?|-TP-)(\d+)[.-]`) // vLLM, SGLang
	rankInside  = regexp.MustCompile(`"distributedInfo": *\{[^}]*?"rank": *(\d+)`)
	worldInside = regexp.MustCompile(`"distributedInfo": *\{[^}]*?"world_size": *(\d+)`)
	hostInside  = regexp.MustCompile(`"host_name": *"[^"]*"`)
)

// inspectTrace reads a trace to its end: the gzip trailer must fit and the JSON must be closed.
func inspectTrace(path string, streams int) (traceInfo, error) {
	t := traceInfo{path: path, world: 1}
	r, err := openTrace(path)
	if err != nil {
		return t, err
	}
	defer r.Close()
	if m := rankInName.FindStringSubmatch(filepath.Base(path)); m != nil {
		t.rank, _ = strconv.Atoi(m[1])
	}
	steps := [][]byte{fmt.Appendf(nil, "_generation_%d(", streams), fmt.Appendf(nil, "step[DECODE bs=%d", streams)} // vLLM, SGLang
	const overlap = 8 << 10                                                                                         // longer than distributedInfo's first fields and any annotation
	buf := make([]byte, 0, 1<<20)
	last := byte(0)
	first := byte(0)
	for {
		kept := len(buf)
		n, err := readFull(r, buf[kept:cap(buf)])
		buf = buf[:kept+n]
		if trimmed := bytes.TrimSpace(buf); len(trimmed) > 0 {
			if first == 0 {
				first = trimmed[0]
			}
			last = trimmed[len(trimmed)-1]
		}
		t.look(buf)
		for _, step := range steps {
			t.steps += bytes.Count(buf, step) - bytes.Count(buf[:kept], step)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return t, fmt.Errorf("read %s: %w", filepath.Base(path), err)
		}
		buf = append(buf[:0], buf[len(buf)-overlap:]...)
	}
	if first != '{' || last != '}' {
		return t, fmt.Errorf("read %s: the JSON is not complete", filepath.Base(path))
	}
	return t, nil
}

// maxWorld is more ranks than any server has; what a broken trace says beyond is not waited for.
const maxWorld = 1 << 16

func (t *traceInfo) look(b []byte) {
	if bytes.Contains(b, []byte(`"distributedInfo"`)) {
		if m := rankInside.FindSubmatch(b); m != nil {
			t.rank, _ = strconv.Atoi(string(m[1]))
		}
		if m := worldInside.FindSubmatch(b); m != nil {
			if n, err := strconv.Atoi(string(m[1])); err == nil && n <= maxWorld {
				t.world = n
			}
		}
	}
	t.hostName = t.hostName || bytes.Contains(b, []byte(`"host_name"`))
}

// openTrace opens a trace, decompressed. Closing it closes the file.
func openTrace(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// copyTrace copies a trace byte for byte; one that names the host or is not compressed is written anew, without the name.
func copyTrace(t traceInfo, to string) error {
	if !t.hostName && strings.HasSuffix(t.path, ".gz") {
		return copyFile(t.path, to)
	}
	r, err := openTrace(t.path)
	if err != nil {
		return err
	}
	defer r.Close()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(rewrite(r, pw)) }()
	defer pr.Close()
	return writeFile(to, pr)
}

// rewrite compresses a trace without the name of the host.
func rewrite(r io.Reader, w io.Writer) error {
	z := gzip.NewWriter(w)
	const overlap = 4 << 10 // no host name is longer
	buf := make([]byte, 0, 1<<20)
	for {
		n, err := readFull(r, buf[len(buf):cap(buf)])
		buf = hostInside.ReplaceAll(buf[:len(buf)+n], []byte(`"host_name": ""`))
		end := len(buf) - overlap
		if err == io.EOF {
			end = len(buf)
		} else if err != nil {
			return err
		}
		if _, err := z.Write(buf[:max(end, 0)]); err != nil {
			return err
		}
		if err == io.EOF {
			return z.Close()
		}
		buf = append(make([]byte, 0, 1<<20), buf[max(end, 0):]...)
	}
}
