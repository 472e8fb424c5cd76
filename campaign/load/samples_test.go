package load

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSamplesSurviveAFile(t *testing.T) {
	o := healthy(t, nil)
	o.Requests = 9
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	odd := []Sample{{Request: 9, Sent: 5, Arrivals: []int64{}, Error: "the stream ended\nbefore [DONE]", Cut: true, Scheduled: 4}, {Request: 10, Arrivals: []int64{7, 7}}}
	all := slices.Concat(r.Samples, odd)
	var b bytes.Buffer
	if err := WriteSamples(&b, all); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if n := strings.Count(text, "\n"); n != 11 || !strings.Contains(text, `{"request":10,"sent_ns":0,"gaps_ns":[7,0],"ended_ns":0,"prompt_tokens":0,"tokens":0}`) {
		t.Errorf("%d lines:\n%s", n, text)
	}
	got, err := ReadSamples(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, got, cmpopts.IgnoreUnexported(Sample{})); diff != "" {
		t.Error(diff)
	}
	got, err = ReadSamples(strings.NewReader(text[:len(text)-20]))
	if err == nil || !strings.Contains(err.Error(), "read request 11: ") || len(got) != 10 {
		t.Errorf("a file that was cut: %d requests, %v", len(got), err)
	}
	if err := WriteSamples(full{}, all); err == nil {
		t.Error("a full disk was not noticed")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func FuzzSamples(f *testing.F) {
	f.Add(`{"request":0,"sent_ns":1,"gaps_ns":[5,6],"tokens":2}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := ReadSamples(strings.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteSamples(&b, samples); err != nil {
			t.Fatal(err)
		}
		again, err := ReadSamples(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(samples, again, cmpopts.IgnoreUnexported(Sample{}), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
