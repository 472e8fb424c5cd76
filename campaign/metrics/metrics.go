// Package metrics reads and writes the Prometheus text format of a server's /metrics, and compares two scrapes.
// It keeps families and samples in the order of the text, and takes no text with a line that it cannot read.
// It knows what vLLM and SGLang call the series that a campaign watches. It does not fetch anything (campaign/vllm does).
package metrics

import "strings"

// Label is one name="value" pair.
type Label struct {
	Name, Value string
}

// Sample is one line: a series with its value.
type Sample struct {
	Name      string
	Labels    []Label // in the order of the text
	Value     float64
	Timestamp string // as in the text, which has ms or, as OpenMetrics, seconds since the epoch; "" without
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
	Families []Family
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

// Delta is what a counter did between two scrapes.
type Delta struct {
	Before, After float64 // sums over the label sets
	Found         bool    // the counter is in the later scrape
	Reset         bool    // it fell or vanished in some label set: the server, or one engine of it, was started again
	increase      float64
}

// Increase returns how much the counter rose; a label set that fell counts from zero.
func (d Delta) Increase() float64 { return d.increase }

// Compare returns the change of a counter, summed over the label sets that have the given labels.
// A series that only the later scrape has counts from zero: servers create label sets when they first use them.
func Compare(before, after Scrape, name string, labels ...string) Delta {
	var d Delta
	old := map[string]float64{}
	for _, x := range before.Find(name, labels...) {
		old[x.key()] += x.Value
		d.Before += x.Value
	}
	for _, x := range after.Find(name, labels...) {
		d.Found = true
		d.After += x.Value
		was := old[x.key()]
		delete(old, x.key())
		if x.Value < was {
			d.Reset, was = true, 0
		}
		d.increase += x.Value - was
	}
	d.Reset = d.Reset || d.Found && len(old) > 0
	return d
}

// key names a series: its name and labels in the order of the text, which a server keeps.
func (s Sample) key() string {
	var b strings.Builder
	s.writeSeries(&b)
	return b.String()
}

// Restarted says whether another server process answered the later scrape: by the start time of the process, else, since
// a server of several processes does not tell it, by the time at which a series was created, else by a counter that fell.
func Restarted(before, after Scrape) bool {
	if moved, both := differs(before, after, func(series string) bool { return series == "process_start_time_seconds" }); both {
		return moved
	}
	if moved, both := differs(before, after, func(series string) bool { return strings.HasSuffix(series, "_created") }); both {
		return moved
	}
	for _, f := range after.Families {
		if f.Type != "counter" {
			continue
		}
		for _, x := range f.Samples {
			if !strings.HasSuffix(x.Name, "_created") && Compare(before, after, x.Name).Reset {
				return true
			}
		}
	}
	return false
}

// differs compares the chosen series: whether one that both scrapes have moved, and whether there is one.
func differs(before, after Scrape, chosen func(series string) bool) (moved, both bool) {
	old := map[string]float64{}
	for _, f := range before.Families {
		for _, x := range f.Samples {
			if chosen(x.Name) {
				old[x.key()] = x.Value
			}
		}
	}
	for _, f := range after.Families {
		for _, x := range f.Samples {
			if chosen(x.Name) {
				if was, ok := old[x.key()]; ok {
					both = true
					moved = moved || was != x.Value
				}
			}
		}
	}
	return moved, both
}
