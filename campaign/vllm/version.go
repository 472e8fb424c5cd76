package vllm

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// pep440 matches what vLLM builds call themselves: 0.24.0, 0.16.0rc2, 0.11.1.post1, 0.28.1rc1.dev500+g51da0ca66, v0.9.0.1.
var pep440 = regexp.MustCompile(`^v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?(\d*))?(?:[-_.]?(post|rev|r)[-_.]?(\d*)|-(\d+))?(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+[a-z0-9._-]+)?$`)

// Version is a version in PEP 440's order. The local part after + does not count: it names a build, not a release.
type Version struct {
	Text  string
	Known bool // false: the text is no version, such as "dev"
	parts []int
	rank  [4]int // pre-release kind and number, post, dev
}

// Ranks of the kinds of a release, in PEP 440's order: 1.0.dev1 < 1.0a1 < 1.0b1 < 1.0rc1 < 1.0 < 1.0.post1.
const (
	preDev = iota // a development release of a final version, before its alphas
	preAlpha
	preBeta
	preCandidate
	preNone
)

const never = math.MaxInt // no dev part: after every dev release, also those numbered by date and time

// ParseVersion reads a version as GET /version gives it.
func ParseVersion(text string) Version {
	v := Version{Text: text}
	m := pep440.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return v
	}
	v.Known = true
	v.parts = append(v.parts, number(m[1]))
	for _, p := range strings.Split(m[2], ".") {
		v.parts = append(v.parts, number(p))
	}
	isPost := m[5] != "" || m[7] != ""
	isDev := m[8] != ""
	v.rank = [4]int{preNone, number(m[4]), -1, never}
	switch m[3] {
	case "a", "alpha":
		v.rank[0] = preAlpha
	case "b", "beta":
		v.rank[0] = preBeta
	case "c", "rc", "pre", "preview":
		v.rank[0] = preCandidate
	default:
		if isDev && !isPost {
			v.rank[0] = preDev
		}
	}
	if isPost {
		v.rank[2] = number(m[6] + m[7])
	}
	if isDev {
		v.rank[3] = number(m[9])
	}
	return v
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // empty is 0; a number too long for int is capped by Atoi
	return n
}

// Compare returns -1, 0 or 1. A version that is not known comes after all others: development builds are newest.
func (v Version) Compare(w Version) int {
	if !v.Known || !w.Known {
		return compare(boolInt(!v.Known), boolInt(!w.Known))
	}
	for i := 0; i < len(v.parts) || i < len(w.parts); i++ {
		a, b := 0, 0 // 1.0 equals 1.0.0
		if i < len(v.parts) {
			a = v.parts[i]
		}
		if i < len(w.parts) {
			b = w.parts[i]
		}
		if a != b {
			return compare(a, b)
		}
	}
	for i := range v.rank {
		if v.rank[i] != w.rank[i] {
			return compare(v.rank[i], w.rank[i])
		}
	}
	return 0
}

// AtLeast says whether v is the given version or a later one.
func (v Version) AtLeast(text string) bool { return v.Compare(ParseVersion(text)) >= 0 }

func compare(a, b int) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
