package campaign

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What a dry run announces is what a round sends: the same requests, in the same order, and no other.
func TestARoundSendsWhatItsPlanAnnounces(t *testing.T) {
	server := recordedServer(t)
	var mu sync.Mutex
	var sent []string
	url := live(t, server, func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Method+" "+r.URL.Path)
		return false
	})
	s := open(t, t.TempDir(), Options{Target: url, TraceDir: server.TraceDir})
	s.patience = s.poll
	if _, err := s.Server(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Round(RoundOptions{Streams: 1, OutputTokens: 20, WindowSteps: 4}); err != nil {
		t.Fatal(err)
	}
	var planned []string
	for _, p := range Plan(1, PlanOptions{TraceDir: "d", Loads: []int{1}, OutputTokens: 20}) {
		if p.Do != "run" {
			planned = append(planned, p.Do)
		}
	}
	sent = append(sent, "GET /rooflab/replay") // live hides the question
	if got, want := posts(sent), posts(planned); !slices.Equal(got, want) {
		t.Errorf("sent\n%s\nplanned\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := questions(sent), questions(planned); !slices.Equal(got, want) {
		t.Errorf("asked\n%s\nplanned\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// posts are the requests that make a server do something, in order.
func posts(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.HasPrefix(s, "POST ") })
}

// questions are what is asked, however often.
func questions(list []string) []string {
	gets := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.HasPrefix(s, "POST ") })
	slices.Sort(gets)
	return slices.Compact(gets)
}
