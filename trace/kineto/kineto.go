// Package kineto reads the traces that the PyTorch profiler (kineto) writes: Chrome trace JSON, plain or gzip.
// It streams: one goroutine unpacks while another scans, and memory is one event at a time plus what trace.Rank keeps (GPU events,
// launches, step annotations). Every input is bounded: the size and nesting of an event, the ratio of gzip, and the limits of
// trace.Builder; what passes one is refused by its name.
// gjson reads the fields of an event. Events that are written plainly, which are nearly all, are decoded by a field walk of our own
// that a fuzz target holds to it; escapes, fields twice, odd types and numbers go to gjson.
// Times come from the decimal digits of ts and dur (microseconds, whatever displayTimeUnit says) and are exact to the ns.
// Format: pytorch/kineto libkineto/src/output_json.cpp. It does not classify kernels and keeps no host or trace name.
package kineto

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/tidwall/gjson"

	"github.com/rooflab/rooflab/internal/diag"
	"github.com/rooflab/rooflab/trace"
)

// Options limit what is read. The zero value has the usual limits.
type Options struct {
	MaxEventBytes int         // bytes of one event; 0 means 64 MB
	Host          bool        // keep what the CPU did (trace.Host): 24 bytes for each of its operators and calls
	Progress      func(n int) // told that n more bytes of the file are read, from another goroutine; may be nil
}

// ReadFile reads one trace file with the usual limits. See Options.Read.
func ReadFile(path string) (*trace.Rank, error) { return Options{}.ReadFile(path) }

// Read reads one trace with the usual limits. See Options.Read.
func Read(r io.Reader, name string) (*trace.Rank, error) { return Options{}.Read(r, name) }

// ReadFile reads one trace file. See Read.
func (o Options) ReadFile(path string) (*trace.Rank, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	size := int64(0)
	if st, err := f.Stat(); err == nil {
		if st.IsDir() {
			return nil, fmt.Errorf("read %s: it is a folder; give the trace files in it", path)
		}
		size = st.Size()
	}
	return o.read(f, path, size, chunkSize)
}

// Read reads one trace from r; name is its file name, used in messages and, when the trace does not say its rank, for the rank.
// A *TruncatedError and a *NoGPUError come with what could be read; with any other error the Rank is nil.
func (o Options) Read(r io.Reader, name string) (*trace.Rank, error) {
	return o.read(r, name, 0, chunkSize)
}

// read reads a trace of size bytes (0 when unknown) and hands it from the unpacking goroutine to the scanning one in chunks.
func (o Options) read(r io.Reader, name string, size int64, chunk int) (*trace.Rank, error) {
	file := &counter{r: r, told: o.Progress}
	in := bufio.NewReaderSize(file, 64<<10)
	s := &scanner{limit: cmp.Or(o.MaxEventBytes, maxEvent)}
	var src io.Reader = in
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("read %s: gzip header is damaged: %w; fetch the file again", name, err)
		}
		defer z.Close()
		src, s.packed = z, true
	}
	s.src = readAhead(src, func() int64 { return file.n - int64(in.Buffered()) }, chunk)
	defer s.src.close()
	rd := &reader{s: s, name: name}
	rd.b.Rank.File = filepath.Base(name)
	if rd.decode.host = o.Host; o.Host {
		rd.b.KeepHost()
	}
	rd.decode.init(&rd.b, func() float64 {
		if size == 0 {
			return 0
		}
		return float64(s.read) / float64(size)
	})
	return rd.run()
}

// counter counts the bytes that pass.
type counter struct {
	r    io.Reader
	n    int64
	told func(int)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.told != nil {
		c.told(n)
	}
	return n, err
}

// reader walks the top level of one file.
type reader struct {
	s      *scanner
	name   string
	b      trace.Builder
	decode decoder

	hasEvents, hasRank bool
	mended             int    // broken events that were found at the end of what could be read
	devices            string // raw deviceProperties
}

func (rd *reader) run() (*trace.Rank, error) {
	err := rd.document()
	var syntax *syntaxError
	var limit *limitError
	switch {
	case err == nil:
		rd.tail()
	case errors.Is(err, errNotTrace):
		return nil, fmt.Errorf("read %s: %w", rd.name, err)
	case errors.As(err, &syntax) && !rd.hasEvents:
		return nil, fmt.Errorf("read %s: not JSON at %w; expected a profiler trace (.json or .json.gz)", rd.name, err)
	case errors.As(err, &limit):
		return nil, fmt.Errorf("read %s: byte %d: %w", rd.name, rd.s.offset(), err)
	default:
		err = rd.truncated(err)
	}
	if err == nil && !rd.hasEvents {
		return nil, fmt.Errorf("read %s: JSON without traceEvents; expected a trace of torch.profiler (an execution trace with nodes is another format)", rd.name)
	}
	rd.finish()
	rank := rd.b.Build()
	if err == nil && len(rank.Kernels) == 0 {
		err = &NoGPUError{rd.name, rank.Events}
	}
	return rank, err
}

var errNotTrace = errors.New("neither gzip nor JSON; expected a profiler trace (.json or .json.gz)")

// document reads an object with traceEvents and other keys in any order, or a bare array of events.
func (rd *reader) document() error {
	rd.skipBOM()
	c, err := rd.s.peek()
	switch {
	case err != nil && rd.s.offset() == 0 && errors.Is(rd.s.err, io.EOF):
		return fmt.Errorf("the file is empty: %w", errNotTrace)
	case err != nil:
		return err
	case c == '[':
		return rd.events()
	case c != '{':
		return errNotTrace
	}
	rd.s.pos++
	for first := true; ; first = false {
		if c, err = rd.s.peek(); err != nil {
			return err
		}
		if c == '}' { // also after a comma too many
			rd.s.pos++
			return nil
		}
		if !first {
			if _, err = rd.s.expect(","); err != nil {
				return err
			}
			if c, err = rd.s.peek(); err != nil || c == '}' {
				continue
			}
		}
		if err = rd.member(); err != nil {
			return err
		}
	}
}

func (rd *reader) skipBOM() {
	for len(rd.s.buf)-rd.s.pos < 3 {
		if err := rd.s.fill(rd.s.pos); err != nil {
			return
		}
	}
	if b := rd.s.buf[rd.s.pos:]; b[0] == 0xef && b[1] == 0xbb && b[2] == 0xbf {
		rd.s.pos += 3
	}
}

// member reads one key and value of the top level.
func (rd *reader) member() error {
	if c, err := rd.s.peek(); err != nil {
		return err
	} else if c != '"' {
		return &syntaxError{rd.s.offset(), fmt.Sprintf("expected a key in quotes, found %q", c)}
	}
	raw, err := rd.s.quoted()
	if err != nil {
		return err
	}
	key := strings.Trim(string(raw), `"`)
	if _, err := rd.s.expect(":"); err != nil {
		return err
	}
	if c, err := rd.s.peek(); key == "traceEvents" && err == nil && c == '[' {
		return rd.events()
	}
	value, err := rd.s.value()
	if err != nil {
		return err
	}
	rank := &rd.b.Rank
	switch key {
	case "distributedInfo":
		info := gjson.ParseBytes(value)
		if n := info.Get("rank"); n.Exists() {
			rank.Rank, rd.hasRank = int(n.Int()), true
		}
		rank.WorldSize = int(info.Get("world_size").Int())
	case "baseTimeNanoseconds":
		rank.BaseNs = parseID(string(value))
	case "deviceProperties":
		rd.devices = string(value)
	}
	return nil
}

// events reads the array of events.
func (rd *reader) events() error {
	rd.hasEvents = true
	rd.s.pos++ // [
	if c, err := rd.s.peek(); err == nil && c == ']' {
		rd.s.pos++
		return nil
	}
	for {
		if c, err := rd.s.peek(); err == nil && c == ']' { // after a comma too many
			rd.s.pos++
			return nil
		}
		last, err := rd.event()
		if last && err == nil {
			return nil
		}
		if full := rd.b.Full(); full != "" {
			return &limitError{full}
		}
		if err != nil {
			if err = rd.resume(err); err != nil {
				return err
			}
		}
	}
}

// event reads one event and the comma, or the end of the array, after it.
func (rd *reader) event() (last bool, err error) {
	learn := rd.b.Rank.Events < learnFrom
	if n := rd.decode.quick(rd.s.buf[rd.s.pos:]); n > rd.s.limit {
		return false, tooLarge(rd.s.limit)
	} else if n > 0 {
		if learn {
			rd.decode.marks.learn(rd.s.buf[rd.s.pos : rd.s.pos+n])
		}
		rd.s.pos += n
	} else if mended, err := rd.slowly(learn); err != nil || mended {
		return false, err
	}
	rd.b.Rank.Events++
	c, err := rd.s.expect(",]")
	return c == ']', err
}

// slowly reads one event that may be written in any way. It says whether the event was broken and the next one is what follows.
func (rd *reader) slowly(learn bool) (mended bool, err error) {
	raw, err := rd.s.value()
	if err != nil {
		if n := rd.decode.marks.next(rd.s.buf[rd.s.pos:]); n > 0 && rd.mended < maxMended {
			rd.mended++
			rd.mend(n)
			return true, nil
		}
		return false, err
	}
	if n := rd.decode.marks.next(raw); n > 0 && !gjson.ValidBytes(raw) {
		rd.s.pos -= len(raw)
		rd.mend(n)
		return true, nil
	}
	if learn {
		rd.decode.marks.learn(raw)
	}
	rd.decode.event(raw)
	return false, nil
}

// resume goes on at the next object after text between two events that is no JSON; any other error is returned.
func (rd *reader) resume(err error) error {
	var syntax *syntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	rd.b.Note(diag.Diagnostic{ID: "broken_json", Severity: diag.DataLoss, N: 1, Pos: diag.Pos{File: rd.b.Rank.File, Offset: syntax.offset},
		Text: "text between events that is no JSON was skipped, first at " + err.Error()})
	return rd.s.skipTo('{')
}

// truncated makes the error and the diagnostic of a file that ends, or breaks, too early.
func (rd *reader) truncated(err error) error {
	cause, hint := "the JSON ends too early", "fetch the file again when the profiler has finished writing it"
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		cause, hint = "the JSON is broken at "+err.Error(), "repair the file there or profile again"
	case rd.s.packed && errors.Is(rd.s.err, io.ErrUnexpectedEOF):
		cause = "the gzip data ends too early"
	case rd.s.err != nil && !errors.Is(rd.s.err, io.EOF):
		cause = "the data is damaged (" + rd.s.err.Error() + ")"
	}
	e := &TruncatedError{File: rd.name, Offset: rd.s.base + int64(len(rd.s.buf)), Events: rd.b.Rank.Events, GPU: len(rd.b.Rank.Kernels), Cause: cause, Hint: hint}
	if syntax != nil {
		e.Offset = syntax.offset
	}
	rd.b.Note(diag.Diagnostic{ID: "truncated", Severity: diag.DataLoss, N: 1, Pos: diag.Pos{File: rd.b.Rank.File, Offset: e.Offset},
		Text: fmt.Sprintf("%s after %d complete events; the rest is missing from every figure", cause, e.Events), Hint: hint})
	return e
}

// tail looks at what follows the JSON: nothing, else it is said.
func (rd *reader) tail() {
	if _, err := rd.s.peek(); err == nil || !errors.Is(rd.s.err, io.EOF) {
		rd.b.Note(diag.Diagnostic{ID: "trailing_data", Severity: diag.Warning, N: 1, Pos: diag.Pos{File: rd.b.Rank.File, Offset: rd.s.offset()},
			Text: "something follows the end of the trace and was not read"})
	}
}

var rankInName = regexp.MustCompile(`(?i)(?:rank[-_]?|TP-?)(\d+)`)

// finish fills what needs the whole file: rank and GPU name.
func (rd *reader) finish() {
	rank := &rd.b.Rank
	if rd.s.unclosed > 0 {
		rd.b.Note(diag.Diagnostic{ID: "unclosed_string", Severity: diag.Warning, N: rd.s.unclosed,
			Text: "strings without a closing quote were ended at the end of their line; their events may lack fields"})
	}
	if !rd.hasRank {
		all := rankInName.FindAllStringSubmatch(rank.File, -1)
		if len(all) > 0 {
			rank.Rank, _ = strconv.Atoi(all[len(all)-1][1])
		} else {
			rd.b.Note(diag.Diagnostic{ID: "rank_unknown", Severity: diag.Info, N: 1, Text: "the trace does not say its rank; taken as rank 0",
				Hint: "put rank<N> into the file name when there are several"})
		}
	}
	var first string
	gjson.Parse(rd.devices).ForEach(func(_, d gjson.Result) bool {
		if first == "" {
			first = d.Get("name").String()
		}
		if len(rank.Devices) > 0 && d.Get("id").String() == rank.Devices[0] {
			rank.Device = d.Get("name").String()
		}
		return true
	})
	if rank.Device == "" {
		rank.Device = first
	}
}
