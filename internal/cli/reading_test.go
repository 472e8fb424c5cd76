package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReadingIsShownWithBytesAndRate(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(1000, 0)
	r := &reading{w: &out, total: 200_000_000, now: func() time.Time { return clock }, begun: clock}
	r.more(1_000_000)
	clock = clock.Add(50 * time.Millisecond) // too early for another line
	r.more(1_000_000)
	clock = clock.Add(450 * time.Millisecond)
	r.more(48_000_000)
	r.clear()
	want := "\r\x1b[Kread 1.0\u00a0MB of 200.0\u00a0MB\r\x1b[Kread 50.0\u00a0MB of 200.0\u00a0MB, 100.0\u00a0MB/s\r\x1b[K"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

// TestReadingIsShownOnTerminalsOnly: a large file, and an output that is none.
func TestReadingIsShownOnTerminalsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, largeFiles+1); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := newReading(&out, []string{path})
	r.more(largeFiles)
	r.clear()
	if r.total != largeFiles+1 || out.Len() > 0 {
		t.Errorf("%d bytes in all, printed %q", r.total, out.String())
	}
}
