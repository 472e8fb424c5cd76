package serve

import (
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
)

// heard is an Output that keeps what is printed.
type heard struct {
	Output
	mu   sync.Mutex
	text map[string]string
}

func (h *heard) Stream(name, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text[name] += text
}

func TestStdioGoesToTheOutputOfTheTime(t *testing.T) {
	stdout, stderr := os.Stdout, os.Stderr
	defer func() {
		os.Stdout, os.Stderr = stdout, stderr
		log.SetOutput(stderr)
	}()
	stdio, err := CaptureStdio()
	if err != nil {
		t.Fatal(err)
	}
	one, two := &heard{text: map[string]string{}}, &heard{text: map[string]string{}}
	fmt.Print("nobody's")
	stdio.To(one)
	fmt.Print("one")
	log.Print("logged")
	stdio.To(two)
	fmt.Print(strings.Repeat("é", 100_000))
	stdio.Flush()
	if one.text["stdout"] != "one" || !strings.HasSuffix(one.text["stderr"], "logged\n") {
		t.Errorf("one: %q", one.text)
	}
	if two.text["stdout"] != strings.Repeat("é", 100_000) || two.text["stderr"] != "" {
		t.Errorf("two: %d bytes", len(two.text["stdout"]))
	}
}

func TestHeldKeepsBackTheStartOfAMark(t *testing.T) {
	mark := []byte("\x00mark\x00")
	for text, want := range map[string]int{"": 0, "plain": 0, "a\x00ma": 3, "\x00": 1, "\x00mak": 0} {
		if got := held([]byte(text), mark); got != want {
			t.Errorf("held(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestCutKeepsBackTheStartOfACharacter(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "plain": 0, "é": 0, "é"[:1]: 1, "x€"[:3]: 2, "😀"[:3]: 3, "\xff": 0, "\x80\x80\x80\x80": 0,
	} {
		if got := cut([]byte(text)); got != want {
			t.Errorf("cut(%q) = %d, want %d", text, got, want)
		}
	}
}
