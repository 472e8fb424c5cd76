package vllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

const aChunk = `data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}` + "\n\n"

func TestBrokenStreamsAreToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		is   error
		n    int
	}{
		"cut":               {aChunk + aChunk, ErrCut, 2},
		"cut in an event":   {aChunk + `data: {"choi`, ErrCut, 1},
		"empty":             {"", ErrCut, 0},
		"no JSON":           {aChunk + "data: <html>\n\ndata: [DONE]\n\n", ErrGarbage, 1},
		"no event":          {"<html>\n", ErrGarbage, 0},
		"error frame":       {aChunk + `data: {"error":{"message":"out of memory","code":500}}` + "\n\ndata: [DONE]\n\n", ErrServer, 1},
		"error, then gone":  {aChunk + `data: {"error":{"message":"out of memory","code":500}}` + "\n\n", ErrServer, 1},
		"too long":          {"data: " + strings.Repeat("x", maxEvent+10), ErrGarbage, 0},
		"endless event":     {strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 6), ErrGarbage, 0},
		"no end of line":    {aChunk + "data: [DONE]", nil, 1},
		"CRLF":              {strings.ReplaceAll(aChunk+aChunk, "\n", "\r\n") + "data: [DONE]\r\n\r\n", nil, 2},
		"empty data":        {aChunk + "data:\n\ndata: \n\n" + aChunk + "data: [DONE]\n\n", nil, 2},
		"no token":          {`data: {"choices":[]}` + "\n\n" + aChunk + "data: [DONE]\n\n", nil, 1},
		"no blank":          {strings.Replace(aChunk, "data: ", "data:", 1) + "data: [DONE]\n\n", nil, 1},
		"a long line":       {strings.Replace(aChunk, `"a"`, `"`+strings.Repeat("x", 100<<10)+`"`, 1) + aChunk + "data: [DONE]\n\n", nil, 2},
		"data in two lines": {"data: {\"choices\":\ndata: [{}]}\n\ndata: [DONE]\n\n", nil, 1},
		"no error":          {`data: {"choices":[{}],"error":null}` + "\n\ndata: [DONE]\n\n", nil, 1},
		"whole":             {": ping\n\n" + aChunk + "event: x\r\nid: 1\r\n" + aChunk + "data: [DONE]\n\n", nil, 2},
	} {
		n := 0
		s, err := client(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, c.body)
		}).Stream(context.Background(), Completion{Prompt: []int{1}, MaxTokens: 2}, time.Now(), func(Chunk) { n++ })
		if !errors.Is(err, c.is) || n != c.n || s.Chunks != n {
			t.Errorf("%s: %d chunks, %v; want %d and %v", name, n, err, c.n, c.is)
		}
	}
}

func TestServerThatDiesInTheMiddleOfAStream(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"text":"a"}]}`+"\n\n")
		rc := http.NewResponseController(w)
		rc.Flush()
		conn, _, _ := rc.Hijack()
		conn.Close()
	})
	n := 0
	_, err := c.Stream(context.Background(), Completion{Prompt: []int{1}, MaxTokens: 2}, time.Now(), func(Chunk) { n++ })
	wantError(t, "died", err, ErrCut, "after 1 chunks")
}

// TestArrivalIsTheTimeOfTheReadThatCompletedAnEvent counts reads as time.
func TestArrivalIsTheTimeOfTheReadThatCompletedAnEvent(t *testing.T) {
	reads := int64(0)
	parts := []string{aChunk + aChunk[:20], aChunk[20 : len(aChunk)-1], "\n" + aChunk + aChunk, "data: [DONE]\n\n"}
	var in []io.Reader
	for _, p := range parts {
		in = append(in, strings.NewReader(p))
	}
	body := readFunc(func(b []byte) (int, error) {
		for len(in) > 0 {
			if n, _ := in[0].Read(b); n > 0 {
				reads++
				return n, nil
			}
			in = in[1:]
		}
		return 0, io.EOF
	})
	var at []int64
	if err := readStream(body, &Stream{}, func() int64 { return reads }, func(c Chunk) { at = append(at, c.At) }); err != nil {
		t.Fatal(err)
	}
	if want := []int64{1, 2, 3, 3}; !slices.Equal(at, want) {
		t.Errorf("arrivals %v, want %v: of the line with the data, not of the blank line after it", at, want)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

func TestEveryWayToCutAStreamIntoReadsGivesTheSame(t *testing.T) {
	for _, e := range recordedStreams(t) {
		var whole Stream
		if err := readStream(strings.NewReader(e.Reply.Body), &whole, zero, ignore); err != nil && !errors.Is(err, ErrServer) {
			t.Fatal(e.Name, err)
		}
		for _, r := range []io.Reader{iotest.OneByteReader(strings.NewReader(e.Reply.Body)), iotest.HalfReader(strings.NewReader(e.Reply.Body))} {
			var s Stream
			readStream(r, &s, zero, ignore)
			if s != whole {
				t.Errorf("%s/%s: %+v in pieces, %+v whole", e.version, e.Name, s, whole)
			}
		}
	}
}

func zero() int64  { return 0 }
func ignore(Chunk) {}

func recordedStreams(t testing.TB) []exchange {
	var streams []exchange
	versions := map[string]bool{}
	for _, e := range recordedExchanges(t) {
		if strings.HasPrefix(e.Reply.Body, "data: ") {
			streams = append(streams, e)
			versions[e.version] = true
		}
	}
	if len(versions) < 2 {
		t.Fatalf("streams of %d versions", len(versions))
	}
	return streams
}

func TestChunksOfBothVersionsTakeTheFastWay(t *testing.T) {
	for _, e := range recordedStreams(t) {
		if strings.Contains(e.Name, "continuous") {
			continue // nobody asks for it
		}
		fast, slow := 0, 0
		for _, line := range dataLines(e.Reply.Body) {
			if _, ok := scanFrame([]byte(line)); ok {
				fast++
			} else {
				slow++
			}
		}
		if slow > 3 || fast < 3 { // the last chunk, usage or error, [DONE]
			t.Errorf("%s/%s: %d events were scanned, %d were parsed", e.version, e.Name, fast, slow)
		}
	}
}

func dataLines(body string) []string {
	var lines []string
	for _, l := range strings.Split(body, "\n") {
		if data, ok := strings.CutPrefix(l, "data: "); ok {
			lines = append(lines, data)
		}
	}
	return lines
}

func TestTokensAreReadWithoutAllocations(t *testing.T) {
	const n = 1000
	body := strings.Repeat(aChunk, n)
	var at int64
	perStream := testing.AllocsPerRun(5, func() {
		var s Stream
		readStream(strings.NewReader(body), &s, zero, func(c Chunk) { at += c.At })
	})
	if perStream > 30 {
		t.Errorf("%.0f allocations for a stream of %d chunks", perStream, n)
	}
}

// TestConnectionsServeTheNextRequest: an answer that is not read to its end costs the connection.
func TestConnectionsServeTheNextRequest(t *testing.T) {
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, aChunk+"data: [DONE]\n\n")
		http.NewResponseController(w).Flush()
		time.Sleep(2 * time.Millisecond) // the end of the answer comes in a packet of its own
	}))
	s.Config.ConnState = countNew(&conns)
	s.Start()
	defer s.Close()
	c, err := New(Options{Target: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	for range 5 {
		if _, err := c.Stream(t.Context(), Completion{Prompt: []int{1}, MaxTokens: 1}, time.Now(), ignore); err != nil {
			t.Fatal(err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("five requests took %d connections", n)
	}
}

// TestServerThatNeverEndsItsAnswerIsLeft: [DONE] says all, what comes after it holds nobody up for long.
func TestServerThatNeverEndsItsAnswerIsLeft(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, aChunk+"data: [DONE]\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s, err := c.Stream(t.Context(), Completion{Prompt: []int{1}, MaxTokens: 1}, time.Now(), ignore)
	if err != nil || s.Chunks != 1 {
		t.Errorf("%+v %v", s, err)
	}
}

// FuzzStream reads events that may hold anything.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n", true)
	f.Add(": rooflab arrival 12\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n", true)
	f.Add("data: {\"error\":{\"message\":\"x\"}}\r\n\r\ndata: [DONE]", false)
	for _, e := range recordedStreams(f) {
		f.Add(e.Reply.Body, false)
	}
	f.Fuzz(func(t *testing.T, body string, replay bool) {
		s := Stream{Replay: replay}
		n := 0
		err := readStream(strings.NewReader(body), &s, zero, func(Chunk) { n++ })
		if n != s.Chunks {
			t.Fatalf("%d chunks were given, %d counted", n, s.Chunks)
		}
		if err == nil && !strings.Contains(body, "[DONE]") {
			t.Fatalf("a stream without [DONE] was taken as whole: %q", body)
		}
		pieces := Stream{Replay: replay}
		again := readStream(iotest.OneByteReader(strings.NewReader(body)), &pieces, zero, ignore)
		if pieces != s || fmt.Sprint(err) != fmt.Sprint(again) {
			t.Fatalf("byte by byte: %+v %v, whole: %+v %v", pieces, again, s, err)
		}
	})
}

// FuzzFrame holds the scanner of the common event against encoding/json.
func FuzzFrame(f *testing.F) {
	for _, e := range recordedStreams(f) {
		for _, line := range dataLines(e.Reply.Body) {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(` { "choices" : [ { "text" : "}\"]{" , "token_ids" : [ 1 , [ ] ] } ] , "usage" : null } `))
	f.Add([]byte(`{"choices":[{"text":"a"}],"choices":[]}`))
	f.Add([]byte(`{"CHOICES":[{"Finish_Reason":"stop"}]}`))
	f.Add([]byte(`{"choices":[1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		chunk, ok := scanFrame(data)
		if !ok {
			return
		}
		want, err := parseFrame(data)
		if err != nil || want != (frame{chunk: chunk}) {
			t.Fatalf("%q: the scanner says %v, encoding/json %+v %v", data, chunk, want, err)
		}
	})
}

func BenchmarkReadStream(b *testing.B) {
	body := strings.Repeat(aChunk, 1000)
	b.SetBytes(int64(len(aChunk)))
	b.ReportAllocs()
	for n := 0; n < b.N; n += 1000 {
		var s Stream
		readStream(strings.NewReader(body), &s, zero, ignore)
	}
}

func countNew(n *atomic.Int64) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
}
