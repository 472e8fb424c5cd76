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
	maxLine = 1 << 20  // bytes of a line
	maxText = 64 << 20 // bytes of all
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
	bounded := &io.LimitedReader{R: r, N: maxText}
	br := bufio.NewReaderSize(bounded, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(br)
		end := errors.Is(err, io.EOF)
		if err != nil && !end && !errors.Is(err, errLongLine) {
			return Scrape{}, fmt.Errorf("read metrics: %w", err)
		}
		if end && bounded.N <= 0 { // the last line may be cut
			err = fmt.Errorf("the text is longer than %d MiB", maxText>>20)
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

var errLongLine = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// readLine returns a line, of one that is too long its beginning.
func readLine(br *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if err == nil && long == nil {
			return strings.TrimRight(string(part), "\r\n"), nil
		}
		if long = append(long, part...); len(long) > maxLine {
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
		p.comment(line[1:])
		return nil
	}
	s, err := parseSample(line)
	if err != nil {
		return err
	}
	f := p.familyOf(s.Name)
	f.Samples = append(f.Samples, s)
	return nil
}

// comment takes up HELP and TYPE. One that names no metric is free text: nothing that is measured hangs on it.
func (p *parser) comment(text string) {
	word, rest := cutWord(text)
	if word != "HELP" && word != "TYPE" {
		return
	}
	name, rest, err := cutName(rest)
	if err != nil {
		return
	}
	text = strings.TrimLeft(rest, " \t")
	f := p.family(name)
	if word == "TYPE" {
		f.Type = strings.TrimSpace(text)
	} else {
		f.Help = unescape(text, false)
	}
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
	var err error
	rest := line
	if line[0] != '{' {
		if s.Name, rest, err = cutName(line); err != nil {
			return s, err
		}
		rest = strings.TrimLeft(rest, " \t")
	}
	if strings.HasPrefix(rest, "{") {
		if rest, err = s.parseBraces(rest[1:]); err != nil {
			return s, err
		}
	}
	if s.Name == "" {
		return s, errors.New("no metric name")
	}
	rest, _, _ = strings.Cut(rest, " # ") // an OpenMetrics exemplar
	fields := strings.Fields(rest)
	switch len(fields) {
	case 0:
		return s, errors.New("no value")
	case 1:
	case 2:
		s.Timestamp = fields[1]
		if _, err := strconv.ParseFloat(s.Timestamp, 64); err != nil {
			return s, fmt.Errorf("%.40q is no timestamp", s.Timestamp)
		}
	default:
		return s, fmt.Errorf("%d fields after the name, want a value and at most a timestamp", len(fields))
	}
	if s.Value, err = strconv.ParseFloat(fields[0], 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return s, fmt.Errorf("%.40q is no number", fields[0])
	}
	return s, nil
}

// parseBraces reads after "{" and returns what follows "}". A metric's name that needs quotes stands there, too.
func (s *Sample) parseBraces(text string) (rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \t,")
		if strings.HasPrefix(text, "}") {
			return text[1:], nil
		}
		if text == "" {
			return "", errors.New("labels do not end")
		}
		name, after, err := cutName(text)
		if err != nil {
			return "", err
		}
		value, labelled := strings.CutPrefix(strings.TrimLeft(after, " \t"), "=")
		if !labelled && text[0] == '"' && s.Name == "" {
			s.Name, text = name, after
			continue
		}
		value = strings.TrimLeft(value, " \t")
		if !labelled || !strings.HasPrefix(value, `"`) {
			return "", fmt.Errorf("label %.40s has no quoted value", name)
		}
		end := closingQuote(value)
		if end < 0 {
			return "", fmt.Errorf("the value of label %.40s does not end", name)
		}
		s.Labels = append(s.Labels, Label{name, unescape(value[1:end], true)})
		text = value[end+1:]
	}
}

// cutName takes the name of a metric or a label from the beginning of a text; between quotes it may have any characters.
func cutName(text string) (name, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		end := closingQuote(text)
		if end < 0 {
			return "", "", errors.New("a quoted name does not end")
		}
		return unescape(text[1:end], true), text[end+1:], nil
	}
	end := strings.IndexAny(text, "{}=, \t")
	if end < 0 {
		end = len(text)
	}
	if name = text[:end]; !isName(name) {
		return "", "", fmt.Errorf("%.40q is no name", name)
	}
	return name, text[end:], nil
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
