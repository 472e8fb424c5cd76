package metrics

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rooflab/rooflab/internal/sharedtest"
)

func TestParseReadsEveryFormOfALine(t *testing.T) {
	s := parse(t, `# HELP a_total Things with \\ and \n in it
# TYPE a_total counter
a_total{path="C:\\x\n\"q\"",other="}{,="} 12.0
a_total 3 1700000000000
# a free comment
# TYPE h histogram
h_bucket{le="0.1"} 1
h_bucket{le="+Inf"} 4 # {trace_id="x"} 0.5 1700
h_sum 2.5
h_count 4
b NaN
  c	-Inf
d{} +Inf
`)
	if len(s.Families) != 5 {
		t.Fatalf("%d families: %+v", len(s.Families), s.Families)
	}
	a := s.Families[0]
	if a.Help != "Things with \\ and \n in it" || a.Type != "counter" {
		t.Errorf("family a: %+v", a)
	}
	if got := a.Samples[0].Label("path"); got != "C:\\x\n\"q\"" {
		t.Errorf("escaped label: %q", got)
	}
	if got := a.Samples[0].Label("other"); got != "}{,=" {
		t.Errorf("label with syntax in it: %q", got)
	}
	if x := a.Samples[1]; x.Timestamp != "1700000000000" || x.Value != 3 {
		t.Errorf("timestamp: %+v", x)
	}
	if h := s.Families[1]; h.Type != "histogram" || len(h.Samples) != 4 || h.Samples[1].Label("le") != "+Inf" || h.Samples[1].Value != 4 {
		t.Errorf("histogram: %+v", h)
	}
	if v, _ := s.Sum("b"); !math.IsNaN(v) {
		t.Errorf("b = %v", v)
	}
	if v, _ := s.Sum("c"); !math.IsInf(v, -1) {
		t.Errorf("c = %v", v)
	}
}

// TestPagesThatPrometheusReadsAreRead: a server is not refused for what its exporter may write.
func TestPagesThatPrometheusReadsAreRead(t *testing.T) {
	for name, c := range map[string]struct{ text, series string }{
		"OpenMetrics":              {"# TYPE a counter\n# UNIT a s\na_total 3.0 1520879607.789 # {t=\"x # y\"} 1 2.5\n# EOF\n", "a_total"},
		"CRLF and spaces":          {"# HELP a\r\n\r\n \t\r\na{x=\"y\", z=\"w\",} 3  \r\n", `a{x="y",z="w"}`},
		"comments without a name":  {"# HELP\n# TYPE\n#\n# HELP \u00fc is the text\na 3\n", "a"},
		"UTF-8 in a label's value": {"a{x=\"\u00fc}{\"} 3\n", "a{x=\"\u00fc}{\"}"},
		"a quoted name":            {"# HELP \"a.b\" text\n# TYPE \"a.b\" gauge\n{\"a.b\"} 3\n", `{"a.b"}`},
		"quoted names and labels":  {`{"a \"b", x="1","c d"="2"} 3`, `{"a \"b",x="1","c d"="2"}`},
		"a quoted label":           {`a{"c.d"="2"} 3 -5`, `a{"c.d"="2"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, c.text)
			if len(s.Families) != 1 || len(s.Families[0].Samples) != 1 || s.Families[0].Samples[0].key() != c.series || s.Families[0].Samples[0].Value != 3 {
				t.Fatalf("%+v", s)
			}
			if diff := cmp.Diff(s.Families[0].Samples, parse(t, s.Text()).Families[0].Samples); diff != "" {
				t.Errorf("read, written and read:\n%s", diff)
			}
		})
	}
}

// parse reads a text that is to be readable.
func parse(t *testing.T, text string) Scrape {
	t.Helper()
	s, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLineThatCannotBeReadIsNamed(t *testing.T) {
	long := strings.Repeat("é", 100)
	for line, want := range map[string]string{
		"<!DOCTYPE html>": `line 2: "<!DOCTYPE html>": "<!DOCTYPE" is no name`, "a": `line 2: "a": no value`, "a b": `"b" is no number`, "a 1 2 3": "3 fields after the name",
		`a{x="1" 2`: `"2" is no name`, "a{x=1} 2": "no quoted value", `a{1x="1"} 2`: `"1x" is no name`, `a{x="1} 2`: "does not end", "a 1 x": `"x" is no timestamp`,
		`{x="1"} 2`: "no metric name", `{"a b} 2`: "a quoted name does not end", `{"a", "b"} 2`: "no quoted value", "a\x00\x1b[2J 1": `line 2: "a\x00\x1b[2J 1": `, "a 1 " + long: `line 2: "a 1 ` + long[:56] + `...": `,
		"a " + strings.Repeat("1", maxLine+10): "the line is longer than 1 MiB", `vllm:a{engine="0"`: "labels do not end",
	} {
		s, err := Parse(strings.NewReader("ok 1\n" + line + "\nok2 2\n"))
		var bad *LineError
		if !errors.As(err, &bad) || bad.Line != 2 || len(s.Families) > 0 || len(err.Error()) > 300 {
			t.Errorf("%.80q: %v", line, err)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", line, err, want)
		}
	}
}

// TestRealScrapesSurviveAWrite reads the scrapes of real servers, writes them and gets the same bytes.
func TestRealScrapesSurviveAWrite(t *testing.T) {
	for _, text := range realScrapes(t) {
		s := parse(t, text.body)
		if diff := cmp.Diff(strings.Split(text.body, "\n"), strings.Split(s.Text(), "\n")); diff != "" {
			t.Errorf("%s (-real +written):\n%s", text.name, diff)
		}
	}
}

type scrapeText struct{ name, body string }

func realScrapes(t testing.TB) []scrapeText {
	var texts []scrapeText
	shared := sharedtest.Dir(t)
	for _, pattern := range []string{"campaign/*/metrics_*.txt", "vllm/recorded/*/metrics-*.json", "vllm/recorded/*/metrics-*.txt"} {
		files, err := filepath.Glob(filepath.Join(shared, pattern))
		if err != nil || files == nil {
			t.Fatalf("no scrape matches %s (%v)", pattern, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(f, ".json") {
				var x struct{ Response struct{ Body string } }
				if err := json.Unmarshal(b, &x); err != nil {
					t.Fatal(err)
				}
				b = []byte(x.Response.Body)
			}
			texts = append(texts, scrapeText{filepath.Base(f), string(b)})
		}
	}
	return texts
}

func TestCompareCountsAndNoticesResets(t *testing.T) {
	before := parse(t, "# TYPE a_total counter\na_total{e=\"0\"} 5\na_total{e=\"1\"} 7\nprocess_start_time_seconds 10\n")
	after := parse(t, "# TYPE a_total counter\na_total{e=\"0\"} 6\na_total{e=\"1\"} 9\nb_total 4\nprocess_start_time_seconds 10\n")
	if d := Compare(before, after, "a_total"); d.Increase() != 3 || d.Reset || !d.Found {
		t.Errorf("sum of label sets: %+v", d)
	}
	if d := Compare(before, after, "a_total", "e", "1"); d.Increase() != 2 {
		t.Errorf("one label set: %+v", d)
	}
	if d := Compare(before, after, "b_total"); d.Increase() != 4 || !d.Found {
		t.Errorf("a new series counts from zero: %+v", d)
	}
	if d := Compare(before, after, "none"); d.Found {
		t.Errorf("a missing series: %+v", d)
	}
	if Restarted(before, after) {
		t.Error("the same process")
	}
	reset := parse(t, "a_total{e=\"0\"} 2\nprocess_start_time_seconds 99\n")
	if d := Compare(before, reset, "a_total"); !d.Reset || d.Increase() != 2 {
		t.Errorf("reset: %+v", d)
	}
	if !Restarted(before, reset) {
		t.Error("another process")
	}
}

func TestObserveAndAddKeepTheScrapeConsistent(t *testing.T) {
	s := parse(t, "# TYPE h histogram\nh_bucket{le=\"1\"} 0\nh_bucket{le=\"2\"} 0\nh_bucket{le=\"+Inf\"} 0\nh_count 0\nh_sum 0\n# TYPE c_total counter\nc_total{r=\"a\"} 1\n")
	s.Observe("h", 1.5, 4)
	s.Add("c_total", 2, "r", "a")
	s.Add("c_total", 5, "r", "b")
	s.Add("unknown_total", 5)
	want := "# HELP h \n# TYPE h histogram\nh_bucket{le=\"1\"} 0.0\nh_bucket{le=\"2\"} 4.0\nh_bucket{le=\"+Inf\"} 4.0\nh_count 4.0\nh_sum 6.0\n# HELP c_total \n# TYPE c_total counter\nc_total{r=\"a\"} 3.0\nc_total{r=\"b\"} 5.0\n"
	if diff := cmp.Diff(want, s.Text()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("# HELP a b\n# TYPE a counter\na{x=\"\\\"\"} 1e3 5\n")
	f.Add("h_bucket{le=\"+Inf\"} NaN\n\xff{} 1\n# TYPE\n")
	f.Add("a{x=\"1\",} 2 # {t=\"1\"} 3\n")
	f.Add("a 1\n<html>\xff\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(strings.NewReader(text))
		if err != nil {
			checkLineError(t, text, err)
			return
		}
		again := parse(t, s.Text())
		if again.Text() != s.Text() {
			t.Fatalf("write, read, write differs:\n%q\n%q", s.Text(), again.Text())
		}
	})
}

// checkLineError checks that the error names the first line that cannot be read, in printable characters.
func checkLineError(t *testing.T, text string, err error) {
	t.Helper()
	var bad *LineError
	lines := strings.Split(text, "\n")
	if !errors.As(err, &bad) || bad.Line < 1 || bad.Line > len(lines) {
		t.Fatalf("%v in %d lines", err, len(lines))
	}
	parse(t, strings.Join(lines[:bad.Line-1], "\n"))
	if _, err := Parse(strings.NewReader(lines[bad.Line-1])); err == nil {
		t.Errorf("line %d can be read: %q", bad.Line, lines[bad.Line-1])
	}
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return !strconv.IsPrint(r) }) || len(err.Error()) > 1000 {
		t.Errorf("%q", err.Error())
	}
}

func TestOneEngineThatStartsAgainIsNoticedAmongOthers(t *testing.T) {
	before := parse(t, "# TYPE a_total counter\na_total{engine=\"0\"} 100\na_total{engine=\"1\"} 50\n")
	after := parse(t, "# TYPE a_total counter\na_total{engine=\"0\"} 300\na_total{engine=\"1\"} 7\n")
	if d := Compare(before, after, "a_total"); !d.Reset || d.Increase() != 207 || d.Before != 150 || d.After != 307 {
		t.Errorf("%+v", d)
	}
	if !Restarted(before, after) {
		t.Error("a counter fell")
	}
	gone := parse(t, "# TYPE a_total counter\na_total{engine=\"0\"} 300\n")
	if d := Compare(before, gone, "a_total"); !d.Reset || d.Increase() != 200 {
		t.Errorf("a label set vanished: %+v", d)
	}
}

func TestRestartIsSeenWithoutTheProcessStart(t *testing.T) {
	const text = "# TYPE a_total counter\na_total{x=\"%\"} 5\n# TYPE a_created gauge\na_created{x=\"%\"} "
	named := func(x, created string) Scrape { return parse(t, strings.ReplaceAll(text, "%", x)+created+"\n") }
	if Restarted(named("1", "1000.5"), named("1", "1000.5")) {
		t.Error("the same series")
	}
	more := parse(t, named("1", "1000.5").Text()+named("2", "2000.5").Text())
	if Restarted(named("1", "1000.5"), more) {
		t.Error("a new series beside it")
	}
	if !Restarted(named("1", "1000.5"), named("1", "1000.75")) {
		t.Error("the series was made anew")
	}
}

func TestNamesByEngineAndVersion(t *testing.T) {
	for text, want := range map[string]Names{
		"vllm:kv_cache_usage_perc 0.5\n":                                                                    {KVUsage: "vllm:kv_cache_usage_perc", ITL: "vllm:inter_token_latency_seconds", PrefixHits: "vllm:prefix_cache_hits_total"},
		"vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 1\n":                               {KVUsage: "vllm:gpu_cache_usage_perc", ITL: "vllm:inter_token_latency_seconds", PrefixHits: "vllm:gpu_prefix_cache_hits_total"},
		"# TYPE vllm:time_per_output_token_seconds histogram\nvllm:time_per_output_token_seconds_count 4\n": {KVUsage: "vllm:kv_cache_usage_perc", ITL: "vllm:time_per_output_token_seconds", PrefixHits: "vllm:prefix_cache_hits_total"},
		"sglang:token_usage 0.5\n":                                                                          {KVUsage: "sglang:token_usage", ITL: "sglang:inter_token_latency_seconds", PrefixHits: "sglang:cached_tokens_total"},
		"process_start_time_seconds 5\n":                                                                    {},
	} {
		n := NamesOf(parse(t, text))
		if n.KVUsage != want.KVUsage || n.ITL != want.ITL || n.PrefixHits != want.PrefixHits {
			t.Errorf("%q: %+v", text, n)
		}
	}
	if c := (Names{}).Counters(); c != nil {
		t.Errorf("counters of an unknown server: %v", c)
	}
}

// TestEveryWatchedNameIsInARealScrape holds the names of vLLM against scrapes of three versions.
func TestEveryWatchedNameIsInARealScrape(t *testing.T) {
	for _, text := range realScrapes(t) {
		s := parse(t, text.body)
		n := NamesOf(s)
		names := append(n.Counters(), n.Running, n.Waiting, n.KVUsage, "process_start_time_seconds")
		for _, name := range names {
			if _, ok := s.Sum(name); !ok && name != n.Drafts { // without speculative decoding there is none
				t.Errorf("%s: no %s", text.name, name)
			}
		}
		running, waiting, ok := Traffic(s)
		if busy := strings.HasPrefix(text.name, "metrics-busy"); !ok || busy != (running > 0) || busy && waiting == 0 {
			t.Errorf("%s: %d running, %d waiting, %v", text.name, running, waiting, ok)
		}
	}
}

func TestTrafficIsAddedOverEnginesAndNotOverRanks(t *testing.T) {
	for text, want := range map[string][2]int{
		"vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\nvllm:num_requests_waiting{engine=\"0\"} 2\n":                        {7, 2},
		"sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 3\nsglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"1\"} 3\nsglang:num_queue_reqs 1\n":                {3, 1},
		"sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 3\nsglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"0\"} 5\nsglang:num_queue_reqs{dp_rank=\"1\"} 0\n": {8, 0},
	} {
		if r, w, ok := Traffic(parse(t, text)); !ok || r != want[0] || w != want[1] {
			t.Errorf("%q: %d running, %d waiting, %v", text, r, w, ok)
		}
	}
	for _, text := range []string{"", "process_start_time_seconds 5\n", "# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total 5\n"} {
		if _, _, ok := Traffic(parse(t, text)); ok {
			t.Errorf("%q says nothing of traffic", text)
		}
	}
	if v, ok := KVUsage(parse(t, "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n")); !ok || v != 0.75 {
		t.Errorf("the fullest engine: %v %v", v, ok)
	}
}

func TestTextWithoutAnEndIsCut(t *testing.T) {
	line := "a{x=\"" + strings.Repeat("y", 1<<16) + "\"} 1\n"
	_, err := Parse(strings.NewReader(strings.Repeat(line, maxText/len(line)+10)))
	if err == nil || !strings.Contains(err.Error(), "the text is longer than 64 MiB") {
		t.Errorf("%v", err)
	}
}

func TestGaugeThatNobodyHasSetCountsNobody(t *testing.T) {
	running, waiting, ok := Traffic(parse(t, "vllm:num_requests_running{engine=\"0\"} 2\nvllm:num_requests_running{engine=\"1\"} NaN\nvllm:num_requests_waiting NaN\n"))
	if running != 2 || waiting != 0 || !ok {
		t.Errorf("%d running, %d waiting, %v", running, waiting, ok)
	}
}
