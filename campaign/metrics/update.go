package metrics

import "strconv"

// Add raises a series by v, in the first label set that has the given labels; a missing one is added with just those labels,
// if its family is there. It serves whoever answers /metrics from a recorded scrape.
func (s *Scrape) Add(name string, v float64, labels ...string) {
	if x := s.series(name, labels); x != nil {
		x.Value += v
	}
}

// Set gives a series a value; see Add.
func (s *Scrape) Set(name string, v float64, labels ...string) {
	if x := s.series(name, labels); x != nil {
		x.Value = v
	}
}

// Observe counts n equal observations v in a histogram that is in the scrape; labels as for Add.
func (s *Scrape) Observe(name string, v float64, n int, labels ...string) {
	for i := range s.Families {
		f := &s.Families[i]
		if f.Name != name || f.Type != "histogram" {
			continue
		}
		for j := range f.Samples {
			x := &f.Samples[j]
			if !x.has(labels) {
				continue
			}
			switch x.Name {
			case name + "_bucket":
				if le, err := strconv.ParseFloat(x.Label("le"), 64); err == nil && v <= le {
					x.Value += float64(n)
				}
			case name + "_count":
				x.Value += float64(n)
			case name + "_sum":
				x.Value += v * float64(n)
			}
		}
		return
	}
}

func (s *Scrape) series(name string, labels []string) *Sample {
	for i := range s.Families {
		f := &s.Families[i]
		if !f.mayHold(name) {
			continue
		}
		for j := range f.Samples {
			if f.Samples[j].Name == name && f.Samples[j].has(labels) {
				return &f.Samples[j]
			}
		}
		if f.Name == name {
			x := Sample{Name: name}
			for k := 0; k+1 < len(labels); k += 2 {
				x.Labels = append(x.Labels, Label{labels[k], labels[k+1]})
			}
			f.Samples = append(f.Samples, x)
			return &f.Samples[len(f.Samples)-1]
		}
	}
	return nil
}
