package proto

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

const key = "0123456789abcdef"

// collected is what comes out of Streams: chunks in order, and the ends of requests.
type collected struct {
	s   *Streams
	out []Chunk
	log strings.Builder
}

func newCollected() *collected {
	c := &collected{}
	c.s = NewStreams(key, func(k Chunk) {
		c.out = append(c.out, k)
		fmt.Fprintf(&c.log, "%s %d %q\n", k.Stream, k.Cell, k.Text)
	}, func(id int) { fmt.Fprintf(&c.log, "end %d\n", id) })
	return c
}

func (c *collected) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.TrimSpace(c.log.String()); got != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func turn(n, cell int, text string) []byte { return append(AppendTurn(nil, key, n, cell), text...) }
func end(n int) []byte                     { return AppendEnd(nil, key, n) }
func done(id int) []byte                   { return AppendDone(nil, key, id) }

func TestOrderAcrossStreams(t *testing.T) {
	c := newCollected()
	c.s.Write(1, turn(2, 7, "two")) // arrives first
	c.s.Write(1, end(2))
	c.s.Event(4, func() { c.log.WriteString("shown\n") })
	c.s.Write(1, turn(5, 7, "five"))
	c.want(t, "")
	c.s.Write(0, append(turn(1, 7, "one"), end(1)...))
	c.s.Write(0, append(turn(3, 9, "three"), end(3)...))
	c.want(t, "stdout 7 \"one\"\nstderr 7 \"two\"\nstdout 9 \"three\"\nshown\nstderr 7 \"five\"")
}

func TestRequestEndsAfterBothStreams(t *testing.T) {
	c := newCollected()
	c.s.Write(0, turn(1, 1, "a"))
	c.s.Write(1, done(12))
	c.s.Write(0, []byte("b"))
	c.s.Write(0, append(end(1), done(12)...))
	c.want(t, "stdout 1 \"a\"\nstdout 1 \"b\"\nend 12")
}

func TestUnmarkedOutputGoesToTheRunningCell(t *testing.T) {
	c := newCollected()
	c.s.SetCell(3)
	c.s.Write(0, []byte("child\n"))
	c.s.Write(0, append(turn(1, 2, "late\n"), end(1)...))
	c.s.Write(0, []byte("child again\n"))
	c.want(t, `
stdout 3 "child\n"
stdout 2 "late\n"
stdout 3 "child again\n"`)
}

func TestCharactersAndMarksAreNotCut(t *testing.T) {
	whole := append(turn(1, 1, "é世😀\x00\x1e no mark \x00\x1e"+key+"?\x1e\x00😀"), end(1)...)
	for size := 1; size < 9; size++ {
		c := newCollected()
		for b := whole; len(b) > 0; b = b[min(size, len(b)):] {
			c.s.Write(0, b[:min(size, len(b))])
		}
		var text strings.Builder
		for _, k := range c.out {
			if !utf8.ValidString(k.Text) {
				t.Errorf("pieces of %d bytes: %q is no text", size, k.Text)
			}
			text.WriteString(k.Text)
		}
		if want := "é世😀\x00\x1e no mark \x00\x1e" + key + "?\x1e\x00😀"; text.String() != want {
			t.Errorf("pieces of %d bytes: got %q, want %q", size, text.String(), want)
		}
	}
}

func TestMissingMarksHoldNothingBackForEver(t *testing.T) {
	c := newCollected()
	c.s.Write(1, turn(3, 1, "three"))
	c.s.Event(2, func() { c.log.WriteString("two\n") })
	if !c.s.Waiting() {
		t.Error("nothing seems to wait")
	}
	c.s.Release()
	c.want(t, "two\nstderr 1 \"three\"")
	if c.s.Waiting() {
		t.Error("something waits after the release")
	}
	c.s.Write(0, append(turn(1, 1, "too late"), end(1)...)) // the end of an old turn moves nothing
	c.s.Write(1, append(end(3), turn(4, 1, "four")...))
	c.want(t, "two\nstderr 1 \"three\"\nstdout 1 \"too late\"\nstderr 1 \"four\"")

	c = newCollected()
	c.s.Write(1, turn(2, 1, "two\xe4\xb8"))
	c.s.Close(0)
	c.want(t, "")
	c.s.Close(1)
	c.want(t, "stderr 1 \"two\\xe4\\xb8\"")
}

// program is random output of a worker: what it writes to the pipes, and what a reader should see.
func program(r *rand.Rand, turns int) (pipes [2][]byte, want []Chunk) {
	pieces := []string{"a", "line\n", "世界", "\x00\x1e", "\x1e\x00", strings.Repeat("x", 300), "T1,2"}
	last := -1
	for n := 1; n <= turns; n++ {
		i := r.IntN(2)
		if last >= 0 && last != i {
			pipes[last] = append(pipes[last], end(n-1)...)
		}
		last = i
		text := pieces[r.IntN(len(pieces))] + pieces[r.IntN(len(pieces))]
		pipes[i] = append(pipes[i], turn(n, n%5, text)...)
		want = append(want, Chunk{streamNames[i], n % 5, text})
	}
	return pipes, want
}

func merged(chunks []Chunk) (out []Chunk) {
	for _, k := range chunks {
		if n := len(out); n > 0 && out[n-1].Stream == k.Stream && out[n-1].Cell == k.Cell {
			out[n-1].Text += k.Text
			continue
		}
		out = append(out, k)
	}
	return out
}

func TestAnyCutGivesTheSameOutput(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		pipes, want := program(r, 20)
		c := newCollected()
		for len(pipes[0])+len(pipes[1]) > 0 {
			i := r.IntN(2)
			n := r.IntN(min(len(pipes[i]), 40) + 1)
			c.s.Write(i, pipes[i][:n])
			pipes[i] = pipes[i][n:]
		}
		c.s.Close(0)
		c.s.Close(1)
		if got, want := fmt.Sprint(merged(c.out)), fmt.Sprint(merged(want)); got != want {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}

func FuzzStreams(f *testing.F) {
	pipes, _ := program(rand.New(rand.NewPCG(3, 4)), 10)
	f.Add(pipes[0], pipes[1], uint16(7))
	f.Add([]byte("plain\n"), []byte("\x00\x1e"+key), uint16(1))
	f.Add(append(turn(1<<40, -3, "x"), done(0)...), append(end(2), turn(2, 1, "y")...), uint16(3))
	f.Fuzz(func(t *testing.T, a, b []byte, size uint16) {
		c := newCollected()
		step := int(size)%64 + 1
		for len(a)+len(b) > 0 {
			n := min(step, len(a))
			c.s.Write(0, a[:n])
			a = a[n:]
			n = min(step/2+1, len(b))
			c.s.Write(1, b[:n])
			b = b[n:]
		}
		c.s.Close(0)
		c.s.Close(1)
		if c.s.Waiting() {
			t.Error("output is held back after the end of both pipes")
		}
		for _, k := range c.out {
			if strings.Contains(k.Text, markHead+key+"E1"+markTail) {
				t.Errorf("a mark came through: %q", k.Text)
			}
		}
	})
}

func BenchmarkStreams(b *testing.B) {
	c := NewStreams(key, func(Chunk) {}, func(int) {})
	big := bytes.Repeat([]byte("0123456789abcdef\n"), 1<<14)
	c.Write(0, AppendTurn(nil, key, 1, 1))
	b.SetBytes(int64(len(big)))
	for b.Loop() {
		c.Write(0, big)
	}
}
