package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// SLO is what a request keeps to be good: each limit that is not 0.
type SLO struct {
	TTFT, TPOT, E2EL time.Duration
}

// ParseSLO reads limits in ms as `vllm bench serve --goodput` does: "ttft:500 tpot:50 e2el:2000". Of "" it is the zero SLO.
func ParseSLO(text string) (SLO, error) {
	var s SLO
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, ":")
		limit, known := map[string]*time.Duration{"ttft": &s.TTFT, "tpot": &s.TPOT, "e2el": &s.E2EL}[name]
		switch {
		case !known:
			return SLO{}, fmt.Errorf("goodput %q: the limits are ttft, tpot and e2el, such as ttft:500", word)
		case *limit > 0:
			return SLO{}, fmt.Errorf("goodput %q: %s is given twice", text, name)
		}
		ms, err := strconv.ParseFloat(value, 64)
		if err == nil && ms <= 1e9 { // more does not fit into ns
			*limit = time.Duration(math.Round(ms * 1e6))
		}
		if *limit <= 0 {
			return SLO{}, fmt.Errorf("goodput %q: give a number of milliseconds above 0, such as %s:500, and a space before the next limit", word, name)
		}
	}
	return s, nil
}

// String names the limits for people: "TTFT 500 ms, TPOT 50 ms".
func (s SLO) String() string {
	var words []string
	for _, l := range []struct {
		name  string
		limit time.Duration
	}{{"TTFT", s.TTFT}, {"TPOT", s.TPOT}, {"E2EL", s.E2EL}} {
		if l.limit > 0 {
			words = append(words, l.name+" "+strconv.FormatFloat(float64(l.limit)/1e6, 'f', -1, 64)+" ms")
		}
	}
	return strings.Join(words, ", ")
}

// keeps says whether every limit holds. The TPOT of an answer of one token is 0.
func (s SLO) keeps(q Sample) bool {
	within := func(value int64, limit time.Duration) bool { return limit == 0 || value <= limit.Nanoseconds() }
	return within(q.ttft(), s.TTFT) && within(q.tpot(), s.TPOT) && within(q.e2el(), s.E2EL)
}

// Goodput returns how many requests kept every limit, and how many those are a second of the pass, which took wall ns: its
// WallNs. A request that failed or was cut is not good.
func Goodput(samples []Sample, limits SLO, wall int64) (good int, perS float64) {
	for _, q := range samples {
		if q.Error == "" && !q.Cut && len(q.Arrivals) > 0 && limits.keeps(q) {
			good++
		}
	}
	if wall > 0 {
		perS = float64(good) / (float64(wall) / 1e9)
	}
	return good, perS
}
