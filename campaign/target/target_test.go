package target

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestParseReadsEveryFormAndWritesItBack(t *testing.T) {
	for _, c := range []struct {
		spec string
		want []string // the words that run `id -u` there
	}{
		{"", []string{"id", "-u"}},
		{"local", []string{"id", "-u"}},
		{"docker:vllm-1", []string{"docker", "exec", "vllm-1", "id", "-u"}},
		{"podman:k2.5", []string{"podman", "exec", "k2.5", "id", "-u"}},
		{"kubectl:prod/vllm-0", []string{"kubectl", "exec", "--namespace", "prod", "vllm-0", "--", "id", "-u"}},
		{"kubectl:prod/vllm-0/server", []string{"kubectl", "exec", "--namespace", "prod", "vllm-0", "--container", "server", "--", "id", "-u"}},
		{"ssh:ops@gpu1", ssh("ops@gpu1", "id -u")},
		{"ssh:gpu1:2222", ssh("-p 2222 gpu1", "id -u")},
		{"ssh:ops@[fd00::1]:2222", ssh("-p 2222 ops@fd00::1", "id -u")},
		{"ssh:fd00::1", ssh("fd00::1", "id -u")},
		{"ssh:jump+ssh:gpu1", ssh("jump", Quote(ssh("gpu1", "id -u")...))},
		{"ssh:gpu1+docker:vllm", ssh("gpu1", "docker exec vllm id -u")},
	} {
		h, err := Parse(c.spec)
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		if got := h.Words("id", "-u"); !slices.Equal(got, c.want) {
			t.Errorf("%s runs %q, want %q", c.spec, got, c.want)
		}
		again, err := Parse(h.String())
		if err != nil || again.String() != h.String() || h.Local() != (len(c.want) == 2) {
			t.Errorf("%s is written %s (local %v), which reads back as %s (%v)", c.spec, h, h.Local(), again, err)
		}
	}
}

// ssh is the words of one hop: "[-p PORT] NODE" and the line for the shell over there.
func ssh(to, line string) []string {
	words := []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"}
	f := strings.Fields(to)
	words = append(words, f[:len(f)-1]...)
	return append(words, "--", f[len(f)-1], line)
}

func TestNamesOnTheWay(t *testing.T) {
	h, err := Parse("ssh:ops@gpu1:22+kubectl:prod/vllm-0/server")
	if want := []string{"ops@gpu1", "gpu1", "ops", "vllm-0", "prod", "server"}; err != nil || !slices.Equal(h.Names(), want) {
		t.Errorf("got %q, %v", h.Names(), err)
	}
}

func TestParseRefusesWhatCouldBeAnOptionOrAShellWord(t *testing.T) {
	for _, spec := range []string{"ssh", "ssh:", "node", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:u@-x", "ssh:node:99999", "ssh:node:0", "ssh:$(id)@n", "docker:-it", "docker:a/b", "docker:a;b",
		"kubectl:pod", "kubectl:a/b/c/d", "kubectl:-n/pod", "ssh:a++docker:b", "+", "rsh:node", "docker:vllm+", "ssh:fe80::1%';id'"} {
		if h, err := Parse(spec); err == nil {
			t.Errorf("%q is read as %s", spec, h)
		} else if !strings.Contains(err.Error(), "kubectl:NAMESPACE/POD") {
			t.Errorf("%q: %v does not say what a host is", spec, err)
		}
	}
}

// through gives words to a shell as a line and returns what arrives.
func through(t testing.TB, shell, line string) []string {
	t.Helper()
	out, err := exec.Command(shell, "-c", `for w in `+line+`; do printf '%s\0' "$w"; done`).Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", shell, err, line)
	}
	words := strings.Split(string(out), "\x00")
	return words[:len(words)-1]
}

func FuzzQuotedWordsArriveAsTheyWere(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "it's", `"`, `\`, `\\'`, "$HOME ${X} $(id) `id`", "a\nb", "\n", "!!", "a!b", "*?[a]", "~", "#", "-n", "--", "=", "A=b", "é\xff\x01", "a;b&c|d<e>f(g)", "{a,b}", "'", "''", "a'\\''b", "\t", "\r\n", "^", "%"} {
		f.Add(s, "x y")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.Contains(a+b, "\x00") {
			return // no word of a process has one
		}
		words := []string{a, b, "end"}
		if got := through(t, "sh", Quote(words...)); !slices.Equal(got, words) {
			t.Errorf("sh: %q arrive as %q from %s", words, got, Quote(words...))
		}
		twice := through(t, "sh", Quote("sh", "-c", Quote(words...)))
		if len(twice) != 3 || !slices.Equal(through(t, "sh", twice[2]), words) {
			t.Errorf("two shells deep, %q arrive as %q", words, twice)
		}
	})
}
