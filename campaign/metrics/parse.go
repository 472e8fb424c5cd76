package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rooflab/rooflab/internal/diag"
)

// Bounds of what is read. Real scrapes have 100 kB a model and engine.
const (
	MaxLine = 1 << 20  // bytes; a longer line is reported and skipped
	MaxText = 64 << 20 // bytes; what follows is reported and not read
)

// Parse reads a scrape. Only a failing reader gives an error; bad lines become diagnostics.
func Parse(r io.Reader) (Scrape, error) {
	p := parser{index: map[string]int{}}
	bounded := &io.LimitedReader{R: r, N: MaxText}
	br := bufio.NewReaderSize(bounded, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(br)
		if errors.Is(err, errLongLine) {
			p.bad(n, "metrics_long_line", "a line is longer than 1 MiB", "")
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return p.scrape, fmt.Errorf("read metrics: %w", err)
		}
		if err != nil && bounded.N <= 0 { // the last line may be cut
			p.bad(n, "metrics_long_text", "the text is longer than 64 MiB; the rest is not read", "is this address a vLLM server?")
			return p.scrape, nil
		}
		p.line(n, line)
		if err != nil {
			return p.scrape, nil
		}
	}
}

// ParseString reads a scrape from a string.
func ParseString(text string) Scrape {
	s, _ := Parse(strings.NewReader(text)) // a string never fails to be read
	return s
}

var errLongLine = errors.New("line too long")

func readLine(br *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if err == nil && long == nil {
			return strings.TrimRight(string(part), "\r\n"), nil
		}
		if len(long) <= MaxLine {
			long = append(long, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(long) > MaxLine {
			if err == nil {
				err = errLongLine
			}
			return "", err
		}
		return strings.TrimRight(string(long), "\r\n"), err
	}
}

type parser struct {
	scrape Scrape
	index  map[string]int // family name -> place
	last   int            // the family of the last line, where the next sample most likely belongs
}

func (p *parser) bad(line int, id, text, hint string) {
	for i := range p.scrape.Diagnostics {
		if p.scrape.Diagnostics[i].ID == id {
			p.scrape.Diagnostics[i].N++
			return
		}
	}
	p.scrape.Diagnostics = append(p.scrape.Diagnostics, diag.Diagnostic{
		ID: id, Severity: diag.DataLoss, N: 1, Pos: diag.Pos{Line: line}, Text: text, Hint: hint})
}

func (p *parser) line(n int, line string) {
	line = strings.TrimLeft(line, " \t")
	switch {
	case line == "":
	case line[0] == '#':
		p.comment(n, line[1:])
	default:
		s, err := parseSample(line)
		if err != nil {
			p.bad(n, "metrics_bad_line", "a line of /metrics cannot be read: "+err.Error(), "is this address a vLLM server?")
			return
		}
		f := p.familyOf(s.Name)
		f.Samples = append(f.Samples, s)
	}
}

func (p *parser) comment(n int, rest string) {
	word, rest := cutWord(rest)
	if word != "HELP" && word != "TYPE" {
		return // a free comment
	}
	name, text := cutWord(rest)
	if !isName(name) {
		p.bad(n, "metrics_bad_comment", fmt.Sprintf("# %s without a metric's name", word), "")
		return
	}
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
	p.last = i
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
