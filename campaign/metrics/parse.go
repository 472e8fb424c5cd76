package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read. Real scrapes have 100 kB a model and engine.
const (
	MaxLine = 1 << 20  // bytes of a line
	MaxText = 64 << 20 // bytes of all
)

// LineError says which line of a text is none of the Prometheus text format, and why.
type LineError struct {
	Line int    // from 1
	Text string // its beginning
	Why  string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %q: %s", e.Line, e.Text, e.Why) }

// Parse reads a scrape. A line that cannot be read is a *LineError: what else the page says is not to be trusted then, since
// something in between may have cut or changed it.
func Parse(r io.Reader) (Scrape, error) {
	p := parser{index: map[string]int{}}
	bounded := &io.LimitedReader{R: r, N: MaxText}
	br := bufio.NewReaderSize(bounded, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(br)
		end := errors.Is(err, io.EOF)
		if err != nil && !end && !errors.Is(err, errLongLine) {
			return Scrape{}, fmt.Errorf("read metrics: %w", err)
		}
		if end && bounded.N <= 0 { // the last line may be cut
			err = fmt.Errorf("the text is longer than %d MiB", MaxText>>20)
		} else if !errors.Is(err, errLongLine) {
			err = p.line(line)
		}
		if err != nil {
			return Scrape{}, &LineError{n, beginning(line), err.Error()}
		}
		if end {
			return p.scrape, nil
		}
	}
}

// beginning shortens a line for an error. A character that was cut in two is dropped.
func beginning(line string) string {
	const most = 60 // bytes
	if len(line) <= most {
		return line
	}
	return strings.TrimRight(strings.ToValidUTF8(line[:most], ""), " ") + "..."
}

var errLongLine = fmt.Errorf("the line is longer than %d MiB", MaxLine>>20)

// readLine returns a line, of one that is too long its beginning.
func readLine(br *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if err == nil && long == nil {
			return strings.TrimRight(string(part), "\r\n"), nil
		}
		if long = append(long, part...); len(long) > MaxLine {
			return string(long), errLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(long), "\r\n"), err
		}
	}
}

type parser struct {
	scrape Scrape
	index  map[string]int // family name -> place
}

func (p *parser) line(line string) error {
	line = strings.TrimLeft(line, " \t")
	if line == "" {
		return nil
	}
	if line[0] == '#' {
		return p.comment(line[1:])
	}
	s, err := parseSample(line)
	if err != nil {
		return err
	}
	f := p.familyOf(s.Name)
	f.Samples = append(f.Samples, s)
	return nil
}

func (p *parser) comment(rest string) error {
	word, rest := cutWord(rest)
	if word != "HELP" && word != "TYPE" {
		return nil // a free comment
	}
	name, text := cutWord(rest)
	if !isName(name) {
		return fmt.Errorf("%s without a metric's name", word)
	}
	f := p.family(name)
	if word == "TYPE" {
		f.Type = strings.TrimSpace(text)
	} else {
		f.Help = unescape(text, false)
	}
	return nil
}

func cutWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t")
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], strings.TrimLeft(s[i:], " \t")
	}
	return s, ""
}

func (p *parser) family(name string) *Family {
	i, ok := p.index[name]
	if !ok {
		i = len(p.scrape.Families)
		p.index[name] = i
		p.scrape.Families = append(p.scrape.Families, Family{Name: name})
	}
	return &p.scrape.Families[i]
}

// familyOf finds the family that a sample belongs to: the declared one of its name, or of its name without the suffix
// of a histogram, summary or counter.
func (p *parser) familyOf(sample string) *Family {
	if _, ok := p.index[sample]; ok {
		return p.family(sample)
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum", "_total"} {
		base, cut := strings.CutSuffix(sample, suffix)
		if !cut {
			continue
		}
		if i, ok := p.index[base]; ok && (suffix == "_total" || p.scrape.Families[i].Type == "histogram" || p.scrape.Families[i].Type == "summary") {
			return p.family(base)
		}
	}
	return p.family(sample)
}

func parseSample(line string) (Sample, error) {
	var s Sample
	end := strings.IndexAny(line, "{ \t")
	if end < 0 {
		return s, errors.New("no value")
	}
	s.Name = line[:end]
	if !isName(s.Name) {
		return s, fmt.Errorf("%.40q is no metric name", s.Name)
	}
	rest := strings.TrimLeft(line[end:], " \t")
	if strings.HasPrefix(rest, "{") {
		var err error
		if s.Labels, rest, err = parseLabels(rest[1:]); err != nil {
			return s, err
		}
	}
	if i := strings.Index(rest, " # "); i >= 0 { // an OpenMetrics exemplar
		rest = rest[:i]
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 || len(fields) > 2 {
		return s, fmt.Errorf("%d fields after the name, want a value and at most a timestamp", len(fields))
	}
	var err error
	if s.Value, err = strconv.ParseFloat(fields[0], 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return s, fmt.Errorf("%.40q is no number", fields[0])
	}
	if len(fields) == 2 {
		if s.Timestamp, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
			return s, fmt.Errorf("%.40q is no timestamp", fields[1])
		}
		s.Stamped = true
	}
	return s, nil
}

// parseLabels reads after "{" and returns what follows "}".
func parseLabels(s string) ([]Label, string, error) {
	var labels []Label
	for {
		s = strings.TrimLeft(s, " \t,")
		if strings.HasPrefix(s, "}") {
			return labels, s[1:], nil
		}
		eq := strings.IndexByte(s, '=')
		if eq < 0 {
			return nil, "", errors.New("labels do not end")
		}
		name := strings.TrimSpace(s[:eq])
		if !isName(name) {
			return nil, "", fmt.Errorf("%.40q is no label name", name)
		}
		s = strings.TrimLeft(s[eq+1:], " \t")
		if !strings.HasPrefix(s, `"`) {
			return nil, "", fmt.Errorf("label %.40s has no quoted value", name)
		}
		end := closingQuote(s)
		if end < 0 {
			return nil, "", fmt.Errorf("the value of label %.40s does not end", name)
		}
		labels = append(labels, Label{name, unescape(s[1:end], true)})
		s = s[end+1:]
	}
}

// closingQuote returns the place of the quote that ends the string which starts at s[0].
func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unescape resolves \\ and \n, and in label values \".
func unescape(s string, quotes bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch c := s[i+1]; {
			case c == 'n':
				b.WriteByte('\n')
				i++
				continue
			case c == '\\', quotes && c == '"':
				b.WriteByte(c)
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isName accepts what Prometheus does: letters, digits, _ and :, no digit first.
func isName(s string) bool {
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') || c >= utf8.RuneSelf {
			return false
		}
	}
	return s != ""
}
