// Package metrics reads and writes the Prometheus text format of a server's /metrics, and compares two scrapes.
// It keeps families and samples in the order of the text and reports bad lines instead of stopping at them.
// It does not fetch anything (campaign/vllm does) and knows no metric by name.
package metrics

import (
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/rooflab/rooflab/internal/diag"
)

// Label is one name="value" pair.
type Label struct {
	Name, Value string
}

// Sample is one line: a series with its value.
type Sample struct {
	Name      string
	Labels    []Label // in the order of the text
	Value     float64
	Timestamp int64 // ms since the epoch; only if Stamped
	Stamped   bool
}

// Label returns the value of a label, or "".
func (s Sample) Label(name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// Family is a metric with its help, type and samples. A histogram's family holds its _bucket, _count and _sum samples.
type Family struct {
	Name    string
	Help    string
	Type    string // "counter", "gauge", "histogram", "summary", "untyped" or "" when the text does not say
	Samples []Sample
}

// Scrape is one reading of /metrics.
type Scrape struct {
	Families    []Family
	Diagnostics []diag.Diagnostic // bad lines, counted by kind
}

// Sum adds the samples of a series over all label sets that have the given labels (name, value, name, value, ...).
// The second result says whether there was any.
func (s Scrape) Sum(name string, labels ...string) (float64, bool) {
	sum, found := 0.0, false
	for _, f := range s.Families {
		if !f.mayHold(name) {
			continue
		}
		for _, x := range f.Samples {
			if x.Name == name && x.has(labels) {
				sum, found = sum+x.Value, true
			}
		}
	}
	return sum, found
}

// Find returns the samples of a series that have the given labels.
func (s Scrape) Find(name string, labels ...string) []Sample {
	var found []Sample
	for _, f := range s.Families {
		if !f.mayHold(name) {
			continue
		}
		for _, x := range f.Samples {
			if x.Name == name && x.has(labels) {
				found = append(found, x)
			}
		}
	}
	return found
}

func (f Family) mayHold(name string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(f.Name, "_total"))
}

func (s Sample) has(labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if s.Label(labels[i]) != labels[i+1] {
			return false
		}
	}
	return true
}

// Histogram is one series of a histogram: cumulative counts by upper bound.
type Histogram struct {
	Bounds []float64 // ascending, the last one +Inf
	Counts []float64
	Count  float64
	Sum    float64
}

// Histogram collects a histogram over all label sets that have the given labels.
func (s Scrape) Histogram(name string, labels ...string) (Histogram, bool) {
	byBound := map[float64]float64{}
	for _, b := range s.Find(name+"_bucket", labels...) {
		if le, err := strconv.ParseFloat(b.Label("le"), 64); err == nil && !math.IsNaN(le) {
			byBound[le] += b.Value
		}
	}
	h := Histogram{}
	for le := range byBound {
		h.Bounds = append(h.Bounds, le)
	}
	sort.Float64s(h.Bounds)
	for _, le := range h.Bounds {
		h.Counts = append(h.Counts, byBound[le])
	}
	var ok bool
	h.Count, ok = s.Sum(name+"_count", labels...)
	h.Sum, _ = s.Sum(name+"_sum", labels...)
	return h, ok
}

// Delta is what a series did between two scrapes.
type Delta struct {
	Before, After float64
	Found         bool // the series is in the later scrape
	Reset         bool // the counter fell: the server was started again in between, so Increase counts from zero
}

// Increase returns how much the counter rose.
func (d Delta) Increase() float64 {
	if d.Reset {
		return d.After
	}
	return d.After - d.Before
}

// Compare returns the change of a counter, summed over the label sets that have the given labels.
// A series that only the later scrape has counts from zero: servers create label sets when they first use them.
func Compare(before, after Scrape, name string, labels ...string) Delta {
	var d Delta
	d.Before, _ = before.Sum(name, labels...)
	d.After, d.Found = after.Sum(name, labels...)
	d.Reset = d.Found && d.After < d.Before
	return d
}

// Restarted says whether another server process answered the later scrape.
func Restarted(before, after Scrape) bool {
	const start = "process_start_time_seconds"
	b, okB := before.Sum(start)
	a, okA := after.Sum(start)
	return okA && okB && a != b
}
