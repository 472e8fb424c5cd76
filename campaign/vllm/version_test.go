package vllm

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestVersionsAreOrderedAsPEP440(t *testing.T) {
	order := []string{"0.8.5", "0.8.5.post1", "v0.9.0.1", "0.10.0.dev5", "0.10.0a1", "0.10.0b2", "0.10.0rc1.dev3", "0.10.0rc1", "0.10.0rc2", "0.10.0",
		"0.10.0.post1.dev1", "0.10.0.post1", "0.10.1", "0.11.0rc2.dev202611301200", "0.11.0rc2.dev202611301201+g51da0ca66", "0.11.0rc2", "0.20.2+cpu",
		"0.24.0", "0.28.1rc1.dev500+g51da0ca66", "0.28.1rc1", "0.28.1", "0.33.0", "1.0", "1!0.1", "dev"}
	for i, a := range order {
		for j, b := range order {
			if got := ParseVersion(a).Compare(ParseVersion(b)); got != compare(i, j) {
				t.Errorf("%s against %s: %d", a, b, got)
			}
		}
	}
	for _, same := range [][2]string{{"1.0", "1.0.0"}, {"v0.24.0", "0.24.0+cu130"}, {"0.16.0-rc.2", "0.16.0rc2"}, {"1.0-1", "1.0.post1"}, {"1.0r", "1.0.post0"},
		{"0.24.0+post.dev.rev", "0.24.0"}, {" 0.24.0\n", "0.24.0"}, {"0.24.0RC1", "0.24.0c1"}} {
		if ParseVersion(same[0]).Compare(ParseVersion(same[1])) != 0 {
			t.Errorf("%s differs from %s", same[0], same[1])
		}
	}
	for _, unknown := range []string{"", "dev", "main", "0.24.x", "0..1", "0.24.0-custom", "0.24.0+", "nightly-0.24.0"} {
		if v := ParseVersion(unknown); v.Known || !v.AtLeast("0.33.0") || v.Text != unknown {
			t.Errorf("%q: %+v", unknown, v)
		}
	}
}

// randomVersion writes a version in one of its many forms.
func randomVersion(r *rand.Rand) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	n := func() string { return strconv.Itoa(r.IntN(3)) }
	s := pick("", "", "", "v", "1!") + n() + "." + n()
	if r.IntN(2) == 0 {
		s += "." + n() + pick("", ".0", ".0.0", ".1")
	}
	if r.IntN(3) == 0 {
		s += pick("", ".", "-", "_") + pick("a", "b", "c", "rc", "alpha", "beta", "pre", "preview", "RC") + pick("", ".", "-", "_") + n()
	}
	if r.IntN(4) == 0 {
		s += pick(".post", "-post", "post", ".rev", "-r") + pick("", ".") + n()
	} else if r.IntN(9) == 0 {
		s += "-" + n()
	}
	if r.IntN(3) == 0 {
		s += pick(".dev", "-dev", "dev", ".DEV") + n()
	}
	return s
}

func TestOrderOfVersionsIsAnOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a, b, c := ParseVersion(randomVersion(r)), ParseVersion(randomVersion(r)), ParseVersion(randomVersion(r))
		if !a.Known {
			t.Fatalf("%s is not read", a.Text)
		}
		if a.Compare(b) != -b.Compare(a) || a.Compare(a) != 0 {
			t.Fatalf("%s and %s: %d one way, %d the other", a.Text, b.Text, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%s <= %s <= %s, but not %s <= %s", a.Text, b.Text, c.Text, a.Text, c.Text)
		}
		if local := ParseVersion(a.Text + "+g51da0ca66.d20261130"); local.Compare(a) != 0 {
			t.Fatalf("the local part of %s counts", local.Text)
		}
	}
}

// TestOrderIsThatOfPythonsPackaging compares with the reference implementation, where Python has it.
func TestOrderIsThatOfPythonsPackaging(t *testing.T) {
	python := os.Getenv("ROOFLAB_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import packaging.version").Run(); err != nil {
		t.Skipf("%s has no module packaging (%v)", python, err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var texts []string
	var versions []Version
	for range 500 {
		texts = append(texts, randomVersion(r))
		versions = append(versions, ParseVersion(texts[len(texts)-1]))
	}
	const place = `import json, sys
from packaging.version import Version
texts = json.load(sys.stdin)
order = sorted(set(Version(t) for t in texts))
print(json.dumps([order.index(Version(t)) for t in texts]))`
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", place)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	if err := json.Unmarshal(out, &places); err != nil || len(places) != len(texts) {
		t.Fatal(err)
	}
	for i, a := range versions {
		for j, b := range versions {
			if got := a.Compare(b); got != compare(places[i], places[j]) {
				t.Fatalf("%s against %s: %d, packaging says %d", a.Text, b.Text, got, compare(places[i], places[j]))
			}
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"0.28.1rc1.dev500+g51da0ca66", "1!1.0-1", "dev", "0.8.5.post1", "v0.9.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := ParseVersion(text)
		if v.Compare(v) != 0 || v.Text != text {
			t.Fatalf("%q: %+v", text, v)
		}
	})
}
