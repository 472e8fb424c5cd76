package load

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScheduleHasTheGapsOfAGammaDistribution: shape k and mean 1/rate give variance 1/(k rate^2) and skewness 2/sqrt(k).
func TestScheduleHasTheGapsOfAGammaDistribution(t *testing.T) {
	const n, rate = 200_000, 50.0
	for _, burstiness := range []float64{0.25, 0.5, 1, 2, 10, 100} {
		at := schedule(7, n, rate, burstiness)
		if last := float64(at[n-1]) / 1e9; math.Abs(last-n/rate) > 1e-6 {
			t.Errorf("burstiness %g: the last request at %g s, want %g", burstiness, last, n/rate)
		}
		var m2, m3 float64
		was := int64(0)
		for _, a := range at {
			if a < was {
				t.Fatal("the schedule goes back in time")
			}
			x := float64(a-was)/1e9*rate - 1
			m2, m3 = m2+x*x/n, m3+x*x*x/n
			was = a
		}
		if want := 1 / burstiness; math.Abs(m2/want-1) > 0.03 {
			t.Errorf("burstiness %g: variance %g of the gaps, want %g", burstiness, m2, want)
		}
		if skew, want := m3/math.Pow(m2, 1.5), 2/math.Sqrt(burstiness); math.Abs(skew-want) > 0.15*want+0.02 {
			t.Errorf("burstiness %g: skewness %g, want %g", burstiness, skew, want)
		}
	}
	// the share of a Poisson process's gaps that are shorter than the mean is 1 - 1/e
	at, short := schedule(9, n, rate, 1), 0
	for i := 1; i < n; i++ {
		if float64(at[i]-at[i-1]) < 1e9/rate {
			short++
		}
	}
	if share := float64(short) / n; math.Abs(share-(1-1/math.E)) > 0.005 {
		t.Errorf("%g of the gaps are shorter than their mean", share)
	}
}

func TestScheduleIsReproducible(t *testing.T) {
	if !slices.Equal(schedule(1, 100, 10, 0.5), schedule(1, 100, 10, 0.5)) {
		t.Error("the same seed, another schedule")
	}
	if slices.Equal(schedule(1, 100, 10, 0.5), schedule(2, 100, 10, 0.5)) {
		t.Error("another seed, the same schedule")
	}
	for i, at := range schedule(1, 10, 4, math.Inf(1)) {
		if want := int64(i+1) * 250e6; at != want {
			t.Errorf("a metronome's request %d at %d, want %d", i, at, want)
		}
	}
}

func TestOpenLoopSendsAtItsRate(t *testing.T) {
	o := healthy(t, nil)
	o.Streams, o.Requests, o.Rate, o.Seed = 0, 60, 400, 3
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 60 || r.Open == nil || r.Open.Waited != 0 || r.Open.Cap != MaxStreams || r.Open.Late.N != 60 || len(r.Notes) != 2 { // no gauges, and three tokens in one read
		t.Errorf("%+v %+v %q", r.LoadResult, r.Open, r.Notes)
	}
	for i, want := range schedule(3, 60, 400, 1) {
		if q := r.Samples[i]; q.Request != i || q.Scheduled != want || q.Sent < want {
			t.Errorf("request %d was scheduled for %d and sent at %d, want %d", q.Request, q.Scheduled, q.Sent, want)
		}
	}
	if r.WallNs < r.Samples[59].Scheduled || r.SteadySamples != 0 {
		t.Errorf("%+v", r.LoadResult)
	}
}

func TestOpenLoopThatIsCappedSaysSo(t *testing.T) {
	o := healthy(t, func() { time.Sleep(20 * time.Millisecond) })
	o.Streams, o.Requests, o.Rate = 2, 12, 10_000
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.MaxInFlight != 2 || r.Open.Waited != 10 || r.Open.Cap != 2 || r.Open.LateMaxNs < 40e6 {
		t.Errorf("%d in flight, %+v", r.MaxInFlight, r.Open)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool {
		return strings.Contains(n, "10 of 12 requests were sent late, because 2 were in flight already")
	}) {
		t.Errorf("%q", r.Notes)
	}
}

func TestOpenLoopThatIsStoppedSaysWhatWasNotSent(t *testing.T) {
	o := healthy(t, nil)
	o.Requests, o.Rate, o.Burstiness = 1000, 100, math.Inf(1)
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	p.Stop()
	r, err := p.Wait()
	if err != nil || r.Requests == 0 || !strings.Contains(strings.Join(r.Notes, "; "), "of 1000 requests were not sent, because the pass ended before") {
		t.Errorf("%v %q", err, r.Notes)
	}
	if _, err := p.AllDecode(t.Context()); err == nil || !strings.Contains(err.Error(), "open loop") {
		t.Error(err)
	}
}

// healthy is a server that answers with three tokens and has no gauges.
func healthy(t testing.TB, pause func()) Options {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			return
		}
		if pause != nil {
			pause()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, answer)
	})
}
