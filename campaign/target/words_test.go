package target

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a dry run shows is what is run, word for word.
func TestWordsOfADryRunAreThoseThatRun(t *testing.T) {
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	docker := "#!/bin/sh\nprintf '%s\\0' docker \"$@\" >" + Quote(log) + "\nshift 2\nexec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(docker), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := t.TempDir()
	file := filepath.Join(dir, "a b.trace.json")
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := Parse("docker:vllm")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for name, c := range map[string]struct {
		words []string
		run   func() error
	}{
		"list": {h.ListWords(dir), func() error { _, err := h.List(ctx, dir); return err }},
		"read": {h.ReadWords(file), func() error { return h.Read(ctx, file, 0, io.Discard) }},
		"hash": {h.SHA256Words(file), func() error { _, err := h.SHA256(ctx, file); return err }},
		"free": {h.FreeWords(dir), func() error { _, err := h.FreeBytes(ctx, dir); return err }},
		"look": {h.ServersWords(), func() error { _, err := h.Servers(ctx); return err }},
	} {
		if err := c.run(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if ran := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"); !slices.Equal(ran, c.words) {
			t.Errorf("%s: ran %q, shown %q", name, ran, c.words)
		}
	}
	if w := (Host{}).ListWords(dir); w != nil {
		t.Errorf("on this machine Go lists, not %q", w)
	}
}
